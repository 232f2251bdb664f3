"""`kreach evaluate` and `kreach tradeoff`: files, one document, one-line complaints."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Result, kreach, kreach_process
from tests.lab.logs_made import few_plans, write_prices, write_visits

pytestmark = pytest.mark.xdist_group("studies")  # what takes long is done once

FILES = ("csv", "png", "svg")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    write_visits(folder / "visits.csv", 150)
    write_prices(folder / "prices.csv")
    (folder / "nobody.csv").write_text("who,ts\nA,2026-03-01T00:00:00Z\n")
    (folder / "free.csv").write_text("price,count\n3,1\n")
    return folder


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with few_plans():
        yield


def run(files: Path, command: str, out: Path, *further: str) -> Result:
    """Later options win over earlier ones."""
    sizes = ("--group-size", "5") if command == "evaluate" else ("--group-sizes", "1,5")
    return kreach(
        *(command, "--visits", str(files / "visits.csv"), "--prices", str(files / "prices.csv")),
        *("--campaigns", "2", "--campaign-size", "50", "--strategies", "random"),
        *("--processes", "1", "--out", str(out), *sizes, *further),
    )


def document(result: Result) -> dict[str, Any]:
    assert (result.code, result.err) == (0, ""), result.err
    assert result.out.count("\n") == 1
    found: dict[str, Any] = json.loads(result.out)
    return found


def one_line(result: Result) -> str:
    """The complaint of a command that failed as promised."""
    assert "Traceback" not in result.err, result.err.splitlines()[-1]
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("kreach: ")
    return result.err[len("kreach: ") : -1]


def test_evaluate_from_files_to_report(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "a" / "study"
    result = run(files, "evaluate", out, "--strategies", "random,rates")
    assert (result.code, result.err) == (0, ""), result.err
    assert str(out / "report.html") in result.out
    assert "Measure with" in result.out
    assert {path.name for path in out.iterdir()} == {
        *("summary.json", "report.html"),
        *(f"{name}.{kind}" for name in ("measurement", "optimisation") for kind in FILES),
    }
    summary = json.loads((out / "summary.json").read_text())
    for name in ("impressions", "groups", "uniform", "profiled", "dispersed"):
        assert set(summary["measurement"][name]) >= {
            *("mean_error", "mean_absolute_error", "by_campaign"),
        }
        assert set(summary["optimisation"][name]) >= {
            *("relative_roas_mean", "relative_roas_variance", "relative_reach_mean"),
            "by_campaign",
        }
    for line in summary["advice"]:
        assert line in result.out
    with (out / "optimisation.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            assert float(row["spend"]) <= float(row["budget"])


def test_tradeoff_from_files_to_report(files: Path, tmp_path: Path) -> None:
    result = run(files, "tradeoff", tmp_path, "--strategies", "random,rates")
    assert (result.code, result.err) == (0, ""), result.err
    assert {path.name for path in tmp_path.iterdir()} == {
        *("summary.json", "report.html"),
        *(f"tradeoff_{name}.{kind}" for name in ("reach", "error") for kind in FILES),
    }
    assert "k = 1: " in result.out
    assert "k = 5: " in result.out
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary["relative_reach"]) == {"random", "rates"}


@pytest.mark.parametrize("command", ["evaluate", "tradeoff"])
def test_one_document_and_the_same_again(files: Path, tmp_path: Path, command: str) -> None:
    first = run(files, command, tmp_path / "1", "--json", "--campaigns", "1")
    found = document(first)
    assert found == json.loads((tmp_path / "1" / "summary.json").read_text())
    again = run(files, command, tmp_path / "2", "--json", "--campaigns", "1")
    assert again.out == first.out
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes(), path.name


def test_the_seed_decides(files: Path, tmp_path: Path) -> None:
    outputs = [
        run(files, "tradeoff", tmp_path / str(at), "--json", "--group-sizes", "5", "--seed", seed)
        for at, seed in enumerate(("0", "1"))
    ]
    first, other = (document(output)["relative_reach"] for output in outputs)
    assert first != other


def test_campaigns_and_groups_by_columns(files: Path, tmp_path: Path) -> None:
    """Towns as campaigns, grouped within devices; split at a given time."""
    found = document(
        run(
            files,
            "evaluate",
            tmp_path,
            *("--target", "town", "--strategies", "segments", "--segments", "device", "--json"),
            *("--split", "2026-03-12T00:00:00Z", "--group-size", "4"),
        )
    )
    assert set(found["measurement"]["uniform"]["by_campaign"]) == {"town 1", "town 2"}
    assert found["setting"]["split"] == "2026-03-12T00:00:00Z"
    assert found["setting"]["strategy"] == "segments"


def test_repeated_group_sizes_count_once(files: Path, tmp_path: Path) -> None:
    found = document(
        run(files, "tradeoff", tmp_path, "--group-sizes", " 5, 1,5,", "--json", "--campaigns", "1")
    )
    assert list(found["relative_reach"]["random"]["uniform"]) == ["1", "5"]


BAD = [
    (("--visits", "absent.csv"), "visits"),
    (("--visits", "nobody.csv"), "visits must have a column user_id"),
    (("--prices", "absent.csv"), "prices"),
    (("--prices", "free.csv"), "prices must have a column market_price"),
    (("--split", "2031-01-01"), "split"),
    (("--split", "1999-01-01"), "split"),
    (("--split", "yesterday"), "split"),
    (("--strategies", "magic"), "strategy"),
    (("--strategies", "random,overlapping"), "strategy"),
    (("--strategies", "overlapping"), "strategy"),
    (("--strategies", ","), "strategies"),
    (("--strategies", "segments"), "attribute"),
    (("--strategies", "attributes"), ""),  # by which? a refusal, whatever it names
    (("--segments", "planet"), "attribute"),
    (("--target", "planet"), "target"),
    (("--seed", "-1"), "seed"),
    (("--campaigns", "0"), "campaigns"),
    (("--campaign-size", "3"), "campaign_size"),
    (("--processes", "-1"), "processes"),
]


@pytest.mark.parametrize("command", ["evaluate", "tradeoff"])
@pytest.mark.parametrize(("wrong", "name"), BAD, ids=[" ".join(wrong) for wrong, _ in BAD])
def test_bad_input(
    files: Path, tmp_path: Path, command: str, wrong: tuple[str, str], name: str
) -> None:
    option, value = wrong
    if value.endswith(".csv"):
        value = str(files / value)
    line = one_line(run(files, command, tmp_path / "out", option, value))
    assert name.replace("_", "-") in line.replace("_", "-"), line
    assert not list((tmp_path / "out").glob("*"))  # no half a study


@pytest.mark.parametrize("size", ["26", "51", "0", "-2"])
def test_group_sizes_that_do_not_fit(files: Path, tmp_path: Path, size: str) -> None:
    line = one_line(run(files, "evaluate", tmp_path, "--group-size", size))
    assert line.startswith("group_size must")


@pytest.mark.parametrize("sizes", ["a,b", "0", "", ",", "1.5", "1,-3", "2,999"])
def test_group_sizes_that_are_none(files: Path, tmp_path: Path, sizes: str) -> None:
    line = one_line(run(files, "tradeoff", tmp_path, "--group-sizes", sizes))
    assert line.replace("_", "-").startswith("group-size")


@pytest.mark.parametrize("command", ["evaluate", "tradeoff"])
def test_out_is_a_file(files: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("mine")
    line = one_line(run(files, command, tmp_path / "file"))
    assert line.startswith("out must be a folder")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("command", ["evaluate", "tradeoff"])
def test_help_says_what_it_does(command: str) -> None:
    result = kreach_process(command, "--help")
    assert result.code == 0
    for option in ("--visits", "--prices", "--out", "--strategies", "--split", "--seed"):
        assert option in result.out
