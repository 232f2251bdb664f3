"""Grants of a bidder that has its budgets to itself: a part of the budget at a time.

A grant is logged before it is used. After a crash, at most the last grant may be out on bids.
"""

from collections.abc import Callable, Mapping

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.journal import Done, Journal

__all__ = ["LocalGrants", "grant_size"]

_GRANTS = 50  # a budget is granted in about so many parts
_MIN_GRANT = 50_000  # micros
_MIN_BIDS = 4


def grant_size(account: Account) -> int:
    """How much to grant at a time, in micros: bids are cut to what is left of it."""
    return max(account.budget // _GRANTS, _MIN_GRANT, _MIN_BIDS * account.largest_bid)


class LocalGrants:
    """Logs grants, one at a time for each campaign. Used by the event loop."""

    def __init__(
        self,
        journal: Journal,
        accounts: Mapping[int, Account],
        on_loop: Callable[[Done], Done],
        set_low_funds: Callable[[int, int], None],
    ) -> None:
        self._journal, self._accounts = journal, accounts
        self._on_loop, self._set_low_funds = on_loop, set_low_funds
        self._writing: set[int] = set()

    @property
    def writing(self) -> bool:
        """Whether a write is under way."""
        return bool(self._writing)

    def request(self, number: int) -> None:
        """Grant more to a campaign that has little left; it counts once it is logged."""
        account = self._accounts[number]
        wanted = account.wanted_grant(grant_size(account))
        if wanted is None or number in self._writing:
            return
        self._writing.add(number)

        def written(error: Exception | None) -> None:
            self._writing.discard(number)
            if error is None:
                account.granted = max(account.granted, wanted)
                complete = account.granted >= account.budget
                self._set_low_funds(number, 0 if complete else grant_size(account) // 2)

        self._journal.submit("grant", (number, wanted), self._on_loop(written))
