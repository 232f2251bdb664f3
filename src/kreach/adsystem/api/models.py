"""What goes in and comes out, as the API describes it. The rules of a campaign are its own."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kreach.adsystem.campaigns.campaign import ID, ID_RULE, MAX_CPM
from kreach.adsystem.settings import EVERYONE

__all__ = [
    "CampaignChange",
    "CampaignDefinition",
    "CampaignIn",
    "CampaignList",
    "CampaignStatus",
    "CatalogueList",
    "CurveDocument",
    "Failure",
    "Health",
    "PacingDocument",
    "PlanDocument",
    "ReachDocument",
    "SeriesDocument",
    "SuppressionList",
]


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


Text = Annotated[str, AfterValidator(_writable)]
Words = Annotated[Text, Field(min_length=1, max_length=20_000)]
Moment = Annotated[Text, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Money = Annotated[float, Field(gt=0, lt=1e12)]
Cpm = Annotated[float, Field(ge=0, le=MAX_CPM)]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class CapIn(_In):
    """At most `limit` impressions a person within `span_seconds`; null for the whole flight."""

    limit: int = Field(ge=1, le=1_000)
    span_seconds: float | None = Field(None, gt=0, le=1e10)


class CreativeIn(_In):
    """What is shown."""

    id: Words | None = None
    markup: Words | None = None
    width: int | None = Field(None, ge=1, le=100_000)
    height: int | None = Field(None, ge=1, le=100_000)
    domains: list[Annotated[Text, Field(max_length=253)]] = Field([], max_length=100)


class CampaignIn(_In):
    """A new campaign. Money is in the currency of the ad system, limits of bids per thousand."""

    id: Annotated[str, AfterValidator(_id), Field(json_schema_extra={"pattern": f"^{ID}$"})]
    budget: Money
    start: Moment
    end: Moment
    caps: list[CapIn] = Field(
        default_factory=lambda: [CapIn(limit=1, span_seconds=None)], min_length=1, max_length=10
    )
    daily_budget: Money | None = None
    audience: Annotated[Text, Field(min_length=1, max_length=200)] = EVERYONE
    auction: str = Field("second_price", pattern="^(second_price|first_price)$")
    bidder: str = Field("planning", pattern="^(planning|paper)$")
    min_cpm: Cpm = 0.0
    max_cpm: Cpm = MAX_CPM
    market_mu: float | None = Field(None, gt=-50, lt=50)
    market_sigma: float | None = Field(None, gt=0, lt=20)
    expected_requests: int | None = Field(None, ge=1, le=2**53)
    creative: CreativeIn | None = None
    state: str = Field("running", pattern="^(running|paused|ended)$")


class CampaignChange(_In):
    """What may change while a campaign runs; what is left out stays."""

    budget: Money | None = None
    daily_budget: Money | None = None
    end: Moment | None = None
    state: str | None = Field(None, pattern="^(running|paused|ended)$")
    min_cpm: Cpm | None = None
    max_cpm: Cpm | None = None
    creative: CreativeIn | None = None


class _Out(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Allowed(_Out):
    """The nearest times around those asked for at which a window may start and end."""

    start: list[str]
    end: list[str]


class Failure(_Out):
    """The one form of error: field, rule and value; why something is withheld, and what is not."""

    error: str
    reason: str | None = None
    allowed: Allowed | None = None


class Suppressed(_Out):
    """What a document does not tell an advertiser, and why."""

    what: str
    reason: str
    why: str
    allowed: Allowed | None = None


class CapOut(_Out):
    """A frequency cap."""

    limit: int
    span_seconds: float | None


class CreativeOut(_Out):
    """What is shown."""

    id: str | None
    markup: str | None
    width: int | None
    height: int | None
    domains: list[str]


class CampaignDefinition(_Out):
    """A campaign as it is kept."""

    id: str
    budget: float
    start: str
    end: str
    caps: list[CapOut]
    daily_budget: float | None
    audience: str
    auction: str
    bidder: str
    min_cpm: float
    max_cpm: float
    market_mu: float | None
    market_sigma: float | None
    expected_requests: int | None
    creative: CreativeOut
    state: str


class Tally(_Out):
    """What a campaign has come to, on all catalogues.

    For advertisers up to `as_of`; null where nothing may be told, for what `suppressed` says.
    """

    impressions: int | None
    spend_micros: int | None
    spend: float | None
    budget_left_micros: int | None
    budget_left: float | None
    as_of: str | None = None
    suppressed: list[Suppressed] = []


class Summary(Tally):
    """In the list: reach is that on `catalogue`."""

    catalogue: str | None
    unique_reach: float | None


class CampaignSummary(CampaignDefinition):
    """A campaign of the list."""

    status: Summary


class CampaignList(_Out):
    """Campaigns in the order they were made; `next` goes into `after` for the rest."""

    currency: str
    campaigns: list[CampaignSummary]
    next: str | None


class NoiseOut(_Out):
    """How a noisy answer was made: its part of the budget (ρ), and the σ of one of its numbers."""

    rho: float
    max_per_person: int
    std_people: float
    std_impressions: float
    std_spend_micros: float


class CapReport(_Out):
    """Reach at one cap; with noise, without bounds."""

    cap: int
    impressions: int
    reach: float
    std: float
    interval: list[float]
    level: float
    interval_method: str
    bounds: list[int] | None
    bounds_attained: list[bool] | None
    over_exposed: float
    unique_reach: float
    unique_reach_interval: list[float]
    average_frequency: float
    average_frequency_interval: list[float]
    frequency: list[float]
    at_least: list[float]
    at_least_intervals: list[list[float]]


class Pace(_Out):
    """How a campaign stood at `ts`, as the bidder wrote it down; for advertisers, as the log says.

    Advertisers get impressions and spend, and null for the rest.
    """

    ts: str
    multiplier: float | None
    spent_micros: int
    impressions: int | None = None
    reserved_micros: int | None
    carried_micros: int | None
    requests: int | None
    bids: int | None
    wins: int | None
    losses: int | None
    win_rate: float | None


class Status(Summary):
    """How a campaign stands: reach so far by cap, and the bidder's last word."""

    people: int | None
    reach: list[CapReport]
    pace: Pace | None
    noise: NoiseOut | None = None


class CampaignStatus(CampaignDefinition):
    """A campaign and how it stands."""

    status: Status


class Flight(_Out):
    """When a campaign runs."""

    start: str
    end: str


class ReachDocument(_Out):
    """A reach report; `spend` is that of the impressions in it."""

    campaign: str
    start: str | None
    end: str | None
    catalogue: str
    impressions: int | None
    rejected: dict[str, int | None]
    warnings: dict[str, int | None]
    people: int | None
    basis: str | None
    reports: list[CapReport]
    audience: str
    state: str
    flight: Flight
    spend_micros: int | None
    spend: float | None
    currency: str
    suppressed: list[Suppressed] = []
    noise: NoiseOut | None = None


class SeriesPeriod(_Out):
    """One period alone, and everything from the start of the series to its end.

    With noise either may be null, for what `suppressed` says.
    """

    start: str
    end: str
    impressions: int | None
    period: list[CapReport] | None
    cumulative: list[CapReport] | None


class SeriesDocument(ReachDocument):
    """The report of the whole window, and period by period."""

    by: str
    series: list[SeriesPeriod]


class CurveReport(_Out):
    """Reach at one cap, in short."""

    cap: int
    reach: float
    std: float
    interval: list[float]
    level: float
    interval_method: str


class CurvePoint(_Out):
    """Everything up to `ts`."""

    ts: str
    impressions: int
    reports: list[CurveReport]


class CurveDocument(_Out):
    """Reach so far over time; with noise, at the points where it is told."""

    campaign: str
    catalogue: str
    people: int | None
    by: str
    points: list[CurvePoint]
    suppressed: list[Suppressed] = []


class PacingDocument(_Out):
    """How the money went."""

    campaign: str
    budget_micros: int
    pacing: list[Pace]
    suppressed: list[Suppressed] = []


class MarketOut(_Out):
    """ln of the price per thousand is normal with these."""

    mu: float
    sigma: float
    auction: str


class OutlookOut(_Out):
    """What to expect of a budget; `band` holds reach with probability `level`."""

    budget: float
    spend: float
    reach: float
    band: list[float]
    level: float
    impressions: float
    average_frequency: float
    multiplier: float


class PlanDocument(_Out):
    """Budget to reach and back; with `group_size`, as if groups were of that size."""

    campaign: str
    catalogue: str
    currency: str
    people: int
    groups: int
    group_size: int | None
    cap: int
    requests: int
    market: MarketOut
    plans: list[OutlookOut]


class CatalogueOut(_Out):
    """A release of groups: what it promises, and what it tells about visits."""

    version: str
    created: str
    group_size: int
    groups: int
    people: int
    min_group: int
    mean_group: float
    visits: str
    dispersion: float | None
    class_floor: int | None


class CatalogueList(_Out):
    """Releases, the newest last, and the audiences that campaigns can have on them."""

    catalogues: list[CatalogueOut]
    audiences: list[str]
    currency: str


class Suppression(_Out):
    """A question about a campaign that was not answered in full: why, and how often."""

    reason: str
    campaign: str
    asked: str
    first: str
    last: str
    times: int


class SuppressionList(_Out):
    """The newest first; counts by reason are since the service started."""

    by_reason: dict[str, int]
    suppressions: list[Suppression]


class Health(_Out):
    """Whether the service can answer; who has no right to the rest is told the status only."""

    status: str
    log: str | None = None
    catalogues: list[str] | None = None
    campaigns: int | None = None
