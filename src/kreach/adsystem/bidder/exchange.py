"""HTTP: bid requests and the notices that follow them. Nothing here waits, except for the log."""

import asyncio
import time
from collections.abc import Callable
from math import ceil, isfinite
from urllib.parse import parse_qs

from kreach.adsystem.bidder.desk import Desk
from kreach.adsystem.bidder.service import BidderState
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.ledger.ledger import Outcome
from kreach.adsystem.ledger.tokens import Claim
from kreach.boundary.openrtb import (
    MICROS_PER_CPM,
    Bid,
    BidRequest,
    BidResponse,
    Imp,
    SeatBid,
    decode_request,
    encode_response,
)
from kreach.errors import KreachError
from kreach.service.metrics import Metrics
from kreach.service.web import Answer, Request, Site, error_answer, json_answer

__all__ = ["Exchange", "bidder_site"]

_JSON = [(b"content-type", b"application/json"), (b"x-openrtb-version", b"2.6")]
_STATUS = {
    Outcome.DONE: 200,
    Outcome.REPEATED: 200,
    Outcome.EXPIRED: 410,
    Outcome.UNKNOWN: 404,
    Outcome.OVERPRICED: 400,
}
_MEANING = {
    Outcome.EXPIRED: "the bid has expired",
    Outcome.UNKNOWN: "no such bid is out",
    Outcome.OVERPRICED: "price must be from 0 to the bid",
}
_MOST_IMPS = 100


def _no_bid(reason: str) -> Answer:
    return Answer(204, b"", [(b"x-no-bid", reason.encode())])


class Exchange:
    """Answers an exchange: bids, and what became of them."""

    def __init__(self, state: BidderState, metrics: Metrics) -> None:
        self._state = state
        self._none: dict[str, Answer] = {}
        base = state.settings.notices
        self._burl = f"{base}/openrtb2/billing/"
        self._nurl = f"{base}/openrtb2/win/"
        self._lurl = f"{base}/openrtb2/loss/"
        self._posting: dict[int, asyncio.Future[str | None]] = {}
        self._count(metrics)

    def _count(self, metrics: Metrics) -> None:
        self._requests = metrics.count("requests", "Bid requests")
        self._no_bids = metrics.count("no_bids", "Requests without a bid, by reason", "reason")
        self._bids = metrics.count("bids", "Bids made, by campaign", "campaign")
        self._wins = metrics.count("impressions", "Impressions billed, by campaign", "campaign")
        self._spend = metrics.count("spend_micros", "Money spent, by campaign", "campaign")
        self._notices = metrics.count("notices", "Notices, by kind and outcome", "notice")
        self._latency = metrics.histogram("latency_seconds", "Time to decide on a bid request")
        state = self._state

        def by_campaign(value: Callable[[int], float]) -> Callable[[], dict[str, float]]:
            return lambda: {kept.campaign.id: value(number) for number, kept in state.kept.items()}

        accounts = state
        metrics.gauge(
            "reserved_micros",
            "Money out on bids, by campaign",
            by_campaign(lambda n: accounts.ledger.accounts[n].reserved),
            "campaign",
        )
        metrics.gauge(
            "carried_micros",
            "Money that bids of an earlier run may still cost, by campaign",
            by_campaign(lambda n: accounts.ledger.accounts[n].carried),
            "campaign",
        )
        metrics.gauge(
            "budget_left_micros",
            "Money not spent yet, by campaign",
            by_campaign(lambda n: accounts.ledger.accounts[n].left()),
            "campaign",
        )
        metrics.gauge("multiplier", "λ, reach per unit of money", self._multipliers, "campaign")
        metrics.gauge("bids_out", "Bids without an outcome", lambda: {"": state.ledger.bids_out})
        metrics.gauge(
            "log_failing", "1 while the log cannot be written", lambda: {"": float(self._failing)}
        )
        metrics.gauge("log_commits", "Commits of the log", lambda: {"": state.journal.commits})
        metrics.gauge("plans", "Plans made", lambda: {"": state.planned})
        metrics.gauge(
            "loop_lag_seconds", "How late the loop runs", lambda: {"": state.loop_lag_seconds}
        )

    @property
    def _failing(self) -> bool:
        return self._state.journal.failure is not None

    def _multipliers(self) -> dict[str, float]:
        return {
            play.campaign.id: desk.multiplier(play)
            for desk in self._state.desks.values()
            for play in desk.plays.values()
        }

    def bid(self, request: Request) -> Answer:
        """POST /openrtb2/bid."""
        begun = time.perf_counter()
        self._requests.add()
        asked = decode_request(request.body)
        answer = self._decide(asked)
        self._latency.observe(time.perf_counter() - begun)
        return answer

    def _refuse(self, reason: str) -> Answer:
        self._no_bids.add(reason)
        found = self._none.get(reason)
        if found is None:
            found = self._none[reason] = _no_bid(reason)
        return found

    def _decide(self, asked: BidRequest) -> Answer:
        state = self._state
        imps, floors, reason = self._places(asked)
        if not imps:
            return self._refuse(reason)
        group, desk, reason = self._group(asked)
        if desk is None:
            return self._refuse(reason)
        now = state.clock()
        chosen, reason = desk.choose(group, now, asked, imps, floors)
        bids = []
        for imp, offer in zip(imps, chosen, strict=True):
            if offer is None:
                continue
            play = offer.play
            seconds = state.settings.expiry_seconds
            if imp.exp is not None and 0 < imp.exp < seconds:
                seconds = imp.exp
            claim = state.ledger.reserve(
                play.number, desk.number, group, offer.micros, now, seconds
            )
            if state.low(play.account):
                state.grant_soon(play.number)
            play.bids += 1
            self._bids.add(play.campaign.id)
            bids.append(self._made(claim, imp, play.campaign, seconds))
        if not bids:
            return self._refuse(reason)
        made = BidResponse(asked.id, [SeatBid(bids, state.settings.seat)], state.shared.currency)
        return Answer(200, encode_response(made), _JSON)

    def _made(self, claim: Claim, imp: Imp, campaign: Campaign, seconds: int) -> Bid:
        token = self._state.tokens.make(claim)
        creative = campaign.creative
        told = self._nurl + token if self._state.settings.win_notices else None
        return Bid(
            id=f"{claim.impression:x}",
            impid=imp.id,
            price=claim.micros / MICROS_PER_CPM,
            burl=f"{self._burl}{token}?price=${{AUCTION_PRICE}}",
            lurl=self._lurl + token,
            cid=campaign.id,
            exp=seconds,
            nurl=told,
            crid=creative.id,
            adomain=creative.domains or None,
            adm=creative.markup,
            w=creative.width,
            h=creative.height,
        )

    def _unwilling(self, asked: BidRequest) -> str:
        """Why we do not bid on this request at all; nothing if we may."""
        state = self._state
        lag = state.loop_lag_seconds * 1e3
        if not asked.imp:
            return "no imp"
        if not state.ready:
            return "not ready"
        if self._failing:
            return "log cannot be written"
        if asked.tmax is not None and 0 < asked.tmax < state.settings.least_tmax_ms + lag:
            return "tmax too short"
        if asked.cur and state.shared.currency not in asked.cur:
            return "currency"
        return "test" if asked.test else ""

    def _places(self, asked: BidRequest) -> tuple[list[Imp], list[int], str]:
        """The places that we can bid on, with their floors in micros of one impression."""
        reason = self._unwilling(asked)
        if reason:
            return [], [], reason
        currency = self._state.shared.currency
        imps, floors, reason = [], [], "no imp"
        for imp in asked.imp[:_MOST_IMPS]:
            if imp.bidfloor > 0.0 and imp.bidfloorcur != currency:
                reason = "floor currency"
            elif imp.pmp is not None and imp.pmp.private_auction:
                reason = "private auction"
            elif not (isfinite(imp.bidfloor) and 0.0 <= imp.bidfloor < 1e9):
                reason = "below floor"
            else:
                imps.append(imp)
                floors.append(ceil(round(imp.bidfloor * MICROS_PER_CPM, 6)))
        return imps, floors, reason

    def _group(self, asked: BidRequest) -> tuple[int, Desk | None, str]:
        """The group that the right provider names, in a catalogue that we have."""
        reason = "no user" if asked.user is None else "no group"
        provider = self._state.settings.provider
        for data in (asked.user.data if asked.user is not None else None) or ():
            if data.name != provider or not data.segment:
                continue
            version = None if data.ext is None else data.ext.catalogue
            desk = self._state.desks.get(version or "")
            if desk is None:
                reason = "unknown catalogue"
                continue
            for segment in data.segment:
                group = desk.catalogue.find(segment.id)
                if group is not None:
                    return group, desk, ""
            reason = "unknown group"
        return 0, None, reason

    # -- notices ------------------------------------------------------------------------------

    def _claim(self, kind: str, token: str) -> Claim | None:
        claim = self._state.tokens.read(token)
        if claim is None:
            self._notices.add(f"{kind} tampered")
        return claim

    def _told(self, kind: str, outcome: Outcome) -> Answer:
        self._notices.add(f"{kind} {outcome.value}")
        status = _STATUS[outcome]
        if status == 200:
            return json_answer({"status": outcome.value})
        return error_answer(status, _MEANING[outcome])

    def win(self, request: Request) -> Answer:
        """GET /openrtb2/win/{token}: likely shown; counted until proven otherwise."""
        claim = self._claim("win", request.rest)
        if claim is None:
            return error_answer(403, "the token is not one of ours")
        outcome = self._state.ledger.won(claim, self._state.clock())
        if outcome is Outcome.DONE and claim.epoch == self._state.ledger.epoch:
            self._record(claim)
        return self._told("win", outcome)

    def loss(self, request: Request) -> Answer:
        """GET /openrtb2/loss/{token}: the money is free again."""
        claim = self._claim("loss", request.rest)
        if claim is None:
            return error_answer(403, "the token is not one of ours")
        state = self._state
        outcome = state.ledger.void(claim, state.clock())
        if outcome is Outcome.DONE:
            if state.ledger.was_won(claim):
                state.revert(claim)
            desk = state.desk_of(claim)
            if desk is not None and claim.campaign in desk.plays:
                desk.learn(desk.plays[claim.campaign], claim.micros, 0, won=False)
        return self._told("loss", outcome)

    async def billing(self, request: Request) -> Answer:
        """GET /openrtb2/billing/{token}?price=…: one impression, however often it is told."""
        claim = self._claim("billing", request.rest)
        if claim is None:
            return error_answer(403, "the token is not one of ours")
        price = _price(request.query)
        under_way = self._posting.get(claim.impression)
        if under_way is not None:
            return self._ended(await asyncio.shield(under_way), Outcome.REPEATED)
        state = self._state
        now = state.clock()
        outcome = state.ledger.post(claim, price, now)
        if outcome is not Outcome.DONE:
            return self._told("billing", outcome)
        won = state.ledger.was_won(claim)
        if not won:
            self._record(claim)
        failure = await self._written(claim, price, now)
        if failure is not None:
            state.ledger.unpost(claim, price, won=won)
            if not won:
                state.revert(claim)
            return self._ended(failure, outcome)
        kept = state.kept[claim.campaign].campaign.id
        self._wins.add(kept)
        self._spend.add(kept, price)
        desk = state.desk_of(claim)
        if desk is not None and claim.campaign in desk.plays:
            desk.learn(desk.plays[claim.campaign], claim.micros, price, won=True)
        return self._ended(None, outcome)

    def _ended(self, failure: str | None, outcome: Outcome) -> Answer:
        if failure is None:
            return self._told("billing", outcome)
        self._notices.add("billing not written")
        return error_answer(503, f"not recorded, tell again: the log cannot be written ({failure})")

    def _record(self, claim: Claim) -> None:
        desk = self._state.desk_of(claim)
        if desk is not None and claim.campaign in desk.plays:
            valuation = desk.plays[claim.campaign].bidder.valuation
            valuation.record(claim.group, claim.issued_micros / 1e6)

    async def _written(self, claim: Claim, price: int, now: float) -> str | None:
        """Wait until the impression is in the log; what kept it from getting there, if anything."""
        state = self._state
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._posting[claim.impression] = waiting

        def done(error: Exception | None) -> None:
            if not waiting.done():
                waiting.set_result(None if error is None else state.journal.failure or "failed")

        row = (
            claim.impression,
            claim.campaign,
            claim.catalogue,
            claim.group,
            int(now * 1e6),
            claim.issued_micros,
            claim.expires,
            price,
        )
        state.journal.submit("impression", row, state.on_loop(done))
        try:
            return await asyncio.shield(waiting)
        finally:
            del self._posting[claim.impression]

    def health(self, _: Request) -> Answer:
        """GET /healthz."""
        state = self._state
        failure = state.journal.failure
        document = {
            "status": "ok" if state.ready and failure is None else "failing",
            "log": failure or "ok",
            "catalogues": list(state.desks),
            "campaigns": sum(k.campaign.state == "running" for k in state.kept.values()),
            "epoch": state.ledger.epoch,
        }
        return json_answer(document, 200 if document["status"] == "ok" else 503)


def _price(query: bytes) -> int:
    """The price of one impression in micros, rounded up, from a price per thousand."""
    told = parse_qs(query.decode("ascii", "replace")).get("price", [])
    try:
        price = float(told[0]) if len(told) == 1 else -1.0
    except ValueError:
        price = -1.0
    if not (isfinite(price) and 0.0 <= price <= 1e9):
        raise KreachError("price must be one number ≥ 0, a price per thousand")
    return ceil(round(price * MICROS_PER_CPM, 6))


def bidder_site(state: BidderState, metrics: Metrics) -> Site:
    """The bidder as an application."""
    site = Site(
        state.log,
        metrics,
        most_body_bytes=state.settings.most_body_bytes,
        start=state.start,
        stop=state.stop,
    )
    exchange = Exchange(state, metrics)
    site.route("POST /openrtb2/bid", exchange.bid)
    for method in ("GET", "POST"):
        site.route(f"{method} /openrtb2/billing/*", exchange.billing)
        site.route(f"{method} /openrtb2/win/*", exchange.win)
        site.route(f"{method} /openrtb2/loss/*", exchange.loss)
    site.route("GET /healthz", exchange.health)
    return site
