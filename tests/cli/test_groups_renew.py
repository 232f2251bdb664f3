"""`kreach groups renew`: one document, words for people, one-line errors."""

import json
from pathlib import Path

import pytest

from tests.cli.command import kreach, write_visits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("renew")
    visits = write_visits(folder / "visits.csv")
    build = ("groups", "build", "--visits", str(visits), "--group-size", "20", "--keep", "town")
    assert kreach(*build, "--out", str(folder / "groups")).code == 0
    facts_file = folder / "groups" / "publisher" / "build.json"
    old = {"version": json.loads(facts_file.read_text())["version"]}
    for file in (facts_file, folder / "groups" / "release" / "catalogue.json"):
        document = json.loads(file.read_text())
        assert document["version"] == old["version"]
        file.write_text(json.dumps(document | {"version": "20200101T000000Z"}))
    return folder


def test_renew_prints_one_document(folder: Path, tmp_path: Path) -> None:
    result = kreach(
        *("groups", "renew", str(folder / "groups"), "--visits", str(folder / "visits.csv")),
        *("--out", str(tmp_path / "next"), "--room", "1", "--json"),
        *("--seen-weeks", "500", "--forget-weeks", "600"),
    )
    assert (result.code, result.err) == (0, "")
    facts = json.loads(result.out)
    assert facts["renew_weeks"] == 4
    assert set(facts["renewal"]) == {
        *("renews", "policy", "joined", "left", "moved", "merged_groups", "split_groups"),
        *("new_groups", "counted_people", "min_counted_in_group", "seen_up_to"),
        *("attributes_changed", "pair", "series", "diversity_merges", "declare_again", "first"),
    }
    assert (facts["seed"], facts["seed_origin"]) == (None, "drawn"), "the seed is a secret"
    assert facts["renewal"]["moved"] == 0
    assert kreach("groups", "audit", str(tmp_path / "next")).code == 0


def test_renew_says_what_moved_and_what_linkage_gives_away(folder: Path, tmp_path: Path) -> None:
    result = kreach(
        *("groups", "renew", str(folder / "groups"), "--visits", str(folder / "visits.csv")),
        *("--out", str(tmp_path / "next"), "--group-size", "15"),
    )
    assert (result.code, result.err) == (0, "")
    assert "since 20200101T000000Z: joined 0, left 0, moved" in result.out
    assert "changed town: 0 people" in result.out
    assert "linking the last two versions: 0 people singled out" in result.out
    assert "keep private" in result.out


def test_a_refused_renewal_is_one_line(folder: Path, tmp_path: Path) -> None:
    result = kreach(
        *("groups", "renew", str(folder / "groups"), "--visits", str(folder / "visits.csv")),
        *("--out", str(tmp_path / "next"), "--newcomers", "anywhere"),
    )
    assert (result.code, result.out) == (1, "")
    assert result.err == "kreach: newcomers must be one of named, gaps, got 'anywhere'\n"
    assert list(tmp_path.iterdir()) == []
