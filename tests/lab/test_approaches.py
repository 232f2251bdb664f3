"""What each approach measures on a made site, and on which side it errs."""

from dataclasses import replace

import numpy as np
import pytest

from kreach.boundary.audience import DisjointAudience, ProfiledAudience
from kreach.boundary.visit_model import VisitModel
from kreach.lab.approaches import APPROACHES, GroupedCampaign
from kreach.lab.evaluate import fitted_model
from kreach.lab.site import Site, draw_campaigns, open_site, read_markets
from kreach.numeric.types import IntArray
from kreach.publisher.grouping import AtRandom, ByRates, Strategy
from tests.lab.logs_made import write_prices, write_visits

SHARES = (0.02, 0.1, 0.4, 1.0)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("approaches")
    return open_site(write_visits(folder / "visits.csv", 2_000, sessions=6.0))


def grouped_of(
    site: Site, folder: pytest.TempPathFactory, strategy: Strategy, size: int, seed: int = 3
) -> GroupedCampaign:
    prices = write_prices(folder.mktemp("prices") / "prices.csv")
    campaign = draw_campaigns(site, read_markets(prices), 1, 1_200, seed)[0]
    model = fitted_model(site, np.arange(site.people.count), strategy, size, seed, replays=False)
    return GroupedCampaign(campaign, strategy, size, seed, model)


@pytest.fixture(scope="module")
def grouped(site: Site, tmp_path_factory: pytest.TempPathFactory) -> GroupedCampaign:
    return grouped_of(site, tmp_path_factory, AtRandom(), 20)


def wins(grouped: GroupedCampaign, share: float, seed: int = 0) -> tuple[IntArray, int]:
    generator = np.random.default_rng([seed, round(share * 100)])
    won = np.flatnonzero(generator.random(len(grouped.campaign.person)) < share)
    return won, len(np.unique(grouped.campaign.person[won]))


def test_groups_requests_and_sizes_belong_together(grouped: GroupedCampaign) -> None:
    assert grouped.sizes.sum() == grouped.campaign.people.count
    assert grouped.sizes.min() >= 20
    by_person = np.zeros(len(grouped.sizes))
    np.add.at(by_person, grouped.group_of, grouped.campaign.flight_visits)
    np.testing.assert_array_equal(np.bincount(grouped.groups), by_person)
    assert isinstance(grouped.model, VisitModel)
    assert grouped.applicable_approaches() == list(APPROACHES)


@pytest.mark.parametrize("share", SHARES)
def test_the_side_on_which_each_errs(grouped: GroupedCampaign, share: float) -> None:
    """A counts impressions and B groups: never too low, never too high. Unequal people make C too
    high; the visit model knows sessions and is near."""
    won, reached = wins(grouped, share)
    found = {name: grouped.measure_reach(name, won) for name in grouped.applicable_approaches()}
    by_group = np.bincount(grouped.groups[won], minlength=len(grouped.sizes))
    assert found["impressions"] == pytest.approx(len(won))
    assert found["impressions"] >= reached
    assert found["groups"] == pytest.approx(np.count_nonzero(by_group))
    assert found["groups"] <= reached
    assert found["uniform"] > reached
    assert all(0.0 < value <= len(won) * (1.0 + 1e-6) for value in found.values())
    std = grouped.reports("model", won, (1,))[1].std
    assert abs(found["model"] - reached) < 4.0 * std + 0.03 * reached


def test_the_uniform_formula_is_the_worst_of_those_that_know_sizes(
    grouped: GroupedCampaign,
) -> None:
    won, reached = wins(grouped, 0.4)
    errors = {
        name: abs(grouped.measure_reach(name, won) / reached - 1.0)
        for name in ("uniform", "profiled", "dispersed", "model")
    }
    assert errors["uniform"] == max(errors.values())
    assert errors["uniform"] > 0.1


def test_few_wins_under_true_shares(grouped: GroupedCampaign) -> None:
    """With few of the requests won, a draw with the flight's own shares is what happened."""
    for seed in range(3):
        won, reached = wins(grouped, 0.1, seed)
        assert grouped.measure_reach("profiled", won) == pytest.approx(reached, rel=0.06)


def test_counted_requests_are_those_of_the_window(grouped: GroupedCampaign) -> None:
    """With every request of the flight twice, people are further apart; in an hour it says little.

    What was won stays: only the count of requests differs.
    """
    won, _ = wins(grouped, 0.4)
    busy = replace(
        grouped,
        campaign=replace(
            grouped.campaign,
            at=np.tile(grouped.campaign.at, 2),
            person=np.tile(grouped.campaign.person, 2),
        ),
    )
    once, twice = (one.measure_reach("model_counted", won) for one in (grouped, busy))
    assert twice > 1.005 * once
    inside = won[grouped.campaign.at[won] < 3_600.0]
    hour, hour_twice = (
        one.reports("model_counted", inside, (1,), 1.0)[1].reach for one in (grouped, busy)
    )
    assert hour_twice == pytest.approx(hour, rel=0.003)


def test_what_each_approach_is_told(grouped: GroupedCampaign) -> None:
    count = len(grouped.sizes)
    for name in APPROACHES:
        assert grouped.audience(name).group_count == count
    for name in ("profiled", "profiled_history"):
        assert isinstance(grouped.audience(name), ProfiledAudience)
    dispersed = grouped.audience("dispersed")
    assert isinstance(dispersed, DisjointAudience)
    assert dispersed.dispersion is not None
    assert dispersed.dispersion.tolist() == pytest.approx([grouped.dispersion] * count)
    assert 0.05 < grouped.dispersion < 3.0  # log-normal rates, σ = 1.2


def test_groups_formed_by_visits(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    """They are more alike than people at random, on visits that did not form them."""
    grouped = grouped_of(site, tmp_path_factory, ByRates(), 20)
    assert grouped.formed_by_visits
    assert grouped.applicable_approaches() == list(APPROACHES)
    won, reached = wins(grouped, 0.4)
    at_random = grouped_of(site, tmp_path_factory, AtRandom(), 20)
    assert grouped.campaign.person.tolist() == at_random.campaign.person.tolist()
    assert grouped.dispersion > 1.3 * at_random.dispersion  # more alike than people at random
    assert np.isfinite(grouped.dispersion)
    uniform, other = (one.measure_reach("uniform", won) / reached for one in (grouped, at_random))
    assert 1.0 < uniform < other
    dispersed = grouped.measure_reach("dispersed", won) / reached
    assert abs(dispersed - 1.0) < uniform - 1.0


def test_groups_of_one_leave_nothing_to_measure(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    grouped = grouped_of(site, tmp_path_factory, AtRandom(), 1)
    won, reached = wins(grouped, 0.2)
    for name in ("groups", "uniform", "profiled", "dispersed"):
        assert grouped.measure_reach(name, won) == pytest.approx(reached, rel=1e-6), name
