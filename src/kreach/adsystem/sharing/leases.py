"""How much of a shared budget a bidder asks for, and what it gives back."""

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.sharing.redis_pool import MAX_MICROS, BudgetStatus, LeaseGrant

__all__ = ["apply_day_lease", "budget_status", "lease_size"]

_LEASES = 50  # a budget is leased in about so many parts
_MIN_LEASE = 50_000  # micros
_MIN_BIDS = 4  # in a lease: bids are cut to what is left of it


def lease_size(limit: int, left: int, bidders: int, bid: int = 0) -> int:
    """How much to have at hand: a small part of the limit, smaller when little is left.

    What one bidder holds another cannot spend: with a quarter of an equal share of what is left,
    three quarters remain for whoever has the traffic. Where a budget is worth few bids (`bid`: the
    largest lately) it is some bids, up to an equal share of what is left, and at last one bid.
    """
    several = min(_MIN_BIDS * bid, max(left // bidders, min(bid, left)))
    return max(min(limit // _LEASES, left // (4 * bidders)), several, _MIN_LEASE)


def budget_status(
    number: int, account: Account, day: int | None, bidders: int, *, idle: bool, asking: bool
) -> BudgetStatus:
    """What to report and to ask for; gives up at once what is more than needed.

    `day` of the flight, None if days have no budget. `idle` campaigns keep only what may be out on
    bids. Without `asking`, report what is held and ask for no more. Money that is given up leaves
    the account before another bidder can lease it.
    """
    size = lease_size(account.budget, account.left(), bidders, account.largest_bid)
    held, used = account.granted, account.used()
    account.granted = held = min(held, max(used, _retained(held, used, size, idle)))
    wanted = _wanted(held, used, size, account.budget, idle) if asking else held
    budget = min(account.budget, MAX_MICROS)
    if day is None or account.daily is None or account.day_grants is None:
        return BudgetStatus(number, budget, account.spent, wanted)
    size = lease_size(account.daily, account.left_today(day), bidders, account.largest_bid)
    held, used = account.day_grants.get(day, 0), account.used_on(day)
    account.day_grants[day] = held = min(held, max(used, _retained(held, used, size, idle)))
    # What an earlier run may have out is reported as held, and nobody may bid with it: the log has
    # no days, so it is not known whether as much of this day was ever granted.
    reported = max(held, used)
    day_wanted = _wanted(reported, used, size, account.daily, idle) if asking else reported
    spent = account.spent_on(day)
    return BudgetStatus(
        number, budget, account.spent, wanted, day, account.daily, spent, day_wanted
    )


def apply_day_lease(account: Account, day: int, lease: LeaseGrant, *, leasing: bool) -> None:
    """Set what may be spent on a day: the lease, as far as other bidders leave it.

    Redis records whatever a bidder says it holds. Only what it would also have granted may be
    used, and that is known once all bidders have joined (`leasing`): then what all may use stays
    within the day's budget.
    """
    assert account.day_grants is not None
    usable = lease.day_granted if leasing else 0
    held = max(account.day_grants.get(day, 0), usable)
    limit = max(account.used_on(day) - account.carried, lease.day_allowed)
    account.day_grants = {day: min(held, limit)}
    account.spent_elsewhere_on = {day: lease.day_spent_elsewhere}


def _retained(held: int, used: int, size: int, idle: bool) -> int:
    if idle:
        return used
    return used + size if held - used > 2 * size else held


def _wanted(held: int, used: int, size: int, limit: int, idle: bool) -> int:
    if idle or held - used >= size // 2:
        return held
    return max(min(used + size, limit, MAX_MICROS), held)
