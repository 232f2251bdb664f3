"""How much of a shared budget a bidder asks for, and what it gives back."""

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.sharing.pool import MOST_MICROS, Standing

__all__ = ["slice_of", "standing"]

_SLICES = 50  # a budget is given out in about so many parts
_LEAST_SLICE = 50_000  # micros


def slice_of(limit: int, left: int, bidders: int) -> int:
    """How much to have at hand: a small part of the limit, smaller when little is left.

    What one bidder holds another cannot spend: with a quarter of an equal share of what is left,
    three quarters are still to be had by whoever has the traffic.
    """
    return max(min(limit // _SLICES, left // (4 * bidders)), _LEAST_SLICE)


def standing(
    number: int, account: Account, day: int | None, bidders: int, *, idle: bool
) -> Standing:
    """What to tell and to ask for; what is more than needed is given up at once.

    `day` of the flight, None if days have no budget; `idle` campaigns keep what may be out only.
    Money that is given up is out of the account before anybody else hears of it.
    """
    piece = slice_of(account.budget, account.left(), bidders)
    account.granted = min(
        account.granted, max(account.used(), _kept(account.granted, account.used(), piece, idle))
    )
    wanted = _wanted(account.granted, account.used(), piece, account.budget, idle)
    budget = min(account.budget, MOST_MICROS)
    if day is None or account.daily is None or account.day_grants is None:
        return Standing(number, budget, account.spent, wanted)
    held, used = account.day_grants.get(day, 0), account.used_on(day)
    held = max(held, used)
    piece = slice_of(account.daily, account.left_today(day), bidders)
    account.day_grants[day] = held = max(used, _kept(held, used, piece, idle))
    day_wanted = _wanted(held, used, piece, account.daily, idle)
    spent = account.spent_on(day)
    return Standing(number, budget, account.spent, wanted, day, account.daily, spent, day_wanted)


def _kept(held: int, used: int, piece: int, idle: bool) -> int:
    if idle:
        return used
    return used + piece if held - used > 2 * piece else held


def _wanted(held: int, used: int, piece: int, limit: int, idle: bool) -> int:
    if idle or held - used >= piece // 2:
        return held
    return max(min(used + piece, limit, MOST_MICROS), held)
