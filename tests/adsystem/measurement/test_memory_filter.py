"""The visitor filter beside a gateway that forgets, against enumeration and simulation."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.measurement.memory_filter import MemoryFilter
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray
from tests.visit_sessions import Visits, fit_plainly, simulate_visits

HOUR, DAY = 3_600.0, 86_400.0
TIMES = (0.0, 4.0, 5.0, 9.0, 12.0, 20.0)


def flat(
    k: int, memory: float | None, cap: int = 1, targeted: int | None = None
) -> kr.VisitorFilter:
    audience = kr.Audience.disjoint([k], targeted_counts=[k if targeted is None else targeted])
    return kr.VisitorFilter(audience, kr.VisitModel.flat(k), caps=[cap], memory_seconds=memory)


def passes(persons: tuple[int, ...], memory: float, cap: int) -> list[bool]:
    """What the gateway lets through, where every bid is above every price."""
    shown: list[tuple[int, float]] = []
    passed = []
    for who, now in zip(persons, TIMES, strict=False):
        recent = sum(1 for other, at in shown if other == who and at > now - memory)
        passed.append(recent < cap)
        if passed[-1]:
            shown.append((who, now))
    return passed


def even(k: int, requests: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    for persons in product(range(k), repeat=requests):
        yield persons, Fraction(1, k**requests)


def urn(k: int, requests: int, a: int = 1) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Symmetric Dirichlet shares of concentration a: who came is likelier to come again."""
    for persons in product(range(k), repeat=requests):
        chance = Fraction(1)
        for at, who in enumerate(persons):
            chance *= Fraction(a + persons[:at].count(who), k * a + at)
        yield persons, chance


def by_pattern(
    worlds: Iterator[tuple[tuple[int, ...], Fraction]], memory: float, cap: int
) -> dict[tuple[bool, ...], tuple[Fraction, Fraction]]:
    """For each pattern of passes and drops: its probability, and expected reach given it."""
    found: dict[tuple[bool, ...], tuple[Fraction, Fraction]] = {}
    for persons, chance in worlds:
        passed = tuple(passes(persons, memory, cap))
        won = [who for who, ok in zip(persons, passed, strict=True) if ok]
        reach = sum(min(won.count(who), cap) for who in set(won))
        before = found.get(passed, (Fraction(0), Fraction(0)))
        found[passed] = before[0] + chance, before[1] + chance * reach
    return {pattern: (p, total / p) for pattern, (p, total) in found.items()}


def filtered(visitors: kr.VisitorFilter, passed: tuple[bool, ...]) -> float:
    for ok, now in zip(passed, TIMES, strict=False):
        value = visitors.request(0, now)
        if ok:
            assert visitors.won(0, now) == value
    return next(iter(visitors.reach.values()))


@pytest.mark.parametrize("memory", [0.5, 4.5, 6.0, 10.0, 15.0, 100.0])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_even_visits_are_exact_whatever_was_dropped(k: int, memory: float) -> None:
    for passed, (_, reach) in by_pattern(even(k, 6), memory, 1).items():
        assert filtered(flat(k, memory), passed) == pytest.approx(float(reach), abs=1e-7)


@pytest.mark.parametrize("memory", [0.5, 4.5, 6.0, 10.0, 15.0, 100.0])
@pytest.mark.parametrize(("k", "cap", "most"), [(2, 2, 0.03), (3, 2, 0.03), (3, 3, 0.03)])
def test_even_visits_above_a_cap_of_1_are_close(
    k: int, cap: int, memory: float, most: float
) -> None:
    found = by_pattern(even(k, 6), memory, cap)
    wanted = sum(float(p * reach) for p, reach in found.values())
    got = sum(float(p) * filtered(flat(k, memory, cap), passed) for passed, (p, _) in found.items())
    assert got == pytest.approx(wanted, rel=most)


@pytest.mark.parametrize("memory", [0.5, 4.5, 6.0, 10.0, 15.0, 100.0])
@pytest.mark.parametrize("k", [3, 4])
def test_uneven_visits_are_close_on_average(k: int, memory: float) -> None:
    """Two requests of an urn are one person's with probability (a + 1)/(ka + 1)."""
    model = kr.VisitModel.flat(k)
    model = replace(model, meetings=np.full(model.meetings.shape, 2.0 / (k + 1.0)), regulars=0.5)
    found = by_pattern(urn(k, 6), memory, 1)
    wanted = sum(float(p * reach) for p, reach in found.values())
    got = 0.0
    for passed, (p, _) in found.items():
        visitors = kr.VisitorFilter(kr.Audience.disjoint([k]), model, memory_seconds=memory)
        got += float(p) * filtered(visitors, passed)
    assert got == pytest.approx(wanted, rel=0.04)


def test_with_an_endless_memory_every_win_counts() -> None:
    visits = simulate_visits(np.random.default_rng(7), groups=12)
    model = fit_plainly(visits)
    audience = kr.Audience.disjoint([20] * 12, targeted_counts=[5] * 12)
    for cap in (1, 2, 3):
        visitors = kr.VisitorFilter(audience, model, caps=[cap], memory_seconds=inf)
        wins = bought(visitors, visits, 0.5, inf, cap)
        assert visitors.reach[cap] == pytest.approx(0.25 * wins.sum(), rel=1e-9)


def test_no_memory_is_the_plain_filter_and_a_short_one_nearly_so() -> None:
    visits = simulate_visits(np.random.default_rng(7), groups=12)
    model, audience = fit_plainly(visits), kr.Audience.disjoint([20] * 12)
    plain = kr.VisitorFilter(audience, model)
    none = kr.VisitorFilter(audience, model, memory_seconds=None)
    short = kr.VisitorFilter(audience, model, memory_seconds=1e-3)
    assert type(none) is kr.VisitorFilter
    for visitors in (plain, none, short):
        bought(visitors, visits, 0.3, 1e-3, 1)
    assert none.reach == plain.reach
    assert short.reach[1] == pytest.approx(plain.reach[1], rel=0.01)


def bought(
    visitors: kr.VisitorFilter, visits: Visits, share: float, memory: float, cap: int
) -> BoolArray:
    """Win requests at random, where the gateway does not drop the bid."""
    generator = np.random.default_rng(5)
    won = np.zeros(len(visits.group), dtype=np.bool_)
    shown: dict[int, list[float]] = {}
    rows = zip(visits.group.tolist(), visits.person.tolist(), visits.seconds.tolist(), strict=True)
    for at, (group, who, now) in enumerate(rows):
        visitors.request(group, now)
        if generator.random() < share:
            shown[who] = [then for then in shown.get(who, []) if then > now - memory]
            if len(shown[who]) < cap:
                visitors.won(group, now)
                shown[who].append(now)
                won[at] = True
    return won


@pytest.fixture(scope="module")
def site() -> tuple[kr.VisitModel, Visits]:
    """A model of one flight, and another flight."""
    history = simulate_visits(np.random.default_rng(3), groups=150)
    return fit_plainly(history), simulate_visits(np.random.default_rng(4), groups=150)


@pytest.mark.parametrize("memory", [0.5 * HOUR, 4 * HOUR, DAY, 3 * DAY])
@pytest.mark.parametrize(("share", "cap"), [(0.05, 1), (0.3, 1), (1.0, 1), (0.3, 2), (0.3, 3)])
def test_reach_is_right_where_people_come_in_sessions(
    site: tuple[kr.VisitModel, Visits], memory: float, share: float, cap: int
) -> None:
    """As close as the plain filter, which is +1, +3, +4, +4 and +3 % off without a gateway."""
    model, flight = site
    audience = kr.Audience.disjoint([20] * 150)
    visitors = kr.VisitorFilter(audience, model, caps=[cap], memory_seconds=memory)
    won = bought(visitors, flight, share, memory, cap)
    most = 0.075 if share == 1.0 else 0.055
    assert visitors.reach[cap] == pytest.approx(flight.reach(won, cap), rel=most)


def test_a_bid_that_follows_a_win_is_worth_as_much_as_one_of_somebody_else() -> None:
    """A minute after a win it is most likely the same person, whose bid is dropped for nothing."""
    model = replace(
        kr.VisitModel.flat(20), gap_edges_seconds=(1_800.0,), continuation_odds=np.array([[9.0]])
    )
    visitors = kr.VisitorFilter(kr.Audience.disjoint([20]), model, memory_seconds=DAY)
    visitors.request(0, 0.0)
    visitors.won(0, 0.0)
    assert visitors.request(0, 60.0) == pytest.approx(1.0)
    assert visitors.passing(0) == pytest.approx(0.1 * 0.95)
    assert visitors.request(0, 2 * DAY) == pytest.approx(0.95)  # the gateway has forgotten
    assert visitors.passing(0) == pytest.approx(1.0)


def test_reverting_a_win_takes_it_back() -> None:
    visits = simulate_visits(np.random.default_rng(8), groups=6)
    model, audience = fit_plainly(visits), kr.Audience.disjoint([20] * 6)
    for memory in (0.5 * HOUR, DAY):
        plain = kr.VisitorFilter(audience, model, memory_seconds=memory)
        other = kr.VisitorFilter(audience, model, memory_seconds=memory)
        generator = np.random.default_rng(1)
        for group, now in zip(visits.group.tolist(), visits.seconds.tolist(), strict=True):
            plain.request(group, now)
            other.request(group, now)
            if generator.random() < 0.05:
                plain.won(group, now)
                other.won(group, now)
            elif generator.random() < 0.2:
                other.won(group, now)
                other.revert(group, now)
        assert other.reach[1] == pytest.approx(plain.reach[1], rel=1e-9)
        assert other.draws_by_group == pytest.approx(plain.draws_by_group, rel=1e-9)


def test_a_late_notice_is_put_in_its_place() -> None:
    in_time, late = flat(5, 100.0), flat(5, 100.0)
    steps: list[tuple[str, float]] = [("request", t) for t in (0.0, 20.0, 40.0, 130.0)]
    for act, now in [steps[0], ("won", 0.0), steps[1], ("won", 20.0), *steps[2:], ("won", 130.0)]:
        getattr(in_time, act)(0, now)
    for act, now in [steps[0], ("won", 0.0), *steps[1:], ("won", 130.0), ("won", 20.0)]:
        getattr(late, act)(0, now)
    assert late.reach == pytest.approx(in_time.reach)
    assert late.draws(0) == pytest.approx(in_time.draws(0))


def test_what_is_held_does_not_grow_with_time() -> None:
    visitors = flat(20, 100.0)
    for now in range(0, 2_000_000, 400):
        visitors.request(0, float(now))
        if now % 4_000 == 0:
            visitors.won(0, float(now))
    assert isinstance(visitors, MemoryFilter)
    assert sum(len(shown.wins) for shown in visitors._shown.values()) <= 64
    assert visitors.requests_held <= 64


def test_groups_of_one_and_people_who_are_not_targeted() -> None:
    one = flat(1, 50.0, cap=2)
    values = []
    for now in (0.0, 10.0, 100.0):
        values.append(one.request(0, now))
        one.won(0, now)
    assert values == [1.0, 1.0, 0.0]
    nobody = flat(4, 50.0, targeted=0)
    assert [nobody.request(0, now) or nobody.won(0, now) for now in (0.0, 10.0, 100.0)] == [0.0] * 3


def test_what_is_wrong_is_refused() -> None:
    audience, model = kr.Audience.disjoint([4]), kr.VisitModel.flat(4)
    for memory in (0.0, -1.0, float("nan"), True):
        with pytest.raises(KreachError, match="memory_seconds must be a number > 0, or None"):
            kr.VisitorFilter(audience, model, memory_seconds=memory)
    with pytest.raises(KreachError, match="caps must name the gateway's cap alone"):
        kr.VisitorFilter(audience, model, caps=[1, 2], memory_seconds=1.0)
    with pytest.raises(KreachError, match="to be reverted"):
        flat(4, 1.0).revert(0, 0.0)


def test_a_longer_memory_is_worth_more() -> None:
    values = []
    for memory in (1.0, 15.0, 25.0, 35.0):
        visitors = flat(20, memory)
        for now in (0.0, 10.0, 20.0):
            visitors.request(0, now)
            visitors.won(0, now)
        value = visitors.request(0, 30.0)
        assert isinstance(value, float)
        values.append(value)
    assert all(low < high for low, high in pairwise(values))
    assert values[-1] == pytest.approx(1.0)
