"""The locations of several normal samples with one spread, from values and from one-sided bounds.

ln price ~ Normal(m_g, σ²) in sample g. A value may be known, or only that it is above or at most
some y. With θ = 1/σ, γ = m/σ and z = θy − γ the log-likelihood

    Σ known (ln θ − z²/2) + Σ above ln Φ(−z) + Σ at most ln Φ(z)

is concave in (γ, θ) together (Olsen 1978), so Newton's method ends in the one maximum. Its Hessian
is a diagonal with a border: a step costs as much as a look at the data.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from kreach.numeric.types import FloatArray, IntArray

__all__ = ["CensoredSamples", "Locations", "fit_locations"]

_STEPS = 40
_HALVINGS = 30
_CLOSE = 1e-8


@dataclass(frozen=True)
class CensoredSamples:
    """Known values by sample, as count, sum and sum of squares; bounds as rows of sample and y.

    `above` and `below` count, for each row, values above y and values of at most y.
    """

    count: FloatArray
    sum: FloatArray
    squares: FloatArray
    sample: IntArray
    y: FloatArray
    above: FloatArray
    below: FloatArray

    def pooled(self) -> "CensoredSamples":
        """All samples as one."""
        count, total, squares = (
            np.array([column.sum()]) for column in (self.count, self.sum, self.squares)
        )
        one = np.zeros_like(self.sample)
        return CensoredSamples(count, total, squares, one, self.y, self.above, self.below)


@dataclass(frozen=True)
class Locations:
    """m and its information (inverse variance at this σ) by sample, and σ."""

    location: FloatArray
    information: FloatArray
    sigma: float


def fit_locations(
    samples: CensoredSamples,
    centre: float,
    sigma: float,
    *,
    sigma_weight: float = 10.0,
    centre_weight: float = 0.1,
) -> Locations:
    """The locations and the spread of highest likelihood.

    `sigma` counts as `sigma_weight` values seen with that spread. Each location is drawn to
    `centre` by `centre_weight` of a value, so that a sample of bounds on one side has one, too.
    """
    groups = len(samples.count)
    shifted = _Shifted(samples, centre)
    theta, gamma = 1.0 / sigma, np.zeros(groups)
    prior = sigma_weight, sigma, centre_weight
    value = shifted.value(gamma, theta, prior)
    for _ in range(_STEPS):
        step_gamma, step_theta = shifted.step(gamma, theta, prior)
        size = 1.0
        for _ in range(_HALVINGS):
            new_gamma, new_theta = gamma + size * step_gamma, theta + size * step_theta
            if new_theta > 0.0:
                new_value = shifted.value(new_gamma, new_theta, prior)
                if new_value >= value:
                    break
            size /= 2.0
        else:
            break  # no better to be found: rounding
        gain, gamma, theta, value = new_value - value, new_gamma, new_theta, new_value
        if gain <= _CLOSE * (1.0 + abs(value)):
            break
    curvature = shifted.count + shifted.by_sample(shifted.slopes(gamma, theta)[1])
    return Locations(centre + gamma / theta, theta * theta * curvature, 1.0 / theta)


class _Shifted:
    """The samples with y counted from the centre."""

    def __init__(self, samples: CensoredSamples, centre: float) -> None:
        self.count = samples.count
        self.sum: FloatArray = samples.sum - centre * samples.count
        squares = samples.squares - 2.0 * centre * samples.sum + centre**2 * samples.count
        self.squares = float(np.maximum(squares, 0.0).sum())
        self.total = float(samples.count.sum())
        self.sample, self.y = samples.sample, samples.y - centre
        self.above, self.below = samples.above, samples.below

    def by_sample(self, rows: FloatArray) -> FloatArray:
        return np.bincount(self.sample, weights=rows, minlength=len(self.count)).astype(np.float64)

    def value(self, gamma: FloatArray, theta: float, prior: tuple[float, float, float]) -> float:
        weight, sigma, pull = prior
        z = theta * self.y - gamma[self.sample]
        known = self.total * np.log(theta) - 0.5 * theta * theta * self.squares
        known += float((theta * gamma * self.sum - 0.5 * gamma * gamma * self.count).sum())
        bounds = self.above @ special.log_ndtr(-z) + self.below @ special.log_ndtr(z)
        believed = weight * (np.log(theta) - 0.5 * (theta * sigma) ** 2)
        return float(known + bounds + believed - 0.5 * pull * (gamma @ gamma))

    def slopes(self, gamma: FloatArray, theta: float) -> tuple[FloatArray, FloatArray]:
        """First and negative second derivative of the bounds' log-likelihood in z."""
        z = theta * self.y - gamma[self.sample]
        over, under = _mills(-z), _mills(z)
        first = self.below * under - self.above * over
        second = self.below * under * (under + z) + self.above * over * (over - z)
        return first, np.maximum(second, 0.0)

    def step(
        self, gamma: FloatArray, theta: float, prior: tuple[float, float, float]
    ) -> tuple[FloatArray, float]:
        """Newton's step. The Hessian is −(diagonal, border; border, corner)."""
        weight, sigma, pull = prior
        first, second = self.slopes(gamma, theta)
        slope = theta * self.sum - (self.count + pull) * gamma - self.by_sample(first)
        slope_theta = float(first @ self.y) + (self.total + weight) / theta
        slope_theta += float(gamma @ self.sum) - theta * (self.squares + weight * sigma**2)
        diagonal = self.by_sample(second) + self.count + pull
        border = self.by_sample(second * self.y) + self.sum
        corner = float(second @ (self.y * self.y)) + (self.total + weight) / theta**2
        corner += self.squares + weight * sigma**2
        pivot = max(corner - float((border * border / diagonal).sum()), 1e-12 * corner)
        step_theta = (slope_theta + float((border * slope / diagonal).sum())) / pivot
        return (slope + border * step_theta) / diagonal, step_theta


def _mills(z: FloatArray) -> FloatArray:
    """φ(z)/Φ(z), in logs."""
    log_density = -0.5 * z * z - 0.5 * np.log(2.0 * np.pi)
    result: FloatArray = np.exp(log_density - special.log_ndtr(z))
    return result
