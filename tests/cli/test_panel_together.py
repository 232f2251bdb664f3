"""A panel that counts campaigns together: the union is right however wrong the model is."""

from pathlib import Path

import duckdb
import pytest

from tests.cli.command import kreach
from tests.cli.test_panel import command, folder, measure_command, measured, panel

__all__ = ["folder"]  # the fixture

CAMPAIGNS = ("--campaign", "spring", "--campaign", "tiny")


def people(folder: Path, condition: str) -> int:
    """People by the campaigns that they saw."""
    rows = duckdb.execute(
        f"""SELECT count(*) FROM (SELECT count(DISTINCT campaign) AS n, min(campaign) AS one
        FROM '{folder / "shown.parquet"}' GROUP BY user_id) WHERE {condition}"""
    ).fetchone()
    assert rows is not None
    return int(rows[0])


def test_all_groups_in_the_panel_give_the_truth(folder: Path) -> None:
    floors = ("--min-reach", "1", "--share", "1", "--without-noise")
    panel(folder, "together.json", *floors, "--together", "spring,tiny")
    document = measured(folder, *CAMPAIGNS, "--panel", str(folder / "together.json"))
    combined = document["combined"]
    assert combined["union"]["reach"] == pytest.approx(people(folder, "n >= 1"), rel=1e-6)
    assert combined["overlap"]["reach"] == pytest.approx(people(folder, "n = 2"), abs=0.01)
    only = combined["only"]
    assert only["spring"]["reach"] == pytest.approx(
        people(folder, "n = 1 AND one = 'spring'"), abs=0.01
    )
    assert only["tiny"]["reach"] == pytest.approx(
        people(folder, "n = 1 AND one = 'tiny'"), abs=0.01
    )
    assert document["correction"]["panel_share"] == 1.0
    for report in (combined, *document["more_caps"]):
        rows = [*report["only"].values(), report["overlap"]]
        assert sum(row["reach"] for row in rows) == pytest.approx(report["union"]["reach"])
    steps = combined["incremental"]
    assert steps[-1]["unique_reach_so_far"] == pytest.approx(combined["union"]["reach"])


def test_a_panel_that_did_not_count_the_set_is_refused(folder: Path) -> None:
    panel(folder, "alone.json", "--min-reach", "1", "--share", "1", "--without-noise")
    asked = measure_command(folder, *CAMPAIGNS, "--panel", str(folder / "alone.json"))
    done = kreach(*asked)
    assert done.code == 1
    assert "kreach panel --together spring,tiny" in done.err


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("spring", "together must name two campaigns or more"),
        ("spring,summer", "together must name campaigns of the showings"),
    ],
)
def test_wrong_sets_are_refused(folder: Path, names: str, words: str) -> None:
    done = kreach(*command(folder, "wrong.json", "--share", "0.5", "--together", names))
    assert done.code == 1
    assert words in done.err
