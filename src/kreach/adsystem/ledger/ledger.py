"""Open bids: reserved when made, then posted once, voided (lost) or expired.

A bid takes one byte of memory: all else is in its token. Reserved money is summed by the second it
expires in, so expiring bids does not visit single ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.tokens import Claim
from kreach.boundary.times import MICROS
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["Expired", "Ledger", "Outcome", "family_key"]

_CHUNK = 1 << 16
_OUT, _WON, _POSTED, _VOID, _LOSING = 1, 2, 3, 4, 5


def family_key(number: int) -> int:
    """The key of a family's account among those of campaigns, in the log and in Redis too.

    >>> family_key(3)
    -3
    """
    return -number


class Outcome(Enum):
    """What became of a notice."""

    DONE = "done"
    REPEATED = "repeated"  # a duplicate; nothing changes
    CONFLICT = "conflict"  # a duplicate with another price; the first one stands
    EXPIRED = "expired"
    UNKNOWN = "unknown"  # no such bid is open: never made, or voided already
    OVERPRICED = "overpriced"  # dearer than the bid


@dataclass
class Expired:
    """Bids that expired without a notice: by campaign and venue, micros and how many."""

    bids: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    wins: list[Claim] = field(default_factory=list)  # with a win notice, and never billed
    carried: dict[int, int] = field(default_factory=dict)


class Ledger:
    """The accounts of all campaigns and families, and the open bids.

    Accounts are by the number of the campaign; those of families by `family_key`.
    """

    def __init__(self, epoch: int, fenced_epoch: int = 0) -> None:
        """Bids of runs up to `fenced_epoch` are no longer honoured: time was set back since."""
        self.epoch, self._fenced_epoch = epoch, fenced_epoch
        self.accounts: dict[int, Account] = {}
        self._sequence = 0
        self._states: dict[int, bytearray] = {}
        self._chunk_until: dict[int, int] = {}
        self._begin(0)
        # by second: sums by campaign, day and venue
        self._out: dict[int, dict[tuple[int, int, int], list[int]]] = {}
        self._wins: dict[int, Claim] = {}
        self._before: dict[int, int] = {}  # impressions of earlier runs: when their tokens expire
        self._lost_before: IntArray = np.zeros(0, dtype=np.int64)  # the same for losses, sorted,
        self._voided: dict[int, int] = {}  # and those told since: when their tokens expire
        self._swept = 0

    @property
    def wins_out(self) -> int:
        """Win notices without a billing notice yet."""
        return len(self._wins)

    @property
    def bids_out(self) -> int:
        """Bids whose outcome is not known."""
        return sum(sums[1] for by_day in self._out.values() for sums in by_day.values())

    def remember(self, impressions: Iterable[tuple[int, int]]) -> None:
        """Impressions of earlier runs whose notices may still be repeated: id and expiry."""
        self._before.update(impressions)

    def remember_lost(self, impressions: IntArray) -> None:
        """Bids of earlier runs that were lost: they are not open."""
        self._lost_before = np.sort(impressions)

    def reserve(
        self, campaign: int, catalogue: int, group: int, micros: int, now: float, seconds: int
    ) -> Claim:
        """Reserve a bid's money; refused if there is not enough."""
        claim = self.take(campaign, catalogue, group, micros, now, seconds, micros)
        if claim is None:
            account = self.accounts[campaign]
            left = account.available(account.day_at(now))
            raise KreachError.rule("micros", f"be at most {left}", micros)
        return claim

    def take(
        self,
        campaign: int,
        catalogue: int,
        group: int,
        wanted: int,
        now: float,
        seconds: int,
        minimum: int,
        venue: int = 0,
    ) -> Claim | None:
        """Reserve what a bid wants, or what is left; None if that is below the minimum."""
        account = self.accounts[campaign]
        account.note_wanted(wanted)
        issued = round(now * MICROS)  # as the visitor filter does: a win is known by its time
        day = account.day_of(issued)
        micros = account.take(wanted, minimum, day)
        if not micros:
            return None
        sequence = self._sequence
        self._sequence = sequence + 1
        expires = -(-issued // MICROS) + seconds  # rounded up: never shorter than promised
        chunk = sequence // _CHUNK
        if chunk != self._chunk:
            self._begin(chunk)
        self._current[sequence % _CHUNK] = _OUT
        until = self._chunk_until[chunk]
        if until < expires:
            self._chunk_until[chunk] = expires
        by_day = self._out.get(expires)
        if by_day is None:
            by_day = self._out[expires] = {}
        key = (campaign, day, venue)
        sums = by_day.get(key)
        if sums is None:
            by_day[key] = [micros, 1]
        else:
            sums[0] += micros
            sums[1] += 1
        return tuple.__new__(  # what `_make` does, in half the time
            Claim,
            (
                *(self.epoch, sequence, campaign, catalogue, group),
                *(micros, issued, expires, venue, 0),
            ),
        )

    def _begin(self, chunk: int) -> None:
        self._chunk = chunk
        self._current = self._states[chunk] = bytearray(_CHUNK)
        self._chunk_until[chunk] = 0

    def won(self, claim: Claim, now: float) -> Outcome:
        """A win notice: the impression is likely, the money stays set aside."""
        outcome = self._check(claim, now)
        if outcome is Outcome.DONE and claim.epoch == self.epoch:
            if self._state(claim) == _WON:
                return Outcome.REPEATED
            self._set(claim, _WON)
            self._wins[claim.sequence] = claim
        return outcome

    def post(self, claim: Claim, price: int, now: float) -> Outcome:
        """A billing notice, once. Then call `posted`, or `unpost`.

        The money stays reserved until the log has the price: if that fails, the bid is out again,
        and nothing of it may have been bid elsewhere.
        """
        outcome = self._check(claim, now)
        if outcome is not Outcome.DONE:
            return outcome
        if not 0 <= price <= claim.micros:
            return Outcome.OVERPRICED
        account = self.accounts[claim.campaign]
        day = account.day_of(claim.issued_micros)
        if claim.epoch != self.epoch:
            if not account.hold_carried(claim.micros, day):
                return Outcome.UNKNOWN
            self._before[claim.impression] = claim.expires
            return Outcome.DONE
        self._add_out(claim, day, -claim.micros, -1)
        self._set(claim, _POSTED)
        return Outcome.DONE

    def posted(self, claim: Claim, price: int) -> None:
        """The log has the price: spend it, free the rest."""
        account = self.accounts[claim.campaign]
        account.post(claim.micros, price, account.day_of(claim.issued_micros))

    def was_won(self, claim: Claim) -> bool:
        """Whether a win notice came first; forgets it."""
        return claim.epoch == self.epoch and self._wins.pop(claim.sequence, None) is not None

    def unpost(self, claim: Claim, *, won: bool) -> None:
        """Undo a post that could not be logged: the bid is open again."""
        account = self.accounts[claim.campaign]
        day = account.day_of(claim.issued_micros)
        if claim.epoch != self.epoch:
            account.unhold_carried(claim.micros, day)
            self._before.pop(claim.impression, None)
            return
        self._add_out(claim, day, claim.micros, 1)
        self._set(claim, _WON if won else _OUT)
        if won:
            self._wins[claim.sequence] = claim

    def void(self, claim: Claim, now: float) -> Outcome:
        """A loss notice: the bid is not open any more. Then call `voided`, or `unvoid`."""
        outcome = self._check(claim, now)
        if outcome is not Outcome.DONE:
            return outcome
        account = self.accounts[claim.campaign]
        if claim.epoch != self.epoch:
            if not account.covers_carried(claim.micros):
                return Outcome.UNKNOWN
            self._voided[claim.impression] = claim.expires
            return Outcome.DONE
        self._add_out(claim, account.day_of(claim.issued_micros), -claim.micros, -1)
        self._set(claim, _LOSING)
        return Outcome.DONE

    def voided(self, claim: Claim) -> None:
        """The log has the loss: free the money."""
        account = self.accounts[claim.campaign]
        if claim.epoch != self.epoch:
            account.release_carried(claim.micros)
            return
        account.release(claim.micros, account.day_of(claim.issued_micros))
        self._set(claim, _VOID)

    def unvoid(self, claim: Claim, *, won: bool) -> None:
        """Undo a void that could not be logged: the bid is open again."""
        if claim.epoch != self.epoch:
            self._voided.pop(claim.impression, None)
            return
        day = self.accounts[claim.campaign].day_of(claim.issued_micros)
        self._add_out(claim, day, claim.micros, 1)
        self._set(claim, _WON if won else _OUT)
        if won:
            self._wins[claim.sequence] = claim

    def expire(self, now: float) -> Expired:
        """Free what no notice came for in time."""
        expired = Expired()
        for second in [second for second in self._out if second <= now]:
            for (campaign, day, venue), (micros, bids) in self._out.pop(second).items():
                self.accounts[campaign].release(micros, day)
                before = expired.bids.get((campaign, venue), (0, 0))
                expired.bids[campaign, venue] = (before[0] + micros, before[1] + bids)
        for sequence, claim in [(s, c) for s, c in self._wins.items() if c.expires <= now]:
            del self._wins[sequence]
            expired.wins.append(claim)
        for chunk in [c for c, until in self._chunk_until.items() if until <= now]:
            if chunk < self._sequence // _CHUNK:
                del self._chunk_until[chunk], self._states[chunk]
        for campaign, account in self.accounts.items():
            freed = account.expire_carried(now)
            if freed:
                expired.carried[campaign] = freed
        if now - self._swept > 60:
            self._swept = int(now)
            self._before = {i: until for i, until in self._before.items() if until > now}
            self._voided = {i: until for i, until in self._voided.items() if until > now}
        return expired

    def _check(self, claim: Claim, now: float) -> Outcome:
        """Whether a bid is open."""
        if claim.expires <= now or claim.epoch <= self._fenced_epoch:
            return Outcome.EXPIRED
        if claim.campaign not in self.accounts:
            return Outcome.UNKNOWN
        if claim.epoch != self.epoch:
            if claim.impression in self._before:
                return Outcome.REPEATED
            return Outcome.UNKNOWN if self._was_lost(claim.impression) else Outcome.DONE
        state = self._state(claim)
        if state == _POSTED:
            return Outcome.REPEATED
        return Outcome.DONE if state in {_OUT, _WON} else Outcome.UNKNOWN

    def _was_lost(self, impression: int) -> bool:
        if impression in self._voided:
            return True
        at = int(np.searchsorted(self._lost_before, impression))
        return at < len(self._lost_before) and int(self._lost_before[at]) == impression

    def _state(self, claim: Claim) -> int:
        states = self._states.get(claim.sequence // _CHUNK)
        return 0 if states is None else states[claim.sequence % _CHUNK]

    def _set(self, claim: Claim, state: int) -> None:
        states = self._states.get(claim.sequence // _CHUNK)
        if states is not None:  # expired while it was being written, if it is gone
            states[claim.sequence % _CHUNK] = state

    def _add_out(self, claim: Claim, day: int, micros: int, bids: int) -> None:
        by_day = self._out.get(claim.expires)
        if by_day is None:
            by_day = self._out[claim.expires] = {}
        key = (claim.campaign, day, claim.venue)
        sums = by_day.get(key)
        if sums is None:
            by_day[key] = [micros, bids]
        else:
            sums[0] += micros
            sums[1] += bids
