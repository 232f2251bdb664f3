"""Audiences of few people, or nearly the same as others, are not for advertisers."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from kreach.adsystem.check import check_adsystem
from kreach.adsystem.reports.catalogue_cache import CatalogueCache
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.questions import PlanQuestion, ReachQuestion
from kreach.boundary.files import write_groups
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.api.live_stores import END, GROUPS, LiveStore, make_campaign, make_catalogue
from tests.adsystem.disclosure.chapters.test_policy import (
    EVER,
    FLOORS,
    at,
    guarded,
    new_campaign,
    reach_of,
    settled,
    status_of,
)
from tests.adsystem.report_services import open_reports


def with_audiences(live: LiveStore, folder: Path, **targeted: Any) -> None:
    """Name audiences in the settings, in this order."""
    folder.mkdir(exist_ok=True)
    for name, counts in targeted.items():
        write_groups(live.catalogues[-1], folder / f"{name}.parquet", np.array(counts))
    named = {name: folder / f"{name}.parquet" for name in targeted}
    live.shared = msgspec.structs.replace(live.shared, audiences=named)


def test_audiences_that_are_not_for_advertisers(tmp_path: Path) -> None:
    asyncio.run(_audiences(tmp_path))


async def _audiences(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    one = np.zeros(GROUPS, dtype=np.int64)
    one[3] = 1
    with_audiences(
        live,
        folder,
        nearly=catalogue.sizes - one,
        target=one,
        half=catalogue.sizes * (np.arange(GROUPS) % 2),
        twin=catalogue.sizes * (np.arange(GROUPS) % 2),
        most=catalogue.sizes * (np.arange(GROUPS) > 4),
    )
    floors = msgspec.structs.replace(FLOORS, min_audience=70)
    people = int((catalogue.sizes * (np.arange(GROUPS) % 2)).sum())
    assert people >= 80  # above any margin
    live.add(
        make_campaign("spring", audience="nearly"), make_campaign("tracker", audience="target")
    )
    with guarded(live, floors) as service:
        with pytest.raises(Withheld) as refused:
            service.create(new_campaign("a", "target"))
        assert str(refused.value) == (
            "audience 'target': the audience must have clearly more than 70 people to be used by "
            "advertisers"
        )
        assert refused.value.reason == "audience too small"
        for close in ("nearly", "twin"):
            with pytest.raises(Withheld, match="differ from every other, and from what others"):
                service.create(new_campaign("a", close))
        for name in ("half", "most", "everyone"):
            assert service.create(new_campaign(f"on-{name}", name))["audience"] == name
        assert service.catalogues()["audiences"] == ["everyone", "half", "most"]
        with pytest.raises(KreachError, match="audience must be one of everyone"):
            service.create(new_campaign("b", "unheard of"))
        with pytest.raises(Withheld, match="clearly more than 70 people"):
            service.plan("tracker", PlanQuestion(1_000, 1, (5.0,), None, 0.9))
        planned = service.plan("on-most", PlanQuestion(1_000, 1, (5.0,), None, 0.9))
        assert planned["people"] == int(catalogue.sizes[5:].sum())
        async with live.open():
            for hour in range(4):
                live.now = at(hour + 0.5)
                await live.sell(list(range(GROUPS)))
            settled(live, 4)
            assert live.counts("spring", catalogue).sum() > 20
            for name, reason in (
                ("spring", "audience too close"),
                ("tracker", "audience too small"),
            ):
                status = status_of(service, name)
                assert (status["impressions"], status["reach"], status["pace"]) == (None, [], None)
                assert status["suppressed"][0]["reason"] == reason
                with pytest.raises(Withheld) as refused:
                    service.reach(name, ReachQuestion(caps=(1,)))
                assert refused.value.reason == reason
                assert service.pacing(name, EVER, 10)["pacing"] == []
        asked = {(e["campaign"], e["asked"]) for e in service.suppressions()["suppressions"]}
        assert ("tracker", "plan") in asked
        assert ("a", "a new campaign") in asked


def test_an_audience_that_changed_under_its_name_is_not_for_advertisers(tmp_path: Path) -> None:
    asyncio.run(_changed(tmp_path))


async def _changed(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    sports = catalogue.sizes * (np.arange(GROUPS) % 2)
    with_audiences(live, folder, sports=sports)
    floors = msgspec.structs.replace(FLOORS, min_audience=70)
    with guarded(live, floors) as service:
        service.create(new_campaign("spring", "sports"))
        async with live.open():
            for hour in range(4):
                live.now = at(hour + 0.5)
                await live.sell(list(range(GROUPS)))
            settled(live, 4)
            before = service.reach("spring", ReachQuestion(caps=(1,)))
    with_audiences(live, folder, sports=sports - (np.arange(GROUPS) == 3))  # one person less
    with guarded(live, floors) as service:
        with pytest.raises(Withheld, match="audience must have a new name when its people change"):
            service.reach("spring", ReachQuestion(caps=(1,)))
        assert status_of(service, "spring")["suppressed"][0]["reason"] == "audience changed"
        with pytest.raises(Withheld, match="a new name"):
            service.create(new_campaign("summer", "sports"))
        assert service.catalogues()["audiences"] == ["everyone"]
    assert check_adsystem(live.shared, floors)["for advertisers"]["sports"] == "audience changed"
    twin = sports - (np.arange(GROUPS) == 5)
    with_audiences(live, folder, twin=twin)  # it is gone, but what was told of it is not
    with guarded(live, floors) as service, pytest.raises(Withheld, match="differ from every oth"):
        service.create(new_campaign("summer", "twin"))
    with_audiences(live, folder, sports=sports)  # as it was
    with guarded(live, floors) as service:
        assert service.reach("spring", ReachQuestion(caps=(1,))) == before


def test_an_audience_is_what_it_was_when_it_was_first_read(tmp_path: Path) -> None:
    """Verdicts are about those people: nobody else may be measured while the service runs."""
    catalogue = make_catalogue("disjoint")
    live = LiveStore(tmp_path, catalogue)
    sports = catalogue.sizes * (np.arange(GROUPS) % 2)
    with_audiences(live, tmp_path, sports=sports, arts=catalogue.sizes * (np.arange(GROUPS) > 4))
    (tmp_path / "arts.parquet").rename(tmp_path / "away")
    with patch("kreach.adsystem.reports.catalogue_cache._MAX_GROUPS", 1):
        cache = CatalogueCache(live.shared, Log("test", lambda line: None))
    assert cache.audience(catalogue, "sports").targeted_user_count == sports.sum()
    with pytest.raises(KreachError, match="name a file that exists"):
        cache.audience(catalogue, "arts")
    (tmp_path / "away").rename(tmp_path / "arts.parquet")
    with pytest.raises(KreachError, match="when it was first read: reload or restart"):
        cache.audience(catalogue, "arts")
    with_audiences(live, tmp_path, sports=sports - (np.arange(GROUPS) == 3))
    cache.audience(catalogue, "everyone")
    with pytest.raises(KreachError, match="audience must stay as it is while the service runs"):
        cache.audience(catalogue, "sports")


def test_money_of_an_audience_whose_old_catalogue_is_behind_it(tmp_path: Path) -> None:
    asyncio.run(_old_audience(tmp_path))


async def _old_audience(folder: Path) -> None:
    old = make_catalogue("disjoint", "v1")
    live = LiveStore(folder, old)
    targeted = old.sizes - old.sizes * (np.arange(GROUPS) < 4)
    with_audiences(live, folder, sporty=targeted)
    live.add(make_campaign("spring", audience="sporty"))
    async with live.open():
        for hour in range(3):
            live.now = at(hour + 0.5)
            assert await live.sell(list(range(10, 20))) == 10
    new = make_catalogue("disjoint", "v2")
    again = LiveStore(folder, old, new)
    with_audiences(again, folder, sporty=new.sizes - new.sizes * (np.arange(GROUPS) < 4))
    again.now = at(3.1)
    with guarded(again) as service:
        settled(again, 3)
        assert status_of(service)["impressions"] is None  # nobody can say whom old groups hold
        with pytest.raises(KreachError, match="group must be in catalogue v1"):
            reach_of(service, catalogue="v1")
    with_audiences(live, folder, sporty=targeted)
    settled(live, 3)
    with guarded(live) as service:
        assert status_of(service)["impressions"] == 20
    with_audiences(again, folder, sporty=new.sizes - new.sizes * (np.arange(GROUPS) < 4))
    again.now = END.timestamp() + 2 * 3_600
    with guarded(again) as service:  # the chapter that was held back, without anybody's help
        status = status_of(service)
        assert (status["impressions"], status["reach"]) == (30, [])
        assert status["suppressed"][0]["reason"] == "audience not on this catalogue"
        summary = service.listing(None, 1)["campaigns"][0]["status"]
        assert (summary["impressions"], summary["unique_reach"]) == (30, None)
        assert summary["suppressed"] == status["suppressed"][:1]
        assert status["spend_micros"] == sum(row[-1] for row in live.sold)


def test_a_campaign_that_could_tell_people_apart_is_refused(tmp_path: Path) -> None:
    """One targeted person per group: many people in all, and each of them alone."""
    catalogue = make_catalogue("disjoint", groups=400)
    live = LiveStore(tmp_path, catalogue)
    sizes, ones = catalogue.sizes, np.ones(400, dtype=np.int64)
    floor = min(5, catalogue.group_size)
    assert floor > 1
    half = np.where(np.arange(400) % 2, np.minimum(sizes, floor), 0)
    with_audiences(live, tmp_path, lonely=ones, half=half)
    floors = msgspec.structs.replace(FLOORS, min_audience=70)
    with guarded(live, floors) as service:
        with pytest.raises(Withheld) as refused:
            service.create(new_campaign("a", "lonely"))
        assert refused.value.reason == "too few visible in a group"
        assert refused.value.field == "audience"
        assert str(refused.value) == (
            f"audience 'lonely': the audience must target nobody or at least {floor} people of "
            "each group (fewer could be told apart there) to be used by advertisers"
        )
        service.create(new_campaign("b", "half"))
        visible = {one["audience"]: one for one in service.catalogues()["visible"]}
        assert set(visible) == {"everyone", "half"}
        assert visible["everyone"]["min"] == catalogue.group_size
        assert (visible["half"]["min"], visible["half"]["groups"]) == (floor, 200)
        planned = service.plan("b", PlanQuestion(1_000, 1, (5.0,), None, 0.9))
        assert planned["visible"] == visible["half"]
    found = check_adsystem(live.shared, floors)
    assert found["for advertisers"]["lonely"] == "too few visible in a group"
    assert found["visible per group"]["lonely"] == "min 1, median 1"
    loose = msgspec.structs.replace(floors, min_visible=1)
    assert check_adsystem(live.shared, loose)["for advertisers"]["lonely"] == "yes"


def test_advertisers_see_the_promise_and_operators_the_count(tmp_path: Path) -> None:
    catalogue = make_catalogue("disjoint", groups=40)
    live = LiveStore(tmp_path, catalogue)
    with_audiences(live, tmp_path, most=np.where(np.arange(40) < 30, 3, 0))
    floors = msgspec.structs.replace(FLOORS, min_audience=30, min_people=30, min_visible=2)
    with guarded(live, floors) as service:
        seen = {one["audience"]: one["min"] for one in service.catalogues()["visible"]}
        assert seen == {"everyone": catalogue.group_size, "most": 2}
    with open_reports(live.shared) as operators:
        seen = {one["audience"]: one["min"] for one in operators.catalogues()["visible"]}
        assert seen == {"everyone": int(catalogue.sizes.min()), "most": 3}


def test_audiences_that_come_with_a_reload_are_judged_and_none_changes_its_people(
    tmp_path: Path,
) -> None:
    old, new = make_catalogue("disjoint", "v1"), make_catalogue("disjoint", "v2")
    live = LiveStore(tmp_path, old)
    odd, late = np.arange(GROUPS) % 2, np.arange(GROUPS) > 4
    with_audiences(live, tmp_path / "a", sports=old.sizes * odd)
    after = LiveStore(tmp_path, old, new)
    with_audiences(after, tmp_path / "b", sports=new.sizes * odd, arts=new.sizes * late)
    other = LiveStore(tmp_path, old)
    with_audiences(other, tmp_path / "c", arts=old.sizes * late, sports=old.sizes * late)
    twin = LiveStore(tmp_path, old, new)
    with_audiences(twin, tmp_path / "d", sports=new.sizes * odd, twin=new.sizes * odd)
    floors = msgspec.structs.replace(FLOORS, min_audience=70)
    with guarded(live, floors) as service:
        context = service.service.store
        service.create(new_campaign("spring", "sports"))
        with pytest.raises(KreachError, match="audience must be one of everyone, sports"):
            service.create(new_campaign("a", "arts"))

        with pytest.raises(KreachError, match="audience must stay as it is while the service"):
            context.take_up(other.shared)  # sports has other people on v1
        assert service.catalogues()["audiences"] == ["everyone", "sports"]  # not arts alone

        context.take_up(after.shared)  # the same name on the groups of a new catalogue
        assert [one["version"] for one in service.catalogues()["catalogues"]] == ["v1", "v2"]
        assert service.create(new_campaign("on-arts", "arts"))["audience"] == "arts"
        with pytest.raises(KreachError, match="group must be in catalogue v1"):
            reach_of(service, catalogue="v1")

        context.take_up(twin.shared)  # arts is gone, twin is sports
        assert service.catalogues()["audiences"] == ["everyone", "sports"]
        with pytest.raises(Withheld, match="differ from every other"):
            service.create(new_campaign("b", "twin"))
        with pytest.raises(KreachError, match="audience must be one of everyone, sports"):
            service.create(new_campaign("b", "arts"))

        context.take_up(live.shared)  # and back
        assert [one["version"] for one in service.catalogues()["catalogues"]] == ["v1"]
        assert reach_of(service)["catalogue"] == "v1"
