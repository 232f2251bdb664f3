"""`kreach demo`: measured from groups alone, beside the truth."""

import json
from typing import Any

import pytest

from tests.cli.command import kreach


def document(*arguments: str) -> dict[str, Any]:
    result = kreach("demo", "--json", *arguments)
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    answer: dict[str, Any] = json.loads(result.out)
    return answer


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_demo_measures_close_to_the_truth(seed: str) -> None:
    """Within four of its own standard deviations; the uniform formula is far outside."""
    shown = document("--seed", seed)
    truth, dispersed = shown["truth"], shown["measured"]["dispersed"]
    assert abs(dispersed["reach"] - truth["reach"]) < 4.0 * dispersed["std"]
    assert dispersed["unique_reach"] == pytest.approx(truth["unique_reach"], rel=0.02)
    uniform = shown["measured"]["uniform"]
    assert abs(uniform["reach"] - truth["reach"]) > 10.0 * uniform["std"]


def test_even_visits_make_both_measures_agree() -> None:
    measured = document("--dispersion", "1e9")["measured"]
    assert measured["uniform"]["reach"] == pytest.approx(measured["dispersed"]["reach"], rel=1e-6)


def test_the_document_is_consistent() -> None:
    shown = document("--groups", "50", "--group-size", "10", "--impressions", "700", "--cap", "3")
    setting, truth = shown["setting"], shown["truth"]
    assert setting == {
        "groups": 50,
        "group_size": 10,
        "people": 500,
        "impressions": 700,
        "cap": 3,
        "dispersion": 0.6,
        "seed": 1,
    }
    assert sum(truth["frequency"]) == 500
    assert truth["unique_reach"] == 500 - truth["frequency"][0]
    for measured in shown["measured"].values():
        assert sum(measured["frequency"]) == pytest.approx(500.0)
        low, high = measured["bounds"]
        assert low <= truth["reach"] <= high
        assert (
            low <= measured["interval"][0] <= measured["reach"] <= measured["interval"][1] <= high
        )


def test_the_seed_alone_decides_the_demo() -> None:
    assert document("--seed", "5") == document("--seed", "5")
    assert document("--seed", "5")["truth"] != document("--seed", "6")["truth"]


def test_the_demo_for_people_shows_the_same_numbers() -> None:
    result = kreach("demo")
    assert (result.code, result.err) == (0, "")
    truth = document()["truth"]
    assert f"{truth['reach']:,}" in result.out
    assert "10,000 people nobody can identify" in result.out


def test_no_impressions_reach_nobody() -> None:
    shown = document("--impressions", "0")
    assert shown["truth"]["reach"] == 0
    assert shown["measured"]["dispersed"]["reach"] == 0.0
    assert kreach("demo", "--impressions", "0").code == 0
