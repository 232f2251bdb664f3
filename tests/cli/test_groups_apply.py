"""`kreach groups apply`: one document, one-line errors, and a log that `measure` reads."""

import json
from pathlib import Path

import pytest

from tests.cli.command import kreach, write_visits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build, and a log of showings."""
    folder = tmp_path_factory.mktemp("apply")
    visits = write_visits(folder / "visits.csv")
    build = ("groups", "build", "--visits", str(visits), "--group-size", "20")
    assert kreach(*build, "--out", str(folder / "groups")).code == 0
    ids = [line.split(",")[0] for line in visits.read_text().splitlines()[1:]]
    lines = [
        f"{at},{user},spring,2026-11-01T{at % 24:02}:00:00Z"
        for at, user in enumerate([*sorted(set(ids))[:50], "stranger"] * 2)
    ]
    text = "\n".join(["impression_id,user_id,campaign,ts", *lines])
    (folder / "shown.csv").write_text(text + "\n")
    return folder


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out"])
def test_the_result_is_a_log_to_measure(name: str, folder: Path, tmp_path: Path) -> None:
    arguments = ("groups", "apply", str(folder / "groups"), "--log", str(folder / "shown.csv"))
    result = kreach(*arguments, "--out", str(tmp_path / name), "--json")
    assert (result.code, result.err) == (0, "")
    applied = json.loads(result.out)
    assert (applied["rows"], applied["users"], applied["unknown_users"]) == (102, 51, 1)
    measured = kreach(
        *("measure", "--groups", str(folder / "groups" / "release"), "--cap", "1", "--json"),
        *("--impressions", str(tmp_path / name), "--campaign", "spring"),
    )
    assert (measured.code, measured.err) == (0, "")
    document = json.loads(measured.out)
    assert document["impressions"] == 102
    assert not any(document["rejected"].values())


def test_people_are_told_about_unknown_users_and_warnings(folder: Path, tmp_path: Path) -> None:
    text = (folder / "shown.csv").read_text().splitlines()
    lines = [f"{text[0]},ip", *(f"{line},10.0.0.{at}" for at, line in enumerate(text[1:]))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    arguments = ("groups", "apply", str(folder / "groups"), "--log", str(tmp_path / "log.csv"))
    refused = kreach(*arguments, "--out", str(tmp_path / "out.csv"))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "kreach: log identifies people: ip is the name of an identifier. leave these columns out "
        "of the log, or pass --allow ip on purpose\n"
    )
    allowed = kreach(*arguments, "--out", str(tmp_path / "out.csv"), "--allow", "ip")
    assert (allowed.code, allowed.err) == (0, "")
    assert "102 rows of 51 users" in allowed.out
    assert "unknown users: 1 (2 rows)" in allowed.out
    assert "warning: ip is the name of an identifier, allowed" in allowed.out
