"""Campaigns together: laws that hold for every audience, with and without times."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.measurement import several
from kreach.adsystem.measurement.partition import balanced

DAY = 86_400.0


def sessions_model() -> kr.VisitModel:
    """A site whose people visit in sessions and keep coming back."""
    return replace(
        kr.VisitModel.flat(group_size=20, dispersion=0.8),
        gap_edges_seconds=(60.0, 1_800.0),
        continuation_odds=np.array([[40.0, 3.0], [5.0, 0.5]]),
        requests_per_session=np.array([0.5, 0.3, 0.2]),
    )


def random_rows(
    seed: int, parts: int, groups: int, each: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(seed)
    return {
        f"c{at}": (
            generator.integers(0, groups, each),
            generator.uniform(0.0, 5.0 * DAY, each),
        )
        for at in range(parts)
    }


def check_laws(both: kr.Combination) -> None:
    """Union within what the parts allow; everybody in exactly one row of the partition."""
    each = both.each
    assert both.union.reach <= sum(report.reach for report in each.values()) + 1e-9
    assert both.union.reach >= max(report.reach for report in each.values()) - 1e-9
    assert both.overlap.reach >= -1e-12
    rows = [*both.only.values(), both.overlap]
    assert sum(report.reach for report in rows) == pytest.approx(both.union.reach, rel=1e-6)
    people = sum(report.frequency(6)[1:] for report in rows)
    assert people == pytest.approx(both.union.frequency(6)[1:], rel=1e-6, abs=1e-6)
    for name, report in both.only.items():
        assert -1e-12 <= report.reach <= each[name].reach + 1e-9
        low, high = report.interval(0.95, "normal")
        assert low <= high
    so_far = 0.0
    for report in both.incremental().values():
        assert report.reach >= -1e-9
        so_far += float(report.at_least(1)[0])
    assert so_far == pytest.approx(float(both.union.at_least(1)[0]), rel=1e-6)


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_laws_hold_with_times(seed: int, parts: int, cap: int) -> None:
    rows = random_rows(seed, parts, groups=15, each=60)
    audience = kr.Audience.disjoint([20] * 14 + [1])
    check_laws(kr.combine_times(rows, audience, cap, model=sessions_model()))


counts = st.lists(st.integers(0, 8), min_size=4, max_size=4)


@given(st.lists(counts, min_size=2, max_size=5), st.integers(1, 4), st.sampled_from([None, 0.5]))
@settings(max_examples=40, deadline=None)
def test_laws_hold_without_times(listed: list[list[int]], cap: int, spread: float | None) -> None:
    audience = kr.Audience.disjoint([20, 5, 1, 2], [20, 3, 1, 2], dispersion=spread)
    parts = {f"c{at}": numbers for at, numbers in enumerate(listed)}
    check_laws(kr.combine(parts, audience, cap))


def test_a_site_without_sessions_is_the_plain_formula() -> None:
    rows = random_rows(7, 3, groups=12, each=40)
    audience = kr.Audience.disjoint([20] * 12)
    counted = {name: np.bincount(group, minlength=12) for name, (group, _) in rows.items()}
    for cap in (1, 2):
        timed = kr.combine_times(rows, audience, cap, model=kr.VisitModel.flat(group_size=20))
        plain = kr.combine(counted, audience, cap)
        assert timed.union.reach == pytest.approx(plain.union.reach, rel=1e-9)
        assert timed.overlap.reach == pytest.approx(plain.overlap.reach, rel=1e-6)
        for name in rows:
            assert timed.only[name].reach == pytest.approx(plain.only[name].reach, rel=1e-6)
            assert timed.only[name].std == pytest.approx(plain.only[name].std, rel=1e-6)


def test_one_session_is_one_person() -> None:
    """Two campaigns a minute apart in a group meet the same person; a day apart mostly not."""
    audience = kr.Audience.disjoint([20] * 50)
    groups = np.arange(50)
    near = {"a": (groups, np.zeros(50)), "b": (groups, np.full(50, 30.0))}
    far = {"a": (groups, np.zeros(50)), "b": (groups, np.full(50, 2.0 * DAY))}
    model = sessions_model()
    together = kr.combine_times(near, audience, 1, model=model)
    apart = kr.combine_times(far, audience, 1, model=model)
    assert together.overlap.reach > 45.0
    assert apart.overlap.reach < 10.0


def test_an_order_of_parts_changes_who_adds_what_and_nothing_else() -> None:
    parts = {"a": [9, 1], "b": [2, 2], "c": [1, 6]}
    three = kr.combine(parts, kr.Audience.disjoint([10, 10]), cap=1)
    forward = three.incremental()
    backward = three.incremental(["c", "b", "a"])
    assert list(backward) == ["c", "b", "a"]
    assert sum(r.reach for r in forward.values()) == pytest.approx(three.union.reach)
    assert sum(r.reach for r in backward.values()) == pytest.approx(three.union.reach)
    assert backward["a"].reach == pytest.approx(three.only["a"].reach)
    assert forward["a"].reach == pytest.approx(three.each["a"].reach)


def test_the_matrix_is_that_of_every_pair() -> None:
    parts = {"a": [9, 1], "b": [2, 2], "c": [1, 6]}
    three = kr.combine(parts, kr.Audience.disjoint([10, 10], dispersion=0.7), cap=1)
    matrix = three.overlap_matrix
    for i, first in enumerate(three.names):
        assert matrix[i, i] == pytest.approx(three.each[first].reach)
        for j, second in enumerate(three.names):
            if i != j:
                assert matrix[i, j] == pytest.approx(three.overlap_of(first, second).reach)


def test_variances_are_those_of_simulation() -> None:
    """Dispersed groups of 12, three parts: seeded, within 5 standard errors of a variance."""
    size, a, trials = 12, 0.6, 40_000
    numbers = {"a": 6, "b": 4, "c": 9}
    both = kr.combine(
        {name: [n] for name, n in numbers.items()}, kr.Audience.disjoint([size], dispersion=a), 1
    )
    generator = np.random.default_rng(3)
    shares = generator.dirichlet(np.full(size, a), size=trials)
    seen = np.stack([generator.multinomial(n, shares) for n in numbers.values()], axis=2) > 0
    inside = seen.sum(axis=2)
    simulated = {"union": (inside > 0).sum(axis=1), "overlap": (inside > 1).sum(axis=1)}
    for at, name in enumerate(numbers):
        simulated[name] = ((inside == 1) & seen[:, :, at]).sum(axis=1)
    reports = {"union": both.union, "overlap": both.overlap, **both.only}
    for name, values in simulated.items():
        fourth = np.mean((values - values.mean()) ** 4)
        error = np.sqrt((fourth - values.var() ** 2) / trials)
        assert abs(values.var() - reports[name].variance) < 5.0 * error, name
        assert abs(values.mean() - reports[name].reach) < 5.0 * values.std() / np.sqrt(trials), name


def test_many_parts_that_are_alike_to_no_group_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    parts = {f"c{at}": generator.poisson(1.5, 600) for at in range(4)}
    audience = kr.Audience.disjoint([15] * 600)
    exact = kr.combine(parts, audience, 1).overlap.variance
    monkeypatch.setattr(several, "_MAX_ROWS", 200)
    assert kr.combine(parts, audience, 1).overlap.variance == pytest.approx(exact, rel=0.1)


def test_a_table_is_scaled_to_both_sums() -> None:
    table = np.array([[1.0, 2.0, 0.0], [3.0, 1.0, 4.0]])
    rows, columns = np.array([4.0, 6.0]), np.array([3.0, 5.0, 2.0])
    result = balanced(table, rows, columns)
    assert result.sum(axis=1) == pytest.approx(rows)
    assert result.sum(axis=0) == pytest.approx(columns)
    assert result[0, 2] == 0.0


@pytest.mark.parametrize(
    ("impressions", "words"),
    [
        ([[1]], "impressions must map names to impressions"),
        ({"a": [1]}, "impressions must hold 2 to 100 parts, got 1"),
        ({"a": [1], 3: [1]}, "impressions must have names that are text, got 3"),
        ({"a": [1], "b": [-1]}, "impressions['b']"),
        ({"a": [1], "b": [1, 2]}, "impressions['b']"),
    ],
)
def test_wrong_parts_are_named(impressions: object, words: str) -> None:
    with pytest.raises(kr.KreachError, match=words.replace("[", r"\[").replace("]", r"\]")):
        kr.combine(impressions, kr.Audience.disjoint([5]), 1)  # type: ignore[arg-type]


def test_wrong_questions_are_named() -> None:
    both = kr.combine({"a": [1], "b": [2]}, kr.Audience.disjoint([5]), 1)
    with pytest.raises(kr.KreachError, match=r"order must name every part once \(a, b\), got 'a'"):
        both.incremental(["a"])
    with pytest.raises(kr.KreachError, match="name must be one of a, b, got 'c'"):
        both.together(["c"])
    with pytest.raises(kr.KreachError, match="second must be another part than the first"):
        both.overlap_of("a", "a")
    with pytest.raises(kr.KreachError, match="be a pair of groups and times"):
        kr.combine_times(
            {"a": 3, "b": 4},  # type: ignore[dict-item]
            kr.Audience.disjoint([5]),
            1,
            model=kr.VisitModel.flat(group_size=5),
        )
