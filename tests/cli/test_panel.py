"""`kreach panel` and `kreach measure --panel`: from who saw what to a corrected report."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from kreach.publisher.store import read_group_lookup
from tests.cli.command import kreach

START = datetime(2026, 3, 1, tzinfo=UTC)
PEOPLE = 3_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of ten, formed on visits that say nothing; two campaigns to very uneven people."""
    folder = tmp_path_factory.mktemp("panel")
    generator = np.random.default_rng(3)
    users = np.array([f"u{i:05}" for i in range(PEOPLE)], dtype=object)
    visits = {"user_id": np.repeat(users, 2), "day": np.tile([0, 1], PEOPLE)}
    database = duckdb.connect()
    database.register("visits", visits)
    moment = "TIMESTAMPTZ '2026-02-01 00:00:00+00' + to_days(day::INTEGER)"
    database.execute(
        f"COPY (SELECT user_id, {moment} AS ts FROM visits) TO '{folder / 'visits.parquet'}'"
    )
    done = kreach(
        *("groups", "build", "--visits", str(folder / "visits.parquet"), "--group-size", "10"),
        *("--knowledge", "none", "--seed", "0", "--out", str(folder / "groups"), "--json"),
    )
    assert done.code == 0, done.err
    lookup = read_group_lookup(folder / "groups")
    rates = generator.gamma(0.3, size=PEOPLE)
    rows: dict[str, list[Any]] = {"user_id": [], "campaign": [], "seconds": [], "group": []}
    for campaign, count in (("spring", 8_000), ("tiny", 60)):
        for person in generator.choice(PEOPLE, count, p=rates / rates.sum()).tolist():
            rows["user_id"].append(users[person])
            rows["campaign"].append(campaign)
            rows["seconds"].append(float(generator.random() * 6 * 86_400))
            rows["group"].append(lookup.identify(str(users[person])).group)
    table = {
        name: np.array(values, dtype=object if name != "seconds" else float)
        for name, values in rows.items()
    }
    database.register("showings", table)
    moment = f"to_timestamp({START.timestamp()} + seconds)"
    for name, who in (("shown", "user_id"), ("log", '"group"')):
        database.execute(
            f"""COPY (SELECT {who}, campaign, {moment} AS ts FROM showings)
            TO '{folder / name}.parquet'"""
        )
    database.close()
    return folder


def panel(folder: Path, out: str, *more: str) -> dict[str, Any]:
    done = kreach(*command(folder, out, *more), "--json")
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def command(folder: Path, out: str, *more: str) -> tuple[str, ...]:
    where = ("--groups", str(folder / "groups"), "--showings", str(folder / "shown.parquet"))
    floors = ("--min-people", "100", "--min-reach", "30")
    return ("panel", *where, "--out", str(folder / out), *floors, *more)


def measured(folder: Path, *more: str) -> dict[str, Any]:
    done = kreach(*measure_command(folder, *more), "--json")
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def measure_command(folder: Path, *more: str) -> tuple[str, ...]:
    groups, log = str(folder / "groups" / "release"), str(folder / "log.parquet")
    return ("measure", "--groups", groups, "--impressions", log, "--cap", "1", "--cap", "3", *more)


def truth(folder: Path, cap: int, end: datetime | None = None) -> int:
    before = "" if end is None else f"AND ts < TIMESTAMPTZ '{end.isoformat()}'"
    rows = duckdb.execute(
        f"""SELECT sum(least(n, {cap})) FROM (SELECT count(*) AS n
        FROM '{folder / "shown.parquet"}' WHERE campaign = 'spring' {before} GROUP BY user_id)"""
    ).fetchone()
    assert rows is not None
    return int(rows[0])


def test_a_wrong_model_is_corrected(folder: Path) -> None:
    written = panel(folder, "corrections.json", "--share", "0.2", "--rho", "5")
    assert [each["campaign"] for each in written["corrections"]] == ["spring"]
    assert "reached too few people" in written["too_small"][0]
    before = measured(folder, "--campaign", "spring")
    after = measured(folder, "--campaign", "spring", "--panel", str(folder / "corrections.json"))
    assert before["correction"] is None
    for at, cap in enumerate((1, 3)):
        true = truth(folder, cap)
        model, corrected = before["reports"][at], after["reports"][at]
        assert model["reach"] > 1.15 * true
        assert abs(corrected["reach"] - true) < 4.5 * corrected["std"]  # the panel is random
        assert corrected["std"] < 0.08 * true
        assert corrected["interval_method"] == "panel"
    assert after["correction"]["model_unique_reach"] == before["reports"][0]["reach"]
    assert sum(after["reports"][0]["frequency"]) == pytest.approx(PEOPLE)


def copied(folder: Path, to: Path) -> Path:
    """The same groups without what was released of them."""
    shutil.copytree(folder, to / "copy", ignore=shutil.ignore_patterns("panel.sqlite3*"))
    return to / "copy"


def test_everybody_without_noise_is_the_truth(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder, tmp_path)
    panel(copy, "all.json", "--share", "1", "--without-noise")
    found = measured(copy, "--campaign", "spring", "--panel", str(copy / "all.json"))
    for at, cap in enumerate((1, 3)):
        assert found["reports"][at]["reach"] == pytest.approx(truth(copy, cap), abs=0.05)


def test_a_series_by_day_is_the_truth_of_every_day(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder, tmp_path)
    options = ("--share", "1", "--without-noise", "--by", "day", "--campaign", "spring")
    written = panel(copy, "days.json", *options)
    releases = written["corrections"][0]["releases"]
    assert len(releases) == 6
    found = measured(
        copy, "--campaign", "spring", "--by", "day", "--panel", str(copy / "days.json")
    )
    for day, period in enumerate(found["series"], 1):
        true = truth(copy, 1, START + timedelta(days=day))
        assert period["cumulative"][0]["reach"] == pytest.approx(true, abs=0.05)
    assert found["reports"][0]["reach"] == pytest.approx(truth(copy, 1), abs=0.05)


def test_repeating_the_command_repeats_what_was_released(folder: Path) -> None:
    options = ("--share", "0.2", "--rho", "5")
    first = panel(folder, "first.json", *options)
    again = panel(folder, "again.json", *options)
    assert first["corrections"] == again["corrections"]
    assert (folder / "first.json").read_bytes() == (folder / "again.json").read_bytes()
    done = kreach(*command(folder, "other.json", "--share", "0.3", "--rho", "5"))
    assert (done.code, done.out) == (1, "")
    assert "share must stay 0.2 for campaign spring, which has releases" in done.err
    assert not (folder / "other.json").exists()


def test_people_can_read_it(folder: Path) -> None:
    done = kreach(*command(folder, "corrections.json", "--share", "0.2", "--rho", "5"))
    assert done.code == 0
    assert "60 of 300 groups" in done.out
    assert "nothing released" in done.out
    assert "ρ = 5" in done.out
    table = kreach(
        *measure_command(
            folder, "--campaign", "spring", "--panel", str(folder / "corrections.json")
        ),
        "--table",
    )
    assert "corrected by a panel of 20% of the groups" in " ".join(table.out.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--share", "0"), "share must be above 0 and at most 1"),
        (("--share", "1.5"), "share must be above 0 and at most 1"),
        (("--share", "0.2", "--rho", "-1"), "rho must be from"),
        (("--share", "0.2", "--by", "minute"), "by must be"),
        (("--share", "0.2", "--max-cap", "0"), "max-cap must be at least 1"),
        (("--share", "0.2", "--max-cap", "50"), "max_frequency must be"),
        (("--share", "0.2", "--campaign", "autumn"), "campaign must be in the showings"),
        (("--share", "0.2", "--start", "never"), "start must"),
        (("--share", "0.002"), "below the floor of 100"),
    ],
)
def test_bad_options_are_refused(folder: Path, options: tuple[str, ...], message: str) -> None:
    done = kreach(*command(folder, "bad.json", *options))
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (folder / "bad.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user_id,campaign\nu1,spring\n", "showings must have a column ts"),
        ("user_id,campaign,ts\nu1,,2026-03-01\n", "showings.campaign must not be missing"),
        ("user_id,campaign,ts\nu1,spring,soon\n", "showings"),
        ("user_id,campaign,ts\n", "showings"),
    ],
)
def test_bad_showings_are_refused(folder: Path, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "shown.csv").write_text(content)
    where = ("--groups", str(folder / "groups"), "--showings", str(tmp_path / "shown.csv"))
    done = kreach("panel", *where, "--share", "0.2", "--out", str(tmp_path / "out.json"))
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert "u1" not in done.err


def test_corrections_of_something_else_are_refused(folder: Path, tmp_path: Path) -> None:
    panel(folder, "corrections.json", "--share", "0.2", "--rho", "5")
    file = str(folder / "corrections.json")
    document = json.loads(Path(file).read_text())
    other = tmp_path / "other.json"

    def refused(*more: str, **changes: Any) -> str:
        one = document["corrections"][0] | changes
        other.write_text(json.dumps(document | {"corrections": [one]}))
        done = kreach(*measure_command(folder, "--panel", str(other), *more))
        assert (done.code, done.out) == (1, "")
        return done.err

    assert "campaign must be named" in refused()
    spring = ("--campaign", "spring")
    assert "be a campaign of the panel (spring)" in refused("--campaign", "tiny")
    assert "panel must be for the catalogue of the groups" in refused(*spring, catalogue="v0")
    assert "panel must correct the model" in refused(*spring, model="visit model")
    assert "start must be before the first impression" in refused(*spring, "--start", "2026-03-03")
    assert "hold a release from before the end" in refused(*spring, "--end", "2026-03-02")
    assert "correction must have only campaign" in refused(*spring, people=7)
    other.write_text("nothing")
    done = kreach(*measure_command(folder, "--panel", str(other), *spring))
    assert "panel must be a file made by `kreach panel`" in done.err


def test_an_earlier_window_is_corrected_by_its_own_release(folder: Path, tmp_path: Path) -> None:
    """Also what the campaign says of the model's error is that of the release in use."""
    copy = copied(folder, tmp_path)
    options = ("--share", "1", "--without-noise", "--by", "day", "--campaign", "spring")
    panel(copy, "days.json", *options)
    end = START + timedelta(days=2)
    window = ("--campaign", "spring", "--end", end.isoformat(), "--panel", str(copy / "days.json"))
    found = measured(copy, *window)
    assert found["correction"]["released"] == "2026-03-03T00:00:00Z"
    assert found["reports"][0]["reach"] == pytest.approx(truth(copy, 1, end), abs=0.05)
