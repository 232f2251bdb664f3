"""The bidder's HTTP application: bids, notices, health and metrics."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from kreach.adsystem.bidserver.bids import Bids
from kreach.adsystem.bidserver.notices import Notices
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import family_key
from kreach.adsystem.settings import AdSystemSettings
from kreach.adsystem.sharing.fleet_member import FleetStatus
from kreach.adsystem.shipping.bidder_log import ShippingStatus
from kreach.service.metrics import Metrics
from kreach.service.reload import SettingsReload
from kreach.service.request_checks import RequestChecks
from kreach.service.web import App, FastRoute, Response, json_response, ready_response

__all__ = ["bidder_app", "bidder_app_with_fast_path"]


def bidder_app(state: BidderState, metrics: Metrics) -> App:
    """The bidder as an application."""
    return bidder_app_with_fast_path(state, metrics)[0]


def bidder_app_with_fast_path(
    state: BidderState,
    metrics: Metrics,
    reload: SettingsReload[Any, AdSystemSettings] | None = None,
) -> tuple[App, FastRoute]:
    """The bidder as an application, and its bid route for a server that can skip ASGI.

    `reload` brings other catalogues and audiences while it runs.
    """
    settings = state.settings
    public_name = urlsplit(settings.notices).hostname or settings.host
    site = App(
        state.log,
        metrics,
        checks=RequestChecks((*settings.names, public_name), settings.host),
        max_body_bytes=state.settings.max_body_bytes,
        start=state.start,
        stop=state.stop,
    )
    notices = Notices(state, metrics)
    bids = Bids(state, metrics)
    site.route("POST /openrtb2/bid", bids.bid, public=True)
    site.route("POST /openrtb2/bid/*", bids.bid, public=True)
    for method in ("GET", "POST"):
        site.route(f"{method} /openrtb2/billing/*", notices.billing, public=True)
        site.route(f"{method} /openrtb2/win/*", notices.win, public=True)
        site.route(f"{method} /openrtb2/loss/*", notices.loss, public=True)
    if reload is not None:
        reload.attach(state.take_up, metrics)
    site.route("GET /healthz", lambda _: _health(state, reload))
    site.route("GET /readyz", lambda _: ready_response(_waiting_for(state)))
    _add_gauges(state, metrics)
    return site, site.fast_route("POST /openrtb2/bid", bids.answer)


def _waiting_for(state: BidderState) -> dict[str, bool]:
    fleet = state.fleet
    return {
        "start": not state.ready,
        "catalogues": not state.catalogue_bidders,
        "log": state.journal.failure is not None,
        "sharing": fleet is not None and not fleet.status.leasing,
        "stream": state.replicated_row is not None and _stream_failing(state),
    }


def _health(state: BidderState, reload: SettingsReload[Any, AdSystemSettings] | None) -> Response:
    failure, doubt = state.journal.failure, state.clock.doubt
    running = (stored.campaign.state == "running" for stored in state.stored_campaigns.values())
    document: dict[str, Any] = {
        "status": "ok" if state.ready and failure is None and doubt is None else "failing",
        "log": failure or "ok",
        "clock": "ok" if doubt is None else doubt.reason,
        "catalogues": list(state.catalogue_bidders),
        "campaigns": sum(running),
        "epoch": state.ledger.epoch,
    }
    if reload is not None:
        document["reload"] = reload.failure or "ok"
    if state.fleet is not None:
        status = state.fleet.status
        document["sharing"] = {
            "name": status.name,
            "leasing": status.leasing,
            "missing": list(status.missing),
            "synced_seconds_ago": round(status.age_seconds, 3),
            "rows_behind": status.rows_behind,
            "clock_difference_seconds": status.clock_difference_seconds,
            "clocks_apart": list(status.clocks_apart),
        }
    if state.shipping is not None:
        shipped = state.shipping.status
        document["shipping"] = {
            "acknowledge": shipped.acknowledge,
            "stream": shipped.stream_failure or "ok",
            "rows_behind": shipped.rows_behind,
            "published_seconds_ago": round(shipped.age_seconds, 3),
            "files": shipped.files_failure or "ok",
            "rounds_behind": shipped.rounds_behind,
            "shipped_seconds_ago": round(shipped.files_age_seconds, 3),
        }
    return json_response(document, 200 if document["status"] == "ok" else 503)


def _add_gauges(state: BidderState, metrics: Metrics) -> None:
    def by_campaign(value: Callable[[int], float]) -> Callable[[], dict[str, float]]:
        return lambda: {
            stored.campaign.id: value(number) for number, stored in state.stored_campaigns.items()
        }

    def multipliers() -> dict[str, float]:
        return {
            runtime.campaign.id: bidder.multiplier(runtime)
            for bidder in state.catalogue_bidders.values()
            for runtime in bidder.runtimes.values()
        }

    def max_costs() -> dict[str, float]:
        found = {}
        for catalogue_bidder in state.catalogue_bidders.values():
            for runtime in catalogue_bidder.runtimes.values():
                most = runtime.bidder.max_cost_per_reach
                if most is not None:
                    found[runtime.campaign.id] = most
        return found

    def short() -> dict[str, float]:
        return {
            runtime.campaign.id: float(runtime.shortfall is not None)
            for bidder in state.catalogue_bidders.values()
            for runtime in bidder.runtimes.values()
        }

    what = "1 for each catalogue in use"
    metrics.gauge(
        "catalogue", what, lambda: dict.fromkeys(state.catalogue_bidders, 1.0), "catalogue"
    )
    for name, what, value in (
        ("reserved_micros", "Money reserved for open bids", lambda n: state.accounts[n].reserved),
        (
            "carried_micros",
            "Money that open bids of an earlier run may still cost",
            lambda n: state.accounts[n].carried,
        ),
        ("budget_left_micros", "Budget not spent yet", lambda n: state.accounts[n].left()),
        (
            "overspent_micros",
            "Money spent beyond the budget: 0, unless it was lowered below the spend",
            lambda n: state.accounts[n].overspent(),
        ),
    ):
        metrics.gauge(name, f"{what}, by campaign", by_campaign(value), "campaign")
    _add_family_gauges(state, metrics)
    what = "Reach required per unit of money (λ), by campaign"
    metrics.gauge("multiplier", what, multipliers, "campaign")
    what = "Most that a further reach may cost, by campaign"
    metrics.gauge("max_cost_per_reach", what, max_costs, "campaign")
    what = "1 while the budget will not be spent (status says why), by campaign"
    metrics.gauge("under_delivery", what, short, "campaign")

    def plan_lag() -> float:
        return state.plan_lag_seconds

    for name, what, now in (
        (
            "ready",
            "1 while the bidder may get requests",
            lambda: float(not any(_waiting_for(state).values())),
        ),
        ("bids_out", "Bids without an outcome", lambda: state.ledger.bids_out),
        ("log_failing", "1 while the log cannot be written", lambda: _failing(state)),
        (
            "clock_doubtful",
            "1 while the machine's clock is not believed and no bids are made",
            lambda: float(state.clock.doubt is not None),
        ),
        (
            "clock_lead_seconds",
            "How far the machine's clock is ahead of the bidder's",
            lambda: state.clock.lead_seconds,
        ),
        ("log_commits", "Commits to the log", lambda: state.journal.commits),
        ("plans", "Plans computed", lambda: state.plan_count),
        ("plan_lag_seconds", "Seconds since all plans were current", plan_lag),
        ("loop_lag_seconds", "Delay of the event loop", lambda: state.loop_lag_seconds),
    ):
        metrics.gauge(name, what, _single(now))
    what = "Time to write and sync a batch of the log"
    metrics.add_histogram("log_commit_seconds", what, lambda: state.journal.commit_seconds)
    metrics.store_gauges(state.shared.store)
    for name, what, field in (
        ("sharing_age_seconds", "Seconds since the last sync with Redis", lambda s: s.age_seconds),
        ("sharing_open", "1 while Redis grants leases", lambda s: float(s.leasing)),
        ("sharing_rows_behind", "Impressions not yet counted in Redis", lambda s: s.rows_behind),
        (
            "sharing_clock_difference_seconds",
            "How far the clock is ahead of that of the farthest other bidder",
            lambda s: s.clock_difference_seconds or 0.0,
        ),
        (
            "sharing_clocks_apart",
            "Bidders whose clocks differ by more than max_clock_difference_seconds",
            lambda s: len(s.clocks_apart),
        ),
    ):
        metrics.gauge(name, what, _of_fleet(state, field))
    _add_shipping_gauges(state, metrics)


def _add_family_gauges(state: BidderState, metrics: Metrics) -> None:
    def by_family(value: Callable[[Account], float]) -> Callable[[], dict[str, float]]:
        return lambda: {
            name: value(state.accounts[family_key(stored.number)])
            for name, stored in state.stored_families.items()
            if stored.family.budget is not None
        }

    for name, what, value in (
        ("family_reserved_micros", "Money reserved for open bids", lambda one: one.reserved),
        (
            "family_carried_micros",
            "Money that open bids of an earlier run may still cost",
            lambda one: one.carried,
        ),
        ("family_budget_left_micros", "Budget not spent yet", lambda one: one.left()),
    ):
        metrics.gauge(name, f"{what}, by family with a budget", by_family(value), "family")


def _add_shipping_gauges(state: BidderState, metrics: Metrics) -> None:
    def of(field: Callable[[ShippingStatus], float]) -> Callable[[], dict[str, float]]:
        return lambda: {} if state.shipping is None else {"": field(state.shipping.status)}

    for name, what, field in (
        ("stream_rows_behind", "Impressions not yet in the stream", lambda s: s.rows_behind),
        ("stream_age_seconds", "Since all rows were in the stream", lambda s: s.age_seconds),
        (
            "stream_failing",
            "1 while the log cannot be published",
            lambda s: float(s.stream_failure is not None),
        ),
        (
            "files_rounds_behind",
            "Rounds of compaction whose files are not in the object store",
            lambda s: s.rounds_behind,
        ),
        ("files_age_seconds", "Since all log files were shipped", lambda s: s.files_age_seconds),
        (
            "files_failing",
            "1 while log files cannot be shipped",
            lambda s: float(s.files_failure is not None),
        ),
    ):
        metrics.gauge(name, what, of(field))


def _stream_failing(state: BidderState) -> bool:
    return state.shipping is not None and state.shipping.status.stream_failure is not None


def _of_fleet(
    state: BidderState, field: Callable[[FleetStatus], float]
) -> Callable[[], dict[str, float]]:
    return lambda: {} if state.fleet is None else {"": field(state.fleet.status)}


def _single(value: Callable[[], float]) -> Callable[[], dict[str, float]]:
    return lambda: {"": value()}


def _failing(state: BidderState) -> float:
    return float(state.journal.failure is not None)
