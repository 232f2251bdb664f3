"""The estimate of a panel is exactly unbiased over all panels, whatever the model says."""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import permutations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.publisher.panel import sample
from kreach.publisher.panel.differences import PanelDifferences, true_at_least
from kreach.publisher.panel.ledger import Terms
from kreach.publisher.panel.release import correction_of, next_release
from kreach.publisher.panel.sample import Panel, choose_panel
from tests.publisher.panel.panel_worlds import FixedReach, catalogue_of, shown_campaign

KEY = b"k" * 32
KEYS = 3_000
MAX_SIGMAS = 4.5


@cache
def all_panels(visits: tuple[int, ...], share: float, reverse: bool = False) -> list[Panel]:
    """The panel of every order that keyed ranks can have; all orders are as likely.

    Groups with as many visits are ordered by their number, or the other way round.
    """
    catalogue = catalogue_of([5] * len(visits))
    ties = np.arange(len(visits))[:: -1 if reverse else 1]
    panels = []
    for order in permutations(range(len(visits))):
        with patch.object(sample, "_ranks", lambda *_, order=order: (ties, np.array(order))):
            panels.append(choose_panel(catalogue, np.array(visits), share, KEY, "c"))
    return panels


def estimate(panel: Panel, values: list[Fraction]) -> Fraction:
    pairs = zip(panel.groups, panel.weights, strict=True)
    return sum((Fraction(weight) * values[group] for group, weight in pairs), Fraction(0))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("visits", "share", "different"),
    [
        ((1, 2, 3, 4, 5, 6), 0.34, 15),  # one stratum of six
        ((1, 2, 3, 4, 5, 6), 0.67, 9),  # two of three
        ((1, 2, 3, 4, 5), 0.8, 3),  # of three and of two
        ((7, 7, 7, 7, 7), 0.8, 3),
        ((1, 2, 2, 2, 3, 3), 0.6, 9),  # as many visits on both sides of a cut
    ],
)
def test_mean_over_all_panels_is_the_sum_over_all_groups(
    visits: tuple[int, ...], share: float, different: int, reverse: bool
) -> None:
    """In exact fractions: each single group is expanded to exactly itself."""
    panels = all_panels(visits, share, reverse)
    chosen = Counter(frozenset(panel.groups.tolist()) for panel in panels)
    assert len(chosen) == different
    assert len(set(chosen.values())) == 1  # all as likely
    for group in range(len(visits)):
        only = [Fraction(int(at == group)) for at in range(len(visits))]
        mean = sum((estimate(panel, only) for panel in panels), Fraction(0)) / len(panels)
        assert mean == 1


@given(st.lists(st.fractions(-50, 50), min_size=6, max_size=6))
@settings(max_examples=10, deadline=None)
def test_any_differences_add_up(values: list[Fraction]) -> None:
    panels = all_panels((1, 2, 2, 2, 3, 3), 0.6)
    assert sum((estimate(panel, values) for panel in panels), Fraction(0)) == sum(values) * len(
        panels
    )


@given(
    st.lists(st.integers(0, 5), min_size=6, max_size=6),
    st.lists(st.integers(-400, 400), min_size=12, max_size=12),
)
@settings(max_examples=10, deadline=None)
def test_mean_of_what_is_computed_is_truth_less_model(truth: list[int], eighths: list[int]) -> None:
    """The product's own sums, with numbers that floats hold exactly."""
    model = np.array(eighths).reshape(6, 2) / 8.0
    true = np.stack([truth, np.array(truth) // 2], axis=1).astype(np.float64)
    totals = [
        PanelDifferences(panel, true[panel.groups], FixedReach(model[panel.groups])).totals()
        for panel in all_panels((1, 2, 3, 4, 5, 6), 0.67)
    ]
    mean = [sum(Fraction(t[f]) for t in totals) / len(totals) for f in range(2)]
    assert mean == [Fraction(x) for x in (true - model).sum(axis=0)]


def test_variance_over_all_panels_is_the_formula() -> None:
    """Σ N(N − n)/n · s² over strata, with s² of the whole stratum: in exact fractions."""
    values = [Fraction(at * at, 7) for at in (3, 1, 4, 1, 5, 9)]
    panels = all_panels((1, 2, 3, 4, 5, 6), 0.67)
    squares = [(estimate(panel, values) - sum(values)) ** 2 for panel in panels]
    expected = Fraction(0)
    for stratum in (values[:3], values[3:]):
        mean = sum(stratum) / Fraction(3)
        expected += Fraction(3, 2) * sum((v - mean) ** 2 for v in stratum) / 2
    assert sum(squares, Fraction(0)) / len(panels) == expected


def test_keys_choose_all_panels_alike() -> None:
    """Nine panels of two strata of three: none is rarer than another (χ² of 8 degrees)."""
    catalogue, visits = catalogue_of([5] * 6), np.arange(6)
    generator = np.random.default_rng(1)
    counts = Counter(
        frozenset(choose_panel(catalogue, visits, 0.67, generator.bytes(32), "c").groups.tolist())
        for _ in range(KEYS)
    )
    assert len(counts) == 9
    expected = KEYS / 9
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < 8 + MAX_SIGMAS * 4


def test_whole_panel_without_noise_is_the_truth() -> None:
    shown = shown_campaign(31, 10)
    catalogue = shown.catalogue
    panel = choose_panel(catalogue, shown.past_visits, 1.0, KEY, "c")
    assert panel.whole
    truth = true_at_least(shown.won.group, shown.won.person, len(catalogue), 3)
    model = np.random.default_rng(1).integers(0, 80, truth.shape) / 8.0
    terms = Terms(1.0, 3, 1, None)
    differences = PanelDifferences(panel, truth[panel.groups], FixedReach(model[panel.groups]))
    stored = next_release([], differences, 0, terms, panel, None)
    release = correction_of("c", catalogue, panel, terms, [stored]).releases[0]
    assert np.array(release.differences) + model.sum(axis=0) == pytest.approx(
        truth.sum(axis=0), abs=1e-9
    )
    assert release.noise_std == 0.0
    assert release.spreads == release.spread_std == (0.0, 0.0, 0.0)


def test_order_of_ties_says_nothing_about_choice() -> None:
    ties, ranks = sample._ranks(catalogue_of([5] * 2_000), KEY, "c")
    assert abs(np.corrcoef(ties, ranks)[0, 1]) < MAX_SIGMAS / np.sqrt(2_000)
