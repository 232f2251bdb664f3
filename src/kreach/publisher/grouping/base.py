"""Grouping: every group has at least k members, and the same seed gives the same groups."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kreach.boundary.checks import as_whole_number, read_only
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.people import People

__all__ = [
    "FORMED_BY_VISITS",
    "LARGEST_SEED",
    "Assignment",
    "Strategy",
    "cut_evenly",
    "cut_in_order",
    "form_groups",
    "largest_group",
]

LARGEST_SEED = 2**128 - 1
FORMED_BY_VISITS = ("rates", "segments+rates")  # strategies that look at visits


@dataclass(frozen=True, eq=False)
class Assignment:
    """The groups of everybody: row i holds the groups of person i, one column per partition.

    A plain partition has one column. Groups are numbered 0..M−1 over all columns.
    """

    groups: IntArray
    group_size: int  # k, the minimum size
    strategy: str
    group_sizes: IntArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", read_only(self.groups))
        object.__setattr__(self, "group_sizes", read_only(np.bincount(self.groups.ravel())))
        smallest = int(self.group_sizes.min(initial=self.group_size))
        if smallest < self.group_size:
            rule = f"have at least {self.group_size} members in every group"
            raise KreachError.rule("assignment", rule, smallest)

    @property
    def group_count(self) -> int:
        """M."""
        return len(self.group_sizes)

    @property
    def overlapping(self) -> bool:
        """Whether people are in more than one group."""
        return bool(self.groups.shape[1] > 1)

    def group_of(self) -> IntArray:
        """The one group of each person; refuses overlapping assignments."""
        if self.overlapping:
            raise KreachError.rule("assignment", "be a partition", f"{self.groups.shape[1]} layers")
        return self.groups[:, 0]


class Strategy(Protocol):
    """Puts people into groups. `name` appears in reports and on the command line."""

    @property
    def name(self) -> str: ...

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        """Group numbers, (people, partitions); at least `group_size` people are given."""


def form_groups(people: People, group_size: int, strategy: Strategy, seed: int) -> Assignment:
    """Put people into groups of at least `group_size` by a strategy; the same seed, same groups.

    With group_size 1 everybody is alone. It is allowed as the baseline of the paper, but it is no
    anonymity, and `release` warns about it.
    """
    group_size = as_whole_number("group_size", group_size, minimum=1)
    seed = as_whole_number("seed", seed, minimum=0, maximum=LARGEST_SEED)
    if people.count < group_size:
        rule = f"be at least group_size ({group_size}) people"
        raise KreachError.rule("people", rule, people.count)
    groups = strategy(people, group_size, np.random.default_rng(seed))
    return Assignment(groups.reshape(people.count, -1), group_size, strategy.name)


def largest_group(group_size: int) -> int:
    """2k − 1: from 2k on a group could be two."""
    return 2 * group_size - 1


def cut_in_order(order: IntArray, group_size: int) -> IntArray:
    """Cut people, listed in `order`, evenly into groups; the group number of each person."""
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = cut_evenly(np.array([len(order)]), group_size)
    return groups


def cut_evenly(lengths: IntArray, group_size: int) -> IntArray:
    """Cut runs of consecutive people into groups; the group number of each position.

    A run of n ≥ k becomes ⌊n/k⌋ groups whose sizes differ by at most one, so all lie between k and
    2k − 1 and there is no small last group.
    """
    pieces = lengths // group_size
    first_group = np.cumsum(pieces) - pieces
    run = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    result: IntArray = first_group[run] + place * pieces[run] // lengths[run]
    return result
