"""Which groups are in a panel: the size asked for, secret, stable, two of every stratum."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.publisher.panel.sample import choose_panel

KEY = bytes(range(32))


def catalogue(groups: int, version: str = "v1", **more: object) -> Catalogue:
    ids = tuple(f"g{at}" for at in range(groups))
    now = datetime(2026, 11, 1, tzinfo=UTC)
    return Catalogue(version, now, 1, ids, np.full(groups, 20), **more)  # type: ignore[arg-type]


@given(st.integers(2, 300), st.floats(0.01, 1.0))
def test_weights_add_up_to_all_groups(groups: int, share: float) -> None:
    visits = np.random.default_rng(groups).integers(0, 50, groups)
    panel = choose_panel(catalogue(groups), visits, share, KEY, "spring")
    assert len(set(panel.groups.tolist())) == len(panel)
    assert panel.weights.sum() == pytest.approx(groups)
    assert abs(len(panel) - share * groups) <= 1.0 + 1e-9 or len(panel) == 2
    assert (np.bincount(panel.stratum) >= 2).all()
    assert panel.weights.min() >= 1.0
    place = panel.positions()
    assert place[panel.groups].tolist() == list(range(len(panel)))
    assert (place >= 0).sum() == len(panel)


def test_everything_is_in_the_panel_of_all() -> None:
    for groups in (2, 3, 101):
        panel = choose_panel(catalogue(groups), np.zeros(groups, int), 1.0, KEY, "spring")
        assert panel.whole
        assert sorted(panel.groups.tolist()) == list(range(groups))
        assert (panel.weights == 1.0).all()


def test_strata_are_neighbours_by_visits() -> None:
    visits = np.random.default_rng(1).permutation(200)
    panel = choose_panel(catalogue(200), visits, 0.1, KEY, "spring")
    ranges = visits[panel.groups] // 20  # ten strata of twenty
    assert ranges.tolist() == panel.stratum.tolist()


def test_a_panel_is_stable_and_hangs_on_key_campaign_and_version() -> None:
    visits = np.zeros(400, dtype=np.int64)

    def chosen(key: bytes = KEY, campaign: str = "spring", version: str = "v1") -> set[int]:
        panel = choose_panel(catalogue(400, version), visits, 0.1, key, campaign)
        return set(panel.groups.tolist())

    assert chosen() == chosen()
    for other in (chosen(bytes(32)), chosen(campaign="summer"), chosen(version="v2")):
        assert len(chosen() & other) < 20  # 4 expected of 40


def test_every_group_is_as_likely_as_any_other() -> None:
    visits = np.arange(60)
    hits = np.zeros(60)
    for seed in range(3_000):
        key = seed.to_bytes(32, "big")
        hits[choose_panel(catalogue(60), visits, 0.2, key, "spring").groups] += 1
    spread = (hits - 600) / np.sqrt(3_000 * 0.2 * 0.8)
    assert np.abs(spread).max() < 4.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"share": 0.0}, "share must"),
        ({"share": 1.5}, "share must"),
        ({"key": b"short"}, "key must have at least 16 bytes"),
        ({"visits": np.zeros(3, int)}, "visits must have one entry per group"),
        ({"catalogue": catalogue(1), "visits": np.zeros(1, int)}, "groups must be at least 2"),
        (
            {"catalogue": catalogue(10, classes=(((0, 1), 30),))},
            "groups must have disjoint groups",
        ),
    ],
)
def test_bad_input_is_refused(wrong: dict[str, object], message: str) -> None:
    given_ = {"catalogue": catalogue(10), "visits": np.zeros(10, int), "share": 0.5, "key": KEY}
    with pytest.raises(KreachError, match=message):
        choose_panel(**(given_ | wrong), campaign="spring")  # type: ignore[arg-type]
