"""Campaigns together over HTTP: the library's numbers, the caller's own names, clear refusals."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import kreach as kr
from kreach.adsystem.reports.live_panel_together import UNCORRECTED
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.questions import ReachQuestion
from kreach.adsystem.settings import GuardSettings, NoiseSettings
from kreach.boundary.correction import (
    Correction,
    PanelRelease,
    set_name,
    write_corrections,
)
from kreach.boundary.times import Window
from tests.adsystem.access.keyed_reporting import Keyed, bearer, keyed
from tests.adsystem.api.live_stores import (
    GROUPS,
    KINDS,
    START,
    LiveStore,
    make_campaign,
    make_catalogue,
    reporting,
)
from tests.adsystem.bidserver.sample_bidders import settled
from tests.adsystem.report_services import chapter_reports, noisy_reports, open_reports

NAMES = ("acme.spring", "acme.summer")
GUARD = GuardSettings(min_impressions=20, min_people=30, min_audience=60, min_difference=10)


async def sell(live: LiveStore, hours: tuple[int, ...] = (6, 30, 54)) -> None:
    """Two campaigns, one after the other."""
    generator = np.random.default_rng(11)
    for at in hours:
        live.now = (START + timedelta(hours=at)).timestamp()
        assert live.state is not None
        await settled(live.state)  # flights begin and end
        assert await live.sell(generator.integers(0, GROUPS, 40).tolist()) == 40
        if at == hours[0]:
            live.compact()


def two_campaigns(folder: Path, kind: str = "dispersed") -> LiveStore:
    live = LiveStore(folder, make_catalogue(kind))
    middle = START + timedelta(hours=20)
    live.add(make_campaign(NAMES[0], end=middle), make_campaign(NAMES[1], start=middle))
    return live


def library(live: LiveStore, cap: int, end: float = 1e12) -> kr.Combination:
    catalogue = live.catalogues[0]
    parts = {name: live.counts(name, catalogue, end=end) for name in NAMES}
    assert all(counts.sum() for counts in parts.values())
    return kr.combine(parts, catalogue.audience(), cap)


def check(document: dict[str, Any], wanted: kr.Combination, names: tuple[str, ...]) -> None:
    combined = document["combined"]
    assert combined["union"]["reach"] == pytest.approx(wanted.union.reach, rel=1e-9)
    assert combined["overlap"]["reach"] == pytest.approx(wanted.overlap.reach, rel=1e-9)
    assert combined["overlap"]["std"] == pytest.approx(wanted.overlap.std, rel=1e-9)
    assert [part["name"] for part in document["parts"]] == list(names)
    for name, stored in zip(names, NAMES, strict=True):
        assert combined["only"][name]["reach"] == pytest.approx(wanted.only[stored].reach, rel=1e-9)
    assert [step["part"] for step in combined["incremental"]] == list(names)
    assert np.array(document["overlap_matrix"]) == pytest.approx(wanted.overlap_matrix, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_operators_get_the_library_s_numbers(kind: str, tmp_path: Path) -> None:
    asyncio.run(_operators(kind, tmp_path))


async def _operators(kind: str, folder: Path) -> None:
    live = two_campaigns(folder, kind)
    async with reporting(live) as client, live.open():
        await sell(live)
        answer = await client.get("/v1/reach", params={"campaign": NAMES, "cap": [1, 2]})
        assert answer.status_code == 200, answer.text
        document = answer.json()
        check(document, library(live, 1), NAMES)
        assert document["more_caps"][0]["union"]["reach"] == pytest.approx(
            library(live, 2).union.reach, rel=1e-9
        )
        assert document["impressions"] == len(live.sold)
        day = (START + timedelta(hours=48)).isoformat()
        answer = await client.get("/v1/reach", params={"campaign": NAMES, "end": day})
        end = (START + timedelta(hours=48)).timestamp()
        check(answer.json(), library(live, 1, end), NAMES)
        turned = (NAMES[1], NAMES[0])
        answer = await client.get("/v1/reach", params={"campaign": turned})
        added = [step["part"] for step in answer.json()["combined"]["incremental"]]
        assert added == list(turned)


def test_a_family_is_its_campaigns_together(tmp_path: Path) -> None:
    asyncio.run(_family(tmp_path))


async def _family(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("dispersed"))
    middle = START + timedelta(hours=20)
    async with reporting(live) as client:
        made = await client.post("/v1/families", json={"id": "acme.brand", "caps": [{"limit": 2}]})
        assert made.status_code == 201, made.text
        live.add(
            make_campaign(NAMES[0], end=middle, family="acme.brand"),
        )
        answer = await client.get("/v1/families/acme.brand/reach")
        assert answer.status_code == 422
        assert "have 2 to 30 campaigns" in answer.text
        live.add(make_campaign(NAMES[1], start=middle, family="acme.brand"))
        async with live.open():
            await sell(live)
        answer = await client.get("/v1/families/acme.brand/reach")
        assert answer.status_code == 200, answer.text
        check(answer.json(), library(live, 1), NAMES)
        assert [report["cap"] for report in answer.json()["more_caps"]] == [2]
        assert (await client.get("/v1/families/nobody/reach")).status_code == 404


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    asyncio.run(_refusals(tmp_path))


async def _refusals(folder: Path) -> None:
    live = two_campaigns(folder)
    async with reporting(live) as client:
        for names, status, words in (
            (["acme.spring"], 422, "campaign"),
            (["acme.spring", "acme.spring"], 422, "two different campaigns"),
            (["acme.spring", "nobody"], 404, "no campaign 'nobody'"),
            (["acme.spring", "no such name!"], 404, "no campaign"),
            (["acme.spring"] * 31, 422, "campaign"),
        ):
            answer = await client.get("/v1/reach", params={"campaign": names})
            assert answer.status_code == status, answer.text
            assert words in answer.text
        answer = await client.get("/v1/reach")
        assert answer.status_code == 422


def sold_store(folder: Path, kind: str = "dispersed") -> LiveStore:
    live = two_campaigns(folder, kind)

    async def run() -> None:
        async with live.open():
            await sell(live, (6, 10, 30, 34, 54))

    asyncio.run(run())
    return live


def test_advertisers_see_whole_chapters_under_their_own_names(tmp_path: Path) -> None:
    live = sold_store(tmp_path)
    now = START + timedelta(days=30)
    with chapter_reports(live.shared, GUARD, now.timestamp) as reports:
        mine = reports.own("acme")
        document = mine.together(["spring", "summer"], ReachQuestion())
        end = datetime.fromisoformat(document["end"]).timestamp()  # of the last chapter shown
        check(document, library(live, 1, end), ("spring", "summer"))
        assert document["suppressed"] == []
        again = mine.together(["spring", "summer"], ReachQuestion())
        assert again == document
        with pytest.raises(Withheld, match="shown so far only"):
            mine.together(["spring", "summer"], ReachQuestion(Window.between("2026-11-01", None)))
        with pytest.raises(kr.KreachError, match="no campaign 'spring'"):
            reports.own("bolt").together(["spring", "summer"], ReachQuestion())


def test_an_advertiser_s_key_gets_what_the_guard_shows(tmp_path: Path) -> None:
    asyncio.run(_by_key(tmp_path))


async def _by_key(folder: Path) -> None:
    live = two_campaigns(folder)
    async with live.open():
        await sell(live, (6, 10, 30, 34, 54))
    place = Keyed(live, now=(START + timedelta(days=30)).timestamp(), guard=GUARD)
    acme, bolt = (bearer(place.add("advertiser", name)[1]) for name in ("acme", "bolt"))
    question: dict[str, Any] = {"campaign": ["spring", "summer"]}
    async with keyed(place) as client:
        answer = await client.get("/v1/reach", params=question, headers=acme)
        document = answer.json()
        end = datetime.fromisoformat(document["end"]).timestamp()  # of the last chapter shown
        check(document, library(live, 1, end), ("spring", "summer"))
        window = question | {"start": "2026-11-01T00:00:00Z"}
        answer = await client.get("/v1/reach", params=window, headers=acme)
        assert answer.status_code == 422
        assert "shown so far only" in answer.text
        answer = await client.get("/v1/reach", params=question, headers=bolt)
        assert answer.status_code == 404


def corrections_of(
    live: LiveStore, days: float, **differences: tuple[float, ...]
) -> list[Correction]:
    """A panel of everybody, with a noise of one person."""
    version, groups = live.catalogues[0].version, len(live.catalogues[0])
    found = []
    for name, values in differences.items():
        ones = (1.0,) * len(values)
        release = PanelRelease(START + timedelta(days=days), values, 1.0, ones, ones)
        campaign = {"both": set_name(NAMES)}.get(name, f"acme.{name}")
        found.append(
            Correction(campaign, version, "dispersion", None, groups, groups, None, (release,))
        )
    return found


def test_figures_that_a_panel_does_not_correct_say_so(tmp_path: Path) -> None:
    live = sold_store(tmp_path)
    file = tmp_path / "corrections.json"
    write_corrections(corrections_of(live, 1, spring=(-3.0,), summer=(-2.0,)), file)
    with open_reports(live.shared) as reports:
        assert reports.together(list(NAMES), ReachQuestion())["notes"] == []
    with open_reports(structs.replace(live.shared, corrections=(file,))) as reports:
        document = reports.together(list(NAMES), ReachQuestion())
        assert document["notes"] == [UNCORRECTED]
        check(document, library(live, 1), NAMES)


@pytest.mark.parametrize("days", [1.0, 20.0])
def test_a_panel_that_counted_the_set_corrects_it(days: float, tmp_path: Path) -> None:
    """Each part is the number of the campaign's own report; the rows add up to the union."""
    live = sold_store(tmp_path)
    file = tmp_path / "corrections.json"
    given = {"spring": (-3.0, -1.0), "summer": (-2.0, -1.0), "both": (-8.0, 2.0)}
    write_corrections(corrections_of(live, days, **given), file)
    shared = structs.replace(live.shared, corrections=(file,))
    question = ReachQuestion(caps=(1, 2))
    with open_reports(live.shared) as reports:
        model = reports.together(list(NAMES), question)
    with open_reports(shared) as reports:
        document = reports.together(list(NAMES), question)
        for name, part in zip(NAMES, document["parts"], strict=True):
            own = reports.reach(name, question)["reports"]
            for mine, single in zip(part["reports"], own, strict=True):
                for figure in ("reach", "std", "interval", "unique_reach", "at_least"):
                    assert mine[figure] == pytest.approx(single[figure], rel=1e-9), figure
        later = reports.together(list(NAMES), ReachQuestion(Window(START + timedelta(days=2))))
        assert later["correction"] is None  # like a single report of a window that begins later
    assert document["notes"] == []
    assert document["correction"]["model_unique_reach"] == pytest.approx(
        model["combined"]["union"]["unique_reach"]
    )
    for combined in (document["combined"], *document["more_caps"]):
        rows = [combined["overlap"], *combined["only"].values()]
        for figure in ("reach", "unique_reach"):
            assert sum(row[figure] for row in rows) == pytest.approx(combined["union"][figure])
        assert combined["incremental"][-1]["unique_reach_so_far"] == pytest.approx(
            combined["union"]["unique_reach"]
        )
    before = model["combined"]["union"]["unique_reach"]
    after = document["combined"]["union"]["unique_reach"]
    assert before - 9.0 < after < before - 4.0 if days > 2 else after < before - 4.0


def test_advertisers_see_corrected_sets_too(tmp_path: Path) -> None:
    live = sold_store(tmp_path)
    file = tmp_path / "corrections.json"
    given = {"spring": (-3.0,), "summer": (-2.0,), "both": (-8.0,)}
    write_corrections(corrections_of(live, 1, **given), file)
    now = START + timedelta(days=30)
    shared = structs.replace(live.shared, corrections=(file,))
    with chapter_reports(shared, GUARD, now.timestamp) as reports:
        mine = reports.own("acme")
        document = mine.together(["spring", "summer"], ReachQuestion())
        assert document["notes"] == []
        assert document["correction"] is not None
        assert [part["name"] for part in document["parts"]] == ["spring", "summer"]


def test_too_few_in_common_are_withheld(tmp_path: Path) -> None:
    live = sold_store(tmp_path)
    now = START + timedelta(days=30)
    strict = structs.replace(GUARD, min_impressions=10_000)
    with chapter_reports(live.shared, GUARD, now.timestamp) as reports:
        reports.reach(NAMES[0], ReachQuestion())  # chapters are closed by the smaller floor
        reports.reach(NAMES[1], ReachQuestion())
    with chapter_reports(live.shared, strict, now.timestamp) as reports:
        document = reports.together(list(NAMES), ReachQuestion())
        assert document["combined"] is None
        assert document["impressions"] is None
        assert document["suppressed"][0]["reason"] == "too few in common"
        assert reports.suppressed_by_reason() == {"too few in common": 1.0}


def test_noise_withholds_sets(tmp_path: Path) -> None:
    live = sold_store(tmp_path)
    with (
        noisy_reports(
            live.shared,
            NoiseSettings(enabled=True),
            (START + timedelta(days=30)).timestamp,
            lambda part, values: list(values),
        ) as reports,
        pytest.raises(Withheld, match="no noise is drawn for several campaigns"),
    ):
        reports.together(list(NAMES), ReachQuestion())
