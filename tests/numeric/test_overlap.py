"""People in several groups: laws, pairs and variance by more than one road."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from kreach.numeric import overlap
from kreach.numeric.overlap import class_exposure_laws, overlap_variance, sharing_pairs
from kreach.numeric.types import FloatArray, IntArray
from tests.strategies import Campaign, campaigns, caps, overlapping


def numbers(campaign: Campaign) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    audience = campaign.audience
    classes, headcounts = vars(audience)["classes"], vars(audience)["headcounts"]
    return (
        classes,
        headcounts.astype(float),
        audience.group_sizes.astype(float),
        np.array(campaign.impressions, dtype=np.int64),
    )


@given(campaigns(overlapping(equal_sizes=True), most=6), caps)
def test_tallied_is_direct(campaign: Campaign, cap: int) -> None:
    arguments = numbers(campaign)
    tallied = overlap_variance(*arguments, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_MAX_KEYS", 0)
        direct = overlap_variance(*arguments, cap)
    assert tallied == pytest.approx(direct, rel=1e-10, abs=1e-12)


@given(campaigns(overlapping(), most=6), caps)
def test_blocks_do_not_matter(campaign: Campaign, cap: int) -> None:
    arguments = numbers(campaign)
    whole = overlap_variance(*arguments, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_PAIRS_AT_ONCE", 1)
        patch.setattr(overlap, "_TABLE_CELLS", 1)
        assert overlap_variance(*arguments, cap) == pytest.approx(whole, rel=1e-10, abs=1e-12)


class_matrices = st.lists(
    st.sets(st.integers(0, 6), min_size=0, max_size=4).map(sorted), min_size=0, max_size=12
)


@given(class_matrices, st.sampled_from([1, 2, 3, 1 << 20]))
def test_each_sharing_pair_once(rows: list[list[int]], block: int) -> None:
    width = max((len(row) for row in rows), default=1) or 1
    classes = np.full((len(rows), width), -1, dtype=np.int64)
    for at, row in enumerate(rows):
        classes[at, : len(row)] = row
    actual = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_PAIRS_AT_ONCE", block)
        for first, second, in_first, in_second in sharing_pairs(classes):
            for a, b, mine, theirs in zip(first, second, in_first, in_second, strict=True):
                actual.append((min(a, b), max(a, b)))
                shared = set(rows[a]) & set(rows[b])
                assert set(classes[a][mine].tolist()) == shared
                assert set(classes[b][theirs].tolist()) == shared
    wanted = [(a, b) for a, b in combinations(range(len(rows)), 2) if set(rows[a]) & set(rows[b])]
    assert sorted(actual) == wanted


@given(campaigns(overlapping()), st.integers(0, 6))
def test_laws_of_classes_are_convolutions(campaign: Campaign, top: int) -> None:
    classes, _, sizes, n = numbers(campaign)
    law, row_of_class = class_exposure_laws(classes, sizes, n, top)
    for at, row in enumerate(classes):
        exact: FloatArray = np.ones(1)
        for j in row[row >= 0]:
            exact = np.convolve(exact, binom.pmf(np.arange(n[j] + 1), n[j], 1.0 / sizes[j]))
        padded = np.pad(exact, (0, top + 1))[: top + 1]
        assert law.pmf[row_of_class[at]].tolist() == pytest.approx(
            padded.tolist(), rel=1e-10, abs=1e-13
        )
        assert law.tail[row_of_class[at]] == pytest.approx(
            exact[top + 1 :].sum(), rel=1e-9, abs=1e-13
        )


def test_laws_with_counts_too_large_to_pack() -> None:
    """Many sizes and counts: rows no longer fit in one whole number."""
    sizes = np.array([2.0, 3.0, 5.0, 7.0])
    n = np.array([10**6, 10**6 + 1, 10**6 + 2, 10**6 + 3])
    classes = np.array([[0, 1, 2, 3], [0, 1, -1, -1], [0, 1, 2, 3], [3, -1, -1, -1]])
    law, row_of_class = class_exposure_laws(classes, sizes, n, 3)
    assert row_of_class[0] == row_of_class[2]
    assert len(set(row_of_class.tolist())) == 3
    assert law.tail[row_of_class].tolist() == pytest.approx([1.0] * 4)


@settings(max_examples=30)
@given(campaigns(overlapping(), most=5), caps)
def test_variance_does_not_depend_on_the_order_of_classes(campaign: Campaign, cap: int) -> None:
    classes, people, sizes, n = numbers(campaign)
    one = overlap_variance(classes, people, sizes, n, cap)
    other = overlap_variance(classes[::-1], people[::-1], sizes, n, cap)
    assert one == pytest.approx(other, rel=1e-10, abs=1e-12)


def test_extremely_large_groups_keep_their_digits() -> None:
    """Two groups of a billion share everybody: twenty impressions, 190 pairs of them."""
    k = 1e9
    arguments = np.array([[0, 1]]), np.array([k]), np.array([k, k]), np.array([10, 10])
    assert overlap_variance(*arguments, 1) == pytest.approx(190 / k, rel=1e-6)


def test_variance_is_never_negative_or_undefined() -> None:
    for k in (1.0, 2.0, 1e3, 1e9):
        for n in (0, 1, 50, 10**6):
            for cap in (1, 2, 40):
                for members in {1.0, k}:
                    actual = overlap_variance(
                        np.array([[0, 1], [0, -1]]),
                        np.array([members, 0.0]),
                        np.array([k, k]),
                        np.array([n, n]),
                        cap,
                    )
                    assert np.isfinite(actual)
                    assert actual >= 0.0
