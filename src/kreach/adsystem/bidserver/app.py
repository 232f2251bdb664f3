"""The bidder as an application: bids, notices, health and metrics."""

from collections.abc import Callable
from typing import Any

from kreach.adsystem.bidserver.bids import Bids
from kreach.adsystem.bidserver.notices import Notices
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.sharing.fleet_member import Partner
from kreach.service.metrics import Metrics
from kreach.service.web import App, FastRoute, Request, Response, json_response

__all__ = ["bidder_site", "bidder_with_shortcut"]


def bidder_site(state: BidderState, metrics: Metrics) -> App:
    """The bidder as an application."""
    return bidder_with_shortcut(state, metrics)[0]


def bidder_with_shortcut(state: BidderState, metrics: Metrics) -> tuple[App, FastRoute]:
    """The bidder as an application, and its bid route for a server that can skip ASGI."""
    site = App(
        state.log,
        metrics,
        max_body_bytes=state.settings.max_body_bytes,
        start=state.start,
        stop=state.stop,
    )
    notices = Notices(state, metrics)
    bids = Bids(state, metrics)
    site.route("POST /openrtb2/bid", bids.bid)
    for method in ("GET", "POST"):
        site.route(f"{method} /openrtb2/billing/*", notices.billing)
        site.route(f"{method} /openrtb2/win/*", notices.win)
        site.route(f"{method} /openrtb2/loss/*", notices.loss)
    site.route("GET /healthz", lambda request: _health(state, request))
    _gauges(state, metrics)
    return site, site.fast_route("POST /openrtb2/bid", bids.answer)


def _health(state: BidderState, _: Request) -> Response:
    failure = state.journal.failure
    document: dict[str, Any] = {
        "status": "ok" if state.ready and failure is None else "failing",
        "log": failure or "ok",
        "catalogues": list(state.desks),
        "campaigns": sum(k.campaign.state == "running" for k in state.kept.values()),
        "epoch": state.ledger.epoch,
    }
    partner = state.partner
    if partner is not None:
        document["sharing"] = {
            "name": partner.pool.name,
            "money": "given out" if partner.open else "not given out",
            "missing": list(partner.missing),
            "heard_seconds_ago": round(partner.age_seconds, 3),
            "rows_to_tell": partner.feeder.rows_behind,
        }
    return json_response(document, 200 if document["status"] == "ok" else 503)


def _gauges(state: BidderState, metrics: Metrics) -> None:
    def by_campaign(value: Callable[[int], float]) -> Callable[[], dict[str, float]]:
        return lambda: {kept.campaign.id: value(number) for number, kept in state.kept.items()}

    def multipliers() -> dict[str, float]:
        return {
            play.campaign.id: desk.multiplier(play)
            for desk in state.desks.values()
            for play in desk.plays.values()
        }

    for name, what, value in (
        ("reserved_micros", "Money out on bids", lambda n: state.ledger.accounts[n].reserved),
        (
            "carried_micros",
            "Money that bids of an earlier run may still cost",
            lambda n: state.ledger.accounts[n].carried,
        ),
        ("budget_left_micros", "Money not spent yet", lambda n: state.ledger.accounts[n].left()),
    ):
        metrics.gauge(name, f"{what}, by campaign", by_campaign(value), "campaign")
    metrics.gauge("multiplier", "λ, reach per unit of money", multipliers, "campaign")
    for name, what, now in (
        ("bids_out", "Bids without an outcome", lambda: state.ledger.bids_out),
        ("log_failing", "1 while the log cannot be written", lambda: _failing(state)),
        ("log_commits", "Commits of the log", lambda: state.journal.commits),
        ("plans", "Plans made", lambda: state.planned),
        ("loop_lag_seconds", "How late the loop runs", lambda: state.loop_lag_seconds),
    ):
        metrics.gauge(name, what, _alone(now))
    for name, what, told in (
        ("sharing_age_seconds", "Since others were last heard of", lambda p: p.age_seconds),
        ("sharing_open", "1 while money is given out", lambda p: float(p.open)),
        ("sharing_rows_behind", "Impressions to be told", lambda p: p.feeder.rows_behind),
    ):
        metrics.gauge(name, what, _shared(state, told))


def _shared(state: BidderState, told: Callable[[Partner], float]) -> Callable[[], dict[str, float]]:
    return lambda: {} if state.partner is None else {"": told(state.partner)}


def _alone(value: Callable[[], float]) -> Callable[[], dict[str, float]]:
    return lambda: {"": value()}


def _failing(state: BidderState) -> float:
    return float(state.journal.failure is not None)
