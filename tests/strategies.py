"""Random audiences of every kind, and campaigns on them, for hypothesis."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import kreach as kr
from kreach.boundary.audience import DisjointAudience, OverlappingAudience, ProfiledAudience

__all__ = [
    "Campaign",
    "audiences",
    "campaigns",
    "caps",
    "disjoint",
    "dispersed",
    "independent",
    "large_campaigns",
    "overlapping",
    "profiled",
    "uniform_disjoint",
]


@dataclass(frozen=True)
class Campaign:
    """An audience and the impressions on each of its groups."""

    audience: kr.Audience
    impressions: tuple[int, ...]

    def groups(self) -> list[int]:
        """One entry per impression: its group, in order of the groups."""
        return [group for group, n in enumerate(self.impressions) for _ in range(n)]

    def __repr__(self) -> str:
        fields = vars(self.audience).items()
        shown = ", ".join(f"{k}={v.tolist()}" for k, v in fields if isinstance(v, np.ndarray))
        return f"Campaign({type(self.audience).__name__}({shown}), {list(self.impressions)})"


caps = st.integers(1, 5)
_sizes = st.integers(1, 6)
_dispersions = st.one_of(
    st.sampled_from([0.1, 0.6, 1.0, 2.0, float("inf")]), st.floats(0.05, 50.0, allow_nan=False)
)


@st.composite
def uniform_disjoint(
    draw: st.DrawFn, *, everybody: bool | None = None, sizes: st.SearchStrategy[int] = _sizes
) -> DisjointAudience:
    """Uniform visits; mixed sizes; everybody targeted, or some, or (None) either."""
    group_sizes = draw(st.lists(sizes, min_size=1, max_size=4))
    if everybody is None:
        everybody = draw(st.booleans())
    if everybody:
        return kr.Audience.disjoint(group_sizes)
    targeted = [draw(st.integers(0, k)) for k in group_sizes]
    return kr.Audience.disjoint(group_sizes, targeted)


@st.composite
def dispersed(draw: st.DrawFn, *, everybody: bool | None = None) -> DisjointAudience:
    """As above with Dirichlet visit shares; infinite dispersion may stand beside finite."""
    base = draw(uniform_disjoint(everybody=everybody))
    one_for_all = draw(st.booleans())
    count = 1 if one_for_all else base.group_count
    spread = [draw(_dispersions) for _ in range(count)]
    return kr.Audience.disjoint(
        base.group_sizes, base.targeted_counts, spread[0] if one_for_all else spread
    )


def disjoint(*, everybody: bool | None = None) -> st.SearchStrategy[DisjointAudience]:
    """Groups that share nobody, uniform or dispersed."""
    return st.one_of(uniform_disjoint(everybody=everybody), dispersed(everybody=everybody))


@st.composite
def overlapping(
    draw: st.DrawFn, *, equal_sizes: bool | None = None, full: bool | None = None
) -> OverlappingAudience:
    """Groups that share members. Group sizes follow from the classes, plus untargeted members.

    With `full` nobody is left untargeted. The same set of groups may occur in several classes.
    """
    group_count = draw(st.integers(1, 4))
    sets = st.sets(st.integers(0, group_count - 1), min_size=1, max_size=3).map(sorted)
    classes = draw(st.lists(st.tuples(sets, st.integers(1, 3)), min_size=1, max_size=5))
    members = np.zeros(group_count, dtype=np.int64)
    for groups, headcount in classes:
        members[groups] += headcount
    if equal_sizes is None:
        equal_sizes = draw(st.booleans())
    if full is None:
        full = draw(st.booleans())
    if equal_sizes:
        # a class of its own fills up each group where everybody is to be targeted
        size = int(members.max()) + (0 if full else draw(st.integers(0, 3)))
        if full:
            classes += [([j], int(size - m)) for j, m in enumerate(members) if m < size]
        sizes = np.full(group_count, size)
    else:
        idle = [0 if full else draw(st.integers(0, 3)) for _ in range(group_count)]
        sizes = np.maximum(members + idle, 1)
    return kr.Audience.overlapping(sizes, [(tuple(groups), h) for groups, h in classes])


@st.composite
def profiled(draw: st.DrawFn) -> ProfiledAudience:
    """Known visit shares; 0 and 1 occur, equal shares occur."""
    weights = st.lists(
        st.one_of(st.integers(0, 4), st.floats(0.01, 5.0)), min_size=1, max_size=5
    ).filter(lambda row: sum(row) > 0.0)
    rows = draw(st.lists(weights, min_size=1, max_size=4))
    return kr.Audience.profiled([np.array(row, dtype=float) / sum(row) for row in rows])


def independent() -> st.SearchStrategy[kr.Audience]:
    """Every kind whose groups share nobody."""
    return st.one_of(disjoint(), profiled())


def audiences() -> st.SearchStrategy[kr.Audience]:
    """Every kind of audience."""
    return st.one_of(disjoint(), overlapping(), profiled())


@st.composite
def campaigns(
    draw: st.DrawFn,
    audience: st.SearchStrategy[kr.Audience] | None = None,
    *,
    most: int = 12,
) -> Campaign:
    """An audience with up to `most` impressions on each group; groups without any occur."""
    chosen = draw(audiences() if audience is None else audience)
    counts = st.lists(
        st.one_of(st.just(0), st.integers(0, most)),
        min_size=chosen.group_count,
        max_size=chosen.group_count,
    )
    return Campaign(chosen, tuple(draw(counts)))


@st.composite
def large_campaigns(draw: st.DrawFn) -> Campaign:
    """Groups of up to 10⁹ people with up to 10⁴ impressions, uniform or dispersed."""
    count = draw(st.integers(1, 4))
    sizes = [draw(st.sampled_from([1, 2, 20, 1000, 10**6, 10**9])) for _ in range(count)]
    targeted = [draw(st.sampled_from([0, 1, k // 2, k])) for k in sizes]
    spread = draw(st.sampled_from([None, 1e-3, 0.6, 50.0, 1e6]))
    impressions = tuple(draw(st.integers(0, 10**4)) for _ in range(count))
    return Campaign(kr.Audience.disjoint(sizes, targeted, spread), impressions)
