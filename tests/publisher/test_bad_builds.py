"""Crafted bad builds: each is refused, or the audit names a danger and fails. None passes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from kreach.publisher.store import read_build
from tests.publisher.populations import run_kreach, write_csv

PEOPLE, K = 240, 20


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """240 people in two towns, one of them alone in Ely; a tenth are ill; a hidden identifier."""
    generator = np.random.default_rng(5)
    lines = ["user_id,ts,town,condition,score"]
    for who in range(PEOPLE):
        town = "Ely" if who == 7 else ("Bath", "York")[who % 2]
        condition = "hiv" if who % 10 < 1 else "none"
        for hour in generator.integers(0, 24, 2 + who % 3).tolist():
            day = 1 + int(generator.integers(0, 9))
            lines.append(f"u{who},2026-01-0{day}T{hour:02}:00:00Z,{town},{condition},{who * 37}")
    return write_csv(tmp_path_factory.mktemp("visits") / "visits.csv", *lines)


def build(visits: Path, out: Path, *further: str) -> tuple[int, str, str]:
    return run_kreach(
        *("groups", "build", "--visits", str(visits), "--group-size", str(K)),
        *("--out", str(out), "--knowledge", "none", *further),
    )


def dangers(out: Path, *further: str) -> list[dict[str, Any]]:
    """The dangers of a failed audit; the verdict and the page say so too."""
    page = out / "audit.html"
    code, said, complained = run_kreach(
        "groups", "audit", str(out), "--json", "--html", str(page), *further
    )
    document = json.loads(said)
    found = [finding for finding in document["findings"] if finding["level"] == "danger"]
    assert (code, complained) == ((1, "") if found else (0, ""))
    assert document["safe"] == (not found)
    verdict = "must not be released" if found else "may be released"
    assert verdict in document["verdict"]
    assert verdict in page.read_text()
    return found


def change_people(out: Path, change: str) -> None:
    """Rewrite people.parquet as an earlier version, or somebody careless, would have."""
    path = out / "publisher" / "people.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE people AS SELECT * REPLACE ({change}) FROM '{path}'")
        engine.execute(f"COPY people TO '{path}' (FORMAT parquet)")


def change_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_good_build_passes(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said, complained = build(visits, out, "--segments", "town", "--sensitive", "condition")
    assert code == 0, complained
    assert dangers(out) == []
    stored = read_build(out).facts
    assert stored["seed_origin"] == "drawn"
    assert stored["seed"].bit_length() == 128
    assert str(stored["seed"]) not in said + complained
    for path in (out / "release").iterdir():
        assert str(stored["seed"]).encode() not in path.read_bytes()


def test_a_segment_of_one_is_pooled_and_a_danger_if_it_is_not(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said, _ = build(visits, out, "--segments", "town", "--json")
    assert code == 0
    facts = json.loads(said)
    assert facts["pooled"] == {"town": 1}
    assert any("town" in warning and "pooled" in warning for warning in facts["warnings"])
    assert read_build(out).people.attribute("town").labels == ("(other)", "Bath", "York")
    assert dangers(out) == []
    change_people(out, "CASE user_id WHEN 'u7' THEN 'Ely' ELSE 'Bath' END AS attribute_town")
    assert [d["check"] for d in dangers(out)] == ["small segments: town"]


def test_homogeneous_groups_are_a_danger_or_refused(visits: Path, tmp_path: Path) -> None:
    """Groups along the condition itself; the same with the condition declared."""
    out = tmp_path / "out"
    along = ("--strategy", "attributes", "--attributes", "condition")
    assert build(visits, out, *along)[0] == 0
    assert "homogeneity: condition" in [
        d["check"] for d in dangers(out, "--sensitive", "condition")
    ]
    mixed = tmp_path / "mixed"
    assert build(visits, mixed, *along, "--sensitive", "condition")[0] == 0
    assert dangers(mixed) == []
    code, _, complained = build(visits, tmp_path / "no", "--sensitive", "condition", "--min-l", "3")
    assert code == 1
    assert "min_l of 3 cannot be held: condition has 2 different values" in complained


def test_a_column_that_was_only_kept_is_looked_at(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert build(visits, out, "--keep", "condition")[0] == 0
    change_people(out, "CASE WHEN group_0 < 2 THEN 'hiv' ELSE 'none' END AS attribute_condition")
    assert [d["check"] for d in dangers(out)] == ["homogeneity: condition"]


def test_floors_that_a_build_promised_and_breaks_are_a_danger(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    floors = ("--min-entropy-l", "1.2", "--max-t", "0.2")
    assert build(visits, out, "--sensitive", "condition", *floors)[0] == 0
    assert dangers(out) == []
    ill = "group_0 < 2 AND visits > 2 OR user_id LIKE '%0'"
    change_people(out, f"CASE WHEN {ill} THEN 'hiv' ELSE 'none' END AS attribute_condition")
    assert [d["check"] for d in dangers(out)] == ["homogeneity: condition"]


def test_a_class_of_one_is_refused_and_a_danger(visits: Path, tmp_path: Path) -> None:
    crossed = ("--strategy", "overlapping", "--partitions", "3")
    assert build(visits, tmp_path / "out", *crossed, "--class-floor", "1")[0] == 0
    assert [d["check"] for d in dangers(tmp_path / "out")] == ["intersection of groups"]
    assert build(visits, tmp_path / "safe", *crossed)[0] == 0
    assert dangers(tmp_path / "safe") == []


def test_a_renamed_identifier_is_refused_and_a_danger(visits: Path, tmp_path: Path) -> None:
    code, _, complained = build(visits, tmp_path / "no", "--keep", "score")
    assert code == 1
    assert "column score identifies people" in complained
    out = tmp_path / "out"
    assert build(visits, out, "--keep", "condition")[0] == 0
    change_people(out, "'x' || user_id AS attribute_condition")
    assert [d["check"] for d in dangers(out)] == ["identifying values: condition"]


def release_the_seed(out: Path) -> None:
    change_json(out / "release" / "catalogue.json", seed=3)


def release_the_number(out: Path) -> None:
    seed = json.loads((out / "publisher" / "build.json").read_text())["seed"]
    change_json(out / "release" / "catalogue.json", note=[str(seed)])


@pytest.mark.parametrize("leak", [release_the_seed, release_the_number])
def test_a_seed_in_the_release_is_a_danger(
    leak: Callable[[Path], None], visits: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert build(visits, out, "--sensitive", "condition")[0] == 0
    assert dangers(out) == []
    leak(out)
    (danger,) = dangers(out)
    assert (danger["check"], danger["number"]) == ("seed", "in the release")


@pytest.mark.parametrize(
    ("seed", "recorded", "said"),
    [
        ("0", "given", "obvious seeds one gives exactly these groups"),
        ("8", "drawn", "obvious seeds one gives exactly these groups"),  # a record that lies
        ("123456789", "given", "the seed has 27 bits and can be found by trying"),
    ],
)
@pytest.mark.parametrize("strategy", ["random", "segments+rates", "attributes", "overlapping"])
def test_a_seed_that_can_be_guessed_is_a_danger(
    strategy: str, seed: str, recorded: str, said: str, visits: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    columns = ("--segments", "town", "--attributes", "town", "--sensitive", "condition")
    options = ("--strategy", strategy, *columns, "--seed", seed)
    code, shown, _ = build(visits, out, *options)
    assert code == 0
    assert "can be formed again with this --seed" in shown
    change_json(out / "publisher" / "build.json", seed_origin=recorded)
    (danger,) = dangers(out)
    assert danger["check"] == "seed"
    assert said in danger["text"]
