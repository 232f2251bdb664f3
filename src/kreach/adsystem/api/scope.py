"""The campaigns that a caller may name: an operator any, an advertiser its own.

The campaign `spring` of `acme` is stored as `acme.spring`. The prefix is added to every id that
comes in and removed from every id that goes out, so an advertiser cannot name a campaign of
another: such a request is about an own campaign that does not exist.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from kreach.adsystem.access.key import as_advertiser
from kreach.adsystem.campaigns.campaign import ID_PART, ID_RULE
from kreach.adsystem.campaigns.store import CampaignExists, UnknownCampaign
from kreach.adsystem.reports.report import CampaignDefinition, CampaignList
from kreach.adsystem.reports.service import ReportService
from kreach.errors import KreachError

__all__ = ["CampaignScope"]

_OWN_ID = re.compile(ID_PART)
D = TypeVar("D", bound=msgspec.Struct)


class CampaignScope:
    """A report service as one caller may use it; without an advertiser, all campaigns."""

    def __init__(self, service: ReportService, advertiser: str | None = None) -> None:
        self.service = service
        self._advertiser = None if advertiser is None else as_advertiser(advertiser)
        self._prefix = "" if advertiser is None else f"{self._advertiser}."

    def ask(self, question: Callable[..., D], campaign: str, *args: Any) -> D:
        """Ask the service about a campaign, by the caller's name for it."""
        try:
            return self._own(question(self._prefix + campaign, *args))
        except UnknownCampaign:
            raise UnknownCampaign(campaign) from None

    def create(self, document: dict[str, Any]) -> CampaignDefinition:
        """Store a new campaign; another advertiser may have one of the same name."""
        name = document.get("id")
        if self._prefix and not (isinstance(name, str) and _OWN_ID.fullmatch(name)):
            raise KreachError.rule("id", ID_RULE, name)
        try:
            return self._own(self.service.create(document | {"id": f"{self._prefix}{name}"}))
        except CampaignExists:
            raise CampaignExists(str(name)) from None

    def listing(self, after: str | None, limit: int) -> CampaignList:
        """The caller's campaigns in the order they were created."""
        stored = None if after is None else self._prefix + after
        try:
            page = self.service.listing(stored, limit, self._advertiser)
        except UnknownCampaign:
            raise UnknownCampaign(str(after)) from None
        return msgspec.structs.replace(
            page,
            campaigns=tuple(self._own(campaign) for campaign in page.campaigns),
            next=None if page.next is None else self._name(page.next),
        )

    def _own(self, document: D) -> D:
        """A copy, for documents are cached, with the campaign under the caller's name."""
        if not self._prefix:
            return document
        field = "id" if hasattr(document, "id") else "campaign"
        name = self._name(getattr(document, field))
        return msgspec.structs.replace(document, **{field: name})

    def _name(self, stored: str) -> str:
        """The caller's name of a campaign. Another advertiser's campaign here is a bug."""
        if not stored.startswith(self._prefix):
            raise RuntimeError("a campaign of another advertiser was about to be shown")
        return stored.removeprefix(self._prefix)
