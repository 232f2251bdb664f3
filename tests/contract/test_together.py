"""Campaigns together from a log: every engine gives what the library gives on the same rows."""

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.adsystem.visit_models import sample_model

START = 1_793_491_200  # 2026-11-01
CAMPAIGNS = ("spring", "summer", "autumn")


def rows(seed: int, count: int = 900) -> dict[str, np.ndarray]:
    """Three campaigns on twelve groups, some rows twice, some of groups that nobody knows."""
    generator = np.random.default_rng(seed)
    group = generator.integers(0, 14, count)
    seconds = START + generator.integers(0, 3 * 86_400, count)
    ids = np.where(np.arange(count) % 10 == 0, np.arange(count) - 1, np.arange(count))
    return {
        "campaign": np.array(CAMPAIGNS, dtype=object)[generator.integers(0, 3, count)],
        "group": np.array([f"g{at:02}" for at in group], dtype=object),
        "ts": (seconds * 1_000_000).astype("datetime64[us]"),
        "impression_id": np.array([f"i{at}" for at in np.maximum(ids, 0)], dtype=object),
    }


def counted(log: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows that count: of one id in one campaign the earliest, on the twelve groups."""
    order = np.lexsort((log["group"], log["ts"]))
    seen: set[tuple[str, str]] = set()
    keep = []
    for at in order.tolist():
        key = (log["campaign"][at], log["impression_id"][at])
        if key not in seen:
            seen.add(key)
            keep.append(at)
    result = {name: values[keep] for name, values in log.items()}
    known = np.array([int(name[1:]) < 12 for name in result["group"]])
    return {name: values[known] for name, values in result.items()}


def assert_same(found: kr.Combination, wanted: kr.Combination) -> None:
    pairs = [(found.union, wanted.union), (found.overlap, wanted.overlap)]
    pairs += [(found.only[name], wanted.only[name]) for name in wanted.names]
    increments = found.incremental(), wanted.incremental()
    pairs += [(increments[0][name], increments[1][name]) for name in wanted.names]
    for one, other in pairs:
        assert one.reach == pytest.approx(other.reach, rel=1e-9)
        assert one.std == pytest.approx(other.std, rel=1e-9)
        assert one.bounds == other.bounds
    assert found.overlap_matrix == pytest.approx(wanted.overlap_matrix, rel=1e-9)


SIZES = [20] * 6 + [5] * 6
GROUPS = {"group": [f"g{at:02}" for at in range(12)], "size": SIZES}


@pytest.mark.parametrize("spread", [None, 0.7])
def test_campaigns_together_are_the_library_s(engine: Engine, spread: float | None) -> None:
    log = rows(1)
    table = dict(GROUPS) if spread is None else GROUPS | {"dispersion": [spread] * 12}
    found = kr.measure_together(
        kr.ImpressionLog.open(engine, log),
        kr.open_groups(engine, table),
        [1, 2],
        campaigns=CAMPAIGNS,
    )
    real = counted(log)
    parts = {
        name: np.bincount(
            [int(g[1:]) for g in real["group"][real["campaign"] == name]], minlength=12
        )
        for name in CAMPAIGNS
    }
    audience = kr.Audience.disjoint(SIZES, dispersion=spread)
    for cap in (1, 2):
        assert_same(found.at(cap), kr.combine(parts, audience, cap))
    assert found.read.rejected["unknown_group"] > 0
    assert found.read.rejected["duplicate"] > 0
    total = sum(found.read.impressions) + sum(found.read.rejected.values())
    assert total == len(log["group"])


def test_times_count_as_in_the_library(engine: Engine) -> None:
    log, model = rows(2), sample_model()
    found = kr.measure_together(
        kr.ImpressionLog.open(engine, log),
        kr.open_groups(engine, GROUPS),
        [1, 3],
        campaigns=CAMPAIGNS,
        model=model,
    )
    real = counted(log)
    parts = {}
    for name in CAMPAIGNS:
        mine = real["campaign"] == name
        groups = [int(g[1:]) for g in real["group"][mine]]
        parts[name] = (groups, real["ts"][mine])
    audience = kr.Audience.disjoint(SIZES)
    for cap in (1, 3):
        assert_same(found.at(cap), kr.combine_times(parts, audience, cap, model=model))


def test_each_campaign_is_measured_as_alone(engine: Engine) -> None:
    log = kr.ImpressionLog.open(engine, rows(3))
    groups = kr.open_groups(engine, GROUPS).with_model(sample_model())
    found = kr.measure_together(log, groups, [1], campaigns=CAMPAIGNS)
    for name in CAMPAIGNS[: 1 if engine.dialect == "pyspark" else None]:  # it takes seconds each
        alone = kr.measure_window(log, groups, [1], campaign=name).report(cap=1)
        assert found.at(1).each[name].reach == pytest.approx(alone.reach, rel=1e-9)
        assert found.at(1).each[name].std == pytest.approx(alone.std, rel=1e-9)


def test_windows_of_one_campaign(engine: Engine) -> None:
    """Two days of a campaign: together they are the campaign, and who came back is in both."""
    log = kr.ImpressionLog.open(engine, rows(4), unique_ids=True)
    groups = kr.open_groups(engine, GROUPS)
    days = {"first": (None, "2026-11-02"), "rest": ("2026-11-02", None)}
    found = kr.measure_together(log, groups, [1], campaigns=["spring"], windows=days)
    whole = kr.measure_window(log, groups, [1], campaign="spring").report(cap=1)
    assert found.at(1).union.reach == pytest.approx(whole.reach, rel=1e-9)
    first = kr.measure_window(log, groups, [1], campaign="spring", end="2026-11-02").report(1)
    assert found.at(1).each["first"].reach == pytest.approx(first.reach, rel=1e-9)
    every = kr.measure_together(log, groups, [1], windows=days)
    assert every.at(1).union.impressions > found.at(1).union.impressions


def test_overlapping_and_profiled_groups(engine: Engine) -> None:
    log = {
        "campaign": ["a", "a", "b", "b", "b"],
        "group": ["x", "y", "x", "y", "y"],
        "ts": ["2026-11-01"] * 5,
    }
    opened = kr.ImpressionLog.open(engine, log)
    table = kr.open_groups(
        engine,
        {"group": ["x", "y"], "size": [3, 2]},
        {"groups": ["x", "x;y"], "headcount": [2, 1]},
    )
    found = kr.measure_together(opened, table, [1], campaigns=["a", "b"])
    audience = kr.Audience.overlapping([3, 2], [((0,), 2), ((0, 1), 1)])
    parts = {"a": [1, 1], "b": [1, 2]}
    assert_same(found.at(1), kr.combine(parts, audience, 1))
    shares = [[0.5, 0.25, 0.25], [0.25, 0.75]]
    table = kr.open_groups(
        engine, {"group": ["x", "y"], "size": [3, 2], "visit_shares": np.array(shares, object)}
    )
    found = kr.measure_together(opened, table, [2], campaigns=["a", "b"])
    assert_same(found.at(2), kr.combine(parts, kr.Audience.profiled(shares), 2))
