"""Columns that a build keeps about people: what may not be kept, and values that too few share.

A build has one value per person and all people, so a column identifies if most values have at most
two people behind them. `identifying.py` judges columns of a log, which is another question: there
a value stands in many rows, may change from row to row, and is seen for some groups only. So it
asks whether equal values are one person's. Counting people per value, as here, would refuse a town
that has two people in the sample, and pass a session id that joins the rows of one person.
"""

from dataclasses import dataclass

import numpy as np

from kreach.errors import KreachError
from kreach.publisher.people import Attribute, People

__all__ = [
    "OTHER",
    "ValueCrowds",
    "pool_small_values",
    "pooling_warnings",
    "publishable_columns",
    "refuse_identifying",
    "value_crowds",
]

OTHER = "(other)"
_ALONE = 2  # a value of at most so many people is nearly a name
_IDENTIFYING_SHARE = 0.5  # of people with such values: the column is an identifier


@dataclass(frozen=True)
class ValueCrowds:
    """How many people share a value of a column.

    `small_values` are held by fewer than k people each, `people_in_small_values` hold one; the pool
    of small values is none. `nearly_alone` people share theirs with at most one other.
    """

    values: int
    small_values: int
    people_in_small_values: int
    nearly_alone: int
    identifying: bool


def value_crowds(attribute: Attribute, group_size: int) -> ValueCrowds:
    """Count the people behind each value."""
    counts = np.bincount(attribute.codes, minlength=len(attribute.labels))
    segment = np.array([label != OTHER for label in attribute.labels], dtype=np.bool_)
    small = counts[segment & (counts > 0) & (counts < group_size)]
    counts = counts[counts > 0]
    alone = int(counts[counts <= _ALONE].sum())
    identifying = len(counts) > 1 and alone > _IDENTIFYING_SHARE * len(attribute.codes)
    return ValueCrowds(len(counts), len(small), int(small.sum()), alone, identifying)


def publishable_columns(
    people: People, segments: tuple[str, ...], group_size: int
) -> tuple[People, dict[str, int]]:
    """People as a build keeps them: no identifying column, no segment of fewer than k people.

    The second value counts the people whose value was pooled, by column.
    """
    refuse_identifying(people)
    return pool_small_values(people, segments, group_size)


def pooling_warnings(pooled: dict[str, int], group_size: int) -> list[str]:
    """What was pooled, for people."""
    return [
        f"{name}: {count:,} people have values that fewer than {group_size} people share; they "
        "are pooled and cannot be targeted on their own"
        for name, count in pooled.items()
    ]


def refuse_identifying(people: People) -> None:
    """Refuse columns that are identifiers, whatever they are called."""
    for name, attribute in people.attributes.items():
        crowds = value_crowds(attribute, group_size=1)
        if crowds.identifying:
            share = crowds.nearly_alone / people.count
            raise KreachError(
                f"column {name} identifies people: {share:.0%} of them share its value with at "
                "most one other person; leave it out, or use coarser values",
                field="columns",
            )


def pool_small_values(
    people: People, names: tuple[str, ...], group_size: int
) -> tuple[People, dict[str, int]]:
    """Pool values of targeting columns that fewer than k people have, and count those people.

    A segment of one person would be an audience of one. The pool is no segment to be targeted, and
    may itself have fewer than k people.
    """
    attributes = dict(people.attributes)
    pooled = {}
    for name in names:
        attribute = people.attribute(name)
        counts = np.bincount(attribute.codes, minlength=len(attribute.labels))
        joins = (counts > 0) & (counts < group_size)
        if not joins.any():
            continue
        labels = np.array(["" if v is None else str(v) for v in attribute.labels], dtype=object)
        labels[joins] = OTHER
        column = labels[attribute.codes]
        missing = [code for code, label in enumerate(attribute.labels) if label is None]
        if missing and not joins[missing[0]]:
            column[attribute.codes == missing[0]] = None
        attributes[name] = Attribute.of(column)
        pooled[name] = int(counts[joins].sum())
    return People(people.visits, attributes), pooled
