"""Campaigns of one value share requests by weight, on the board or valued one by one."""

import numpy as np
import pytest

from kreach.adsystem.bidding.board import Board


@pytest.mark.parametrize("slots", [1, 2])
def test_luck_on_the_board_is_that_of_one_campaign(slots: int) -> None:
    """One campaign beside the board wins its share, however many are on the board."""
    board = Board(1, 0)
    weights = np.full(slots, 3.0)
    wins = 0
    for _ in range(4_000):
        wins += board.luck(3.0) > board._luck(weights).max()
    share = 1.0 / (slots + 1)
    error = np.sqrt(share * (1.0 - share) / 4_000)
    assert abs(wins / 4_000 - share) < 4.5 * error
