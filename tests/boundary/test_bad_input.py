"""Bad input, row by row: KreachError names the argument, the rule and the value each time."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

import kreach as kr

NAN, INF = float("nan"), float("inf")
PAIR = kr.Audience.disjoint([2, 3])
OVERLAP = kr.Audience.overlapping([2, 3], [((0, 1), 2)])
REPORT = kr.measure(PAIR, [3, 4], 1)


@dataclass(frozen=True)
class Row:
    """A call and the parts that its message must have."""

    name: str
    call: Callable[[], object]
    argument: str
    rule: str
    value: str


def rows_for(
    name: str, argument: str, table: list[tuple[Any, str, str]], call: Callable[[Any], object]
) -> list[Row]:
    """One row for each (value, rule, how the message shows the value)."""

    def row(at: int, value: Any, rule: str, shown: str) -> Row:
        text = type(value).__name__ if " at 0x" in repr(value) else repr(value)[:40]
        return Row(f"{name} {at}: {text}", lambda: call(value), argument, rule, shown)

    return [row(at, *entry) for at, entry in enumerate(table)]


WHOLE = "whole number"

# What no list of counts may be, whatever it counts.
NO_COUNTS: list[tuple[Any, str, str]] = [
    ([-1, 1], WHOLE, "-1"),
    ([1, 1.5], WHOLE, "1.5"),
    ([1, NAN], WHOLE, "nan"),
    ([INF, 1], WHOLE, "inf"),
    ([1, -INF], WHOLE, "-inf"),
    ([1e300, 1], WHOLE, "1e+300"),
    ([2**53 + 1, 1], WHOLE, str(2**53 + 1)),
    ([2**64, 1], WHOLE, "object"),
    ([True, False], WHOLE, "bool"),
    (np.array([True, True]), WHOLE, "bool"),
    (["1", "2"], WHOLE, "<U1"),
    (["a", 1], WHOLE, "<U"),
    ([None, 1], WHOLE, "object"),
    ([1 + 0j, 2], WHOLE, "complex"),
    (np.array([1, 2], dtype=object), WHOLE, "object"),
    (np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]"), WHOLE, "datetime64"),
    ([[1, 2]], "flat sequence", "(1, 2)"),
    (np.ones((2, 1)), "flat sequence", "(2, 1)"),
    ([[1], [1, 2]], "flat sequence", "list"),
]
NO_COUNT_PER_GROUP: list[tuple[Any, str, str]] = [
    *NO_COUNTS,
    ([1], "one entry per group (2)", "1 entries"),
    ([1, 1, 1], "one entry per group (2)", "3 entries"),
    ([], "one entry per group (2)", "0 entries"),
    (-1, WHOLE, "-1"),
    (0.5, WHOLE, "0.5"),
    (NAN, WHOLE, "nan"),
    (True, WHOLE, "bool"),
    ("2", WHOLE, "<U1"),
    (None, WHOLE, "object"),
    ({1, 2}, WHOLE, "object"),
    ((n for n in [1, 2]), WHOLE, "object"),
]
NO_GROUP_SIZES: list[tuple[Any, str, str]] = [
    *NO_COUNTS,
    ([0, 1], WHOLE, "0"),
    (5, "flat sequence", "()"),
    (None, "flat sequence", "()"),
    ("12", "flat sequence", "()"),
    ({1: 2}, "flat sequence", "()"),
]
NO_CAP: list[tuple[Any, str, str]] = [
    (0, "1 to", "0"),
    (-1, "1 to", "-1"),
    (1.5, WHOLE, "1.5"),
    (NAN, WHOLE, "nan"),
    (INF, WHOLE, "inf"),
    (True, WHOLE, "True"),
    (np.bool_(True), WHOLE, "True"),
    ("3", WHOLE, "'3'"),
    (None, WHOLE, "None"),
    ([3], WHOLE, "[3]"),
    (np.array([3]), WHOLE, "array([3])"),
    (2**53 + 1, WHOLE, str(2**53 + 1)),
    (2**64, WHOLE, str(2**64)),
    (10**400, WHOLE, "1000"),
    (3 + 0j, WHOLE, "(3+0j)"),
    (np.complex128(3), WHOLE, "(3+0j)"),
]
NO_LEVEL: list[tuple[Any, str, str]] = [
    (value, "between 0 and 1, both excluded", shown)
    for value, shown in [
        (0, "0"),
        (1, "1"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (-0.5, "-0.5"),
        (95, "95"),
        (NAN, "nan"),
        (INF, "inf"),
        (True, "True"),
        ("0.9", "'0.9'"),
        (None, "None"),
    ]
]
NO_DISPERSION: list[tuple[Any, str, str]] = [
    (0, "> 0", "0.0"),
    (-1.0, "> 0", "-1.0"),
    (NAN, "> 0", "nan"),
    (-INF, "> 0", "-inf"),
    ([1.0, 0.0], "> 0", "0.0"),
    ([1.0, NAN], "> 0", "nan"),
    (True, "numbers", "bool"),
    ("1", "numbers", "<U1"),
    ([None, 1], "numbers", "object"),
    ([1.0], "one entry per group (2)", "1 entries"),
    ([1.0] * 3, "one entry per group (2)", "3 entries"),
    ([[1.0, 2.0]], "flat sequence", "(1, 2)"),
]
NO_SHARES: list[tuple[Any, str, str]] = [
    ([[0.5, 0.4]], "sum to 1", "0.9"),
    ([[0.5, 0.6]], "sum to 1", "1.1"),
    ([[1.0 + 2e-6]], "sum to 1", "1.000002"),
    ([[0.0, 0.0]], "sum to 1", "0.0"),
    ([[INF]], "sum to 1", "inf"),
    ([[-0.5, 1.5]], "≥ 0", "-0.5"),
    ([[NAN, 1.0]], "≥ 0", "nan"),
    ([[]], "one share per member", "[]"),
    ([0.5, 0.5], "one share per member", "0.5"),
    ([[[0.5, 0.5]]], "one share per member", "[[0.5, 0.5]]"),
    ([["a"]], "numbers", "['a']"),
    ([[None]], "must", ""),
    ([[1 + 0j]], "numbers", "(1+0j)"),
    ([["0.5", "0.5"]], "numbers", "['0.5', '0.5']"),
    ([[True]], "numbers", "[True]"),
]
NO_CLASSES: list[tuple[Any, str, str]] = [
    ([((0, 0), 1)], "each group once", "((0, 0), 1)"),
    ([((1, 0, 1), 1)], "each group once", "((1, 0, 1), 1)"),
    ([((2,), 1)], "from 0 to 1", "((2,), 1)"),
    ([((0, 5), 1)], "from 0 to 1", "((0, 5), 1)"),
    ([((), 1)], "at least one group", "((), 1)"),
    ([((-1,), 1)], "from 0 to", "-1"),
    ([((0.5,), 1)], WHOLE, "0.5"),
    ([((NAN,), 1)], WHOLE, "nan"),
    ([((None,), 1)], WHOLE, "object"),
    ([((True,), 1)], WHOLE, "bool"),
    ([("0", 1)], WHOLE, "<U1"),
    ([((0,), 0)], WHOLE, "0"),
    ([((0,), -2)], WHOLE, "-2"),
    ([((0,), 1.5)], WHOLE, "1.5"),
    ([((0,), NAN)], WHOLE, "nan"),
    ([((0,), True)], WHOLE, "bool"),
    ([((0,), "1")], WHOLE, "<U1"),
    ([((0,), None)], WHOLE, "object"),
    ([((0,), [1])], "flat sequence", "(1, 1)"),
    ([((0,), 3)], "more people than group 0 has members (2)", "3"),
    ([((0, 1), 2), ((1,), 2)], "more people than group 1 has members (3)", "4"),
    ([(0, 1)], "pairs of group indices", "int"),
    ([((0,), 1, 2)], "pairs of group indices", "values to unpack"),
    ([((0,),)], "pairs of group indices", "values to unpack"),
    ([5], "pairs of group indices", "int"),
    (None, "pairs of group indices", "NoneType"),
    (5, "pairs of group indices", "int"),
    ({(0,): 1}, "pairs of group indices", "values to unpack"),
]
NO_CAPS: list[tuple[Any, str, str]] = [
    ([], "at least one cap", "[]"),
    ([1, 1], "each once", "[1, 1]"),
    ([1, 1.0], "each once", "[1, 1.0]"),
    ([0], WHOLE, "0"),
    ([1, 1.5], WHOLE, "1.5"),
    ([True], WHOLE, "True"),
    ("12", WHOLE, "'1'"),
    ([None], WHOLE, "None"),
    ([2**64], WHOLE, str(2**64)),
    (3, "list of caps", "3"),
    (None, "list of caps", "None"),
]
NO_GROUP: list[tuple[Any, str, str]] = [
    (value, "from 0 to 1", shown)
    for value, shown in [
        (2, "2"),
        (-1, "-1"),
        (10**30, str(10**30)),
        (0.0, "0.0"),
        (NAN, "nan"),
        (True, "True"),
        ("0", "'0'"),
        (None, "None"),
        ([0], "[0]"),
    ]
]
NO_SPAN: list[tuple[Any, str, str]] = [
    (0, "> 0", "0"),
    (-1.0, "> 0", "-1.0"),
    (NAN, "> 0", "nan"),
    (INF, "> 0", "inf"),
    (True, "> 0", "True"),
    ("1d", "> 0", "'1d'"),
    (None, "> 0", "None"),
    (timedelta(0), "> 0", "timedelta(0)"),
    (timedelta(days=-1), "> 0", "timedelta(days=-1)"),
]
NO_MOMENT: list[tuple[Any, str, str]] = [
    (datetime(2026, 11, 1), "time zone", "2026-11-01T00:00:00"),
    (NAN, "datetime", "nan"),
    (INF, "datetime", "inf"),
    (-INF, "datetime", "-inf"),
    (True, "datetime", "True"),
    ("2026-11-01", "datetime", "'2026-11-01'"),
    (None, "datetime", "None"),
    (np.datetime64("2026-11-01"), "datetime", "2026-11-01"),
]
NO_TRIALS: list[tuple[Any, str, str]] = [
    (-1, "0 to", "-1"),
    (1.5, WHOLE, "1.5"),
    (NAN, WHOLE, "nan"),
    (True, WHOLE, "True"),
    ("9", WHOLE, "'9'"),
    (None, WHOLE, "None"),
]
NO_SEED: list[tuple[Any, str, str]] = [
    (-1, "numpy Generator", "-1"),
    (1.5, "numpy Generator", "1.5"),
    ("seed", "numpy Generator", "'seed'"),
    (None, "numpy Generator", "None"),  # a result that nobody can get again
    (True, "numpy Generator", "True"),
    (NAN, "numpy Generator", "nan"),
    (object, "numpy Generator", "object"),
]
NO_AUDIENCE: list[tuple[Any, str, str]] = [
    (value, "kreach Audience", shown)
    for value, shown in [
        (None, "NoneType"),
        ([2, 3], "list"),
        ("x", "str"),
        (kr.Audience, "type"),
    ]
]
NO_TOP: list[tuple[Any, str, str]] = [
    (0, "1 to", "0"),
    (-3, "1 to", "-3"),
    (2.5, WHOLE, "2.5"),
    (10**6 + 1, WHOLE, "1000001"),
    (True, WHOLE, "True"),
    ("5", WHOLE, "'5'"),
    (None, WHOLE, "None"),
]
NO_METHOD: list[tuple[Any, str, str]] = [
    (value, '"exact", "normal" or "chebyshev"', shown)
    for value, shown in [("EXACT", "EXACT"), ("", "''"), (None, "None"), (3, "3")]
]
MORE_TARGETED: list[tuple[Any, str, str]] = [
    ([3, 1], "more people than group 0 has members (2)", "3"),
    ([1, 4], "more people than group 1 has members (3)", "4"),
    (3, "more people than group 0 has members (2)", "3"),
]
NO_CAP_OF_THIS_METER: list[tuple[Any, str, str]] = [
    (2, "one of the caps", "2"),
    (0, "one of the caps", "0"),
    ("1", "one of the caps", "'1'"),
    (None, "one of the caps", "None"),
    (True, "one of the caps", "True"),
    ([1], "one of the caps", "[1]"),
    (np.array([1, 3]), "one of the caps", "array([1, 3])"),
]
NO_GROUP_COUNT: list[tuple[Any, str, str]] = [
    (-1, "0 to", "-1"),
    (1.5, WHOLE, "1.5"),
    (True, WHOLE, "True"),
    ("4", WHOLE, "'4'"),
    (None, WHOLE, "None"),
    ([4], WHOLE, "[4]"),
]


def rolling(span: Any = 10) -> kr.RollingReachMeter:
    return kr.RollingReachMeter(PAIR, [1], span)


def rows_of_a_function(name: str, function: Callable[[Any, Any, Any], object]) -> list[Row]:
    """What takes an audience, impressions and a cap."""
    return [
        *rows_for(
            f"{name} impressions",
            "impressions_by_group",
            NO_COUNT_PER_GROUP,
            lambda v: function(PAIR, v, 1),
        ),
        *rows_for(f"{name} cap", "cap", NO_CAP, lambda v: function(PAIR, [1, 1], v)),
        *rows_for(f"{name} overlap cap", "cap", NO_CAP, lambda v: function(OVERLAP, [1, 1], v)),
        *rows_for(f"{name} audience", "audience", NO_AUDIENCE, lambda v: function(v, [1, 1], 1)),
    ]


def rows_of_a_meter(name: str, audience: kr.Audience) -> list[Row]:
    """Groups that are none, however they reach a meter."""

    def meter() -> kr.ReachMeter:
        return kr.ReachMeter(audience, [1])

    none_of_many = [*NO_COUNTS, ([0, 2], "from 0 to 1", "2"), (0, "flat sequence", "()")]
    return [
        *rows_for(f"{name} record", "group", NO_GROUP, lambda v: meter().record(v)),
        *rows_for(f"{name} revert", "group", NO_GROUP, lambda v: meter().revert(v)),
        *rows_for(f"{name} p", "group", NO_GROUP, lambda v: meter().reach_probability(v, 1)),
        *rows_for(f"{name} many", "groups", none_of_many, lambda v: meter().record_many(v)),
    ]


def rows_of_levels(method: str) -> list[Row]:
    return rows_for(f"{method} level", "level", NO_LEVEL, lambda v: REPORT.interval(v, method))


TABLE: list[Row] = [
    *rows_for("group_sizes", "group_sizes", NO_GROUP_SIZES, kr.Audience.disjoint),
    *rows_for(
        "overlap sizes", "group_sizes", NO_GROUP_SIZES, lambda v: kr.Audience.overlapping(v, [])
    ),
    *rows_for(
        "targeted_counts",
        "targeted_counts",
        [row for row in NO_COUNT_PER_GROUP if row[0] is not None] + MORE_TARGETED,
        lambda v: kr.Audience.disjoint([2, 3], v),
    ),
    *rows_for(
        "dispersion",
        "dispersion",
        NO_DISPERSION,
        lambda v: kr.Audience.disjoint([2, 3], dispersion=v),
    ),
    *rows_for("visit_shares", "visit_shares[0]", NO_SHARES, kr.Audience.profiled),
    *rows_for(
        "second shares",
        "visit_shares[1]",
        [row for row in NO_SHARES if isinstance(row[0][0], list)],
        lambda v: kr.Audience.profiled([[1.0], *v]),
    ),
    *rows_for(
        "all shares",
        "visit_shares",
        [(None, "must", ""), (5, "must", "")],
        kr.Audience.profiled,
    ),
    *rows_for("classes", "classes", NO_CLASSES, lambda v: kr.Audience.overlapping([2, 3], v)),
    *rows_of_a_function("measure", kr.measure),
    *rows_of_a_function("reach_probability", kr.reach_probability),
    *rows_of_a_function("sample_reach", lambda a, n, c: kr.sample_reach(a, n, c, 2, seed=0)),
    *rows_for("trials", "trials", NO_TRIALS, lambda v: kr.sample_reach(PAIR, [1, 1], 1, v, seed=0)),
    *rows_for("seed", "seed", NO_SEED, lambda v: kr.sample_reach(PAIR, [1, 1], 1, 2, seed=v)),
    *rows_of_levels("exact"),
    *rows_of_levels("normal"),
    *rows_of_levels("chebyshev"),
    *rows_for("method", "method", NO_METHOD, lambda v: REPORT.interval(0.9, v)),
    *rows_for("frequency", "top", NO_TOP, REPORT.frequency),
    *rows_for("at_least", "top", NO_TOP, REPORT.at_least),
    *rows_for("caps", "caps", NO_CAPS, lambda v: kr.ReachMeter(PAIR, v)),
    *rows_for("rolling caps", "caps", NO_CAPS, lambda v: kr.RollingReachMeter(PAIR, v, 10)),
    *rows_for("meter audience", "audience", NO_AUDIENCE, lambda v: kr.ReachMeter(v, [1])),
    *rows_of_a_meter("disjoint", PAIR),
    *rows_of_a_meter("overlapping", OVERLAP),
    *rows_for(
        "revert without record",
        "group",
        [(0, "have an impression to revert", "0"), (1, "have an impression to revert", "1")],
        lambda v: kr.ReachMeter(PAIR, [1]).revert(v),
    ),
    *rows_for(
        "cap of no meter",
        "cap",
        NO_CAP_OF_THIS_METER,
        lambda v: kr.ReachMeter(PAIR, [1, 3]).reach_probability(0, v),
    ),
    *rows_for("span", "span", NO_SPAN, rolling),
    *rows_for("record at", "at", NO_MOMENT, lambda v: rolling().record(0, v)),
    *rows_for("advance", "now", NO_MOMENT, lambda v: rolling().advance(v)),
    *rows_for("rolling group", "group", NO_GROUP, lambda v: rolling().record(v, 5)),
    *rows_for("baseline A", "group_count", NO_GROUP_COUNT, kr.baselines.every_impression),
    *rows_for("baseline B", "group_count", NO_GROUP_COUNT, kr.baselines.every_group),
]


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_bad_input_is_explained(row: Row) -> None:
    with pytest.raises(kr.KreachError) as caught:
        row.call()
    message = str(caught.value)
    assert message.startswith(row.argument), message
    assert row.rule in message, message
    assert row.value in message, message
    assert "\n" not in message
    assert len(message) < 300


def test_a_kreach_error_is_a_value_error() -> None:
    assert issubclass(kr.KreachError, ValueError)
    with pytest.raises(ValueError, match="group_sizes"):
        kr.Audience.disjoint([-1])


@pytest.mark.parametrize(
    "sizes",
    [[2, True], [True, 2], (3, False, 2), [np.True_, 2]],
    ids=repr,
)
def test_true_among_numbers_does_not_count_as_1(sizes: Any) -> None:
    """NumPy turns [2, True] into [2, 1] without a word."""
    with pytest.raises(kr.KreachError, match="group_sizes"):
        kr.Audience.disjoint(sizes)


def test_true_among_the_groups_of_a_class_does_not_count_as_1() -> None:
    with pytest.raises(kr.KreachError, match="classes"):
        kr.Audience.overlapping([2, 3], [((0, True), 1)])
    with pytest.raises(kr.KreachError, match="classes"):
        kr.Audience.overlapping([2, 3], [((0,), True), ((1,), 2)])


@pytest.mark.parametrize(
    ("classes", "at"),
    [
        ([((0, 1), 1), ((-1,), 1)], 1),
        ([((0, 1), 1), ((0.5,), 1)], 1),
        ([((0, 1), 1), ((7,), 1)], 1),
        ([((0,), 1), ((1, 1), 1)], 1),
        ([((0,), 1), ((), 1)], 1),
        ([((0, 1), 1), ((0,), 1), ((2, -3), 1)], 2),
    ],
)
def test_the_message_names_the_class_that_is_wrong(classes: Any, at: int) -> None:
    with pytest.raises(kr.KreachError) as caught:
        kr.Audience.overlapping([2, 3], classes)
    assert str(caught.value).startswith(f"classes[{at}]"), str(caught.value)


def test_long_values_are_shortened() -> None:
    with pytest.raises(kr.KreachError) as caught:
        kr.ReachMeter(PAIR, [*range(1, 500), 1])
    assert len(str(caught.value)) < 200
    assert "..." in str(caught.value)
