"""The variance of "how many saw it so often" against a list of all that can happen.

Every assignment of impressions to members comes from golden/generate.py, in exact fractions and
without a formula of ours: what falls out of the list is the variance by its definition.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from kreach.numeric import overlap as overlap_module
from kreach.numeric import variance as variance_module
from kreach.numeric.overlap import overlap_variance
from kreach.numeric.variance import group_variance, group_variance_at_least, profile_variance
from tests.golden.generate import Setting, World, all_outcomes, build_world
from tests.numeric.high_precision import VARIANCE_DIGITS, beta_binomial_terms, binomial_terms
from tests.strategies import Campaign, campaigns, caps, large_campaigns, overlapping, profiled

CLOSE = 1e-11
"""Relative agreement with the exact value; absolute near 0."""
MORE_COUNTS = 12
"""No small case has so many impressions: there the variance is exactly 0."""


def truth(setting: Setting, count: int) -> Fraction:
    """Var[#{i: X_i ≥ count}] over the targeted people, from every outcome there is."""
    world = build_world(setting)
    return listed_variance(world, count)


def listed_variance(world: World, count: int) -> Fraction:
    mean, square = Fraction(0), Fraction(0)
    for outcome in all_outcomes(world):
        people = sum(1 for person in world.targeted if outcome.exposures[person] >= count)
        mean += outcome.probability * people
        square += outcome.probability * people**2
    return square - mean**2


def of_groups(setting: Setting, count: int) -> float:
    """Groups are independent: the sum of what `group_variance_at_least` says of each."""
    spread = np.inf if setting.dispersion is None else float(setting.dispersion)
    each = group_variance_at_least(
        np.array(setting.group_sizes, dtype=float),
        np.array(setting.targeted_counts, dtype=float),
        np.array(setting.impressions, dtype=float),
        np.full(len(setting.group_sizes), spread),
        count,
    )
    assert (each >= 0.0).all()
    return float(each.sum())


def of_shares(setting: Setting, count: int) -> float:
    return sum(
        profile_variance(np.array(row, dtype=float), n, count, at_least=True)
        for row, n in zip(setting.visit_shares, setting.impressions, strict=True)
    )


def of_classes(setting: Setting, count: int) -> float:
    width = max(len(groups) for groups, _ in setting.classes)
    classes = np.full((len(setting.classes), width), -1, dtype=np.int64)
    for row, (groups, _) in zip(classes, setting.classes, strict=True):
        row[: len(groups)] = sorted(groups)
    return overlap_variance(
        classes,
        np.array([headcount for _, headcount in setting.classes], dtype=float),
        np.array(setting.group_sizes, dtype=float),
        np.array(setting.impressions, dtype=np.int64),
        count,
        at_least=True,
    )


def exactly(value: Fraction) -> object:
    return pytest.approx(float(value), rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize("dispersion", [None, "1/10", "3/5", "1", "7"])
@pytest.mark.parametrize(
    ("sizes", "targeted", "impressions"),
    [
        ([2], [2], [1]),
        ([2], [2], [6]),  # a pair: X' = n − X surely
        ([2], [1], [5]),
        ([3], [3], [5]),
        ([4], [2], [4]),
        ([5], [5], [4]),
        ([3], [0], [4]),  # nobody is wanted
        ([1], [1], [5]),  # nothing is left to chance
        ([1], [0], [5]),
        ([1, 2, 4], [1, 2, 4], [3, 4, 2]),
        ([1, 3, 3], [0, 1, 3], [2, 4, 0]),
    ],
)
def test_groups(
    sizes: list[int], targeted: list[int], impressions: list[int], dispersion: str | None
) -> None:
    setting = Setting(
        name="by hand",
        kind="disjoint" if dispersion is None else "dispersed",
        group_sizes=tuple(sizes),
        impressions=tuple(impressions),
        targeted_counts=tuple(targeted),
        dispersion=None if dispersion is None else Fraction(dispersion),
    )
    for count in range(1, max(impressions) + 1):
        assert of_groups(setting, count) == exactly(truth(setting, count)), count
    assert of_groups(setting, max(impressions) + 1) == 0.0
    assert of_groups(setting, MORE_COUNTS) == 0.0


@st.composite
def group_settings(draw: st.DrawFn) -> Setting:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    spread = draw(st.sampled_from([None, Fraction(1, 20), Fraction(3, 5), Fraction(5, 2)]))
    return Setting(
        name="random",
        kind="disjoint" if spread is None else "dispersed",
        group_sizes=tuple(sizes),
        impressions=tuple(draw(st.integers(0, 3 if k > 3 else 4)) for k in sizes),
        targeted_counts=tuple(draw(st.integers(0, k)) for k in sizes),
        dispersion=spread,
    )


@settings(max_examples=40)
@given(group_settings(), st.integers(1, 6))
def test_random_groups(setting: Setting, count: int) -> None:
    assert of_groups(setting, count) == exactly(truth(setting, count))


def test_kinds_beside_each_other() -> None:
    """One call for groups of every kind says of each what a call of its own says."""
    size = np.array([1.0, 2.0, 2.0, 20.0, 20.0, 7.0, 7.0])
    targeted = np.array([1.0, 2.0, 1.0, 20.0, 3.0, 0.0, 7.0])
    n = np.array([4.0, 3.0, 30.0, 12.0, 90.0, 8.0, 0.0])
    spread = np.array([np.inf, 0.3, np.inf, 0.8, np.inf, 2.0, 0.1])
    for count in (1, 2, 9, 31):
        together = group_variance_at_least(size, targeted, n, spread, count)
        for i in range(len(size)):
            row = slice(i, i + 1)
            alone = group_variance_at_least(size[row], targeted[row], n[row], spread[row], count)
            assert together[i] == pytest.approx(alone[0], rel=1e-12, abs=1e-15)


def textbook(k: int, u: int, n: int, a: float, count: int) -> float:
    """u·P(1 − P) + u(u − 1)·(joint − P²) with hundreds of digits; P = P(X < count)."""
    with mp.workdps(VARIANCE_DIGITS):
        single, _ = (
            binomial_terms(n, (1, k), count - 1)
            if np.isinf(a)
            else beta_binomial_terms(n, a, k, count - 1)
        )
        below, both = sum(single), mp.mpf(0)
        for i in range(count):
            for j in range(min(count, n - i + 1)):
                both += joint(k, n, a, i, j)
        return float(u * below * (1 - below) + mp.mpf(u) * (u - 1) * (both - below**2))


def joint(k: int, n: int, a: float, i: int, j: int) -> Any:
    """P(X = i, X' = j): trinomial or, with Dirichlet shares, Dirichlet-multinomial."""
    rest = n - i - j
    orders = mp.binomial(n, i) * mp.binomial(n - i, j)
    if np.isinf(a):
        return orders * mp.mpf(1) / mp.mpf(k) ** (i + j) * (1 - mp.mpf(2) / k) ** rest
    spread = mp.mpf(a)
    others = mp.rf(spread * (k - 2), rest)
    return orders * mp.rf(spread, i) * mp.rf(spread, j) * others / mp.rf(spread * k, n)


@pytest.mark.parametrize("dispersion", [0.02, 0.6, 40.0, np.inf])
@pytest.mark.parametrize("size", [2, 3, 20, 1000])
def test_groups_of_any_size(size: int, dispersion: float) -> None:
    """Too large for a list: against the textbook's joint law."""
    for n in (1, 2, 10, 300):
        for count in (1, 2, 7):
            if count > n:
                continue
            for u in {1, size // 2, size}:
                exact = textbook(size, u, n, dispersion, count)
                k, targeted, impressions, a = (
                    np.array([float(v)]) for v in (size, u, n, dispersion)
                )
                actual = group_variance_at_least(k, targeted, impressions, a, count)[0]
                assert actual == pytest.approx(exact, rel=1e-8, abs=1e-10 * u), (n, count, u)


@pytest.mark.parametrize("dispersion", [0.05, 0.6, 1e6, np.inf])
def test_no_input_spoils_it(dispersion: float) -> None:
    """Finite and not negative; a number of at most min(u, n/count) people varies by a quarter."""
    k, share, n = (
        v.ravel()
        for v in np.meshgrid(
            [1.0, 2.0, 3.0, 20.0, 1e9], [0.0, 0.5, 1.0], [0.0, 1.0, 2.0, 30.0, 1e4, 1e9]
        )
    )
    u = np.floor(share * k)
    for count in (1, 2, 30, 200):
        actual = group_variance_at_least(k, u, n, np.full(len(k), dispersion), count)
        assert np.isfinite(actual).all()
        assert (actual >= 0.0).all()
        settled = (k == 1.0) | (u == 0.0) | (n < count)
        assert (actual[settled] == 0.0).all()
        most = np.minimum(u, np.floor(n / count))
        # in a group of a billion, 10⁻⁷ of the variance of the impressions is rounding
        assert (actual <= most**2 / 4.0 * (1.0 + 1e-9) + 1e-6 * most).all()


@pytest.mark.parametrize(
    "shares",
    [
        ["0", "0", "1"],
        ["1"],
        ["0", "1/2", "1/2"],
        ["1/2", "1/2"],
        ["1/10", "1/5", "7/10"],
        ["1/4", "1/4", "1/4", "1/4"],
        ["0", "1/6", "1/6", "2/3"],
    ],
)
def test_shares(shares: list[str]) -> None:
    row = tuple(Fraction(share) for share in shares)
    for n in (0, 1, 3, 5):
        setting = Setting(
            name="by hand",
            kind="profiled",
            group_sizes=(len(row),),
            impressions=(n,),
            visit_shares=(row,),
        )
        for count in range(1, n + 1):
            assert of_shares(setting, count) == exactly(truth(setting, count)), (n, count)
        assert of_shares(setting, n + 1) == 0.0
        assert of_shares(setting, MORE_COUNTS) == 0.0


@st.composite
def share_settings(draw: st.DrawFn) -> Setting:
    weights = st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any)
    rows = draw(st.lists(weights, min_size=1, max_size=2))
    return Setting(
        name="random",
        kind="profiled",
        group_sizes=tuple(len(row) for row in rows),
        impressions=tuple(draw(st.integers(0, 4)) for _ in rows),
        visit_shares=tuple(tuple(Fraction(w, sum(row)) for w in row) for row in rows),
    )


@settings(max_examples=40)
@given(share_settings(), st.integers(1, 5))
def test_random_shares(setting: Setting, count: int) -> None:
    assert of_shares(setting, count) == exactly(truth(setting, count))


@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_equal_shares_are_uniform_visits(count: int) -> None:
    for size, n in [(2, 3), (5, 7), (40, 100), (3, 200)]:
        uniform = group_variance_at_least(
            np.array([float(size)]),
            np.array([float(size)]),
            np.array([float(n)]),
            np.array([np.inf]),
            count,
        )
        actual = profile_variance(np.full(size, 1.0 / size), n, count, at_least=True)
        assert actual == pytest.approx(uniform[0], rel=1e-9, abs=1e-10)


@pytest.mark.parametrize(
    ("sizes", "classes", "impressions"),
    [
        ([2, 2], [((0,), 1), ((0, 1), 1), ((1,), 1)], [2, 3]),
        ([3, 3], [((0, 1), 3)], [2, 2]),  # one class of three in both groups
        ([3, 2], [((0, 1), 1), ((0,), 1)], [4, 3]),  # sizes mixed, some not targeted
        ([1, 3], [((0, 1), 1), ((1,), 2)], [2, 3]),  # a group of one leaves nothing to chance
        ([1, 1, 2], [((0, 2), 1), ((1, 2), 1)], [2, 1, 3]),
        ([1, 1], [((0, 1), 1)], [2, 3]),
        ([2, 3, 4], [((0, 1, 2), 2), ((2,), 1)], [2, 1, 2]),
        ([2, 2], [((0,), 2), ((1,), 1), ((1,), 1)], [3, 0]),  # one set of groups in two classes
    ],
)
def test_classes(
    sizes: list[int], classes: list[tuple[tuple[int, ...], int]], impressions: list[int]
) -> None:
    setting = Setting(
        name="by hand",
        kind="overlapping",
        group_sizes=tuple(sizes),
        impressions=tuple(impressions),
        classes=tuple(classes),
    )
    for count in range(1, sum(impressions) + 1):
        assert of_classes(setting, count) == exactly(truth(setting, count)), count
    assert of_classes(setting, sum(impressions) + 1) == 0.0
    assert of_classes(setting, MORE_COUNTS) == 0.0


@st.composite
def class_settings(draw: st.DrawFn) -> Setting:
    group_count = draw(st.integers(1, 3))
    sets = st.sets(st.integers(0, group_count - 1), min_size=1).map(lambda s: tuple(sorted(s)))
    classes = draw(st.lists(st.tuples(sets, st.integers(1, 2)), min_size=1, max_size=3))
    members = [sum(h for groups, h in classes if j in groups) for j in range(group_count)]
    idle = [draw(st.integers(0, 1)) for _ in members]
    sizes = tuple(max(1, m + i) for m, i in zip(members, idle, strict=True))
    return Setting(
        name="random",
        kind="overlapping",
        group_sizes=sizes,
        impressions=tuple(draw(st.integers(0, 2 if k > 3 else 3)) for k in sizes),
        classes=tuple(classes),
    )


@settings(max_examples=40)
@given(class_settings(), st.integers(1, 5), st.booleans())
def test_random_classes(setting: Setting, count: int, pair_by_pair: bool) -> None:
    """By tallies of pairs and pair by pair: equal sizes choose the former, so force the latter."""
    with pytest.MonkeyPatch.context() as patch:
        if pair_by_pair:
            patch.setattr(overlap_module, "_MAX_KEYS", 0)
        assert of_classes(setting, count) == exactly(truth(setting, count))


@given(large_campaigns())
def test_at_least_one_is_unique_reach_of_groups(campaign: Campaign) -> None:
    """With cap 1 nobody counts more than once: reach is the number of people reached."""
    audience = campaign.audience
    targeted, spread = vars(audience)["targeted_counts"], vars(audience)["dispersion"]
    kind = (
        audience.group_sizes.astype(float),
        targeted.astype(float),
        np.array(campaign.impressions, dtype=float),
        np.full(audience.group_count, np.inf) if spread is None else spread,
    )
    reach, number = group_variance(*kind, 1), group_variance_at_least(*kind, 1)
    for one, other, k, u, n in zip(number, reach, *kind[:3], strict=True):
        # P(X = 0) is all but 1 in a huge group: a small part of its few people is rounding
        rounding = 1e-10 if k <= 1000.0 else 1e-6
        assert one == pytest.approx(other, rel=1e-6, abs=rounding * max(min(u, n), 1.0))


@given(campaigns(profiled()))
def test_at_least_one_is_unique_reach_of_shares(campaign: Campaign) -> None:
    for j, n in enumerate(campaign.impressions):
        shares = vars(campaign.audience)["shares"]
        low = int(campaign.audience.group_sizes[:j].sum())
        own = shares[low : low + int(campaign.audience.group_sizes[j])]
        reach = profile_variance(own, n, 1)
        number = profile_variance(own, n, 1, at_least=True)
        assert number == pytest.approx(reach, rel=1e-11, abs=1e-12)


@given(campaigns(overlapping(), most=8))
def test_at_least_one_is_unique_reach_of_classes(campaign: Campaign) -> None:
    arguments = (
        vars(campaign.audience)["classes"],
        vars(campaign.audience)["headcounts"].astype(float),
        campaign.audience.group_sizes.astype(float),
        np.array(campaign.impressions, dtype=np.int64),
    )
    number = overlap_variance(*arguments, 1, at_least=True)
    assert number == pytest.approx(overlap_variance(*arguments, 1), rel=1e-10, abs=1e-11)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = np.arange(1.0, 9.0) / 36.0
    kind = np.full(9, 20.0), np.arange(2.0, 20.0, 2.0), np.arange(9.0) * 11.0, np.full(9, 0.8)
    classes = np.array([[0, 1], [1, 2], [0, 2], [2, -1]])
    several = (
        classes,
        np.array([2.0, 1.0, 3.0, 1.0]),
        np.array([9.0, 8.0, 7.0]),
        np.array([7, 5, 9]),
    )

    def actual() -> list[float]:
        return [
            profile_variance(shares, 30, 4, at_least=True),
            overlap_variance(*several, 3, at_least=True),
            *group_variance_at_least(*kind, 3).tolist(),
        ]

    whole = actual()
    monkeypatch.setattr(variance_module, "_PAIR_TABLE_CELLS", 1)
    monkeypatch.setattr(overlap_module, "_TABLE_CELLS", 1)
    monkeypatch.setattr(overlap_module, "_PAIRS_AT_ONCE", 1)
    assert actual() == pytest.approx(whole, rel=1e-12)


@given(st.integers(2, 9), caps, st.sampled_from([0.2, 3.0, np.inf]))
def test_at_most_one_person(size: int, count: int, spread: float) -> None:
    """Of 2c − 1 impressions at most one person has c or more: the number is 0 or 1."""
    n = 2 * count - 1
    k, impressions, a = (np.array([float(v)]) for v in (size, n, spread))
    actual = group_variance_at_least(k, k, impressions, a, count)
    if np.isinf(spread):
        _, tail = binomial_terms(n, (1, size), count - 1)
    else:
        _, tail = beta_binomial_terms(n, spread, size, count - 1)
    chance = float(size * tail)
    assert actual[0] == pytest.approx(chance * (1.0 - chance), rel=1e-9, abs=1e-12)
