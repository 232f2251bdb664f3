"""Bid requests. The hot path: no disk, no network, few objects."""

import time
from math import ceil, isfinite

from kreach.adsystem.bidserver.campaign_runtime import CampaignRuntime
from kreach.adsystem.bidserver.catalogue_bidder import CatalogueBidder
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.ledger.tokens import Claim
from kreach.boundary.openrtb import MICROS_PER_CPM, BidRequest, Imp, as_json, decode_request
from kreach.service.metrics import Metrics
from kreach.service.web import JSON_HEADERS, Request, Response

__all__ = ["Bids"]

_MAX_IMPS = 100
_VISITS = frozenset(
    {"log cannot be written", "clock in doubt", "tmax too short", "currency", "seat"}
)
"""Reasons for no bid on requests that are visits all the same: they count as traffic."""


class Bids:
    """Answers bid requests."""

    def __init__(self, state: BidderState, metrics: Metrics) -> None:
        self._state = state
        self._no_bid: dict[str, Response] = {}
        settings = state.settings
        self._provider = settings.provider
        self._base = settings.notices.encode()
        self._nurl = b"%b/openrtb2/win/" % self._base if settings.win_notices else None
        self._end = b'],"seat":%b}],"cur":%b}' % (
            as_json(settings.seat),
            as_json(state.shared.currency),
        )
        self._seconds = settings.expiry_seconds
        self._no_bids = metrics.count("no_bids", "Requests without a bid, by reason", "reason")
        self._latency = metrics.histogram("latency_seconds", "Time to decide on a bid request")
        metrics.tally("requests", "Bid requests", lambda: {"": sum(self._latency.cells)})
        metrics.tally("bids", "Bids made, by campaign", self._by_campaign, "campaign")

    def _by_campaign(self) -> dict[str, float]:
        bids: dict[str, float] = {}
        for bidder in self._state.catalogue_bidders.values():
            for runtime in bidder.runtimes.values():
                bids[runtime.campaign.id] = bids.get(runtime.campaign.id, 0) + runtime.bids
        return bids

    def bid(self, request: Request) -> Response:
        """POST /openrtb2/bid, or /openrtb2/bid/{exchange}."""
        return self.answer(request.body, request.rest)

    def answer(self, body: bytes, exchange: str = "") -> Response:
        """The answer to a bid request."""
        begun = time.perf_counter()
        answer = self._decide(decode_request(body), exchange)
        self._latency.observe(time.perf_counter() - begun)
        return answer

    def _refuse(self, reason: str) -> Response:
        self._no_bids.add(reason)
        answer = self._no_bid.get(reason)
        if answer is None:
            answer = Response(204, b"", [(b"x-no-bid", reason.encode())])
            self._no_bid[reason] = answer
        return answer

    def _decide(self, request: BidRequest, exchange: str) -> Response:
        reason = self._no_bid_reason(request)
        if reason:
            if reason in _VISITS:
                bidder = self._group(request)[1]
                if bidder is not None:
                    bidder.own_requests += 1
            return self._refuse(reason)
        group, bidder, reason = self._group(request)
        if bidder is None:
            return self._refuse(reason)
        state = self._state
        if request.first_price and not exchange:
            exchange = request.exchange
        pending = bidder.begin_request(group, state.clock(), request, exchange)
        bids = []
        for imp in request.imp[:_MAX_IMPS]:
            floor, why = self._floor(imp)
            if why:
                reason = why
                continue
            seconds = self._seconds
            if imp.exp is not None and 0 < imp.exp < seconds:
                seconds = imp.exp
            runtime, claim, why = bidder.offer(pending, imp, floor, seconds)
            if runtime is None or claim is None:
                reason = why
                continue
            runtime.bids += 1
            account = runtime.account
            if account.granted - account.spent - account.reserved < runtime.low_funds_micros:
                state.request_money(runtime.number)
            family = account.family
            if family is not None and (
                family.granted - family.spent - family.reserved < family.low_funds_micros
            ):
                state.request_family_money(runtime.number)
            bids.append(self._bid_json(claim, runtime, imp, seconds))
        if not bids:
            return self._refuse(reason)
        head = b'{"id":%b,"seatbid":[{"bid":[' % as_json(request.id)
        return Response(200, b"%b%b%b" % (head, b",".join(bids), self._end), JSON_HEADERS)

    def _no_bid_reason(self, request: BidRequest) -> str:
        """Why we do not bid on this request at all; empty if we may."""
        state = self._state
        if not request.imp or not state.ready:
            return "not ready" if request.imp else "no imp"
        if state.journal.failure is not None or state.clock.doubt is not None:
            return "clock in doubt" if state.journal.failure is None else "log cannot be written"
        if request.tmax is not None and 0 < request.tmax < state.min_tmax_ms:
            return "tmax too short"
        if request.cur and state.shared.currency not in request.cur:
            return "currency"
        if request.wseat or request.bseat:
            seat = state.settings.seat
            if seat in (request.bseat or ()) or seat not in (request.wseat or (seat,)):
                return "seat"
        return "test" if request.test else ""

    def _floor(self, imp: Imp) -> tuple[int, str]:
        """The minimum bid for a place in micros of one impression, or why we cannot bid on it."""
        floor = imp.bidfloor
        if imp.banner is None and (imp.video or imp.audio or imp.native):
            return 0, "no banner"
        if imp.pmp is not None and imp.pmp.private_auction:
            return 0, "private auction"
        if floor <= 0.0:
            return 0, ""
        if imp.bidfloorcur != self._state.shared.currency:
            return 0, "floor currency"
        if not (isfinite(floor) and floor < 1e9):
            return 0, "below floor"
        return ceil(floor * MICROS_PER_CPM - 1e-6), ""

    def _group(self, request: BidRequest) -> tuple[int, CatalogueBidder | None, str]:
        """The group that our provider names, in a catalogue that we have; or why there is none."""
        if request.user is None:
            return 0, None, "no user"
        reason = "no group"
        state = self._state
        provider = self._provider
        for data in request.user.data or ():
            if data.name != provider or not data.segment:
                continue
            bidder = (
                state.catalogue_bidders.get(data.ext.catalogue or "")
                if data.ext is not None
                else None
            )
            if bidder is None:
                reason = "unknown catalogue"
                continue
            for segment in data.segment:
                group = bidder.catalogue.find(segment.id)
                if group is not None:
                    return group, bidder, ""
            reason = "unknown group"
        return 0, None, reason

    def _bid_json(self, claim: Claim, runtime: CampaignRuntime, imp: Imp, seconds: int) -> bytes:
        """A bid in JSON, as `boundary.openrtb.Bid` would be encoded."""
        token = self._state.tokens.make(claim)
        base = self._base
        nurl = b"" if self._nurl is None else b',"nurl":"%b%b"' % (self._nurl, token)
        return (
            b'{"id":"%x","impid":%b,"price":%d.%03d,"burl":"%b/openrtb2/billing/%b?price='
            b'${AUCTION_PRICE}","lurl":"%b/openrtb2/loss/%b"%b,"exp":%d,%b'
        ) % (
            claim.epoch << 40 | claim.sequence,
            as_json(imp.id),
            claim.micros // MICROS_PER_CPM,
            claim.micros % MICROS_PER_CPM,
            base,
            token,
            base,
            token,
            nurl,
            seconds,
            runtime.json_tail,
        )
