"""An advertiser's own campaigns, under the names that the advertiser gave them.

What `acme` calls `spring` is kept as `acme.spring`. The prefix is put on whatever comes in and
taken off whatever goes out, so an advertiser cannot name a campaign of another: to ask for one is
to ask for an own campaign that does not exist, in every step.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kreach.adsystem.access.key import as_advertiser
from kreach.adsystem.campaigns.campaign import ID_PART, ID_RULE
from kreach.adsystem.campaigns.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.campaigns.store import CampaignExists, UnknownCampaign
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = ["OwnCampaigns", "Reports"]

_OWN_ID = re.compile(ID_PART)
Document = dict[str, Any]


class Reports(Protocol):
    """All campaigns, by the ids they are kept under; `owner` keeps a list to one advertiser's."""

    def create(self, document: Document) -> Document:
        """Keep a new campaign."""

    def change(self, campaign_id: str, changes: Document) -> Document:
        """Change a campaign."""

    def listing(self, after: str | None, limit: int, owner: str | None = None) -> Document:
        """Campaigns in the order they were made."""

    def status(self, campaign_id: str, level: float) -> Document:
        """A campaign and how it stands."""

    def reach(self, campaign_id: str, asked: ReachQuestion) -> Document:
        """Reach so far, or in a window."""

    def series(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """Reach period by period."""

    def curve(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """Reach so far over time, for a chart."""

    def pacing(self, campaign_id: str, window: Window, points: int) -> Document:
        """How the money went."""

    def plan(self, campaign_id: str, asked: PlanQuestion) -> Document:
        """What budgets would reach."""

    def catalogues(self) -> Document:
        """The releases, and the audiences that campaigns can have on them."""


class OwnCampaigns:
    """The campaigns of one advertiser, as if there were no others."""

    def __init__(self, inner: Reports, advertiser: str) -> None:
        self._inner = inner
        self._advertiser = as_advertiser(advertiser)
        self._prefix = f"{self._advertiser}."

    def create(self, document: Document) -> Document:
        """Keep a new campaign, whose id may be another advertiser's too."""
        name = document.get("id")
        if not isinstance(name, str) or not _OWN_ID.fullmatch(name):
            raise KreachError.rule("id", ID_RULE, name)
        with self._own_words(name):
            return self._shown(self._inner.create(document | {"id": self._prefix + name}))

    def change(self, campaign_id: str, changes: Document) -> Document:
        """Change an own campaign."""
        with self._own_words(campaign_id):
            return self._shown(self._inner.change(self._prefix + campaign_id, changes))

    def listing(self, after: str | None, limit: int) -> Document:
        """Own campaigns in the order they were made."""
        try:
            kept = None if after is None else self._prefix + after
            found = self._inner.listing(kept, limit, self._advertiser)
        except UnknownCampaign:
            raise UnknownCampaign(after or "") from None
        shown = [self._shown(one) for one in found["campaigns"]]
        more = found["next"]
        next_one = None if more is None else self._name(more)
        return found | {"campaigns": shown, "next": next_one}

    def status(self, campaign_id: str, level: float) -> Document:
        """An own campaign and how it stands."""
        with self._own_words(campaign_id):
            return self._shown(self._inner.status(self._prefix + campaign_id, level))

    def reach(self, campaign_id: str, asked: ReachQuestion) -> Document:
        """Reach so far, or in a window."""
        with self._own_words(campaign_id):
            kept = self._prefix + campaign_id
            return self._shown(self._inner.reach(kept, asked))

    def series(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """Reach period by period."""
        with self._own_words(campaign_id):
            kept = self._prefix + campaign_id
            return self._shown(self._inner.series(kept, by, asked))

    def curve(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """Reach so far over time, for a chart."""
        with self._own_words(campaign_id):
            kept = self._prefix + campaign_id
            return self._shown(self._inner.curve(kept, by, asked))

    def pacing(self, campaign_id: str, window: Window, points: int) -> Document:
        """How the money went."""
        with self._own_words(campaign_id):
            return self._shown(self._inner.pacing(self._prefix + campaign_id, window, points))

    def plan(self, campaign_id: str, asked: PlanQuestion) -> Document:
        """What budgets would reach."""
        with self._own_words(campaign_id):
            return self._shown(self._inner.plan(self._prefix + campaign_id, asked))

    def catalogues(self) -> Document:
        """The releases, and the audiences that campaigns can have on them."""
        return self._inner.catalogues()

    @contextmanager
    def _own_words(self, name: str) -> Iterator[None]:
        """Errors that name a campaign name it as the advertiser does."""
        try:
            yield
        except UnknownCampaign:
            raise UnknownCampaign(name) from None
        except CampaignExists:
            raise CampaignExists(name) from None

    def _shown(self, document: Document) -> Document:
        """A copy, for documents are kept, with the campaign under its own name."""
        named = {name: document[name] for name in ("id", "campaign") if name in document}
        return document | {name: self._name(kept) for name, kept in named.items()}

    def _name(self, kept: str) -> str:
        """The advertiser's name of a campaign. Another's campaign here is a fault of ours."""
        if not kept.startswith(self._prefix):
            raise RuntimeError("a campaign of somebody else was about to be shown")
        return kept.removeprefix(self._prefix)
