"""The campaigns that a caller may name: an operator any, an advertiser its own.

The campaign `spring` of `acme` is stored as `acme.spring`. The prefix is added to every id that
comes in and removed from every id that goes out, so an advertiser cannot name a campaign of
another: such a request is about an own campaign that does not exist.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from kreach.adsystem.access.key import as_advertiser
from kreach.adsystem.campaigns.campaign import ID_PART, ID_RULE
from kreach.adsystem.campaigns.store import (
    CampaignExists,
    FamilyExists,
    NoSuchFamily,
    UnknownCampaign,
    UnknownFamily,
)
from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.reports.questions import ReachQuestion
from kreach.adsystem.reports.report import (
    CampaignDefinition,
    CampaignList,
    FamilyDefinition,
    FamilyList,
)
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.settings import AdvertiserLimits
from kreach.errors import KreachError

__all__ = ["MAX_TOGETHER", "CampaignScope"]

MAX_TOGETHER = 30

_OWN_ID = re.compile(ID_PART)
D = TypeVar("D", bound=msgspec.Struct)


class CampaignScope:
    """A report service as one caller may use it; without an advertiser, all campaigns."""

    def __init__(
        self,
        service: ReportService,
        advertiser: str | None = None,
        limits: AdvertiserLimits | None = None,
    ) -> None:
        self.service, self._limits = service, limits
        self._advertiser = None if advertiser is None else as_advertiser(advertiser)
        self._prefix = "" if advertiser is None else f"{self._advertiser}."

    def ask(self, question: Callable[..., D], campaign: str, *args: Any) -> D:
        """Ask the service about a campaign, by the caller's name for it."""
        try:
            return self._own(question(self._prefix + campaign, *args))
        except UnknownCampaign:
            raise UnknownCampaign(campaign) from None

    def together(self, campaigns: Sequence[str], question: ReachQuestion) -> CombinedDocument:
        """Several of the caller's campaigns, alone and together."""
        named = list(dict.fromkeys(campaigns))
        try:
            return self.service.together([self._prefix + one for one in named], named, question)
        except UnknownCampaign as error:
            raise UnknownCampaign(error.campaign_id.removeprefix(self._prefix)) from None

    def create(self, document: dict[str, Any]) -> CampaignDefinition:
        """Store a new campaign; another advertiser may have one of the same name."""
        name = document.get("id")
        self._check_own("id", name)
        family = document.get("family")
        named: dict[str, Any] = {"id": f"{self._prefix}{name}"}
        if family is not None:
            self._check_own("family", family)
            named["family"] = f"{self._prefix}{family}"
        try:
            return self._own(self.service.create(document | named, self._limits))
        except CampaignExists:
            raise CampaignExists(str(name)) from None
        except NoSuchFamily:
            raise NoSuchFamily(str(family)) from None

    def change(self, campaign: str, changes: dict[str, Any]) -> CampaignDefinition:
        """Change a campaign within the caller's limits."""
        return self.ask(self.service.change, campaign, changes, self._limits)

    def create_family(self, document: dict[str, Any]) -> FamilyDefinition:
        """Store a new family; another advertiser may have one of the same name."""
        name = document.get("id")
        self._check_own("id", name)
        try:
            named = document | {"id": f"{self._prefix}{name}"}
            made = self.service.create_family(named, self._limits)
        except FamilyExists:
            raise FamilyExists(str(name)) from None
        return self._own_family(made)

    def family(
        self, question: Callable[..., FamilyDefinition], family: str, *args: Any
    ) -> FamilyDefinition:
        """Ask the service about a family, by the caller's name for it."""
        try:
            return self._own_family(question(self._prefix + family, *args))
        except UnknownFamily:
            raise UnknownFamily(family) from None

    def family_reach(self, name: str, question: ReachQuestion) -> CombinedDocument:
        """The campaigns of a family, alone and together; caps default to 1 and the family's."""
        family = self.family(self.service.family, name)
        if not 2 <= len(family.campaigns) <= MAX_TOGETHER:
            rule = f"have 2 to {MAX_TOGETHER} campaigns, to be measured together"
            raise KreachError.rule("family", rule, len(family.campaigns))
        caps = question.caps or (1, *(cap.limit for cap in family.caps))
        return self.together(family.campaigns, replace(question, caps=tuple(dict.fromkeys(caps))))

    def families(self) -> FamilyList:
        """The caller's families in the order they were created."""
        found = self.service.families(self._advertiser)
        own = tuple(self._own_family(each) for each in found.families)
        return msgspec.structs.replace(found, families=own)

    def _check_own(self, field: str, name: object) -> None:
        if self._prefix and not (isinstance(name, str) and _OWN_ID.fullmatch(name)):
            raise KreachError.rule(field, ID_RULE, name)

    def _own_family(self, family: FamilyDefinition) -> FamilyDefinition:
        return msgspec.structs.replace(
            family,
            id=self._name(family.id),
            campaigns=tuple(self._name(each) for each in family.campaigns),
        )

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
        names = {field: self._name(getattr(document, field))}
        family = getattr(document, "family", None)
        if family is not None:
            names["family"] = self._name(family)
        return msgspec.structs.replace(document, **names)

    def _name(self, stored: str) -> str:
        """The caller's name of a campaign or family. Another advertiser's here is a bug."""
        if not stored.startswith(self._prefix):
            raise RuntimeError("a campaign of another advertiser was about to be shown")
        return stored.removeprefix(self._prefix)
