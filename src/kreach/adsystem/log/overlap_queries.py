"""Queries for overlapping groups: histograms of classes and of pairs of classes.

With t_s the impressions that the groups of size s of a class got, members of classes with equal
(t_s) are alike, and the covariance of two people depends only on what their shared groups got and
what each one's own groups got (numeric/overlap.py). So a report needs two histograms:

    classes: t0, t1, ..., people, pairs        (pairs: ordered pairs of people of one class)
    pairs:   b0, ..., f0, ..., s0, ..., people (shared; own of the first; own of the second class)
"""

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.tables import GroupTable

__all__ = ["class_histogram", "class_totals", "pair_histogram", "served_members"]


def served_members(counted: ir.Table, groups: GroupTable, slot: str) -> ir.Table:
    """class, group, headcount, size, n: each membership with the impressions of its group."""
    assert groups.members is not None
    members = groups.members.inner_join(groups.rows.select("group", "size"), "group")
    members = members.select("class", "group", "headcount", "size")
    served = counted.select(served=counted["group"].cast("string"), n=counted[slot])
    both = members.left_join(served, members["group"] == served["served"])
    return both.select("class", "group", "headcount", "size", n=both["n"].fill_null(0))


def class_totals(members: ir.Table, sizes: tuple[int, ...]) -> ir.Table:
    """class, headcount, groups, t0, t1, ...: impressions on the groups of each size."""
    totals = {
        f"t{at}": members["n"].sum(where=members["size"] == size).fill_null(0).cast("int64")
        for at, size in enumerate(sizes)
    }
    return members.group_by("class").aggregate(
        headcount=members["headcount"].max(), groups=members.count(), **totals
    )


def class_histogram(totals: ir.Table, sizes: tuple[int, ...]) -> ir.Table:
    """t0, ..., people, pairs, groups: people by what their groups got."""
    heads = totals["headcount"]
    return totals.group_by(*(f"t{at}" for at in range(len(sizes)))).aggregate(
        people=heads.sum().cast("float64"),
        pairs=(heads.cast("float64") * (heads - 1)).sum(),
        groups=totals["groups"].max(),
    )


def pair_histogram(members: ir.Table, totals: ir.Table, sizes: tuple[int, ...]) -> ir.Table:
    """Pairs of different classes that share a served group of more than one person."""
    coupled = members.filter(members["n"] > 0, members["size"] > 1)
    first = coupled.select("group", "size", "n", first="class")
    second = coupled.select(other="group", second="class")
    pairs = first.inner_join(
        second, [first["group"] == second["other"], first["first"] < second["second"]]
    )
    shared = pairs.group_by("first", "second").aggregate(
        **{
            f"b{at}": pairs["n"].sum(where=pairs["size"] == size).fill_null(0).cast("int64")
            for at, size in enumerate(sizes)
        }
    )
    columns = range(len(sizes))
    own = {f"x{at}": f"t{at}" for at in columns}
    one = totals.select(one="class", heads_one="headcount", **own)
    own = {f"y{at}": f"t{at}" for at in columns}
    two = totals.select(two="class", heads_two="headcount", **own)
    both = shared.inner_join(one, shared["first"] == one["one"])
    both = both.inner_join(two, both["second"] == two["two"])
    flat = both.select(
        *(f"b{at}" for at in columns),
        **{f"f{at}": both[f"x{at}"] - both[f"b{at}"] for at in columns},
        **{f"s{at}": both[f"y{at}"] - both[f"b{at}"] for at in columns},
        weight=2.0 * both["heads_one"].cast("float64") * both["heads_two"],
    )
    keys = [f"{kind}{at}" for kind in "bfs" for at in columns]
    return flat.group_by(*keys).aggregate(people=ibis._["weight"].sum())
