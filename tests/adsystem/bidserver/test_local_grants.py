"""Grants of a bidder alone: a part of the budget, and at least some bids."""

from kreach.adsystem.bidserver.local_grants import grant_size
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import Ledger

UNIT = 1_000_000


def test_a_grant_holds_several_of_the_largest_bids() -> None:
    """A budget that is worth few bids would else be spent in bids cut to a fiftieth of it."""
    ledger, account = Ledger(1), Account(10 * UNIT, None, 0.0)
    ledger.accounts[1] = account
    assert grant_size(account) == UNIT // 5
    account.granted = UNIT // 5
    claim = ledger.take(1, 1, 0, UNIT, 10.0, 60, 1)
    assert claim is not None
    assert claim.micros == UNIT // 5  # cut once
    assert grant_size(account) == 4 * UNIT
    assert account.wanted_grant(grant_size(account)) == 4 * UNIT + UNIT // 5


def test_a_large_bid_is_forgotten() -> None:
    ledger, account = Ledger(1), Account(1_000 * UNIT, None, 0.0)
    account.granted = account.budget
    ledger.accounts[1] = account
    ledger.take(1, 1, 0, UNIT, 10.0, 60, 1)
    for _ in range(400):
        ledger.take(1, 1, 0, UNIT // 100, 10.0, 60, 1)
    assert UNIT // 100 <= account.largest_bid < UNIT // 4
