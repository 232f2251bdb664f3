"""The library against exact fractions that brute force found (see generate.py)."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kreach as kr

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = json.loads((HERE / "values.json").read_text(encoding="utf-8"))[
    "cases"
]
CLOSE = 1e-11
"""Relative agreement with the exact value; absolute near 0."""

every_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
independent_case = pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["kind"] != "overlapping"],
    ids=[case["name"] for case in CASES if case["kind"] != "overlapping"],
)
overlapping_case = pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["kind"] == "overlapping"],
    ids=[case["name"] for case in CASES if case["kind"] == "overlapping"],
)


def audience_of(case: dict[str, Any]) -> kr.Audience:
    if case["kind"] == "disjoint":
        return kr.Audience.disjoint(case["group_sizes"], case["targeted_counts"])
    if case["kind"] == "dispersed":
        spread = float(Fraction(case["dispersion"]))
        return kr.Audience.disjoint(case["group_sizes"], case["targeted_counts"], spread)
    if case["kind"] == "overlapping":
        return kr.Audience.overlapping(case["group_sizes"], case["classes"])
    shares = [[float(Fraction(share)) for share in group] for group in case["visit_shares"]]
    return kr.Audience.profiled(shares)


def report_of(case: dict[str, Any]) -> kr.ReachReport:
    return kr.measure(audience_of(case), case["impressions"], case["cap"])


def exactly(value: str | list[str]) -> Any:
    """What the text says, to be compared within CLOSE."""
    if isinstance(value, str):
        return pytest.approx(float(Fraction(value)), rel=CLOSE, abs=CLOSE)
    return pytest.approx([float(Fraction(v)) for v in value], rel=CLOSE, abs=CLOSE)


def test_there_are_cases_of_every_kind() -> None:
    assert {case["kind"] for case in CASES} == {
        "disjoint",
        "dispersed",
        "overlapping",
        "profiled",
    }
    assert len(CASES) > 300


def test_values_are_what_the_generator_generates() -> None:
    command = [sys.executable, str(HERE / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@every_case
def test_reach(case: dict[str, Any]) -> None:
    assert report_of(case).reach == exactly(case["reach"])


@every_case
def test_variance(case: dict[str, Any]) -> None:
    report = report_of(case)
    assert report.variance == exactly(case["variance"])
    assert report.variance >= 0.0


@every_case
def test_over_exposed(case: dict[str, Any]) -> None:
    assert report_of(case).over_exposed == exactly(case["over_exposed"])


@every_case
def test_frequency(case: dict[str, Any]) -> None:
    assert report_of(case).frequency(5).tolist() == exactly(case["frequency"])


@every_case
def test_average_frequency(case: dict[str, Any]) -> None:
    assert report_of(case).average_frequency == exactly(case["average_frequency"])


@every_case
def test_reach_probability(case: dict[str, Any]) -> None:
    actual = kr.reach_probability(audience_of(case), case["impressions"], case["cap"])
    assert actual.tolist() == exactly(case["reach_probability"])


@every_case
def test_bounds(case: dict[str, Any]) -> None:
    report = report_of(case)
    assert report.bounds == tuple(case["bounds"])
    assert report.bounds_attained == (True, True)


@independent_case
def test_distribution_of_independent_groups(case: dict[str, Any]) -> None:
    law = report_of(case).distribution()
    actual = dict(zip(law.support.tolist(), law.pmf.tolist(), strict=True))
    expected = {int(value): float(Fraction(p)) for value, p in case["distribution"].items()}
    assert law.exact
    assert expected.keys() <= actual.keys()
    for value, probability in actual.items():
        assert probability == pytest.approx(expected.get(value, 0.0), rel=CLOSE, abs=1e-13)


@overlapping_case
def test_distribution_of_overlapping_groups(case: dict[str, Any]) -> None:
    law = report_of(case).distribution()
    assert not law.exact
    assert law.method == "sampled"
    possible = {int(value) for value in case["distribution"]}
    assert set(law.support.tolist()) <= possible
    # 20,000 trials, seeded; the mean may stray 4.5 standard errors
    error = float(np.sqrt(float(Fraction(case["variance"])) / 20_000))
    assert law.mean == pytest.approx(float(Fraction(case["reach"])), abs=4.5 * error + 1e-12)


@every_case
def test_streaming_agrees_at_every_step(case: dict[str, Any]) -> None:
    audience, cap = audience_of(case), case["cap"]
    groups = [j for j, n in enumerate(case["impressions"]) for _ in range(n)]
    np.random.default_rng(0).shuffle(groups)
    meter = kr.ReachMeter(audience, [cap])
    so_far = [0] * audience.group_count
    for group in groups:
        assert meter.reach_probability(group, cap) == pytest.approx(
            kr.reach_probability(audience, so_far, cap)[group], rel=CLOSE, abs=CLOSE
        )
        meter.record(group)
        so_far[group] += 1
        expected = kr.measure(audience, so_far, cap).reach
        assert meter.reach[cap] == pytest.approx(expected, rel=CLOSE, abs=CLOSE)
    assert meter.reach[cap] == exactly(case["reach"])
    after = [meter.reach_probability(j, cap) for j in range(audience.group_count)]
    assert after == exactly(case["reach_probability"])
