"""Campaigns that are sent only requests of targeted people: brute force, Monte Carlo, engines."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.outlook import OutlookMaker
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.files import read_groups
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from tests.publisher.populations import write_csv

SIZES, TARGETED, IMPRESSIONS = [4, 5, 3], [2, 3, 0], [3, 2, 0]


def brute_force(cap: int) -> Fraction:
    """Every way in which the impressions fall on the targeted members alone."""
    total = Fraction(0)
    for people, count in zip(TARGETED, IMPRESSIONS, strict=True):
        ways = list(product(range(people), repeat=count)) if count else []
        for way in ways:
            seen = sum(min(way.count(person), cap) for person in range(people))
            total += Fraction(seen, len(ways))
    return total


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_reach_is_that_of_every_way_to_fall_on_targeted_members(cap: int) -> None:
    audience = kr.Audience.disjoint(SIZES, TARGETED, requests="targeted")
    report = kr.measure(audience, IMPRESSIONS, cap)
    assert report.reach == pytest.approx(float(brute_force(cap)), abs=1e-12)
    plain = kr.measure(kr.Audience.disjoint(TARGETED[:2]), IMPRESSIONS[:2], cap)
    assert report.variance == pytest.approx(plain.variance, abs=1e-12)


def test_it_is_a_group_of_the_visible_members() -> None:
    audience = kr.Audience.disjoint(SIZES, TARGETED, requests="targeted")
    assert audience.group_sizes.tolist() == [2, 3, 3]
    assert audience.targeted_counts.tolist() == audience.traffic.tolist() == TARGETED
    assert audience.people_behind_request == pytest.approx((4 + 9) / 5)
    assert repr(audience).endswith("visits=uniform, requests=targeted)")
    usual = kr.Audience.disjoint(SIZES, TARGETED)
    assert (usual.requests, usual.people_behind_request) == ("everyone", None)
    assert usual.traffic.tolist() == SIZES
    with pytest.raises(KreachError, match="requests must be everyone or targeted, got 'some'"):
        kr.Audience.disjoint(SIZES, TARGETED, requests="some")


def test_a_twentieth_where_a_half_is_right() -> None:
    """2,000 groups of 20 with two visible members each: 1/20 counts people whom nobody reached."""
    generator, groups = np.random.default_rng(7), 2_000
    impressions = generator.poisson(3.0, groups)
    group = np.repeat(np.arange(groups), impressions)
    person = 2 * group + generator.integers(2, size=len(group))
    truth = len(np.unique(person))
    sizes, two = np.full(groups, 20), np.full(groups, 2)
    right = kr.measure(kr.Audience.disjoint(sizes, two, requests="targeted"), impressions, 1)
    assert abs(truth - right.reach) < 4.0 * right.std
    assert kr.measure(kr.Audience.disjoint(sizes), impressions, 1).reach > 1.5 * truth
    assert kr.measure(kr.Audience.disjoint(sizes, two), impressions, 1).reach < 0.25 * truth


def test_a_part_of_dispersed_members_is_as_dispersed() -> None:
    """Dirichlet shares of twenty, three of them visible: the same dispersion describes them."""
    generator, groups = np.random.default_rng(8), 4_000
    shares = generator.dirichlet(np.full(20, 0.6), groups)[:, :3]
    shares /= shares.sum(axis=1, keepdims=True)
    seen = np.array([generator.multinomial(4, row) for row in shares])
    truth = int((seen > 0).sum())
    audience = kr.Audience.disjoint([20] * groups, [3] * groups, 0.6, requests="targeted")
    report = kr.measure(audience, [4] * groups, 1)
    assert abs(truth - report.reach) < 4.0 * report.std


def test_bids_follow_the_visible_members() -> None:
    """After one impression the next of a group is worth a half, not 19/20."""
    two = kr.Audience.disjoint([20, 20], [2, 2], requests="targeted")
    assert kr.reach_probability(two, [1, 0], 1).tolist() == pytest.approx([0.5, 1.0])
    meter = kr.ReachMeter(two, caps=[1])
    meter.record(0)
    assert meter.reach_probability(0, 1) == pytest.approx(0.5)


def test_plans_expect_requests_where_targeted_people_are() -> None:
    market = kr.LogNormalMarket(mu=0.0, sigma=1.0)
    part = kr.Audience.disjoint([20] * 6, [2, 2, 2, 0, 0, 0], requests="targeted")
    alone = kr.Audience.disjoint([2, 2, 2])
    ours = OutlookMaker(part, market, 60, 1).for_budget(20.0)
    same = OutlookMaker(alone, market, 60, 1).for_budget(20.0)
    assert ours.reach == pytest.approx(same.reach, rel=0.02)


# Files and engines


def test_files_and_engines_read_it_alike(tmp_path: Path) -> None:
    rows = ("a,4,2,targeted", "b,5,3,targeted", "c,3,0,targeted")
    path = write_csv(tmp_path / "groups.csv", "group,size,targeted,requests", *rows)
    ids, audience = read_groups(path)
    assert isinstance(audience, DisjointAudience)
    assert (ids, audience.group_sizes.tolist()) == (["a", "b", "c"], [2, 3, 3])
    log = write_csv(
        tmp_path / "log.csv",
        "campaign,group,ts",
        *(f"x,{group},2026-11-01T0{at}:00:00Z" for at, group in enumerate("aaabb")),
    )
    with kr.EmbeddedEngine() as engine:
        groups = kr.open_groups(engine, path)
        assert groups.people_behind_request == pytest.approx(13 / 5)
        report = kr.measure_window(kr.ImpressionLog.open(engine, log), groups, [1])
    assert report.reports[0].reach == pytest.approx(float(brute_force(1)), abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (("a,4,2,targeted", "b,5,3,everyone"), "state the same requests for all groups"),
        (("a,4,2,some", "b,5,3,some"), "everyone or targeted"),
    ],
)
def test_bad_files(tmp_path: Path, rows: tuple[str, ...], rule: str) -> None:
    path = write_csv(tmp_path / "groups.csv", "group,size,targeted,requests", *rows)
    with pytest.raises(KreachError, match=rule):
        read_groups(path)
    with kr.EmbeddedEngine() as engine, pytest.raises(KreachError, match=rule):
        kr.open_groups(engine, path)


# The visit model


def test_a_model_of_flat_visits_gives_the_plain_formulas() -> None:
    audience = kr.Audience.disjoint([20] * 40, [2] * 40, requests="targeted")
    generator = np.random.default_rng(9)
    groups = generator.integers(40, size=90)
    times = generator.uniform(0.0, 7 * 86_400.0, size=90)
    model = VisitModel.flat(group_size=20)
    timed = kr.measure_times(audience, groups, times, [1, 2], model=model)
    counts = np.bincount(groups, minlength=40)
    for cap in (1, 2):
        assert timed[cap].reach == pytest.approx(kr.measure(audience, counts, cap).reach, rel=1e-3)
    visitors = kr.VisitorFilter(audience, model, caps=[1])
    visitors.request(0, 0.0)
    visitors.won(0, 0.0)
    assert visitors.request(0, 86_400.0) == pytest.approx(0.5, abs=0.01)


def test_fewer_others_make_a_session_likelier() -> None:
    flat = VisitModel.flat(group_size=20)
    model = replace(flat, gap_edges_seconds=(1_800.0,), continuation_odds=np.array([[1.0]]))
    two = model.in_groups_of(2.0)
    assert model.continuation(60.0, 0.0) == pytest.approx(1 / 2)
    assert two.continuation(60.0, 0.0) == pytest.approx(1 / (1 + 1 / 19))
    assert two.in_groups_of(2.0) is two, "the same answer twice is the same object"
    assert model.in_groups_of(2.0) is two
    assert model.for_audience(kr.Audience.disjoint([20], [2])) is model
    alone = model.in_groups_of(1.0)
    assert alone.continuation(60.0, 0.0) > 0.999
    with pytest.raises(KreachError, match="people must be a number ≥ 1"):
        model.in_groups_of(0.5)
