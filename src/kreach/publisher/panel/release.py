"""The only exit of a panel: corrections with noise, within floors, each release drawn once.

**What one person can change.** Take the ad system's own log (which impressions each group had, and
when) and the showings of everybody else as given. In a panel group she is one of the people with f
showings or more, or she is not: each column of the sums moves by at most N/n, the weight of her
stratum, and it does so once in the whole flight, at her f-th showing. So the series of all releases
of a campaign is one release of increments: in each of F columns she adds N/n to one of them, to
another one, or to none. With the noise of `numeric/panel.py` all of them together cost ρ·80 %.
Spreads have the other 20 %, in releases 1, 2, 4, 8, …; in between the last ones hold.

**What it says about the panel.** Which groups are in it is a secret too, though nobody's privacy
rests on it. Sums have noise of many people; both sides of the ratio that is a spread have noise.
"""

from dataclasses import dataclass
from math import log2, sqrt

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.correction import Correction, PanelRelease, model_digest
from kreach.boundary.discrete_noise import MILLIS, NANOS, Draw, Part
from kreach.boundary.group_reach import model_name
from kreach.boundary.times import from_micros
from kreach.errors import KreachError
from kreach.numeric.panel import root_coefficients, root_distance, running_root
from kreach.numeric.types import FloatArray
from kreach.publisher.panel.differences import PanelDifferences, PanelShowings
from kreach.publisher.panel.ledger import PanelLedger, StoredRelease, Terms
from kreach.publisher.panel.sample import Panel

__all__ = ["Floors", "PanelPublisher", "TooSmall", "correction_of", "next_release"]

_SUMS_PERCENT = 80  # of ρ; the rest is for spreads


class TooSmall(KreachError):
    """A panel or a reach is below a floor: nothing is released."""


@dataclass(frozen=True)
class Floors:
    """Below these nothing is released: people in the panel's groups, and reached among them.

    Reach is the model's, so that whether something is released says nothing about anybody.
    """

    panel_people: int = 400
    panel_reach: int = 50


@dataclass(frozen=True)
class _Noise:
    """The noise of a campaign's releases, by its terms and the largest weight of a group."""

    terms: Terms
    weight: float

    @property
    def sums(self) -> Part | None:
        """On roots of sums, in thousandths; rounding moves each number by at most one more."""
        terms = self.terms
        if terms.rho is None:
            return None
        rounding = sqrt(terms.max_releases)
        moved = MILLIS * self.weight * root_distance(terms.max_releases) + rounding
        distance = sqrt(terms.max_frequency) * moved
        return Part(distance, int(terms.rho * NANOS) * _SUMS_PERCENT // 100)

    @property
    def spreads(self) -> Part | None:
        """On deviations in units of one person's effect (the cap), in thousandths."""
        terms = self.terms
        if terms.rho is None:
            return None
        times = 1 + int(log2(terms.max_releases))
        rho_nanos = int(terms.rho * NANOS) * (100 - _SUMS_PERCENT) // 100 // times
        return Part(sqrt(terms.max_frequency) * (MILLIS + 1), rho_nanos)

    @property
    def expected(self) -> Part | None:
        """On what the model expects of spreads, which hides no person but which groups they are.

        A buyer could leave all groups but one so quiet that nothing is expected of them.
        """
        if self.spreads is None:
            return None
        return Part(self.spreads.distance / 4.0, self.spreads.rho_nanos)

    def std_of_sum(self, number: int) -> float:
        """Of the number-th sum (from 1), in people."""
        if self.sums is None:
            return 0.0
        coefficients = root_coefficients(number)
        return self.sums.scale / MILLIS * sqrt(float(coefficients @ coefficients))


class PanelPublisher:
    """Makes and repeats the releases of one publisher."""

    def __init__(self, ledger: PanelLedger, draw: Draw | None, floors: Floors | None = None):
        self._ledger, self._draw, self._floors = ledger, draw, floors or Floors()

    def release(
        self,
        campaign: str,
        catalogue: Catalogue,
        panel: Panel,
        showings: PanelShowings,
        terms: Terms,
        ends_us: list[int],
    ) -> Correction:
        """The correction with a release for each of these times, of which old ones are repeated.

        Showings that come to be known after the release of their time count in the next one.
        Raises `TooSmall` where not even the last time is above the floors.
        """
        people = int(catalogue.sizes[panel.groups].sum())
        if people < self._floors.panel_people:
            raise TooSmall(
                f"the panel of {campaign} has {people} people in {len(panel)} groups, below the "
                f"floor of {self._floors.panel_people}: take a larger share",
                field="share",
            )
        known = self._ledger.releases(campaign, catalogue.version)
        if known or ends_us:
            fixed = self._ledger.terms(campaign, catalogue.version)
            if fixed is not None and fixed != terms:
                self._ledger.fix_terms(campaign, catalogue.version, terms)  # says what differs
        small = None
        for end_us in sorted(set(ends_us)):
            if known and end_us <= known[-1].end_us:
                continue
            differences = PanelDifferences.counted(
                catalogue, panel, showings.before(end_us), terms.max_frequency
            )
            if differences.model_reach < self._floors.panel_reach:
                small = TooSmall(
                    f"{campaign} reached too few people in its panel (floor "
                    f"{self._floors.panel_reach}): nothing is released yet",
                    field="campaign",
                )
                continue
            if self._ledger.closed(campaign):
                raise KreachError(
                    f"panel of {campaign} was closed when its ledger was restored from a backup: "
                    "releases since are lost and must not be drawn again",
                    field="campaign",
                )
            self._ledger.fix_terms(campaign, catalogue.version, terms)
            known.append(next_release(known, differences, end_us, terms, panel, self._draw))
            self._ledger.add(campaign, catalogue.version, len(known), known[-1])
        if small is not None and not known:
            raise small
        return correction_of(campaign, catalogue, panel, terms, known)


def next_release(
    known: list[StoredRelease],
    differences: PanelDifferences,
    end_us: int,
    terms: Terms,
    panel: Panel,
    draw: Draw | None,
) -> StoredRelease:
    """The release after those that are known, with its noise."""
    if len(known) >= terms.max_releases:
        rule = f"be enough for all releases ({len(known)} are made)"
        raise KreachError.rule("max_releases", rule, terms.max_releases)
    noise = _Noise(terms, float(panel.weights.max()))
    totals = differences.totals()
    exact = np.array([*(release.totals for release in known), totals])
    increments = np.diff(exact, axis=0, prepend=np.zeros((1, terms.max_frequency)))
    roots = _noisy(draw, noise.sums, running_root(increments))
    number = len(known) + 1
    if panel.whole:
        none = (0.0,) * terms.max_frequency
        return StoredRelease(end_us, totals, roots, none, none)
    if number & (number - 1):  # not 1, 2, 4, 8, ...
        last = known[-1]
        return StoredRelease(end_us, totals, roots, last.spreads, last.spread_std)
    caps = np.arange(1, terms.max_frequency + 1)
    found, expected = differences.deviations()
    units = np.array(_noisy(draw, noise.spreads, found / caps)) / MILLIS
    hidden = np.array(_noisy(draw, noise.expected, expected / caps)) / MILLIS
    moved = 1.0 / np.maximum(hidden, 1.0)  # by one person
    scale = 0.0 if noise.spreads is None else noise.spreads.scale / MILLIS
    return StoredRelease(
        end_us, totals, roots, _two_digits(units * moved), _two_digits(moved * scale)
    )


def _noisy(draw: Draw | None, part: Part | None, values: FloatArray) -> tuple[int, ...]:
    """Thousandths, with the noise of a part."""
    whole = np.floor(values * MILLIS + 0.5).astype(np.int64).tolist()
    if part is None:
        return tuple(whole)
    if draw is None:
        raise KreachError.rule("rho", "be None without a source of noise", part.rho_nanos)
    return tuple(draw(part, whole))


def _two_digits(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(f"{value:.2g}") for value in values)


def correction_of(
    campaign: str,
    catalogue: Catalogue,
    panel: Panel,
    terms: Terms,
    known: list[StoredRelease],
) -> Correction:
    """What crosses: the running sums with noise, and nothing of the exact ones."""
    noise = _Noise(terms, float(panel.weights.max()))
    releases = []
    for number in range(1, len(known) + 1):
        roots = np.array([release.roots for release in known[:number]]) / MILLIS
        last = known[number - 1]
        releases.append(
            PanelRelease(
                from_micros(last.end_us),
                tuple(round(float(total), 3) for total in running_root(roots)),
                float(f"{noise.std_of_sum(number):.6g}"),
                last.spreads,
                last.spread_std,
            )
        )
    return Correction(
        campaign,
        catalogue.version,
        model_name(catalogue),
        model_digest(catalogue.model),
        panel.group_count,
        len(panel),
        terms.rho,
        tuple(releases),
    )
