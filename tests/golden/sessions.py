"""Everything that can happen when people visit in sessions, in exact fractions.

Requests are assigned to sessions and sessions to people in every possible way; nothing of kreach is
imported and there is no formula of its laws in here.

Sessions: request t continues the l-th request before it with probability w_l, and with what is left
it starts a session. People: a session is one member's by a Pólya urn, which starts with `alpha[i]`
balls of member i and gets one of i back for every session of i (Dirichlet shares).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

__all__ = ["Truth", "falls", "truth", "weights"]

Weights = Sequence[Fraction]
"""Of starting a session, and of continuing the nearest, the second nearest, ... request."""


def falls(alpha: Sequence[Fraction], sessions: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every way in which sessions can fall on members, with its probability."""
    for members in product(range(len(alpha)), repeat=sessions):
        balls, chance = list(alpha), Fraction(1)
        for member in members:
            chance *= balls[member] / sum(balls)
            balls[member] += 1
        yield members, chance


def weights(continuing: Sequence[Fraction]) -> Weights:
    """From e_1, e_2, ...: w_l = e_l Π_{m<l} (1 − e_m), after what is left."""
    left, result = Fraction(1), []
    for e in continuing:
        result.append(left * e)
        left *= 1 - e
    return [left, *result]


@dataclass(frozen=True)
class Truth:
    """Value of every request, the law of reach, mean reach and mean won sessions, for one cap."""

    values: tuple[Fraction, ...]
    distribution: dict[int, Fraction]
    reach: Fraction
    won_sessions: Fraction


def truth(
    alpha: Sequence[Fraction],
    targeted: Sequence[Fraction],
    requests: Sequence[Weights],
    won: Sequence[bool],
    cap: int,
) -> Truth:
    """List all assignments. `targeted[i]` is the probability that member i is targeted.

    Reach counts targeted people only in the mean; its distribution takes everybody.
    """
    values = [Fraction(0)] * len(requests)
    distribution: dict[int, Fraction] = {}
    mean = won_sessions = Fraction(0)
    for session, chance in _sessions(requests):
        count = max(session, default=-1) + 1
        busy = {s for s, w in zip(session, won, strict=True) if w}
        won_sessions += chance * len(busy)
        for members, fall in falls(alpha, count):
            seen = [0] * len(alpha)
            for t, s in enumerate(session):
                member = members[s]
                if seen[member] < cap:
                    values[t] += chance * fall * targeted[member]
                seen[member] += won[t]
            reach = sum(min(x, cap) for x in seen)
            distribution[reach] = distribution.get(reach, Fraction(0)) + chance * fall
            mean += (
                chance
                * fall
                * sum(share * min(x, cap) for share, x in zip(targeted, seen, strict=True))
            )
    return Truth(tuple(values), distribution, mean, won_sessions)


def _sessions(requests: Sequence[Weights]) -> Iterator[tuple[list[int], Fraction]]:
    """Every way in which requests can form sessions: the session of each, numbered from 0."""
    for lags in product(*(range(len(w)) for w in requests)):
        chance, session, count = Fraction(1), [], 0
        for t, lag in enumerate(lags):
            chance *= requests[t][lag]
            if chance == 0:
                break
            if lag == 0:
                session.append(count)
                count += 1
            else:
                session.append(session[t - lag])
        if chance:
            yield session, chance
