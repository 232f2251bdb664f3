"""The laws of sessions against everything that can happen, in exact fractions."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from kreach.numeric.visitor_variance import session_variance
from kreach.numeric.visitors import VisitorKinds, batch_law, compound, visitor_kinds
from tests.golden.sessions import falls

CLOSE = 1e-11
F = Fraction

# Balls of each member, and the share of regulars: one of two, one of three, two of four.
URNS = {
    2: ((F(7, 5), F(3, 5)), F(1, 2)),
    3: ((F(3, 4), F(3, 8), F(3, 8)), F(1, 3)),
    4: ((F(3, 2), F(3, 2), F(1, 2), F(1, 2)), F(1, 2)),
}
BATCH = (F(1, 2), F(1, 3), F(1, 6))


def meeting(alpha: tuple[Fraction, ...]) -> Fraction:
    """The probability that two sessions are one member's."""
    total = sum(alpha)
    return sum((a * (a + 1) for a in alpha), F(0)) / (total * (total + 1))


def lasting(alpha: tuple[Fraction, ...]) -> Fraction:
    """The share of the excess over 1/k that is in the mean shares."""
    total, k = sum(alpha), len(alpha)
    same = sum(((a / total) ** 2 for a in alpha), F(0))
    return (same - F(1, k)) / (meeting(alpha) - F(1, k))


def kinds_of(k: int, rows: int = 1) -> VisitorKinds:
    alpha, h = URNS[k]
    c, theta = float(meeting(alpha)), float(lasting(alpha))
    return visitor_kinds(np.full(rows, c), np.full(rows, float(k)), float(h), theta)


@pytest.mark.parametrize("k", URNS)
def test_the_law_meets_with_the_given_probability(k: int) -> None:
    alpha = URNS[k][0]
    kinds = kinds_of(k)
    total = float(sum(alpha))
    assert kinds.concentration[0] == pytest.approx(total, rel=CLOSE)
    assert kinds.share[0] * total == pytest.approx(float(alpha[0]), rel=CLOSE)
    assert kinds.other_share[0] * total == pytest.approx(float(alpha[-1]), rel=CLOSE)


def batches_of(sessions: int) -> list[tuple[tuple[int, ...], Fraction]]:
    return [
        (sizes, prod((BATCH[b - 1] for b in sizes), start=F(1)))
        for sizes in product((1, 2, 3), repeat=sessions)
    ]


@pytest.mark.parametrize("k", URNS)
@pytest.mark.parametrize("draws", range(5))
def test_sessions_of_a_member_and_of_the_next_visitor(k: int, draws: int) -> None:
    alpha = URNS[k][0]
    anybody = [F(0)] * (draws + 2)
    visitor = [F(0)] * (draws + 2)
    for members, chance in falls(alpha, draws + 1):
        for member in range(k):
            anybody[members[:-1].count(member)] += chance / k
        visitor[members[:-1].count(members[-1])] += chance
    for top in range(3):
        for law, exact in (
            (kinds_of(k).sessions(np.array([float(draws)]), top), anybody),
            (kinds_of(k).sessions_of_next(np.array([float(draws)]), top), visitor),
        ):
            wanted = [float(p) for p in (exact + [F(0)] * 3)[: top + 1]]
            assert law.pmf[0].tolist() == pytest.approx(wanted, rel=CLOSE, abs=1e-14)
            assert law.tail[0] == pytest.approx(float(sum(exact[top + 1 :])), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("k", URNS)
@pytest.mark.parametrize("draws", [1, 2, 3])
def test_impressions_of_a_member(k: int, draws: int) -> None:
    exact = [F(0)] * (3 * draws + 4)
    for members, chance in falls(URNS[k][0], draws):
        for sizes, share in batches_of(draws):
            for member in range(k):
                seen = sum(b for m, b in zip(members, sizes, strict=True) if m == member)
                exact[seen] += chance * share / k
    batch = np.array([float(p) for p in BATCH])
    for top in range(4):
        law = compound(kinds_of(k).sessions(np.array([float(draws)]), top), batch[:top])
        wanted = [float(p) for p in exact[: top + 1]]
        assert law.pmf[0].tolist() == pytest.approx(wanted, rel=CLOSE, abs=1e-14)
        assert law.tail[0] == pytest.approx(float(sum(exact[top + 1 :])), rel=CLOSE, abs=1e-13)


def exact_variance(
    k: int, draws: int, cap: int, targeted: int, *, at_least: bool = False
) -> Fraction:
    """Any `targeted` of the members may be the targeted ones."""
    sets = [s for s in product((0, 1), repeat=k) if sum(s) == targeted]
    first = second = F(0)
    for members, chance in falls(URNS[k][0], draws):
        for sizes, share in batches_of(draws):
            seen = [0] * k
            for member, b in zip(members, sizes, strict=True):
                seen[member] += b
            for chosen in sets:
                own = [x for x, inside in zip(seen, chosen, strict=True) if inside]
                reach = sum((x >= cap) if at_least else min(x, cap) for x in own)
                first += chance * share * reach / len(sets)
                second += chance * share * reach**2 / len(sets)
    return second - first**2


@pytest.mark.parametrize(("k", "targeted"), [(2, 2), (2, 1), (3, 3), (3, 2), (4, 4), (4, 1)])
@pytest.mark.parametrize("draws", [0, 1, 3])
@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("at_least", [False, True])
def test_variance_of_reach(k: int, targeted: int, draws: int, cap: int, at_least: bool) -> None:
    batch = np.array([float(p) for p in BATCH])
    ours = session_variance(
        np.array([float(draws)]),
        np.array([float(targeted)]),
        kinds_of(k),
        batch[:cap],
        cap,
        at_least=at_least,
    )
    wanted = float(exact_variance(k, draws, cap, targeted, at_least=at_least))
    assert ours[0] == pytest.approx(wanted, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("q", [F(1, 10), F(1, 2), F(9, 10)])
def test_batches_of_a_thinned_session(q: Fraction) -> None:
    """Every request of a session is won with probability q, if any is."""
    exact = [F(0)] * 4
    for length, share in enumerate(BATCH, start=1):
        for wins in product((0, 1), repeat=length):
            exact[sum(wins)] += share * q ** sum(wins) * (1 - q) ** (length - sum(wins))
    some = 1 - exact[0]
    mean = sum((b * p for b, p in enumerate(exact)), F(0)) / some
    pmf = np.array([float(p) for p in BATCH])
    for top in range(4):
        ours = batch_law(pmf, float(mean), top)
        assert ours.tolist() == pytest.approx([float(p / some) for p in exact[1:]][:top], rel=1e-8)


def test_batches_at_the_ends() -> None:
    pmf = np.array([float(p) for p in BATCH])
    assert batch_law(pmf, 1.0, 3).tolist() == [1.0, 0.0, 0.0]
    mean = float(pmf @ np.arange(1, len(pmf) + 1))
    assert batch_law(pmf, mean, 4).tolist() == pytest.approx([*pmf.tolist(), 0.0])  # all won
    longer = batch_law(pmf, 9.3, 60)  # sessions that are so many times as long
    assert float(longer.sum()) == pytest.approx(1.0)
    assert float(longer @ np.arange(1, 61)) == pytest.approx(9.3)
    assert batch_law(np.ones(1), 1.0, 2).tolist() == [1.0, 0.0]
