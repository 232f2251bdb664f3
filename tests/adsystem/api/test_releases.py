"""What reporting tells of the publisher's releases, and plans for groups of another size."""

import asyncio
from pathlib import Path

import httpx
import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.reports.plans import sample_groups
from kreach.boundary.audience import DisjointAudience
from kreach.errors import KreachError
from tests.adsystem.access.keyed_reporting import Keyed, bearer
from tests.adsystem.api.live_stores import LiveStore, make_catalogue
from tests.adsystem.api.test_campaigns import assert_refused, with_client


@pytest.mark.parametrize(
    ("kind", "visits", "dispersion", "floor"),
    [
        ("disjoint", "evenly", None, None),
        ("dispersed", "dispersion", 0.7, None),
        ("profiled", "shares", None, None),
        ("overlapping", "evenly", None, 4),
    ],
)
def test_a_release_is_told(
    tmp_path: Path, kind: str, visits: str, dispersion: float | None, floor: int | None
) -> None:
    catalogue = make_catalogue(kind)
    people = catalogue.audience().targeted_user_count

    async def work(client: httpx.AsyncClient) -> None:
        answer = (await client.get("/v1/catalogues")).json()
        assert answer["audiences"] == ["everyone"]
        assert answer["currency"] == (await client.get("/v1/campaigns")).json()["currency"] == "USD"
        assert answer["catalogues"] == [
            {
                "version": "v1",
                "created": "2026-10-31T00:00:00Z",
                "group_size": 5,
                "groups": 30,
                "people": people,
                "min_group": int(catalogue.sizes.min()),
                "mean_group": pytest.approx(catalogue.sizes.mean()),
                "visits": visits,
                "dispersion": dispersion,
                "class_floor": floor,
            }
        ]

    with_client(tmp_path, work, kind)


def test_releases_are_told_to_every_role_and_the_newest_comes_last(tmp_path: Path) -> None:
    async def run() -> None:
        catalogues = [make_catalogue("disjoint", name, 80) for name in ("old", "new")]
        live = LiveStore(tmp_path, *catalogues)
        place = Keyed(live)
        texts = [place.add(*who)[1] for who in (("operator",), ("advertiser", "acme"))]
        texts.append(place.add("publisher")[1])
        transport = httpx.ASGITransport(place.app())
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8403"
        ) as client:
            for text in texts:
                answer = await client.get("/v1/catalogues", headers=bearer(text))
                assert [one["version"] for one in answer.json()["catalogues"]] == ["old", "new"]
                assert answer.json()["audiences"] == ["everyone"]
            assert (await client.get("/v1/catalogues")).status_code == 401

    asyncio.run(run())


def test_a_plan_for_groups_of_another_size(tmp_path: Path) -> None:
    ask = "/v1/campaigns/spring/plan?budget=0.2"

    async def work(client: httpx.AsyncClient) -> None:
        today = (await client.get(ask)).json()
        by_size = {}
        for size in (1, 6, 60):
            by_size[size] = (await client.get(f"{ask}&group_size={size}")).json()
            assert by_size[size]["group_size"] == size
            assert by_size[size]["people"] == today["people"]
            assert by_size[size]["groups"] == today["people"] // size
        assert today["group_size"] is None
        reach = {size: answer["plans"][0]["reach"] for size, answer in by_size.items()}
        assert reach[1] > reach[6] > reach[60]
        assert today["plans"][0]["reach"] == pytest.approx(reach[6], rel=0.03)
        too_large = today["people"] + 1
        refused = await client.get(f"{ask}&group_size={too_large}")
        assert_refused(refused, 422, f"group_size must be at most all people ({today['people']})")
        assert_refused(await client.get(f"{ask}&group_size=0"), 422, "group_size")

    with_client(tmp_path, work)


@pytest.mark.parametrize("kind", ["profiled", "overlapping"])
def test_groups_that_cannot_be_made_anew(tmp_path: Path, kind: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        refused = await client.get("/v1/campaigns/spring/plan?group_size=10")
        assert_refused(refused, 422, "group_size must be left out")

    with_client(tmp_path, work, kind)


@pytest.mark.parametrize("size", [1, 3, 7, 50, 103])
def test_nobody_is_lost_when_groups_are_made_anew(size: int) -> None:
    audience = kr.Audience.disjoint([30, 30, 43], [10, 0, 41], 0.6)
    made = sample_groups(audience, size)
    groups = made.audience
    assert isinstance(groups, DisjointAudience)
    assert (made.count, made.stands_for) == (groups.group_count, 1.0)
    assert int(groups.group_sizes.sum()) == 103
    assert groups.targeted_user_count == 51
    assert groups.group_sizes.min() >= size
    assert np.ptp(groups.group_sizes) <= 1
    assert np.ptp(groups.targeted_counts) <= 1
    assert (groups.kinds.dispersion == 0.6).all()


@pytest.mark.parametrize("share", [1.0, 0.93, 0.5, 0.001])
def test_part_of_many_groups_stands_for_all(share: float) -> None:
    """Groups, people and targeted people are in proportion, as few as the targeted may be."""
    people, most = 40_000, 1_000
    sizes = np.full(people // 20, 20)
    targeted = np.zeros(len(sizes), dtype=np.int64)
    targeted[: round(share * len(sizes))] = 20
    made = sample_groups(kr.Audience.disjoint(sizes, targeted), 3, most)
    groups = made.audience
    assert isinstance(groups, DisjointAudience)
    assert made.count == people // 3
    assert most <= groups.group_count <= made.count
    assert groups.targeted_user_count >= min(most, int(targeted.sum()))
    assert made.stands_for * groups.group_count == pytest.approx(made.count)
    assert made.stands_for * int(groups.group_sizes.sum()) == pytest.approx(people, rel=1e-3)
    whole = made.stands_for * groups.targeted_user_count
    assert whole == pytest.approx(int(targeted.sum()), rel=2e-3)


def test_groups_that_differ_in_their_visits() -> None:
    audience = kr.Audience.disjoint([30, 30], dispersion=[0.5, 2.0])
    with pytest.raises(KreachError, match="group_size must be left out: groups differ"):
        sample_groups(audience, 10)
