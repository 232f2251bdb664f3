"""Scripts in examples/ run, and say what they are there to show."""

import re
import runpy

import pytest

from tests.docs.test_docs import ROOT

EXAMPLES = ROOT / "examples"
NUMBER = r"([\d,]+(?:\.\d+)?)"


def said(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a script prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers of the first match of a pattern, in which N stands for a number."""
    found = re.search(pattern.replace("N", NUMBER), text)
    assert found, text
    return [float(one.replace(",", "")) for one in found.groups()]


def test_measure_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("measure_a_log.py", capsys)
    impressions, people = numbers("spring: N impressions on N people", text)
    reach, low, high, _ = numbers(r"cap 1: reach N \(N to N\), over-exposed N", text)
    assert low < reach < high < min(impressions, people)
    so_far = [float(one.replace(",", "")) for one in re.findall(rf"from .*: .*, {NUMBER}", text)]
    assert so_far == sorted(so_far)
    assert so_far[-1] == reach  # the series ends where the whole window does


def test_choose_k(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in said("choose_k.py", capsys).splitlines()[1:]]
    kept = [float(row[2]) for row in rows]
    assert [int(row[0]) for row in rows] == [1, 2, 6, 20, 60, 120]
    assert float(rows[0][1]) == 0.0  # nothing is uncertain without groups
    assert kept[0] == 1.0
    assert 0.6 < kept[-1] < kept[1] < 0.75  # the paper: 0.62 and 0.67


def test_plan_and_bid(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("plan_and_bid.py", capsys)
    budget, _, low, high = numbers(r"plan: N will reach N \(N to N\)", text)
    spent, reached = numbers("flight: N spent, N reached", text)
    assert 0.9 * budget < spent <= budget
    assert 0.9 * low < reached < 1.1 * high  # it had to learn the market first


def test_live_meter(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said("live_meter.py", capsys).splitlines()
    reached = [numbers("reached N, with cap 3 N", line) for line in lines]
    assert len(lines) == 4
    assert [one for one, _ in reached] == sorted(one for one, _ in reached)
    assert all(one < three for one, three in reached)


def test_walk_through(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("walk_through.py", capsys)
    assert "safe to release: True" in text
    for cap in (1, 3):
        pattern = rf"cap {cap}: truth N; reported N \(N to N\); as if all visited alike N"
        truth, reported, _, _, naive = numbers(pattern, text)
        assert abs(reported - truth) < 0.05 * truth
        assert naive > 1.2 * truth


def test_every_script_is_tested() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    tested = {
        *("measure_a_log.py", "choose_k.py", "plan_and_bid.py"),
        *("live_meter.py", "walk_through.py"),
    }
    assert scripts == tested


def test_the_walk_through_is_made_of_cells() -> None:
    cells = (EXAMPLES / "walk_through.py").read_text(encoding="utf-8").count("\n# %%")
    assert cells >= 8
