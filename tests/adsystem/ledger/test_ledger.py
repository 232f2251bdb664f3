"""Bids that are out: corners that chance seldom visits."""

import random

import pytest

from kreach.adsystem.ledger import ledger as module
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import Ledger, Outcome

NOW = 1_790_000_000.0


def made(budget: int = 10**9, epoch: int = 1) -> Ledger:
    ledger = Ledger(epoch)
    ledger.accounts[1] = Account(budget, None, NOW)
    ledger.accounts[1].granted = budget
    return ledger


def test_bids_in_chunks_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 8)
    chance = random.Random(3)
    ledger, now, out = made(), NOW, []
    for _ in range(2_000):
        now += chance.random()
        claim = ledger.reserve(1, 1, 0, chance.randint(1, 1_000), now, chance.randint(1, 20))
        out.append(claim)
        ledger.expire(now)
        out = [bid for bid in out if bid.expires > now]
        assert ledger.bids_out == len(out)
        assert ledger.accounts[1].reserved == sum(bid.micros for bid in out)
        if out and chance.random() < 0.6:
            bid = out.pop(chance.randrange(len(out)))
            assert ledger.post(bid, bid.micros // 2, now) is Outcome.DONE
            assert ledger.post(bid, bid.micros // 2, now) is Outcome.REPEATED
            ledger.posted(bid, bid.micros // 2)
    assert len(ledger._states) < 20  # what has expired is forgotten


def test_a_bid_that_expired_while_it_was_written_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    for won in (False, True):
        ledger = made()
        first = ledger.reserve(1, 1, 0, 700, NOW, 5)
        if won:
            ledger.won(first, NOW)
        assert ledger.post(first, 600, NOW) is Outcome.DONE
        assert ledger.was_won(first) is won
        for _ in range(4):
            ledger.reserve(1, 1, 0, 1, NOW, 5)
        ledger.expire(NOW + 6.0)  # its chunk is gone
        ledger.unpost(first, won=won)
        account = ledger.accounts[1]
        assert (account.spent, account.reserved) == (0, 700)
        assert ledger.post(first, 600, NOW + 6.0) is Outcome.EXPIRED
        ended = ledger.expire(NOW + 6.1)
        assert ended.bids == {(1, 0): (700, 1)}
        assert ended.wins == ([first] if won else [])
        assert account.reserved == 0


def test_what_a_bill_saves_is_not_bid_before_the_log_has_it() -> None:
    """If the log refuses the bill, the whole bid is out again."""
    ledger = made()
    account = ledger.accounts[1]
    claim = ledger.reserve(1, 1, 0, account.available(0), NOW, 5)
    assert ledger.post(claim, 1, NOW) is Outcome.DONE
    assert account.available(0) == 0
    ledger.unpost(claim, won=False)
    assert account.used() <= account.granted
    assert ledger.post(claim, 1, NOW) is Outcome.DONE
    ledger.posted(claim, 1)
    assert account.available(0) == claim.micros - 1


def test_an_earlier_runs_bid_that_could_not_be_written_is_carried_again() -> None:
    before = made()
    claim = before.reserve(1, 1, 0, 700, NOW, 5)
    ledger = made(epoch=2)
    ledger.accounts[1].carry(1_000, NOW + 6)
    assert ledger.post(claim, 600, NOW) is Outcome.DONE
    assert (ledger.accounts[1].reserved, ledger.accounts[1].carried) == (700, 300)
    ledger.unpost(claim, won=False)
    assert (ledger.accounts[1].reserved, ledger.accounts[1].carried) == (0, 1_000)
    assert ledger.post(claim, 600, NOW) is Outcome.DONE
    assert ledger.post(claim, 600, NOW) is Outcome.REPEATED
    ledger.posted(claim, 600)
    assert (ledger.accounts[1].spent, ledger.accounts[1].carried) == (600, 300)
    assert ledger.expire(NOW + 6).carried == {1: 300}


def test_a_notice_of_a_campaign_that_is_not_there() -> None:
    claim = made().reserve(1, 1, 0, 700, NOW, 5)
    other = Ledger(2)
    for outcome in (other.won(claim, NOW), other.post(claim, 1, NOW), other.void(claim, NOW)):
        assert outcome is Outcome.UNKNOWN


def test_a_bid_that_was_never_made_is_not_known() -> None:
    ledger = made()
    claim = ledger.reserve(1, 1, 0, 700, NOW, 5)
    for sequence in (1, 65_535, 65_536, 2**39):
        assert ledger.post(claim._replace(sequence=sequence), 1, NOW) is Outcome.UNKNOWN


def test_expiry_is_at_the_second_and_not_before() -> None:
    ledger = made()
    claim = ledger.reserve(1, 1, 0, 700, NOW + 0.9, 5)
    assert claim.expires == int(NOW) + 6  # whole seconds, and never less than was said
    assert ledger.won(claim, NOW + 5.999) is Outcome.DONE
    assert ledger.won(claim, NOW + 6.0) is Outcome.EXPIRED
    assert ledger.void(claim, NOW + 6.0) is Outcome.EXPIRED
