"""How much of a shared budget a bidder asks for, and what it gives back."""

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.sharing.redis_pool import MAX_MICROS, Given, Standing

__all__ = ["slice_of", "standing", "take_day"]

_SLICES = 50  # a budget is given out in about so many parts
_MIN_SLICE = 50_000  # micros


def slice_of(limit: int, left: int, bidders: int) -> int:
    """How much to have at hand: a small part of the limit, smaller when little is left.

    What one bidder holds another cannot spend: with a quarter of an equal share of what is left,
    three quarters are still to be had by whoever has the traffic.
    """
    return max(min(limit // _SLICES, left // (4 * bidders)), _MIN_SLICE)


def standing(
    number: int, account: Account, day: int | None, bidders: int, *, idle: bool, asking: bool
) -> Standing:
    """What to tell and to ask for; what is more than needed is given up at once.

    `day` of the flight, None if days have no budget; `idle` campaigns keep what may be out only;
    without `asking` what is held is told and no more. Money that is given up is out of the account
    before anybody else hears of it.
    """
    piece = slice_of(account.budget, account.left(), bidders)
    held, used = account.granted, account.used()
    account.granted = held = min(held, max(used, _kept(held, used, piece, idle)))
    wanted = _wanted(held, used, piece, account.budget, idle) if asking else held
    budget = min(account.budget, MAX_MICROS)
    if day is None or account.daily is None or account.day_grants is None:
        return Standing(number, budget, account.spent, wanted)
    piece = slice_of(account.daily, account.left_today(day), bidders)
    held, used = account.day_grants.get(day, 0), account.used_on(day)
    account.day_grants[day] = held = min(held, max(used, _kept(held, used, piece, idle)))
    # What an earlier run may have out is told as held, and is nobody's to bid with: days are not
    # in the log, so it is not known whether as much of this day was ever granted.
    told = max(held, used)
    day_wanted = _wanted(told, used, piece, account.daily, idle) if asking else told
    spent = account.spent_on(day)
    return Standing(number, budget, account.spent, wanted, day, account.daily, spent, day_wanted)


def take_day(account: Account, day: int, given: Given, *, all_told: bool) -> None:
    """What may be spent on a day: what was given, as far as others leave it.

    Redis takes down whatever a bidder says it holds. Only what it would also have given may be
    used, which nobody knows before all have told: then what all may use stays within the day's
    budget.
    """
    assert account.day_grants is not None
    usable = given.day_granted if all_told else 0
    held = max(account.day_grants.get(day, 0), usable)
    most = max(account.used_on(day) - account.carried, given.day_allowed)
    account.day_grants = {day: min(held, most)}
    account.elsewhere_on = {day: given.day_elsewhere}


def _kept(held: int, used: int, piece: int, idle: bool) -> int:
    if idle:
        return used
    return used + piece if held - used > 2 * piece else held


def _wanted(held: int, used: int, piece: int, limit: int, idle: bool) -> int:
    if idle or held - used >= piece // 2:
        return held
    return max(min(used + piece, limit, MAX_MICROS), held)
