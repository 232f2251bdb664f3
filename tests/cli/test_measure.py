"""`kreach measure`: what a window of a log says, as JSON in a pipe and as tables on a terminal."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import kreach as kr
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from tests.adsystem.visit_models import sample_model
from tests.cli.command import kreach

LOG = """impression_id,campaign,group,ts
1,spring,007,2026-11-01T00:00:00Z
2,spring,007,2026-11-01T23:59:59.999999
2,spring,007,2026-11-02T00:30:00
3,spring,b,2026-11-02T01:00:00+02:00
4,spring,,2026-11-02
5,spring,b,never
6,[bold]autumn,b,2026-11-02
7,spring,stranger,2026-11-02 10:00
"""
GROUPS = "group,size,targeted,dispersion\n007,3,3,0.5\nb,4,2,\nc,5,5,\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "groups.csv").write_text(GROUPS)
    return (
        "measure",
        *("--groups", str(tmp_path / "groups.csv")),
        *("--impressions", str(tmp_path / "log.csv")),
    )


def test_the_document_is_the_library_s_report(files: tuple[str, ...]) -> None:
    asked = ("--campaign", "spring", "--cap", "1", "--cap", "3", "--end", "2026-11-02")
    document = json.loads(kreach(*files, *asked, "--json").out)
    assert document["campaign"] == "spring"
    assert (document["start"], document["end"]) == (None, "2026-11-02T00:00:00Z")
    assert document["impressions"] == 3
    assert document["rejected"] == {
        "no_time": 1,
        "no_group": 0,
        "no_campaign": 0,
        "unknown_group": 0,
        "duplicate": 0,
    }
    assert document["warnings"] == {"converted_to_utc": 1}
    audience = kr.Audience.disjoint([3, 4, 5], [3, 2, 5], [0.5, float("inf"), float("inf")])
    for found in document["reports"]:
        wanted = kr.measure(audience, [2, 1, 0], found["cap"])
        assert found["reach"] == pytest.approx(wanted.reach, rel=1e-12)
        assert found["std"] == pytest.approx(wanted.std, rel=1e-9)
        assert tuple(found["interval"]) == wanted.interval(0.95)
        assert tuple(found["bounds"]) == tuple(wanted.bounds)
        assert found["over_exposed"] == pytest.approx(wanted.over_exposed, abs=1e-12)
        assert found["average_frequency"] == pytest.approx(wanted.average_frequency)
        assert found["frequency"] == pytest.approx(wanted.frequency(10).tolist())


def test_a_series_has_periods_and_what_they_add_up_to(files: tuple[str, ...]) -> None:
    found = kreach(*files, "--campaign", "spring", "--cap", "1", "--by", "day")
    document = json.loads(found.out)  # a pipe, so JSON without being asked
    assert [element["impressions"] for element in document["series"]] == [3, 0]
    last = document["series"][-1]["cumulative"][0]
    assert last["reach"] == document["reports"][0]["reach"]
    assert document["rejected"]["duplicate"] == 1
    assert document["rejected"]["no_group"] == 1
    assert document["rejected"]["unknown_group"] == 1


def test_tables_name_what_was_rejected(files: tuple[str, ...]) -> None:
    shown = kreach(*files, "--campaign", "spring", "--cap", "1", "--by", "day", "--table").out
    assert "3 impressions on an audience of 10 people" in shown
    assert "1 row with a duplicate impression id" in shown
    assert "reach does not add up over periods" in shown
    assert "People by frequency" in shown


def test_a_campaign_is_no_markup(files: tuple[str, ...]) -> None:
    shown = kreach(*files, "--campaign", "[bold]autumn", "--cap", "1", "--table").out
    assert "[bold]autumn" in shown


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("--cap", "0"), "caps"),
        (("--cap", "1", "--by", "year"), "by"),
        (("--cap", "1", "--level", "1"), "level"),
        (("--cap", "1", "--engine", "abacus"), "engine"),
        (("--cap", "1", "--start", "soon"), "start"),
        (("--cap", "1", "--start", "2026-11-02", "--end", "2026-11-01"), "end"),
        (("--cap", "1", "--memory", "plenty"), "memory"),
        (("--cap", "1", "--classes", "nowhere.csv"), "groups"),  # which have a dispersion
    ],
)
def test_bad_input_gets_one_line(
    files: tuple[str, ...], wrong: tuple[str, ...], named: str
) -> None:
    found = kreach(*files, *wrong)
    assert found.code == 1
    assert found.out == ""
    assert found.err.startswith(f"kreach: {named} must")
    assert found.err.count("\n") == 1


def _release(folder: Path) -> Path:
    """A release of the same groups with a visit model."""
    moment = datetime(2026, 10, 1, tzinfo=UTC)
    groups, sizes = ("007", "b", "c"), np.array([3, 4, 5])
    model = sample_model(4.0)
    write_catalogue(Catalogue("v1", moment, 3, groups, sizes, 0.5, model=model), folder)
    return folder


def test_several_campaigns_are_measured_alone_and_together(files: tuple[str, ...]) -> None:
    asked = ("--campaign", "spring", "--campaign", "[bold]autumn", "--cap", "1", "--cap", "3")
    document = json.loads(kreach(*files, *asked).out)
    combined = document["combined"]
    assert [part["campaign"] for part in document["parts"]] == ["spring", "[bold]autumn"]
    assert combined["cap"] == 1
    assert [report["cap"] for report in document["more_caps"]] == [3]
    for report in (combined, *document["more_caps"]):
        rows = [*report["only"].values(), report["overlap"]]
        assert sum(row["reach"] for row in rows) == pytest.approx(report["union"]["reach"])
    parts = {"spring": [2, 1, 0], "[bold]autumn": [0, 1, 0]}
    audience = kr.Audience.disjoint([3, 4, 5], [3, 2, 5], [0.5, float("inf"), float("inf")])
    wanted = kr.combine(parts, audience, 1)
    assert combined["union"]["reach"] == pytest.approx(wanted.union.reach)
    assert combined["overlap"]["std"] == pytest.approx(wanted.overlap.std)
    assert document["rejected"] == {"no_group": 1, "unknown_group": 1, "duplicate": 1}


def test_tables_of_several_campaigns_and_windows(files: tuple[str, ...]) -> None:
    asked = ("--campaign", "spring", "--campaign", "[bold]autumn", "--cap", "1", "--table")
    shown = kreach(*files, *asked).out
    assert "2 together" in shown
    assert "only [bold]autumn" in shown
    days = ("--window", "first=/2026-11-02", "--window", "rest=2026-11-02/")
    shown = kreach(*files, *days, "--campaign", "spring", "--cap", "1", "--table").out
    assert "only rest" in shown


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--campaign", "a", "--campaign", "a"), "campaigns must name 2 to 100 different"),
        (("--campaign", "a", "--campaign", "b", "--by", "day"), "by must be left out"),
        (("--window", "a"), "window must be NAME=START/END"),
        (("--window", "a=/2026-11-02"), "windows must name 2 to 100 windows"),
        (("--window", "a=/2026-11-02", "--window", "a=2026-11-02/"), "have a name of its own"),
        (("--window", "a=/2026-11-03", "--window", "b=2026-11-02/"), "share no impression"),
        (("--window", "a=/2026-11-02", "--window", "b=never/"), "start"),
    ],
)
def test_wrong_parts_are_one_clear_line(
    files: tuple[str, ...], asked: tuple[str, ...], words: str
) -> None:
    found = kreach(*files, *asked, "--cap", "1")
    assert found.code == 1
    assert words in found.err
    assert "Traceback" not in found.err


ASKED = ("--campaign", "spring", "--cap", "1", "--cap", "3")


def _measured(files: tuple[str, ...], groups: Path, *more: str) -> dict[str, Any]:
    log = files[files.index("--impressions") + 1]
    arguments = ("--groups", str(groups), "--impressions", log, *ASKED, *more, "--json")
    document: dict[str, Any] = json.loads(kreach("measure", *arguments).out)
    return document


def test_a_release_brings_its_visit_model(files: tuple[str, ...], tmp_path: Path) -> None:
    release = _release(tmp_path / "release")
    drawn = _measured(files, release)
    assert drawn["model"] == {
        "name": "visit model",
        "fitted_people": 12_345,
        "history_days": 30.0,
        "error": 0.03,
        "traffic": 1.0,
        "traffic_source": "history",
        "traffic_note": None,
    }
    assert drawn["basis"].startswith("visit model")
    for groups in (release / "groups.parquet", tmp_path):  # a file in it, the folder around it
        assert _measured(files, groups)["reports"] == drawn["reports"]
    times = np.array(["2026-11-01T00:00", "2026-11-01T23:59:59.999999", "2026-11-01T23:00"])
    library = kr.measure_times(
        kr.Audience.disjoint([3, 4, 5]),
        [0, 0, 1],
        times.astype("datetime64[us]"),
        [1, 3],
        model=sample_model(4.0),
    )
    for report in drawn["reports"]:
        assert report["reach"] == pytest.approx(library[report["cap"]].reach, rel=1e-9)
    text = kreach("measure", "--groups", str(release), *files[3:], *ASKED, "--table").out
    assert "model: visit model, error in replays of history 3.0%" in text


def test_the_model_is_a_choice(files: tuple[str, ...], tmp_path: Path) -> None:
    release = _release(tmp_path / "release")
    drawn, plain = _measured(files, release), _measured(files, release, "--model", "none")
    assert plain["model"] == {
        "name": "dispersion",
        "fitted_people": None,
        "history_days": None,
        "error": None,
        "traffic": None,
        "traffic_source": None,
        "traffic_note": None,
    }
    wanted = kr.measure(kr.Audience.disjoint([3, 4, 5], None, 0.5), [2, 1, 0], 1)
    assert plain["reports"][0]["reach"] == pytest.approx(wanted.reach, rel=1e-12)
    groups = Path(files[files.index("--groups") + 1])
    assert _measured(files, groups)["model"]["name"] == "dispersion"  # no model beside this file
    given = _measured(files, groups, "--model", str(release / "visit_model.json"))
    assert given["model"] == drawn["model"]
    busy = _measured(files, release, "--traffic", "5")
    assert busy["reports"][0]["reach"] > drawn["reports"][0]["reach"]
    assert (busy["model"]["traffic"], busy["model"]["traffic_source"]) == (5.0, "given")
    text = kreach("measure", *files[1:], *ASKED, "--table").out
    assert "without times of visits (no visit model)" in text


def test_a_wrong_model_gets_one_line(files: tuple[str, ...], tmp_path: Path) -> None:
    for more, message in (
        (("--model", str(tmp_path)), "model must be a release that holds visit_model.json"),
        (("--traffic", "2"), "traffic must be 1 without a visit model"),
    ):
        done = kreach(*files, *ASKED, *more)
        assert done.code == 1
        assert message in done.err


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("sprng",), "no campaign 'sprng' in the log: did you mean 'spring'?"),
        (("spring", "sprng"), "no campaign 'sprng' in the log: did you mean 'spring'?"),
        (("tv",), "no campaign 'tv' in the log: the log holds [bold]autumn, spring"),
    ],
)
def test_an_unknown_campaign_is_an_error_with_the_nearest_name(
    files: tuple[str, ...], asked: tuple[str, ...], said: str
) -> None:
    named = [part for name in asked for part in ("--campaign", name)]
    result = kreach(*files, "--cap", "1", *named)
    assert (result.code, result.out) == (1, "")
    assert result.err.strip() == f"kreach: {said}"


def test_a_known_campaign_may_have_nothing_in_a_window(files: tuple[str, ...]) -> None:
    result = kreach(*files, "--cap", "1", "--campaign", "spring", "--end", "2020-01-01")
    assert result.code == 0
    assert json.loads(result.out)["impressions"] == 0


def test_tables_fit_eighty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [f"a,g{at % 40},2026-11-{1 + at % 9:02d}T10:00:00Z" for at in range(9_000)]
    (tmp_path / "log.csv").write_text("\n".join(["campaign,group,ts", *rows]) + "\n")
    sizes = [f"g{at},{10**6 + at}" for at in range(40)]
    (tmp_path / "groups.csv").write_text("\n".join(["group,size", *sizes]) + "\n")
    where = ("--groups", str(tmp_path / "groups.csv"), "--impressions", str(tmp_path / "log.csv"))
    windows = ("--window", "x=/2026-11-04", "--window", "y=2026-11-04/")
    for more in (("--cap", "2", "--by", "day"), ("--by", "day"), windows):
        result = kreach("measure", *where, *more, "--cap", "1", "--cap", "30", "--table")
        assert result.code == 0, result.err
        assert max(map(len, result.out.splitlines())) <= 80
        assert "…" not in result.out
        assert "\x1b" not in result.out


def test_watching_reads_a_growing_log_until_ctrl_c(tmp_path: Path) -> None:
    log, row = tmp_path / "log", {"campaign": "spring", "group": "a", "ts": datetime.now(UTC)}
    log.mkdir()
    polars.DataFrame([row]).write_parquet(log / "1.parquet")
    (tmp_path / "groups.csv").write_text("group,size\na,20\n")
    command = [sys.executable, "-m", "kreach", "measure", "--groups", str(tmp_path / "groups.csv")]
    command += ["--impressions", str(log), "--cap", "1", "--campaign", "summer", "--watch", "0.1"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(signal.SIGINT, before)
    with watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        assert first["impressions"] == 0  # the campaign may begin later
        polars.DataFrame([{**row, "campaign": "summer"}]).write_parquet(tmp_path / "2")
        (tmp_path / "2").rename(log / "2.parquet")
        for line in watching.stdout:
            if json.loads(line)["impressions"] == 1:
                break
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0
        assert watching.stderr is not None
        assert watching.stderr.read().strip() == b""


def test_the_first_reading_that_fails_ends_watching(files: tuple[str, ...]) -> None:
    result = kreach(*files, "--cap", "0", "--watch", "1")
    assert (result.code, result.out) == (1, "")
    result = kreach(*files, "--cap", "1", "--watch", "0")
    assert "watch must be between 0.1 and 86,400 seconds, got 0" in result.err
