"""How right reach is that a panel corrects, on flights that nothing was fitted to.

    python -m benchmarks.study_panel --visits F --split T [--end T] [--group-size K]
        [--groups 1500 8000] [--shares 0.02 0.05 0.1 0.2] [--panels 300]
        [--model released|uniform] [--rho 0.05|none]

Groups and visit model are built on history, and campaigns win requests of the flight after it by
the patterns of `study_visit_model`. For each campaign and panel share many panels are drawn, each
with a key of its own; publisher and ad system do what they do in the product. Of each cell:

    model       how far off the model is, before any panel, in percent
    bias        mean error of the number that the panel alone gives, in percent, and in standard
                errors of that mean
    rms         root mean square error of it; behind the slash that of the number a report shows
    held        of 100 intervals at 50, 80, 95 and 99 % those that held the truth: of the panel
                alone, and as a report shows them
    width       half-width of the 95 % interval that a report shows, in percent

`--model uniform` measures with the formulas of the paper, which are far off on real traffic: the
panel has to repair that. For speed the calendar and the impressions per session that the visit
model needs are estimated once from all groups; `--own` estimates them from each panel, as the
product does. Cells in which a panel reaches fewer people than the floor are left out. Two runs
differ: ids of groups are random.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

import kreach as kr
from benchmarks.study_visit_model import PATTERNS, Flight, read_flight, won_requests
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.corrected import corrected
from kreach.adsystem.reports.measure import cap_reports
from kreach.adsystem.reports.panel_error import ModelFigures, PanelError, priors_of
from kreach.adsystem.reports.report import CapReport
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.discrete_noise import Draw
from kreach.boundary.group_reach import GroupReach, group_reach
from kreach.boundary.times import as_instant
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.panel.differences import PanelDifferences, PanelShowings, true_at_least
from kreach.publisher.panel.ledger import Terms
from kreach.publisher.panel.release import Floors, correction_of, next_release
from kreach.publisher.panel.sample import Panel, choose_panel
from kreach.publisher.visit_history import VisitHistory

__all__ = ["Campaign", "Cell", "fast_draw", "main", "panel_cells"]

LEVELS = (0.5, 0.8, 0.95, 0.99)
CAPS = (1, 3)
WON = (0.02, 0.1, 0.3)
_TOP = max(CAPS) + 1  # the release of `kreach panel`


def fast_draw(generator: np.random.Generator) -> Draw:
    """Rounded normal noise of the scale of the discrete Gaussian: the same to many digits."""
    return lambda part, values: [
        int(value) for value in np.rint(np.array(values) + part.scale * _normal(generator, values))
    ]


def _normal(generator: np.random.Generator, like: object) -> FloatArray:
    return generator.standard_normal(len(like))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of what a model says of all groups."""

    people: FloatArray
    variance: FloatArray  # by cap

    def at_least(self, top: int) -> FloatArray:
        return self.people[:, :top]

    def variances(self, cap: int) -> FloatArray:
        return self.variance[:, cap - 1]


@dataclass(frozen=True, eq=False)
class Campaign:
    """What a campaign won, in a catalogue; groups of `won` are those of the catalogue."""

    catalogue: Catalogue
    past_visits: IntArray
    won: VisitHistory

    @cached_property
    def truth(self) -> FloatArray:
        """A row per group."""
        return true_at_least(self.won.group, self.won.person, len(self.catalogue), _TOP)

    @cached_property
    def model(self) -> _Rows:
        """A row per group, with parameters from all of them."""
        every = np.arange(len(self.catalogue))
        found: GroupReach = group_reach(self.catalogue, every, self.won.group, self.won.at_us)
        variances = [found.variances(cap) for cap in range(1, _TOP + 1)]
        return _Rows(found.at_least(_TOP), np.stack(variances, axis=1))

    @cached_property
    def reports(self) -> tuple[ReachReport, ...]:
        """The ad system's."""
        audience, won = self.catalogue.audience(), self.won
        if self.catalogue.model is not None:
            sizes = kr.Audience.disjoint(self.catalogue.sizes)
            times = won.at_us / 1e6
            found = kr.measure_times(sizes, won.group, times, CAPS, model=self.catalogue.model)
            return tuple(found.values())
        counts = np.bincount(won.group, minlength=len(self.catalogue))
        return tuple(kr.measure(audience, counts, cap) for cap in CAPS)

    @cached_property
    def figures(self) -> ModelFigures:
        """The ad system's, as far as the panel goes."""
        first = self.reports[0]
        return ModelFigures.of(first.exposure, first.impressions, first.targeted_user_count, _TOP)

    @cached_property
    def shown(self) -> list[tuple[CapReport, ...]]:
        """The ad system's reports before they are corrected, by level."""
        return [cap_reports(self.reports, level) for level in LEVELS]

    def differences(self, panel: Panel, *, own: bool) -> PanelDifferences:
        """What the publisher finds in a panel."""
        if own:
            place = panel.positions()[self.won.group]
            inside = place >= 0
            showings = PanelShowings(self.won.person[inside], place[inside], self.won.at_us[inside])
            return PanelDifferences.counted(self.catalogue, panel, showings, _TOP)
        rows = _Rows(self.model.people[panel.groups], self.model.variance[panel.groups])
        return PanelDifferences(panel, self.truth[panel.groups], rows)


@dataclass(frozen=True)
class Cell:
    """Many panels of one campaign at one cap; errors are relative to the truth."""

    pattern: str
    won: float
    groups: int
    panel: float
    cap: int
    truth: float
    model: float  # error of the model alone
    errors: FloatArray  # of the panel alone
    shown: FloatArray  # of the number in the report
    held: FloatArray  # panels, levels
    shown_held: FloatArray
    width: float

    @property
    def bias(self) -> float:
        return float(self.errors.mean())

    @property
    def bias_sigmas(self) -> float:
        return self.bias / float(self.errors.std(ddof=1)) * float(np.sqrt(len(self.errors)))


def campaigns(
    flight: Flight, groups: int, model: str, generator: np.random.Generator
) -> Iterator[tuple[str, float, Campaign]]:
    """Of every pattern and share won, each in groups of its own."""
    known = len(flight.requests.sizes)
    for pattern in PATTERNS:
        for share in WON:
            chosen = np.zeros(known, dtype=np.bool_)
            chosen[generator.permutation(known)[:groups]] = True
            requests = flight.requests.of_groups(chosen)
            catalogue = Catalogue(
                f"{pattern} {share:g}",
                datetime(2026, 1, 1, tzinfo=UTC),
                int(requests.sizes.min()),
                tuple(f"g{at}" for at in range(len(requests.sizes))),
                requests.sizes,
                model=flight.model if model == "released" else None,
            )
            won = requests.where(won_requests(requests, pattern, share, generator))
            yield pattern, share, Campaign(catalogue, flight.past_visits[chosen], won)


def panel_cells(
    campaign: Campaign, terms: Terms, panels: int, generator: np.random.Generator, *, own: bool
) -> list[tuple[int, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]]:
    """By cap: errors, errors shown, intervals that held, half-widths shown; a row per panel."""
    then, draw = campaign.figures, fast_draw(generator)
    truth = np.cumsum(campaign.truth.sum(axis=0))
    count = len(LEVELS)
    errors = np.zeros((panels, len(CAPS), 3))
    held = np.zeros((panels, len(CAPS), 2, count))
    for at in range(panels):
        key = generator.bytes(32)
        panel = choose_panel(campaign.catalogue, campaign.past_visits, terms.share, key, "campaign")
        differences = campaign.differences(panel, own=own)
        stored = next_release([], differences, 0, terms, panel, draw)
        correction = correction_of("campaign", campaign.catalogue, panel, terms, [stored])
        release = correction.releases[0]
        priors = priors_of(then, (correction, release), [])
        windows = [(reports, then, then, release) for reports in campaign.shown]
        shown = [corrected([each], correction, priors)[0].reports for each in windows]
        for row, cap in enumerate(CAPS):
            mine = PanelError.of(correction, release, then, cap)
            assert mine is not None
            model, true = float(then.reach[cap - 1]), float(truth[cap - 1])
            half = stdtrit(mine.freedom, 0.5 + np.array(LEVELS) / 2.0) * np.sqrt(mine.variance)
            held[at, row, 0] = abs(true - model * (1.0 + mine.error)) <= half * model
            intervals = np.array([reports[row].interval for reports in shown])
            held[at, row, 1] = (intervals[:, 0] <= true) & (true <= intervals[:, 1])
            width = (intervals[2, 1] - intervals[2, 0]) / 2.0
            errors[at, row] = np.array([model * (1.0 + mine.error), shown[0][row].reach, width])
    scale = truth[np.array(CAPS) - 1]
    return [
        (
            cap,
            errors[:, row, 0] / scale[row] - 1.0,
            errors[:, row, 1] / scale[row] - 1.0,
            held[:, row, 0],
            held[:, row, 1],
            errors[:, row, 2] / scale[row],
        )
        for row, cap in enumerate(CAPS)
    ]


def study(given: argparse.Namespace, flight: Flight) -> Iterator[Cell]:
    """Every cell."""
    generator = np.random.default_rng(given.seed)
    rho = None if given.rho == "none" else float(given.rho)
    for groups in given.groups:
        for pattern, won, campaign in campaigns(flight, groups, given.model, generator):
            truth = np.cumsum(campaign.truth.sum(axis=0))
            for share in given.shares:
                terms = Terms(share, _TOP, 1, rho)
                if share * float(campaign.figures.reach[0]) < Floors().panel_reach:
                    continue  # nothing would be released
                found = panel_cells(campaign, terms, given.panels, generator, own=given.own)
                for cap, errors, shown, held, shown_held, widths in found:
                    true = float(truth[cap - 1])
                    model = float(campaign.figures.reach[cap - 1]) / true - 1.0
                    place = (pattern, won, len(campaign.catalogue), share, cap, true, model)
                    yield Cell(*place, errors, shown, held, shown_held, float(widths.mean()))


def _line(name: str, cells: list[Cell]) -> str:
    bias = np.mean([cell.bias for cell in cells])
    sigmas = np.array([cell.bias_sigmas for cell in cells])
    rms = np.sqrt(np.mean([np.mean(cell.errors**2) for cell in cells]))
    shown = np.sqrt(np.mean([np.mean(cell.shown**2) for cell in cells]))
    model = np.sqrt(np.mean([cell.model**2 for cell in cells]))
    if len(cells) == 1:
        model = cells[0].model
    alone = np.mean([cell.held.mean(axis=0) for cell in cells], axis=0)
    report = np.mean([cell.shown_held.mean(axis=0) for cell in cells], axis=0)
    sigma = sigmas[0] if len(cells) == 1 else np.sqrt(np.mean(sigmas**2))
    width = np.mean([cell.width for cell in cells])
    return (
        f"{name:40}{100 * model:+8.1f}{100 * bias:+8.2f}{sigma:+7.1f}"
        f"{100 * rms:8.1f}/{100 * shown:<6.1f}{_percent(alone):>18}{_percent(report):>18}"
        f"{100 * width:8.1f}"
    )


def _percent(shares: FloatArray) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)


_HEAD = (
    f"{'':40}{'model':>8}{'bias':>8}{'sigmas':>7}{'rms/shown':>14} {'held, panel':>18}"
    f"{'held, report':>18}{'width':>8}"
)


def show(cells: list[Cell], every: bool) -> None:
    """Tables: all cells of one size, panel share and cap together, then the worst ones."""
    places = list(dict.fromkeys((c.groups, c.panel, c.cap) for c in cells))
    print("\nover all patterns and shares won (model, bias/sigmas and errors: root mean square)")
    print(_HEAD)
    for groups, panel, cap in places:
        here = [c for c in cells if (c.groups, c.panel, c.cap) == (groups, panel, cap)]
        print(_line(f"{groups:,} groups, panel {panel:.0%}, cap {cap}", here))
    for cap in CAPS:
        print(_line(f"all, cap {cap}", [c for c in cells if c.cap == cap]))
    print("\nby pattern, over all panels and both caps")
    print(_HEAD)
    for pattern, won in dict.fromkeys((c.pattern, c.won) for c in cells):
        here = [c for c in cells if (c.pattern, c.won) == (pattern, won)]
        print(_line(f"{pattern} {won:.0%}", here))
    print("\nworst cells: fewest intervals at 95 % that held, panel alone")
    print(_HEAD)
    ordered = sorted(cells, key=lambda c: float(c.held[:, 2].mean()))
    for cell in cells if every else ordered[:12]:
        name = f"{cell.pattern[:12]} {cell.won:.0%} {cell.groups} {cell.panel:.0%} cap {cell.cap}"
        print(_line(f"{name} ({cell.truth:,.0f})", [cell]))
    worst = max(cells, key=lambda c: abs(c.bias_sigmas))
    print(f"\nlargest bias in sigmas: {worst.bias_sigmas:+.1f} of {len(cells)} cells")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--split", required=True, help="first instant of the flight")
    parser.add_argument("--end", help="end of the flight")
    parser.add_argument("--group-size", type=int, default=20)
    parser.add_argument("--groups", type=int, nargs="+", default=[1_500, 8_000])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.02, 0.05, 0.1, 0.2])
    parser.add_argument("--panels", type=int, default=300)
    parser.add_argument("--model", choices=["released", "uniform"], default="released")
    parser.add_argument("--rho", default="0.05", help="privacy cost, or none")
    parser.add_argument("--own", action="store_true", help="parameters of each panel: slow")
    parser.add_argument("--every", action="store_true", help="print every cell")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    split = as_instant("split", given.split)
    assert split is not None
    end = as_instant("end", given.end)
    flight = read_flight(given.visits, split, end, given.group_size, seed=given.seed)
    print(f"{len(flight.requests):,} requests in {flight.days:.1f} days")
    show(list(study(given, flight)), given.every)


if __name__ == "__main__":
    main()
