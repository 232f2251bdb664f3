"""The report types: what the HTTP API answers, `--json` prints, jobs store and the console reads.

Each struct is encoded by `to_json` and decoded by `msgspec`; its OpenAPI schema is generated from
it (`schemas`). A field of type `MayWithhold` is null where a disclosure policy withholds it, and
`suppressed` then says why; no policy may null any other field. A field that only a running service
can fill is absent (UNSET) from reports on files.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kreach.adsystem.reports import tables
from kreach.display.objects import Tabular
from kreach.display.table import Columns, Table, columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Allowed",
    "AnonymityCost",
    "CampaignDefinition",
    "CampaignList",
    "CampaignStatus",
    "CampaignSummary",
    "CapReport",
    "CatalogueList",
    "CatalogueSummary",
    "CorrectionInfo",
    "Creative",
    "Crossed",
    "CurveDocument",
    "CurvePoint",
    "CurveReport",
    "Document",
    "ErrorDocument",
    "ErrorInfo",
    "FamilyDefinition",
    "FamilyList",
    "FieldError",
    "Flight",
    "FrequencyCap",
    "Health",
    "Inventory",
    "LogSource",
    "Market",
    "MayWithhold",
    "ModelInfo",
    "NoiseInfo",
    "Outlook",
    "Pace",
    "PacingDocument",
    "PlanDocument",
    "PrivacyBudget",
    "ReachDocument",
    "SeriesDocument",
    "SeriesPeriod",
    "SpentBudget",
    "Status",
    "Summary",
    "Suppressed",
    "Suppression",
    "SuppressionList",
    "ViewerInfo",
    "schemas",
    "to_json",
]

T = TypeVar("T")
MayWithhold = Annotated[T | None, Meta(extra_json_schema={"x-may-withhold": True})]
Interval = tuple[float, float]
"""Low and high."""


class Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen value with named fields, of which a reader knows every one."""

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values, as JSON has them."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Allowed(Document, frozen=True, kw_only=True):
    """The nearest times around those requested at which a window may start and end."""

    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


class FieldError(Document, frozen=True, kw_only=True):
    """One wrong field: its name, a code for programs, a message for people."""

    field: str
    code: str
    message: str


class ErrorInfo(Document, frozen=True, kw_only=True):
    """What is wrong. `reason` and `allowed` are set where an answer is withheld."""

    message: str
    fields: tuple[FieldError, ...] = ()
    reason: str | None = None
    allowed: Allowed | None = None


class ErrorDocument(Document, frozen=True, kw_only=True):
    """The one form of error."""

    error: ErrorInfo


class Suppressed(Document, frozen=True, kw_only=True):
    """A part of a document that is withheld from an advertiser, and why."""

    what: str
    reason: str
    why: str
    allowed: Allowed | None = None


class NoiseInfo(Document, frozen=True, kw_only=True):
    """The noise of an answer: its share of the budget (ρ), the σ of each number."""

    rho: float
    max_per_person: int
    std_people: float
    std_impressions: float
    std_spend_micros: float


# -- campaigns --------------------------------------------------------------------------------


class FrequencyCap(Document, frozen=True, kw_only=True):
    """At most `limit` impressions a person within `span_seconds`; null for the whole flight."""

    limit: int
    span_seconds: float | None


class CreativeSize(Document, frozen=True, kw_only=True):
    """Width and height in pixels."""

    width: int
    height: int


class NativeImage(Document, frozen=True, kw_only=True):
    """An image of a native ad."""

    url: str
    width: int
    height: int


class NativeText(Document, frozen=True, kw_only=True):
    """A text of a native ad, by its data asset type."""

    type: int
    value: str


class NativeAd(Document, frozen=True, kw_only=True):
    """What a native ad consists of."""

    link: str
    title: str | None = None
    image: NativeImage | None = None
    icon: NativeImage | None = None
    texts: tuple[NativeText, ...] = ()
    trackers: tuple[str, ...] = ()


class Creative(Document, frozen=True, kw_only=True):
    """An ad and what it declares. `key` is its id, or else its `version`.

    `version` changes with anything in it; an operator who approves it names what was looked at.
    `review` is approved, pending or rejected; only approved creatives are shown.
    """

    id: str | None
    markup: str | None
    width: int | None
    height: int | None
    domains: tuple[str, ...]
    key: str | None = None
    version: str | None = None
    kind: str = "banner"
    native: NativeAd | None = None
    sizes: tuple[CreativeSize, ...] = ()
    weight: int = 1
    categories: tuple[str, ...] = ()
    category_taxonomy: int = 1
    attributes: tuple[int, ...] = ()
    apis: tuple[int, ...] = ()
    mimes: tuple[str, ...] = ()
    duration_seconds: int | None = None
    protocols: tuple[int, ...] = ()
    linearity: int | None = None
    rolls: tuple[str, ...] = ()
    placements: tuple[int, ...] = ()
    expands: tuple[int, ...] = ()
    language: str | None = None
    bundle: str | None = None
    secure: bool | None = None
    review: str = "approved"
    review_reason: str | None = None


class CampaignDefinition(Document, frozen=True, kw_only=True):
    """A campaign as it is stored. Money is in the ad system's currency, bid limits are CPM.

    `name` is for people and may have spaces; without one they read the id.
    `in_force` says whether all bidders bid by it: after a change it is false for a moment, and once
    it is true nothing is bid beyond a lowered budget. Null while there is no bidder.
    """

    id: str
    name: str | None = None
    budget: float
    start: str
    end: str
    caps: tuple[FrequencyCap, ...]
    daily_budget: float | None
    audience: str
    bidder: str
    min_cpm: float
    max_cpm: float
    market_mu: float | None
    market_sigma: float | None
    expected_requests: int | None
    max_cost_per_reach: float | None
    creative: Creative
    creatives: tuple[Creative, ...] = ()
    deals: tuple[str, ...] = ()
    deals_only: bool = False
    state: str
    family: str | None = None
    in_force: bool | None = None


class FamilyDefinition(Document, frozen=True, kw_only=True):
    """A family as it is stored, and the campaigns in it.

    `caps` hold for what a person sees of all its campaigns, `budget` for what all of them spend.
    `in_force` says whether all bidders bid by it, as for campaigns.
    """

    id: str
    caps: tuple[FrequencyCap, ...]
    budget: float | None
    campaigns: tuple[str, ...]
    in_force: bool | None = None


class FamilyList(Document, frozen=True, kw_only=True):
    """Families in the order they were created."""

    currency: str
    families: tuple[FamilyDefinition, ...]


class Summary(Document, frozen=True, kw_only=True):
    """Delivery of a campaign on all catalogues; `unique_reach` is that on `catalogue`.

    `delivery` is the state for people: running, limited, budget spent, paused, scheduled,
    completed, ended, or what a running campaign lacks to bid; `delivery_reason` says why it does
    not deliver as it should. For advertisers up to `as_of`. `not_bidding` is the lack alone: "no
    creative", "creative in review" or "creative rejected".
    """

    impressions: MayWithhold[int]
    spend_micros: MayWithhold[int]
    spend: MayWithhold[float]
    budget_left_micros: MayWithhold[int]
    budget_left: MayWithhold[float]
    delivery: str = "running"
    delivery_reason: MayWithhold[str] = None
    not_bidding: str | None = None
    as_of: str | None = None
    catalogue: str | None = None
    unique_reach: MayWithhold[float] = None
    suppressed: tuple[Suppressed, ...] = ()


class CampaignSummary(CampaignDefinition, frozen=True, kw_only=True):
    """A campaign in a list."""

    status: Summary


class CampaignList(Document, frozen=True, kw_only=True):
    """Campaigns in the order they were created; `next` goes into `after` for the next page."""

    currency: str
    campaigns: tuple[CampaignSummary, ...]
    next: str | None


# -- reach ------------------------------------------------------------------------------------


class CapReport(Document, frozen=True, kw_only=True):
    """Reach at one frequency cap.

    `unique_reach` are the people reached (cap 1), `reach` the impressions within the cap,
    `over_exposed` the people with more impressions than the cap. `frequency` counts people by
    impressions (0, 1, ..., 9, and 10 or more), `at_least` people with 1, 2, ... or more.
    """

    cap: int
    impressions: int
    reach: float
    std: float
    interval: Interval
    level: float
    interval_method: str
    bounds: MayWithhold[tuple[int, int]]
    bounds_attained: MayWithhold[tuple[bool, bool]]
    over_exposed: float
    unique_reach: float
    unique_reach_interval: Interval
    average_frequency: float
    average_frequency_interval: Interval
    frequency: tuple[float, ...]
    at_least: tuple[float, ...]
    at_least_intervals: tuple[Interval, ...]


class ModelInfo(Document, frozen=True, kw_only=True):
    """How the people of a group share its impressions.

    `name` is "visit model" (the site's sessions and hours, fitted by the publisher on so many
    people and days of history), or without one "dispersion", "visit shares" or "uniform": the
    formulas that know no times. `error` is the standard deviation of measured over true reach on
    windows of this length when the publisher replayed its history; intervals include it.

    `traffic` is how busy the site was taken to be, relative to that history. `traffic_source` is
    "counted" (from the requests that bidders counted), "given" (by the caller) or "history" (as
    then, 1); `traffic_note` says over which hours, or why requests that should have been counted
    were not used.
    """

    name: str
    fitted_people: int | None = None
    history_days: float | None = None
    error: float | None = None
    traffic: float | None = None
    traffic_source: str | None = None
    traffic_note: str | None = None


class CorrectionInfo(Document, frozen=True, kw_only=True):
    """What a publisher's panel changed in a report.

    The panel counted true reach in a secret sample (`panel_share`) of the groups, for everything
    before `released`. `model_unique_reach` is the model's number, `panel_unique_reach` model +
    panel, which is unbiased and has the standard deviation `panel_std`. The report shows `weight`
    of the second and the rest of the first, moved as on `other_campaigns` of the site. Caps above
    `max_cap` are the model's. `rho` is what all releases of the panel cost in privacy. `alarm`
    says that the model is off by more than it states itself.
    """

    released: str
    panel_share: float
    max_cap: int
    model_unique_reach: float
    panel_unique_reach: float
    panel_std: float
    weight: float
    other_campaigns: int
    rho: float | None
    alarm: str | None = None


class Flight(Document, frozen=True, kw_only=True):
    """The start and end of a campaign."""

    start: str
    end: str


class ReachDocument(Document, Tabular, frozen=True, kw_only=True):
    """A reach report of one window.

    `rejected` counts rows that do not count, by reason; `warnings` rows that count but that one
    should know of. `basis` names the theorem and the assumptions behind the numbers, `model` how
    visits are modelled.
    """

    campaign: str | None
    start: str | None
    end: str | None
    catalogue: str | None
    impressions: MayWithhold[int]
    rejected: dict[str, MayWithhold[int]]
    warnings: dict[str, MayWithhold[int]]
    people: int
    basis: MayWithhold[str]
    reports: tuple[CapReport, ...]
    model: MayWithhold[ModelInfo] = None
    correction: MayWithhold[CorrectionInfo] = None
    audience: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    flight: Flight | UnsetType = UNSET
    spend_micros: MayWithhold[int] | UnsetType = UNSET
    spend: MayWithhold[float] | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    suppressed: tuple[Suppressed, ...] | UnsetType = UNSET
    noise: NoiseInfo | UnsetType | None = UNSET

    def _columns(self) -> Columns:
        return columns_of(tables.reach_rows(self))

    def _display(self) -> Table:
        return tables.reach_table(self)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach by cap, with intervals."""
        return tables.reach_plot(self, ax)

    def __repr__(self) -> str:
        caps = [report.cap for report in self.reports]
        reach = tables.text_list([report.reach for report in self.reports])
        return f"{type(self).__name__}({tables.subject(self)}; caps={caps}, reach={reach})"


class SeriesPeriod(Document, frozen=True, kw_only=True):
    """One period alone, and everything from the start of the series to its end."""

    start: str
    end: str
    impressions: MayWithhold[int]
    period: MayWithhold[tuple[CapReport, ...]]
    cumulative: MayWithhold[tuple[CapReport, ...]]


class SeriesDocument(ReachDocument, frozen=True, kw_only=True):
    """The report of the whole window, and period by period."""

    by: str
    series: tuple[SeriesPeriod, ...]

    def _columns(self) -> Columns:
        return columns_of(tables.series_rows(self))

    def _display(self) -> Table:
        return tables.series_table(self)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach to date with its interval, and each period's own reach as bars."""
        return tables.series_plot(self, ax)


class CurveReport(Document, frozen=True, kw_only=True):
    """Reach at one cap, in short."""

    cap: int
    reach: float
    std: float
    interval: Interval
    level: float
    interval_method: str

    @classmethod
    def short(cls, report: CapReport) -> "CurveReport":
        """The fields of a report that a curve shows."""
        return cls(**{name: getattr(report, name) for name in cls.__struct_fields__})


class CurvePoint(Document, frozen=True, kw_only=True):
    """Everything up to `ts`."""

    ts: str
    impressions: int
    reports: tuple[CurveReport, ...]


class CurveDocument(Document, Tabular, frozen=True, kw_only=True):
    """Reach so far over time; with noise, at the points that are released."""

    campaign: str
    catalogue: str
    people: int
    by: str
    points: tuple[CurvePoint, ...]
    suppressed: tuple[Suppressed, ...] = ()

    def _columns(self) -> Columns:
        return columns_of(tables.curve_rows(self))

    def _display(self) -> Table:
        rows = [
            {"time": row["ts"], **{name: row[name] for name in ("impressions", "cap", "reach")}}
            for row in tables.curve_rows(self)
        ]
        return Table(f"{self.campaign}, reach to date by {self.by}", columns_of(rows))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach so far over time, a line per cap."""
        return tables.curve_plot(self, ax)

    def __repr__(self) -> str:
        return f"CurveDocument({self.campaign}, by {self.by}, {len(self.points)} points)"


# -- pacing and status ------------------------------------------------------------------------


class Pace(Document, frozen=True, kw_only=True):
    """Pacing at `ts` as the bidder recorded it; for advertisers, impressions and spend only.

    `cost_per_reach` is what a further reach may cost by the plan in force: 1/λ. The newest record
    of a campaign also has the limit of that, `max_cost_per_reach`: the campaign's own, or the
    default by the market as it is known. `under_delivery` says why the
    budget will not be spent: too few eligible requests (left), the bid limit, other campaigns, that
    limit, the daily budget, less left than an impression costs, or the budget or the cap of the
    campaign's family. `open_exposure_micros` is what bids that are out may still
    cost, also beyond a budget that was lowered since. `conflicts` counts impressions for which
    notices named several prices: the first one is booked.
    """

    ts: str
    spent_micros: int
    impressions: int | None = None
    multiplier: MayWithhold[float] = None
    cost_per_reach: MayWithhold[float] = None
    max_cost_per_reach: MayWithhold[float] = None
    reserved_micros: MayWithhold[int] = None
    carried_micros: MayWithhold[int] = None
    requests: MayWithhold[int] = None
    bids: MayWithhold[int] = None
    wins: MayWithhold[int] = None
    losses: MayWithhold[int] = None
    win_rate: MayWithhold[float] = None
    under_delivery: MayWithhold[str] = None
    open_exposure_micros: MayWithhold[int] = None
    conflicts: MayWithhold[int] = None


class PacingDocument(Document, frozen=True, kw_only=True):
    """Spend of the budget over time."""

    campaign: str
    budget_micros: int
    pacing: tuple[Pace, ...]
    suppressed: tuple[Suppressed, ...] = ()


class Status(Summary, frozen=True, kw_only=True):
    """Delivery of a campaign, reach so far by cap, and the bidder's last pacing record.

    `in_force_since` is when the last change came into force, if it came while bidders ran.
    `log_behind_seconds` is how old the log of the slowest bidder on another machine is.
    """

    people: MayWithhold[int] = None
    reach: tuple[CapReport, ...] = ()
    pace: MayWithhold[Pace] = None
    in_force_since: str | None = None
    noise: NoiseInfo | None = None
    correction: MayWithhold[CorrectionInfo] = None
    log_behind_seconds: float | None = None


class CampaignStatus(CampaignDefinition, frozen=True, kw_only=True):
    """A campaign and its delivery."""

    status: Status


# -- plans, catalogues, health ----------------------------------------------------------------


class Market(Document, frozen=True, kw_only=True):
    """The logarithm of the price per thousand is normal with these parameters."""

    mu: float
    sigma: float
    auction: str


class Outlook(Document, frozen=True, kw_only=True):
    """The forecast for a budget; `band` holds reach with probability `level`.

    `people` are those reached at least once, whatever the cap. `unspent` is what will be left of
    the budget and `unspent_reason` why; a further reach costs at most `max_cost_per_reach`.
    """

    budget: float
    spend: float
    reach: float
    band: Interval
    level: float
    impressions: float
    average_frequency: float
    multiplier: float
    unspent: float
    unspent_reason: str | None
    max_cost_per_reach: float | None
    people: float = 0.0
    people_band: Interval = (0.0, 0.0)


class Inventory(Document, frozen=True, kw_only=True):
    """Bid requests as bidders saw them: so many a day over so many days, and the share that ads
    could use on average. Advertisers see two digits."""

    requests_per_day: float
    observed_days: float
    eligible_share: float


class AnonymityCost(Document, frozen=True, kw_only=True):
    """What the same bidder reaches with the same budget: `people` in these groups, and
    `people_with_ids` if every group were one person, who visits as unevenly as people do."""

    budget: float
    people: float
    people_with_ids: float


class VisiblePeople(Document, frozen=True, kw_only=True):
    """Targeted people per group that holds any: a campaign sees no more of a group than these.

    `min` is how many there are at least; for advertisers the promise, not a count of few people.
    `requests` says whose requests the campaign is sent: everyone's, or those of targeted people.
    """

    audience: str
    people: int
    groups: int
    min: int
    median: float
    requests: str


class PlanDocument(Document, Tabular, frozen=True, kw_only=True):
    """Budget to reach and back; with `group_size`, as if groups were of that size.

    It is for a flight from `start` to `end`, and says where requests and prices come from: "given"
    (by the question or the campaign), "observed" (`inventory`) or, for a campaign's prices while
    bidders have seen too few, "assumed". `precision` is coarse or fine.
    """

    campaign: str | None
    catalogue: str
    currency: str
    people: int
    groups: int
    group_size: int | None
    cap: int
    requests: int
    market: Market
    plans: tuple[Outlook, ...]
    visible: VisiblePeople | None = None
    audience: str | None = None
    start: str | None = None
    end: str | None = None
    precision: str = "fine"
    requests_source: str = "given"
    market_source: str = "given"
    inventory: Inventory | None = None
    anonymity: AnonymityCost | None = None

    @property
    def _subject(self) -> str:
        return self.campaign or f"a flight from {self.start} to {self.end}"

    def _columns(self) -> Columns:
        return columns_of([tables.struct_row(one) for one in self.plans])

    def _display(self) -> Table:
        title = f"{self._subject}: {self.people:,} people, cap {self.cap}"
        return tables.plan_table(title, self.plans)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach by spend, with its band."""
        return tables.plan_plot(self._subject, self.cap, self.plans, ax)

    def __repr__(self) -> str:
        reach = tables.text_list([one.reach for one in self.plans])
        return f"PlanDocument({self._subject}; cap={self.cap}, reach={reach})"


class CatalogueSummary(Document, frozen=True, kw_only=True):
    """A release of groups: its guarantee, and what it says about visits."""

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


class Crossed(Document, frozen=True, kw_only=True):
    """All that came over from publishers, by type: releases of groups, group ids in bid requests,
    and corrections of panels with their cost in privacy (ρ). There is no other type."""

    catalogues: int
    group_ids: int
    corrections: int
    panel_rho: float | None = None


class SpentBudget(Document, frozen=True, kw_only=True):
    """What answers about one campaign on one catalogue cost in privacy (ρ), and as ε."""

    campaign: str
    catalogue: str
    answers: int
    rho: float
    epsilon: float


class PrivacyBudget(Document, frozen=True, kw_only=True):
    """A budget of privacy: ρ and ε at δ, for one campaign on one catalogue, and what was spent.

    `max_per_person` is how many impressions of one person the budget is for, None any. `campaigns`
    are those on which most was spent, `more` how many others there are. `rho_together` is what
    somebody spent who is in all of them.
    """

    rho: float
    epsilon: float
    delta: float
    answers: int
    rho_together: float
    epsilon_together: float
    max_per_person: int | None = None
    campaigns: tuple[SpentBudget, ...] = ()
    more: int = 0


class CatalogueList(Document, frozen=True, kw_only=True):
    """Releases, the newest last, and the audiences that campaigns can target on them.

    `crossed` and the budgets of `noise` and of the `panel` are for operators and publishers; a
    budget is null where there is none.
    """

    catalogues: tuple[CatalogueSummary, ...]
    audiences: tuple[str, ...]
    currency: str
    visible: tuple[VisiblePeople, ...] = ()
    crossed: MayWithhold[Crossed] = None
    noise: MayWithhold[PrivacyBudget] = None
    panel: MayWithhold[PrivacyBudget] = None


class Suppression(Document, frozen=True, kw_only=True):
    """A question about a campaign that was not answered in full: why, and how often."""

    reason: str
    campaign: str
    asked: str
    first: str
    last: str
    times: int


class ViewerInfo(Document, frozen=True, kw_only=True):
    """Who asks: a role, for advertisers their name, and the public id of the key."""

    role: str
    advertiser: str | None = None
    key: str | None = None


class SuppressionList(Document, frozen=True, kw_only=True):
    """The newest first; counts by reason are since the service started."""

    by_reason: dict[str, int]
    suppressions: tuple[Suppression, ...]


class LogSource(Document, frozen=True, kw_only=True):
    """How fresh the log of a bidder on another machine is (docs/shipping.md).

    It is `ready` once all of it is here: before that, there are no reports. `seconds_behind` is the
    age of the newest that came from it, None if nothing came; it is `stale` if that is more than
    `max_behind_seconds`. `rows_behind` counts impressions that it published and that are not here.
    """

    bidder: str
    ready: bool
    stale: bool
    seconds_behind: float | None
    rows_behind: int
    failure: str | None = None


class Health(Document, frozen=True, kw_only=True):
    """Whether the service can answer; callers without the right to more see the status only.

    `reload` is "ok", or why changed settings are not in use.
    """

    status: str
    log: str | None = None
    reload: str | None = None
    catalogues: tuple[str, ...] | None = None
    campaigns: int | None = None
    sources: tuple[LogSource, ...] | None = None


class Readiness(Document, frozen=True, kw_only=True):
    """Whether the service may get requests, and what it waits for."""

    status: str
    waiting_for: tuple[str, ...] = ()


def to_json(document: object) -> bytes:
    """A document as JSON; floats in the shortest form that reads back as the same number."""
    return msgspec.json.encode(document)


def schemas(kinds: Sequence[type], prefix: str) -> dict[str, Any]:
    """JSON schemas of structs by name, with references under `prefix`."""
    _, components = msgspec.json.schema_components(kinds, ref_template=prefix + "{name}")
    return components
