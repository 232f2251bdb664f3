"""Which campaigns have won a request of a group lately, and what its next requests are worth.

A session is followed by the requests of its group, so a campaign with a recent win has to know all
of them, but the value of few: most bids are other campaigns'. So a request is one more time in the
list of its group, whatever the number of campaigns. A campaign takes the list in when somebody asks
for its share of a fresh session's value, when it wins or loses a win, and before the list is long.
What comes out is what it would have computed request by request.

Beside a gateway that drops repeats a share may be above 1, and a bid is judged by the last request
of its group: such campaigns take every request in at once. So do members of a family: one filter
follows the wins of all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from kreach.boundary.times import MICROS

__all__ = ["DEFERRED_SECONDS", "GroupShares", "RecentWins"]

DEFERRED_SECONDS = 900
"""Of a group, at least one request in so much time is taken in at once, if there are any."""

_DEFERRED_US = DEFERRED_SECONDS * MICROS
_DEFERRED = 32  # requests
_SWEEP = 20_000  # groups with recent wins until those that are over are looked for


class FollowsSessions(Protocol):
    """A campaign with a visit model."""

    slot: int

    @property
    def drops_repeats(self) -> bool: ...
    @property
    def follows_at_once(self) -> bool:
        """Whether it must know of every request as it comes."""

    def holds(self, group: int) -> bool:
        """Whether a group has recent wins."""

    def follow(self, group: int, times_us: Sequence[int]) -> None:
        """Take in requests of a group."""

    def share(self, group: int, now: float) -> float:
        """Take in a request; its value over that of a fresh session's."""


class GroupShares(Mapping[int, float]):
    """By slot: the value of the group's last request over that of a fresh session's.

    A share is computed when it is asked for. Slots without one have no recent win: theirs is 1.
    """

    __slots__ = (
        "_campaigns",
        "_deferred_until_us",
        "_eager",
        "_group",
        "_now",
        "_shares",
        "_taken",
        "_times_us",
        "drops_repeats",
    )

    def __init__(self, group: int, *, drops_repeats: bool) -> None:
        self._group = group
        self.drops_repeats = drops_repeats  # shares may be above 1
        self._campaigns: dict[int, FollowsSessions] = {}
        self._eager: tuple[int, ...] = ()  # slots that take every request in at once
        self._times_us: list[int] = []  # of requests that some campaign has not taken in
        self._taken: dict[int, int] = {}  # by slot: how many of them it has
        self._shares: dict[int, float] = {}  # of the last request
        self._deferred_until_us = 0  # the first request after it is taken in at once
        self._now = 0.0

    def begin(self, now: float) -> bool:
        """A request comes; whether any campaign has recent wins."""
        at_us, times_us = round(now * MICROS), self._times_us
        at_once = at_us > self._deferred_until_us or len(times_us) >= _DEFERRED
        if at_once:
            self._take_all_in()
            times_us = self._times_us
        times_us.append(at_us)
        self._now = now
        if self._shares:
            self._shares = {}
        if at_once:
            self._ask_all()
            if not self.drops_repeats:
                self._deferred_until_us = at_us + _DEFERRED_US
        elif self._eager:
            for slot in self._eager:
                self.of(slot)
        return bool(self._campaigns)

    def add(self, campaign: FollowsSessions) -> None:
        """A campaign has won a request, and has taken in all that it is to know."""
        if campaign.slot not in self._campaigns:
            self._deferred_until_us = 0  # its win may be long ago
        self._campaigns[campaign.slot] = campaign
        if campaign.follows_at_once and campaign.slot not in self._eager:
            self._eager = (*self._eager, campaign.slot)
        self._taken[campaign.slot] = len(self._times_us)

    def discard(self, slot: int) -> None:
        """A campaign has no recent win any more."""
        self._campaigns.pop(slot, None)
        self._taken.pop(slot, None)
        if slot in self._eager:
            self._eager = tuple(other for other in self._eager if other != slot)

    def drop_idle(self) -> bool:
        """Discard campaigns without a recent win; whether there are others."""
        for slot in [s for s, each in self._campaigns.items() if not each.holds(self._group)]:
            self.discard(slot)
        return bool(self._campaigns)

    def take_in(self, slot: int) -> None:
        """Have a campaign take in all requests so far."""
        if slot in self._campaigns:
            self._follow(slot, len(self._times_us))

    def of(self, slot: int) -> float:
        """The share of a slot; 1 if it has no recent win."""
        campaign = self._campaigns.get(slot)
        if campaign is None:  # as for most
            return 1.0
        share = self._shares.get(slot)
        return self._ask(slot, campaign) if share is None else share

    def _take_all_in(self) -> None:
        for slot in list(self._campaigns):
            self._follow(slot, len(self._times_us))
        self._times_us = []
        self._taken = dict.fromkeys(self._campaigns, 0)

    def _follow(self, slot: int, until: int) -> None:
        """Have a campaign take in the first `until` requests."""
        campaign, taken = self._campaigns[slot], self._taken[slot]
        if taken < until:
            campaign.follow(self._group, self._times_us[taken:until])
            self._taken[slot] = until
        if not campaign.holds(self._group):
            self.discard(slot)

    def _ask(self, slot: int, campaign: FollowsSessions) -> float:
        """Have a campaign take in the last request too, and say what it is worth."""
        last = len(self._times_us) - 1
        self._follow(slot, last)
        if self._taken.get(slot) != last:  # no recent win is left, or the request is older than it
            return 1.0
        self._taken[slot] = last + 1
        share = self._shares[slot] = campaign.share(self._group, self._now)
        return share

    def _ask_all(self) -> None:
        for slot, campaign in list(self._campaigns.items()):
            if slot not in self._shares:
                self._ask(slot, campaign)

    def __getitem__(self, slot: int) -> float:
        share = self.of(slot)
        if slot not in self._shares:
            raise KeyError(slot)
        return share

    def __iter__(self) -> Iterator[int]:
        self._ask_all()
        return iter(self._shares)

    def __len__(self) -> int:
        self._ask_all()
        return len(self._shares)


class RecentWins:
    """By group: the campaigns that have won a request of it lately."""

    def __init__(self) -> None:
        self._by_group: dict[int, GroupShares] = {}
        self._next_sweep = _SWEEP

    def __len__(self) -> int:
        return len(self._by_group)

    def add(self, group: int, campaign: FollowsSessions) -> None:
        """A campaign won a request of a group."""
        shares = self._by_group.get(group)
        if shares is None:
            drops = campaign.drops_repeats
            shares = self._by_group[group] = GroupShares(group, drops_repeats=drops)
        shares.add(campaign)
        if len(self._by_group) >= self._next_sweep:
            for each, other in list(self._by_group.items()):
                if not other.drop_idle():
                    del self._by_group[each]
            self._next_sweep = max(_SWEEP, 2 * len(self._by_group))

    def shares(self, group: int, now: float) -> GroupShares | None:
        """Of a request: its value over that of a fresh session's, by slot; 1 for other slots.

        Valid until the group's next request.
        """
        shares = self._by_group.get(group)
        if shares is None or shares.begin(now):
            return shares
        del self._by_group[group]
        return None

    def take_in(self, group: int, slot: int) -> None:
        """Have a campaign know all requests of a group so far."""
        shares = self._by_group.get(group)
        if shares is not None:
            shares.take_in(slot)

    def discard(self, group: int, slot: int) -> None:
        """A campaign has no recent win of a group any more."""
        shares = self._by_group.get(group)
        if shares is not None:
            shares.discard(slot)

    def forget(self, slot: int) -> None:
        """The slot is another campaign's now."""
        for shares in self._by_group.values():
            shares.discard(slot)
