"""Monte Carlo against closed forms. Every comparison is seeded and allows 4.5 standard errors."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp

import kreach as kr
from kreach.adsystem.measurement import sampling
from tests.adsystem.measurement.sample_campaigns import SAMPLE_CAMPAIGNS
from tests.golden.test_golden import audience_of
from tests.reference import simulate

TRIALS = 20_000
SIGMAS = 4.5
SMALLEST_P = 1e-5
"""A correct sampler fails a test of its distribution once in a hundred thousand seeds."""

every_world = pytest.mark.parametrize("world", SAMPLE_CAMPAIGNS)
GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "golden" / "values.json").read_text(encoding="utf-8")
)["cases"]
SPREAD = [case for case in GOLDEN if len(case["distribution"]) >= 3 and case["cap"] <= 3]


@every_world
@pytest.mark.parametrize("cap", [1, 3])
def test_mean_and_variance(world: str, cap: int) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    reaches = kr.sample_reach(campaign.audience, campaign.impressions, cap, TRIALS, seed=1)
    assert reaches.shape == (TRIALS,)
    error = report.std / np.sqrt(TRIALS)
    assert reaches.mean() == pytest.approx(report.reach, abs=SIGMAS * error)
    centred = (reaches - reaches.mean()) ** 2
    assert centred.mean() == pytest.approx(
        report.variance, abs=SIGMAS * centred.std() / np.sqrt(TRIALS)
    )


@every_world
def test_law_is_that_of_simulated_people(world: str) -> None:
    """Two samples, one by kreach and one from explicit people: the same distribution."""
    campaign = SAMPLE_CAMPAIGNS[world]
    ours = kr.sample_reach(campaign.audience, campaign.impressions, 2, 10_000, seed=3)
    generator = np.random.default_rng(4)
    trials = 1_000 if world.startswith("large") else 10_000
    theirs = simulate(campaign.audience, campaign.impressions, 2, trials, generator)
    assert ks_2samp(ours, theirs).pvalue > SMALLEST_P


@pytest.mark.parametrize("case", SPREAD, ids=[case["name"] for case in SPREAD])
def test_law_is_the_exact_one(case: dict[str, Any]) -> None:
    """Pearson's chi-square against exact probabilities, for every kind of audience."""
    trials = 4_000
    reaches = kr.sample_reach(audience_of(case), case["impressions"], case["cap"], trials, seed=2)
    expected = {int(v): trials * float(Fraction(p)) for v, p in case["distribution"].items()}
    assert set(np.unique(reaches).tolist()) <= expected.keys()
    cells: list[tuple[float, float]] = [(0.0, 0.0)]
    for value, wanted in expected.items():  # neighbours join until each cell expects five
        if cells[-1][1] >= 5.0:
            cells.append((0.0, 0.0))
        cells[-1] = (cells[-1][0] + float((reaches == value).sum()), cells[-1][1] + wanted)
    if cells[-1][1] < 5.0 and len(cells) > 1:
        seen, wanted = cells.pop()
        cells[-1] = (cells[-1][0] + seen, cells[-1][1] + wanted)
    distance = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    assert chi2.sf(distance, max(len(cells) - 1, 1)) > SMALLEST_P


@every_world
def test_a_seed_is_a_result(world: str) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]

    def draw(seed: int | np.random.Generator) -> list[int]:
        values = kr.sample_reach(campaign.audience, campaign.impressions, 2, 50, seed)
        return [int(value) for value in values]

    assert draw(5) == draw(5)
    assert draw(5) == draw(np.random.default_rng(5))
    assert draw(5) != draw(6)
    generator = np.random.default_rng(5)
    assert draw(generator) != draw(generator)  # a generator moves on


@every_world
def test_blocks_of_trials_follow_the_same_law(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]
    report = kr.measure(campaign.audience, campaign.impressions, 2)
    monkeypatch.setattr(sampling, "_DRAWS_AT_ONCE", 7 * sum(campaign.impressions))
    reaches = kr.sample_reach(campaign.audience, campaign.impressions, 2, 3_001, seed=8)
    assert reaches.shape == (3_001,)
    assert (reaches > 0).all()  # every block was filled
    error = report.std / np.sqrt(3_001)
    assert reaches.mean() == pytest.approx(report.reach, abs=SIGMAS * error)


@pytest.mark.parametrize("cap", [1, 2, 5])
def test_both_ways_to_count_agree(cap: int) -> None:
    """A table of everybody for small audiences, a sort of the draws for large ones."""
    generator = np.random.default_rng(0)
    person = generator.integers(-1, 6, size=(200, 12))
    wanted = [
        sum(min(int((row == i).sum()), cap) for i in range(6)) for row in person.astype(np.int64)
    ]
    assert sampling._capped_counts(person, 6, cap).tolist() == wanted
    assert sampling._capped_counts(person, 10**9, cap).tolist() == wanted


def test_trivial_samples() -> None:
    audience = kr.Audience.disjoint([3, 4])
    assert kr.sample_reach(audience, [1, 2], 1, 0, seed=0).tolist() == []
    assert kr.sample_reach(audience, [0, 0], 1, 4, seed=0).tolist() == [0] * 4
    assert kr.sample_reach(audience, [1, 0], 1, 4, seed=0).tolist() == [1] * 4
    assert kr.sample_reach(kr.Audience.disjoint([3], [0]), [9], 1, 4, seed=0).tolist() == [0] * 4
    one = kr.Audience.profiled([[0.0, 1.0], [1.0]])
    assert kr.sample_reach(one, [9, 1], 3, 4, seed=0).tolist() == [4] * 4


def test_an_audience_without_targeted_people() -> None:
    """Nobody is in any class: every impression falls on somebody untargeted."""
    audience = kr.Audience.overlapping([3, 2], [])
    assert kr.sample_reach(audience, [4, 4], 2, 3, seed=0).tolist() == [0] * 3


def test_people_with_share_0_are_never_drawn() -> None:
    audience = kr.Audience.profiled([[0.0, 0.5, 0.5], [0.0] * 50 + [1.0]])
    reaches = kr.sample_reach(audience, [40, 40], 1, 2_000, seed=0)
    assert reaches.max() == 3


def test_strong_dispersion_draws_one_person_again_and_again() -> None:
    uneven = kr.Audience.disjoint([50], dispersion=1e-6)
    assert kr.sample_reach(uneven, [200], 1, 500, seed=0).mean() < 1.05


def test_large_groups_cost_no_memory() -> None:
    """A thousand million people, of whom two are drawn."""
    audience = kr.Audience.disjoint([10**9], [10**9])
    assert kr.sample_reach(audience, [2], 1, 100, seed=0).tolist() == [2] * 100
