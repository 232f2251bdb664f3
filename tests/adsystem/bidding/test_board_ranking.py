"""Rankings, computed as arrays, are what a loop over campaigns would find."""

import numpy as np
import pytest

from kreach.adsystem.bidding.board import Board
from kreach.adsystem.bidding.competition import PREFERENCE
from kreach.adsystem.bidding.worth import Worth

GROUPS, SLOTS, KINDS, ROWS, COLUMNS = 12, 24, 3, 4, 8
SEED = 7


def sample_board(generator: np.random.Generator) -> tuple[Board, list[Worth]]:
    """Two audiences; some campaigns are inactive, some want nothing, some have the same table."""
    board = Board(GROUPS, SEED)
    board.add_slots(SLOTS)
    for _ in range(2):
        board.add_audience(generator.integers(0, KINDS, GROUPS))
    worths = []
    for slot in range(SLOTS):
        table = generator.random((KINDS, ROWS, COLUMNS)) * (slot % 5 > 0)
        worths.append(Worth(table, 2.0, table.max(axis=2)))
        board.set_worth(slot, slot % 2, worths[slot], 0.4 * slot)
        board.ends[slot] = 100.0
        board.most[slot] = generator.random()
        board.weights[slot] = 1.0 + generator.random()
        board.multipliers[slot] = np.inf if slot % 7 == 3 else 0.5 + generator.random()
    board.turn_to(40.0)
    return board, worths


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_ranking_is_that_of_a_loop(group: int) -> None:
    share = 0.3
    board, worths = sample_board(np.random.default_rng(1))
    ranking, complete = board.ranks(group, 1, share)
    active = [slot for slot in range(SLOTS) if np.isfinite(board.multipliers[slot])]
    drawn = np.random.default_rng(SEED).exponential(size=len(active))
    expected = []
    for slot, one in zip(active, drawn.tolist(), strict=True):
        luck = (board.weights[slot] / one) ** (1.0 / PREFERENCE)
        left = 60.0 * 0.4 * slot / 2.0 * share
        row = int(min(np.sqrt(left) + 0.5, ROWS - 1))
        kind = int(board._kinds[group, slot % 2])
        bound = float(np.float32(worths[slot].bound[kind, row]))
        most = min(bound / board.multipliers[slot], board.most[slot])
        if most > 0.0:
            expected.append((most * luck, slot, most, kind, row))
    expected.sort(reverse=True)
    assert complete == (len(expected) < 16)
    assert len(ranking) == min(len(expected), 16)
    for rank, (score, slot, most, kind, row) in zip(ranking, expected, strict=False):
        assert (rank.slot, rank.last_column) == (slot, COLUMNS - 1)
        assert rank.score == pytest.approx(score, rel=1e-12)
        assert rank.most == most
        fresh = float(np.float32(worths[slot].table[kind, row, 0])) / board.multipliers[slot]
        assert rank.fresh == fresh


def test_room_for_campaigns_keeps_the_counts() -> None:
    board = Board(GROUPS, SEED)
    board.add_slots(2)
    board.record(3, 1)
    board.record(3, 1)
    board.record(11, 0)
    board.add_slots(5)
    expected = np.zeros((GROUPS, 7))
    expected[3, 1], expected[11, 0] = 2.0, 1.0
    assert np.array_equal(board.counts, expected)
