"""`kreach reproduce`: one line per figure or a document, files, one-line complaints."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Result, kreach, kreach_process, write_visits


def one_line(result: Result) -> str:
    """The complaint of a command that failed as promised."""
    assert (result.code, result.out) == (1, "")
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("kreach: ")
    return result.err[len("kreach: ") : -1]


def test_lines_for_people_and_where_the_report_is(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = kreach_process("reproduce", "fig6", "fig5", "--out", str(out), "--quick")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("fig5 ")
    assert lines[1].startswith("fig6    most accurate: profiled (paper profiled)")
    assert lines[2] == f"report: {out / 'report.html'}"
    for name in ("summary.json", "report.html", "fig5.csv", "fig5.png", "fig5.svg", "fig6.png"):
        assert (out / name).stat().st_size > 100


def test_one_document_the_same_as_the_file(tmp_path: Path) -> None:
    visits = write_visits(tmp_path / "visits.csv")
    options = ("--quick", "--seed", "4", "--processes", "1", "--visits", str(visits))
    first, again = (
        kreach("reproduce", "fig6", "--out", str(tmp_path / name), "--json", *options)
        for name in "ab"
    )
    assert (first.code, first.err) == (0, "")
    assert first.out == again.out
    assert first.out.count("\n") == 1
    document = json.loads(first.out)
    assert document == json.loads((tmp_path / "a" / "summary.json").read_text())
    assert set(document["fig6"]) == {"paper", "ours", "setting"}
    assert document["fig6"]["setting"]["visits"].startswith("from the file")
    other = kreach(
        *("reproduce", "fig6", "--out", str(tmp_path / "c"), "--json", *options, "--seed", "5")
    )
    assert other.out != first.out


@pytest.mark.parametrize(
    ("further", "said"),
    [
        (("fig3",), "figure must be one of fig1, fig2, fig5, fig6, table1, fig7, got 'fig3'"),
        (("fig5", "--seed", "-1"), "seed must be a whole number from 0 to "),
        (("fig5", "--processes", "0"), "processes must be a whole number from 1 to "),
        (("fig5", "--visits", "no.csv"), "visits must name a file that exists"),
        (("table1", "--quick", "--prices", "no.csv"), "prices must name a file that exists"),
    ],
)
def test_bad_input_is_one_clear_line(further: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in one_line(kreach("reproduce", *further, "--out", str(tmp_path)))


def test_out_that_is_a_file_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    said = one_line(kreach("reproduce", "--out", str(tmp_path / "file")))
    assert said.startswith("out must be a folder")
    assert (tmp_path / "file").read_text() == "here"


@pytest.mark.parametrize("arguments", [(), ("fig5", "--seed", "x", "--out", "o"), ("--nonsense",)])
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = kreach("reproduce", *arguments)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err
    assert "--help`)" in result.err


def test_help_has_an_example_and_loads_nothing_heavy() -> None:
    heavy = "('numpy', 'duckdb', 'matplotlib')"
    check = f"import sys; print('HEAVY', *(m for m in {heavy} if m in sys.modules))"
    result = kreach_process("reproduce", "--help", after=check)
    assert result.code == 0
    assert result.out.strip().endswith("HEAVY")
    assert "--quick" in result.out
    assert "kreach reproduce fig2 fig7 --out" in " ".join(result.out.split())
