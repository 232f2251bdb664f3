"""Request bodies. FastAPI checks types and ranges here, `campaigns.campaign` the other rules."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kreach.adsystem.campaigns.campaign import ID, ID_RULE, MAX_CPM, MAX_NAME
from kreach.adsystem.campaigns.creative import MAX_CREATIVES
from kreach.adsystem.settings import EVERYONE

__all__ = ["CampaignChange", "CampaignIn", "FamilyChange", "FamilyIn", "PlanIn", "ReviewIn"]


def _writable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be text that can be written in UTF-8") from None
    return text


def _id(text: str) -> str:
    if not re.fullmatch(ID, text):
        raise ValueError(f"must {ID_RULE}; at most one dot after an advertiser's name")
    return text


def _address(text: str) -> str:
    if not re.fullmatch(_ADDRESS, text):
        raise ValueError("must be an address that begins with https:// or http://, without spaces")
    return text


def _language(text: str) -> str:
    if not re.fullmatch(_LANGUAGE, text):
        raise ValueError("must be two small letters (ISO 639-1), such as en")
    return text


_ADDRESS, _LANGUAGE = "https?://[^ ]+", "[a-z]{2}"
Name = Annotated[str, AfterValidator(_id), Field(json_schema_extra={"pattern": f"^{ID}$"})]
Text = Annotated[str, AfterValidator(_writable)]
Words = Annotated[Text, Field(min_length=1, max_length=20_000)]
Moment = Annotated[Text, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Address = Annotated[
    Text,
    AfterValidator(_address),
    Field(max_length=2_000, json_schema_extra={"pattern": f"^{_ADDRESS}$"}),
]
Language = Annotated[
    Text, AfterValidator(_language), Field(json_schema_extra={"pattern": f"^{_LANGUAGE}$"})
]
Title = Annotated[Text, Field(min_length=1, max_length=MAX_NAME)]
DealId = Annotated[Text, Field(min_length=1, max_length=256)]
Numbers = list[Annotated[int, Field(ge=1, le=1_000)]]
Money = Annotated[float, Field(gt=0, lt=1e12)]
Amount = Annotated[float, Field(ge=1e-6, lt=1e12)]  # a micro, at least
Cpm = Annotated[float, Field(ge=0, le=MAX_CPM)]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class CapIn(_In):
    """At most `limit` impressions a person within `span_seconds`; null for the whole flight."""

    limit: int = Field(ge=1, le=1_000)
    span_seconds: float | None = Field(None, gt=0, le=1e10)


class SizeIn(_In):
    """Width and height in pixels."""

    width: int = Field(ge=1, le=100_000)
    height: int = Field(ge=1, le=100_000)


class NativeImageIn(SizeIn):
    """An image of a native ad."""

    url: Address


class NativeTextIn(_In):
    """A text of a native ad; `type` is a data asset type: 1 sponsored by, 2 description, …"""

    type: int = Field(ge=1, le=1_000)
    value: Words


class NativeIn(_In):
    """What a native ad consists of; a place takes what it has room for."""

    link: Address
    title: Words | None = None
    image: NativeImageIn | None = None
    icon: NativeImageIn | None = None
    texts: list[NativeTextIn] = Field([], max_length=20)
    trackers: list[Address] = Field([], max_length=20)


class CreativeIn(_In):
    """An ad and what it declares; numbers are those of AdCOM 1.0, as in OpenRTB."""

    id: Words | None = None
    kind: Literal["banner", "video", "audio", "native"] = "banner"
    markup: Words | None = None
    native: NativeIn | None = None
    width: int | None = Field(None, ge=1, le=100_000)
    height: int | None = Field(None, ge=1, le=100_000)
    sizes: list[SizeIn] = Field([], max_length=50)
    weight: int = Field(1, ge=1, le=1_000)
    domains: list[Annotated[Text, Field(max_length=253)]] = Field([], max_length=100)
    categories: list[Annotated[Text, Field(max_length=100)]] = Field([], max_length=100)
    category_taxonomy: int = Field(1, ge=1, le=1_000)
    attributes: Numbers = Field([], max_length=100)
    apis: Numbers = Field([], max_length=100)
    mimes: list[Annotated[Text, Field(max_length=100)]] = Field([], max_length=100)
    duration_seconds: int | None = Field(None, ge=1, le=86_400)
    protocols: Numbers = Field([], max_length=100)
    linearity: int | None = Field(None, ge=1, le=2)
    rolls: list[Literal["pre", "mid", "post"]] = Field([], max_length=3)
    placements: Numbers = Field([], max_length=100)
    expands: Numbers = Field([], max_length=100)
    language: Language | None = None
    bundle: Annotated[Text, Field(min_length=1, max_length=500)] | None = None
    secure: bool | None = None


class ReviewIn(_In):
    """A decision on a creative, by its key. A rejection needs a reason, an approval the version."""

    creative: Words
    decision: Literal["approve", "reject"]
    version: Annotated[Text, Field(min_length=1, max_length=64)] | None = None
    reason: Annotated[Text, Field(min_length=1, max_length=500)] | None = None


class CampaignIn(_In):
    """A new campaign. Money is in the ad system's currency, bid limits are CPM."""

    id: Name
    name: Title | None = None
    budget: Money
    start: Moment
    end: Moment
    caps: list[CapIn] = Field(
        default_factory=lambda: [CapIn(limit=1, span_seconds=None)], min_length=1, max_length=10
    )
    daily_budget: Money | None = None
    audience: Annotated[Text, Field(min_length=1, max_length=200)] = EVERYONE
    bidder: str = Field("planning", pattern="^(planning|paper)$")
    min_cpm: Cpm = 0.0
    max_cpm: Cpm
    market_mu: float | None = Field(None, gt=-50, lt=50)
    market_sigma: float | None = Field(None, gt=0, lt=20)
    expected_requests: int | None = Field(None, ge=1, le=2**53)
    max_cost_per_reach: Money | None = None
    creative: CreativeIn | None = None
    creatives: list[CreativeIn] = Field(default_factory=list, max_length=MAX_CREATIVES)
    deals: list[DealId] = Field(default_factory=list, max_length=100)
    deals_only: bool = False
    state: str = Field("running", pattern="^(running|paused|ended)$")
    family: Name | None = None


class PlanIn(_In):
    """A flight to plan: budgets, wanted people, or both.

    `requests` and the market default to what bidders observed; then the flight needs its times.
    """

    audience: Annotated[Text, Field(min_length=1, max_length=200)] = EVERYONE
    start: Moment | None = None
    end: Moment | None = None
    cap: int = Field(1, ge=1, le=1_000)
    budgets: list[Amount] = Field([], max_length=8)
    people: float | None = Field(None, ge=1, lt=1e12)
    requests: int | None = Field(None, ge=1, le=10**10)
    market_mu: float | None = Field(None, gt=-50, lt=50)
    market_sigma: float | None = Field(None, gt=0, lt=20)
    auction: Literal["second_price", "first_price"] = "second_price"
    max_cost_per_reach: Amount | None = None
    group_size: int | None = Field(None, ge=1, le=1_000_000)
    level: float = Field(0.95, ge=0.01, le=0.9999)
    precision: Literal["coarse", "fine"] = "fine"
    with_ids: bool = False


class FamilyIn(_In):
    """A new family: caps, a budget, or both, for all its campaigns together."""

    id: Name
    caps: list[CapIn] = Field(default_factory=list, max_length=10)
    budget: Money | None = None


class FamilyChange(_In):
    """Changes to a family; null is no budget."""

    budget: Money | None = None


class CampaignChange(_In):
    """Changes to a running campaign; omitted fields stay."""

    name: Title | None = None
    budget: Money | None = None
    daily_budget: Money | None = None
    end: Moment | None = None
    state: str | None = Field(None, pattern="^(running|paused|ended)$")
    min_cpm: Cpm | None = None
    max_cpm: Cpm | None = None
    max_cost_per_reach: Money | None = None
    creative: CreativeIn | None = None
    creatives: list[CreativeIn] | None = Field(None, max_length=MAX_CREATIVES)
    deals: list[DealId] | None = Field(None, max_length=100)
    deals_only: bool | None = None
