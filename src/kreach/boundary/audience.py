"""Audiences: what a campaign targets, as groups and never as people.

Three kinds. *Disjoint* groups: sizes, how many members are targeted, and at most one number on how
unevenly members visit. *Overlapping* groups: membership classes (a set of groups and a
head-count). *Profiled* groups: the sorted visit shares of each group, without the names of the
members. All are frozen and validated when they are created.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kreach.boundary.checks import as_counts, as_positive_floats, read_only
from kreach.display.objects import Tabular
from kreach.display.plots import COLORS, bars, new_axes
from kreach.display.table import Columns, Table
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "REQUESTS",
    "SHARE_TOLERANCE",
    "Audience",
    "DisjointAudience",
    "GroupKinds",
    "OverlappingAudience",
    "ProfiledAudience",
]

SHARE_TOLERANCE = 1e-6
REQUESTS = ("everyone", "targeted")
"""Whose requests a campaign is sent: those of all members of a group, or of the targeted ones."""
_MIN_SHARE = 1e-200  # smaller shares give the same reach
_AS_GOOD_AS_UNIFORM = 1e24  # a larger dispersion gives the same reach as infinity


@dataclass(frozen=True, eq=False)
class Audience(Tabular):
    """Groups indexed 0..M−1 in the order given, and the targeted people in them.

    Create one with `Audience.disjoint`, `Audience.overlapping` or `Audience.profiled`.

    >>> import kreach as kr
    >>> kr.Audience.disjoint([20, 20, 25], targeted_counts=[20, 5, 0])
    DisjointAudience(groups=3, targeted=25, visits=uniform)
    """

    group_sizes: IntArray

    def __post_init__(self) -> None:
        if type(self) is Audience:
            raise KreachError(
                "Audience has three kinds: create one with Audience.disjoint(group_sizes), "
                "Audience.overlapping(group_sizes, classes) or Audience.profiled(visit_shares)"
            )

    @property
    def group_count(self) -> int:
        """M, the number of groups."""
        return len(self.group_sizes)

    @property
    def targeted_user_count(self) -> int:
        """N, the number of targeted people."""
        return int(self.group_sizes.sum())

    @staticmethod
    def disjoint(
        group_sizes: npt.ArrayLike,
        targeted_counts: npt.ArrayLike | None = None,
        dispersion: npt.ArrayLike | None = None,
        requests: str = "everyone",
    ) -> "DisjointAudience":
        """Groups that share nobody.

        `targeted_counts` (default: everybody) is how many members the campaign targets.
        `dispersion` is the concentration a of a symmetric Dirichlet law over the members' visit
        shares: small is uneven, infinity (or None) is uniform. Both may be one number for all.

        `requests` says who can be behind a request of a group: "everyone" in it, or, where the
        exchange sends a campaign only requests that match its targeting, the "targeted" members.
        Then an impression falls on one of t_j targeted people and not of k_j: the group has the
        size t_j. The dispersion stays, since part of a Dirichlet vector is again one with the
        same a.

        >>> Audience.disjoint([20, 20, 25], targeted_counts=[20, 5, 25])
        DisjointAudience(groups=3, targeted=50, visits=uniform)
        """
        sizes = as_counts("group_sizes", group_sizes, minimum=1)
        if targeted_counts is None:
            targeted = sizes
        else:
            targeted = as_counts("targeted_counts", targeted_counts, length=len(sizes))
            _refuse_more_than_members("targeted_counts", targeted, sizes)
        concentration = None
        if dispersion is not None:
            concentration = as_positive_floats("dispersion", dispersion, len(sizes))
            concentration[concentration > _AS_GOOD_AS_UNIFORM] = np.inf
            concentration = None if np.isinf(concentration).all() else read_only(concentration)
        if requests not in REQUESTS:
            raise KreachError.rule("requests", f"be {' or '.join(REQUESTS)}", requests)
        if requests == "targeted":  # nobody is behind a group without targeted members
            sizes = np.where(targeted > 0, targeted, sizes)
        return DisjointAudience(read_only(sizes), read_only(targeted), concentration, requests)

    @staticmethod
    def overlapping(
        group_sizes: npt.ArrayLike, classes: Iterable[tuple[Sequence[int], int]]
    ) -> "OverlappingAudience":
        """Groups that share members, described by membership classes.

        `classes` lists (group indices, targeted head-count): so many targeted people are in
        exactly these groups. Members of a group that no class mentions are not targeted.

        >>> Audience.overlapping([3, 3], [((0,), 2), ((0, 1), 1)])
        OverlappingAudience(groups=2, classes=2, targeted=3)
        """
        sizes = as_counts("group_sizes", group_sizes, minimum=1)
        matrix, headcounts = _class_matrix(classes, len(sizes))
        members = np.zeros(len(sizes), dtype=np.int64)
        for column in matrix.T:
            np.add.at(members, column[column >= 0], headcounts[column >= 0])
        _refuse_more_than_members("classes", members, sizes)
        return OverlappingAudience(read_only(sizes), read_only(matrix), read_only(headcounts))

    @staticmethod
    def profiled(visit_shares: Iterable[npt.ArrayLike]) -> "ProfiledAudience":
        """Disjoint groups with known visit shares, without the members' names.

        `visit_shares` holds for each group one share per member, summing to 1, in any order.
        Everybody is targeted.

        >>> Audience.profiled([[0.5, 0.5], [0.1, 0.2, 0.7]])
        ProfiledAudience(groups=2, targeted=5)
        """
        try:
            given = list(visit_shares)
        except TypeError:
            rule = "be one vector of shares per group"
            raise KreachError.rule("visit_shares", rule, visit_shares) from None
        vectors = [_share_vector(f"visit_shares[{j}]", v) for j, v in enumerate(given)]
        sizes = np.array([len(v) for v in vectors], dtype=np.int64)
        shares = np.concatenate(vectors) if vectors else np.zeros(0)
        return ProfiledAudience(read_only(sizes), read_only(shares))

    def to_dict(self) -> dict[str, Any]:
        """The audience as plain values; lists have an entry per group."""
        columns = {name: list(values) for name, values in self._columns().items()}
        return {
            "kind": type(self).__name__.removesuffix("Audience").lower(),
            "groups": self.group_count,
            "people": self.targeted_user_count,
            **{name: values for name, values in columns.items() if name != "group"},
        }

    def _columns(self) -> Columns:
        """As in a groups file: a row per group."""
        return {"group": range(self.group_count), "size": self.group_sizes.tolist()}

    def _display(self) -> Table:
        facts: dict[str, object] = {"groups": self.group_count, "people": self.targeted_user_count}
        for name, values in self._columns().items():
            numbers = [value for value in values if isinstance(value, int | float)]
            if name == "group" or not numbers:
                continue
            low, high = min(numbers), max(numbers)
            facts[name] = low if low == high else (low, high)
        return Table(repr(self).partition("(")[0], {"": list(facts), "value": list(facts.values())})

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """How many groups have so many members."""
        ax = new_axes(ax, f"{self.group_count:,} groups", "members of a group", "groups")
        sizes, groups = np.unique(self.group_sizes, return_counts=True)
        if len(sizes) > 60:
            groups, edges = np.histogram(self.group_sizes, bins=40)
            ax.stairs(groups, edges, fill=True, color=COLORS[0])
            ax.set_ylim(bottom=0.0)
        else:
            bars(ax, sizes.tolist(), groups.tolist())
        return ax


@dataclass(frozen=True)
class GroupKinds:
    """The distinct (size, targeted, dispersion) of an audience; `of_group` is None if all agree."""

    size: FloatArray
    targeted: FloatArray
    dispersion: FloatArray
    of_group: IntArray | None

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True, eq=False, repr=False)
class DisjointAudience(Audience):
    """Groups that share nobody. `dispersion` is None for uniform visits.

    With `requests` "targeted" the size of a group is its targeted members.
    """

    targeted_counts: IntArray
    dispersion: FloatArray | None
    requests: str = "everyone"

    @property
    def traffic(self) -> IntArray:
        """The people behind the requests of each group."""
        return self.group_sizes if self.requests == "everyone" else self.targeted_counts

    @cached_property
    def people_behind_request(self) -> float | None:
        """Mean of the targeted members over requests, Σt²/Σt; None if everyone's arrive."""
        targeted = self.targeted_counts.astype(np.float64)
        if self.requests == "everyone" or not targeted.any():
            return None
        return float(targeted @ targeted / targeted.sum())

    @property
    def targeted_user_count(self) -> int:
        return int(self.targeted_counts.sum())

    @cached_property
    def kind_numbers(self) -> list[int] | None:
        """`kinds.of_group` as a list, which is quicker for one group at a time."""
        of_group = self.kinds.of_group
        return None if of_group is None else of_group.tolist()

    @cached_property
    def kinds(self) -> GroupKinds:
        """Groups of one kind behave alike, so a report needs one computation per kind."""
        spread = np.full(1, np.inf) if self.dispersion is None else self.dispersion
        columns = [self.group_sizes.astype(float), self.targeted_counts.astype(float), spread]
        if all(len(c) == 0 or (c == c[0]).all() for c in columns):
            first = [c[:1] for c in columns]
            return GroupKinds(
                read_only(first[0]), read_only(first[1]), read_only(first[2][: len(first[0])]), None
            )
        code = np.zeros(self.group_count, dtype=np.int64)
        for column in columns:
            values, index = np.unique(column, return_inverse=True)
            code = code * len(values) + index
        _, first_of_kind, of_group = np.unique(code, return_index=True, return_inverse=True)
        size, targeted, spread = (
            read_only(np.broadcast_to(c, (self.group_count,))[first_of_kind]) for c in columns
        )
        return GroupKinds(size, targeted, spread, read_only(of_group))

    def _columns(self) -> Columns:
        spread = None if self.dispersion is None else self.dispersion.tolist()
        return {
            **super()._columns(),
            "targeted": self.targeted_counts.tolist(),
            **({} if spread is None else {"dispersion": spread}),
            **(
                {}
                if self.requests == "everyone"
                else {"requests": ["targeted"] * len(self.traffic)}
            ),
        }

    def __repr__(self) -> str:
        visits = "uniform" if self.dispersion is None else "dispersed"
        return (
            f"DisjointAudience(groups={self.group_count}, targeted={self.targeted_user_count}, "
            f"visits={visits}{'' if self.requests == 'everyone' else ', requests=targeted'})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class OverlappingAudience(Audience):
    """Groups that share members. Row i of `classes` lists the groups of class i, then −1."""

    classes: IntArray
    headcounts: IntArray

    @property
    def targeted_user_count(self) -> int:
        return int(self.headcounts.sum())

    def _columns(self) -> Columns:
        """As in a classes file: a row per membership class."""
        groups = [[group for group in row if group >= 0] for row in self.classes.tolist()]
        return {"groups": groups, "headcount": self.headcounts.tolist()}

    def to_dict(self) -> dict[str, Any]:
        """The audience as plain values: sizes by group, and the membership classes."""
        return {
            "kind": "overlapping",
            "groups": self.group_count,
            "people": self.targeted_user_count,
            "size": self.group_sizes.tolist(),
            "classes": list(zip(*self._columns().values(), strict=True)),
        }

    def __repr__(self) -> str:
        return (
            f"OverlappingAudience(groups={self.group_count}, classes={len(self.classes)}, "
            f"targeted={self.targeted_user_count})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ProfiledAudience(Audience):
    """Disjoint groups with known visit shares: those of group 0, then of group 1, and so on."""

    shares: FloatArray

    @cached_property
    def offsets(self) -> IntArray:
        """Where each group's shares begin; one more entry for the end."""
        return read_only(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.group_sizes)]))

    def shares_of(self, group: int) -> FloatArray:
        """The visit shares of one group, ascending."""
        return self.shares[self.offsets[group] : self.offsets[group + 1]]

    def _columns(self) -> Columns:
        shares = [self.shares_of(group).tolist() for group in range(self.group_count)]
        return {**super()._columns(), "visit_shares": shares}

    def __repr__(self) -> str:
        return f"ProfiledAudience(groups={self.group_count}, targeted={self.targeted_user_count})"


def _refuse_more_than_members(name: str, targeted: IntArray, sizes: IntArray) -> None:
    broken = np.flatnonzero(targeted > sizes)
    if broken.size:
        at = int(broken[0])
        rule = f"not target more people than group {at} has members ({sizes[at]})"
        raise KreachError.rule(name, rule, int(targeted[at]))


def _class_matrix(
    classes: Iterable[tuple[Sequence[int], int]], group_count: int
) -> tuple[IntArray, IntArray]:
    """Classes as a matrix of sorted group indices filled up with −1, and their head-counts."""
    try:
        listed = [(tuple(groups), headcount) for groups, headcount in classes]
    except (TypeError, ValueError) as error:
        rule = "be pairs of group indices and a head-count"
        raise KreachError.rule("classes", rule, str(error)) from error
    lengths = np.array([len(groups) for groups, _ in listed], dtype=np.int64)
    if lengths.size and lengths.min() == 0:
        at = int(lengths.argmin())
        raise KreachError.rule(f"classes[{at}]", "name at least one group", listed[at])
    try:
        flat = as_counts("classes", [g for groups, _ in listed for g in groups])
    except KreachError:
        for at, (groups, _) in enumerate(listed):  # once more, to name the class
            as_counts(f"classes[{at}]", groups)
        raise
    row = np.repeat(np.arange(len(listed)), lengths)
    if flat.size and flat.max() >= group_count:
        at = int(row[flat.argmax()])
        rule = f"name groups from 0 to {group_count - 1}"
        raise KreachError.rule(f"classes[{at}]", rule, listed[at])
    order = np.lexsort((flat, row))
    flat = flat[order]
    twice = np.flatnonzero((flat[1:] == flat[:-1]) & (row[1:] == row[:-1]))
    if twice.size:
        at = int(row[twice[0]])
        raise KreachError.rule(f"classes[{at}]", "name each group once", listed[at])
    matrix = np.full((len(listed), int(lengths.max(initial=1))), -1, dtype=np.int64)
    start = np.repeat(np.cumsum(lengths) - lengths, lengths)
    matrix[row, np.arange(len(flat)) - start] = flat
    headcounts = as_counts("classes head-counts", [headcount for _, headcount in listed], minimum=1)
    return matrix, headcounts


def _share_vector(name: str, values: npt.ArrayLike) -> FloatArray:
    try:
        given = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise KreachError.rule(name, "be numbers", values) from error
    if given.ndim != 1 or given.size == 0:
        raise KreachError.rule(name, "hold one share per member, at least one", values)
    truths = isinstance(values, (list, tuple)) and any(isinstance(v, bool) for v in values)
    if truths or given.dtype.kind not in "iuf":
        raise KreachError.rule(name, "be numbers", values)
    shares = given.astype(np.float64)
    if not (shares >= 0.0).all():
        raise KreachError.rule(name, "hold shares ≥ 0", float(shares[~(shares >= 0.0)][0]))
    total = float(shares.sum())
    if not abs(total - 1.0) <= SHARE_TOLERANCE:
        raise KreachError.rule(name, "sum to 1", total)
    shares[shares > 0.0] = np.maximum(shares[shares > 0.0], _MIN_SHARE)
    return np.sort(shares) / total
