"""Live reports corrected by what a panel released: the same number wherever it is shown."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kreach.adsystem.reports.corrections import CorrectionFiles
from kreach.adsystem.reports.questions import ReachQuestion
from kreach.adsystem.settings import GuardSettings
from kreach.boundary.correction import Correction, PanelRelease, write_corrections
from kreach.boundary.times import Window
from kreach.service.logs import Log
from tests.adsystem.api.live_stores import GROUPS, START, LiveStore, make_campaign, make_catalogue
from tests.adsystem.report_services import PlainReports, chapter_reports, open_reports

DAYS = 5
NOW = START + timedelta(days=DAYS, hours=6)
GUARD = GuardSettings(min_impressions=20, min_people=30, min_audience=60, min_difference=10)


def asked(*caps: int, start: datetime | None = None, end: datetime | None = None) -> ReachQuestion:
    return ReachQuestion(caps=caps, window=Window(start, end))


def released(day: int, *differences: float, noise: float = 1.0) -> PanelRelease:
    none = (1.0,) * len(differences)
    return PanelRelease(START + timedelta(days=day), differences, noise, none, none)


def correction(*releases: PanelRelease, **more: Any) -> Correction:
    given: dict[str, Any] = {
        "campaign": "spring",
        "catalogue": "v1",
        "model": "dispersion",
        "digest": None,
        "groups": GROUPS,
        "panel_groups": GROUPS,
        "rho": 0.05,
        "releases": releases,
    }
    return Correction(**(given | more))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveStore:
    """A campaign with 60 impressions a day, and one beside it."""
    live = LiveStore(tmp_path_factory.mktemp("corrections"), make_catalogue("dispersed"))
    live.add(make_campaign("spring", expected_requests=1_000))

    async def sell() -> None:
        chance = np.random.default_rng(4)
        async with live.open():
            for day in range(DAYS):
                for hour in (3, 23):
                    live.now = (START + timedelta(days=day, hours=hour)).timestamp()
                    await live.sell(chance.integers(0, GROUPS, 30).tolist())
        live.now = NOW.timestamp()

    asyncio.run(sell())
    return live


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "corrections.json"


@pytest.fixture
def service(live: LiveStore, file: Path) -> Iterator[PlainReports]:
    with open_reports(msgspec.structs.replace(live.shared, corrections=(file,))) as service:
        yield service


@pytest.fixture(scope="module")
def plain(live: LiveStore) -> Iterator[PlainReports]:
    """Reports without corrections."""
    with open_reports(live.shared) as service:
        yield service


def test_every_report_has_the_corrected_number(
    plain: PlainReports, file: Path, service: PlainReports
) -> None:
    """A panel of everybody: nothing but noise between it and the truth, so it counts whole."""
    write_corrections([correction(released(2, -9.0, 4.0), released(5, -20.0, 9.0))], file)
    model = plain.reach("spring", asked(1, 2))
    found = service.reach("spring", asked(1, 2))
    info = found["correction"]
    assert info["weight"] == 1.0  # a dispersion states no error of its own
    assert info["model_unique_reach"] == pytest.approx(model["reports"][0]["reach"])
    assert info["panel_unique_reach"] == pytest.approx(model["reports"][0]["reach"] - 20.0)
    reach = [report["reach"] for report in found["reports"]]
    assert reach[0] == pytest.approx(model["reports"][0]["reach"] - 20.0)
    assert reach[1] == pytest.approx(model["reports"][1]["reach"] - 11.0)
    assert found["reports"][0]["interval_method"] == "panel"
    status = service.status("spring", 0.95)["status"]
    assert status["unique_reach"] == pytest.approx(reach[0])
    assert status["correction"] == info
    assert service.listing(None, 10)["campaigns"][0]["status"]["unique_reach"] == pytest.approx(
        reach[0]
    )
    series = service.series("spring", "day", asked(1, 2))
    assert [r["reach"] for r in series["reports"]] == pytest.approx(reach)
    assert [r["reach"] for r in series["series"][-1]["cumulative"]] == pytest.approx(reach)
    curve = service.curve("spring", "day", asked(1, 2))
    assert [r["reach"] for r in curve["points"][-1]["reports"]] == pytest.approx(reach)


def test_series_start_from_the_first_release(
    plain: PlainReports, file: Path, service: PlainReports
) -> None:
    write_corrections([correction(released(2, -9.0, 4.0), released(5, -20.0, 9.0))], file)
    found = service.series("spring", "day", asked(1))
    model = plain.series("spring", "day", asked(1))
    pairs = list(zip(found["series"], model["series"], strict=True))
    shifts = [a["cumulative"][0]["reach"] - b["cumulative"][0]["reach"] for a, b in pairs]
    assert shifts[0] == 0.0
    assert shifts[1] == pytest.approx(-9.0)
    assert shifts[-1] == pytest.approx(-20.0)
    for a, b in pairs:
        assert a["period"] == b["period"]  # of a day alone the panel says nothing
    totals = [a["cumulative"][0]["reach"] for a in found["series"]]
    assert totals == sorted(totals)


def test_what_came_after_a_release_is_off_by_as_much(
    plain: PlainReports, file: Path, service: PlainReports
) -> None:
    write_corrections([correction(released(3, -12.0, 4.0))], file)
    third = plain.reach("spring", asked(1, end=START + timedelta(days=3)))["reports"][0]["reach"]
    now = plain.reach("spring", asked(1))["reports"][0]["reach"]
    found = service.reach("spring", asked(1))["reports"][0]
    assert found["reach"] == pytest.approx(now * (1.0 - 12.0 / third))
    assert found["std"] > 1.0  # later impressions are not in the panel's number


def test_windows_that_begin_later_are_the_models(
    plain: PlainReports, file: Path, service: PlainReports
) -> None:
    write_corrections([correction(released(5, -20.0, 9.0))], file)
    window = asked(1, start=START + timedelta(days=2))
    found = service.reach("spring", window)
    assert found["correction"] is None
    assert found == plain.reach("spring", window)


@pytest.mark.parametrize(
    "other",
    [{"campaign": "summer"}, {"catalogue": "v2"}, {"model": "visit model"}, {"digest": "0" * 16}],
)
def test_a_correction_of_something_else_is_not_used(
    plain: PlainReports, file: Path, service: PlainReports, other: dict[str, Any]
) -> None:
    write_corrections([correction(released(5, -20.0, 9.0), **other)], file)
    assert service.reach("spring", asked(1)) == plain.reach("spring", asked(1))


def test_advertisers_see_the_corrected_number_too(live: LiveStore, file: Path) -> None:
    write_corrections([correction(released(5, -20.0, 9.0))], file)
    shared = msgspec.structs.replace(live.shared, corrections=(file,))
    with chapter_reports(shared, GUARD, NOW.timestamp) as service:
        found = service.reach("spring", asked(1))
        assert found["correction"]["model_unique_reach"] > found["reports"][0]["reach"]
        status = service.status("spring", 0.95)["status"]
        assert status["unique_reach"] == pytest.approx(found["reports"][0]["reach"])


def test_a_file_is_read_again_and_a_broken_one_changes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kreach.adsystem.reports.corrections._LOOK_SECONDS", 0.0)
    lines: list[str] = []
    files = CorrectionFiles([file], Log("reporting", lines.append))
    assert files.all() == []
    write_corrections([correction(released(5, -20.0, 9.0))], file)
    assert [each.campaign for each in files.all()] == ["spring"]
    file.write_text('{"format": 1, "corrections": [{"campaign": "spring"}]}')
    assert [each.campaign for each in files.all()] == ["spring"]
    assert sum("corrections refused" in line for line in lines) == 1


def test_what_panels_spend_is_told_to_who_signs_for_it(live: LiveStore, tmp_path: Path) -> None:
    """By campaign and for somebody who is in all of them; not to advertisers."""
    file = tmp_path / "corrections.json"
    releases = (released(1, 5.0), released(2, 6.0))
    write_corrections(
        [correction(*releases), correction(*releases[:1], campaign="other", rho=0.02)], file
    )
    shared = msgspec.structs.replace(live.shared, corrections=(file,))
    with open_reports(shared, NOW.timestamp) as reports:
        document = reports.catalogues()
        assert document["crossed"]["corrections"] == 3
        assert document["crossed"]["panel_rho"] == pytest.approx(0.07)
        panel = document["panel"]
        assert [(one["campaign"], one["answers"], one["rho"]) for one in panel["campaigns"]] == [
            ("spring", 2, 0.05),
            ("other", 1, 0.02),
        ]
        assert (panel["rho"], panel["answers"]) == (0.05, 3)
        assert panel["rho_together"] == pytest.approx(0.07)
        assert panel["epsilon_together"] > panel["epsilon"] > 1.6
        assert document["noise"] is None
