"""Locations from censored normal samples: against a general optimiser and against the truth."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import optimize, stats

from kreach.numeric.censored import CensoredSamples, fit_locations

FloatArray = npt.NDArray[np.float64]


def samples_of(
    values: list[list[float]], above: list[list[float]], below: list[list[float]]
) -> CensoredSamples:
    """Lists by sample: values seen, and bounds with the value above them or at most them."""
    sums = np.array([[len(v), sum(v), sum(x * x for x in v)] for v in values], dtype=float).T
    rows = [(at, y, 1.0, 0.0) for at, own in enumerate(above) for y in own]
    rows += [(at, y, 0.0, 1.0) for at, own in enumerate(below) for y in own]
    table = np.array(rows).reshape(-1, 4)
    return CensoredSamples(*sums, table[:, 0].astype(np.int64), *table[:, 1:].T)  # type: ignore[call-arg]


def test_values_that_were_all_seen_have_their_means() -> None:
    values = [[1.0, 2.0, 3.0], [5.0, 5.5]]
    found = fit_locations(samples_of(values, [[], []], [[], []]), 2.0, 1.0, centre_weight=1e-9)
    assert found.location == pytest.approx([2.0, 5.25], abs=1e-6)
    squares = 2.0 + 2 * 0.25**2
    assert found.sigma == pytest.approx(np.sqrt((squares + 10.0) / 15.0), rel=1e-5)
    assert found.information == pytest.approx(np.array([3.0, 2.0]) / found.sigma**2)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_maximum_that_an_optimiser_finds(seed: int) -> None:
    """Three samples of few outcomes, one of them of bounds on one side only."""
    generator = np.random.default_rng(seed)
    seen = [generator.normal(0.5 * at, 0.8, 4).tolist() for at in range(2)] + [[]]
    above = [generator.normal(0.0, 0.5, 5).tolist() for _ in range(3)]
    below = [generator.normal(0.0, 0.5, 3).tolist() for _ in range(2)] + [[]]

    def loss(parameters: FloatArray) -> float:
        *means, log_sigma = parameters.tolist()
        sigma, total = float(np.exp(log_sigma)), 0.0
        for at, mean in enumerate(means):
            total += float(stats.norm.logpdf(seen[at], mean, sigma).sum())
            total += float(stats.norm.logsf(above[at], mean, sigma).sum())
            total += float(stats.norm.logcdf(below[at], mean, sigma).sum())
            total -= 0.5 * 0.1 * ((mean - 0.2) / sigma) ** 2
        return float(-(total - 10.0 * log_sigma - 0.5 * 10.0 * (0.6 / sigma) ** 2))

    best = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    found = fit_locations(samples_of(seen, above, below), 0.2, 0.6)
    assert found.location == pytest.approx(best.x[:3], abs=2e-3)
    assert found.sigma == pytest.approx(float(np.exp(best.x[3])), rel=2e-3)


@pytest.mark.parametrize("seen", [True, False])
def test_it_converges_to_the_truth(seen: bool) -> None:
    """20,000 outcomes in two samples, z-tolerance 4.5 on its own information. Without `seen` only
    whether the value was above a bound is known."""
    generator = np.random.default_rng(5)
    truth, sigma, n = np.array([-0.4, 0.6]), 0.7, 10_000
    values, above, below = [], [], []
    for mean in truth.tolist():
        x, y = generator.normal(mean, sigma, n), generator.uniform(-1.2, 0.8, n)
        values.append(x[x <= y].tolist() if seen else [])
        above.append(y[x > y].tolist())
        below.append([] if seen else y[x <= y].tolist())
    found = fit_locations(samples_of(values, above, below), 0.0, 1.0)
    error = 1.0 / np.sqrt(found.information)
    assert error.max() < 0.03
    assert found.sigma == pytest.approx(sigma, rel=0.05)
    # the spread is estimated, too: that adds to the error of a sample whose middle was not seen
    assert (np.abs(found.location - truth) < 4.5 * error + 0.02).all()


def test_who_counts_only_what_was_seen_is_far_off() -> None:
    generator = np.random.default_rng(6)
    x, y = generator.normal(0.0, 1.0, 5_000), np.full(5_000, -0.5)
    samples = samples_of([x[x <= y].tolist()], [y[x > y].tolist()], [[]])
    assert float(x[x <= y].mean()) < -1.0
    assert float(fit_locations(samples, 1.0, 1.0).location[0]) == pytest.approx(0.0, abs=0.1)


def test_without_outcomes_it_stays_where_it_began() -> None:
    found = fit_locations(samples_of([[]], [[]], [[]]), 1.5, 0.4)
    assert found.location.tolist() == [1.5]
    assert found.information.tolist() == [0.0]
    assert found.sigma == pytest.approx(0.4)


def test_bounds_on_one_side_do_not_run_away() -> None:
    for above, below in (([0.0] * 50, []), ([], [0.0] * 50)):
        found = fit_locations(samples_of([[]], [above], [below]), 0.0, 1.0)
        assert 1.0 < abs(float(found.location[0])) < 6.0
