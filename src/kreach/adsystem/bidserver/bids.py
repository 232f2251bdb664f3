"""Bid requests. The hot path: no disk, no network, and as few objects as it takes."""

import time
from math import ceil, isfinite

from kreach.adsystem.bidserver.campaign_runtime import Play
from kreach.adsystem.bidserver.catalogue_bidder import Desk
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.ledger.tokens import Claim
from kreach.boundary.openrtb import MICROS_PER_CPM, BidRequest, Imp, as_json, decode_request
from kreach.service.metrics import Metrics
from kreach.service.web import Request, Response

__all__ = ["Bids"]

_JSON = [(b"content-type", b"application/json")]
_MAX_IMPS = 100


class Bids:
    """Answers bid requests."""

    def __init__(self, state: BidderState, metrics: Metrics) -> None:
        self._state = state
        self._none: dict[str, Response] = {}
        settings = state.settings
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
        made: dict[str, float] = {}
        for desk in self._state.desks.values():
            for play in desk.plays.values():
                made[play.campaign.id] = made.get(play.campaign.id, 0) + play.bids
        return made

    def bid(self, request: Request) -> Response:
        """POST /openrtb2/bid."""
        return self.answer(request.body)

    def answer(self, body: bytes) -> Response:
        """The answer to a bid request."""
        begun = time.perf_counter()
        answer = self._decide(decode_request(body))
        self._latency.observe(time.perf_counter() - begun)
        return answer

    def _refuse(self, reason: str) -> Response:
        self._no_bids.add(reason)
        found = self._none.get(reason)
        if found is None:
            found = Response(204, b"", [(b"x-no-bid", reason.encode())])
            self._none[reason] = found
        return found

    def _decide(self, asked: BidRequest) -> Response:
        reason = self._unwilling(asked)
        if reason:
            return self._refuse(reason)
        group, desk, reason = self._group(asked)
        if desk is None:
            return self._refuse(reason)
        state = self._state
        request = desk.asked(group, state.clock(), asked)
        bids = []
        for imp in asked.imp[:_MAX_IMPS]:
            floor, why = self._floor(imp)
            if why:
                reason = why
                continue
            seconds = self._seconds
            if imp.exp is not None and 0 < imp.exp < seconds:
                seconds = imp.exp
            play, claim, why = desk.offer(request, imp, floor, seconds)
            if play is None or claim is None:
                reason = why
                continue
            play.bids += 1
            account = play.account
            if account.granted - account.spent - account.reserved < play.low_micros:
                state.grant_soon(play.number)
            bids.append(self._written(claim, play, imp, seconds))
        if not bids:
            return self._refuse(reason)
        head = b'{"id":%b,"seatbid":[{"bid":[' % as_json(asked.id)
        return Response(200, b"%b%b%b" % (head, b",".join(bids), self._end), _JSON)

    def _unwilling(self, asked: BidRequest) -> str:
        """Why we do not bid on this request at all; nothing if we may."""
        state = self._state
        if not asked.imp or not state.ready:
            return "not ready" if asked.imp else "no imp"
        if state.journal.failure is not None:
            return "log cannot be written"
        if asked.tmax is not None and 0 < asked.tmax < state.min_tmax_ms:
            return "tmax too short"
        if asked.cur and state.shared.currency not in asked.cur:
            return "currency"
        if asked.wseat or asked.bseat:
            seat = state.settings.seat
            if seat in (asked.bseat or ()) or seat not in (asked.wseat or (seat,)):
                return "seat"
        return "test" if asked.test else ""

    def _floor(self, imp: Imp) -> tuple[int, str]:
        """The least bid for a place in micros of one impression; or why we cannot bid on it."""
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

    def _group(self, asked: BidRequest) -> tuple[int, Desk | None, str]:
        """The group that the right provider names, in a catalogue that we have."""
        if asked.user is None:
            return 0, None, "no user"
        reason = "no group"
        state = self._state
        provider = state.settings.provider
        for data in asked.user.data or ():
            if data.name != provider or not data.segment:
                continue
            desk = state.desks.get(data.ext.catalogue or "") if data.ext is not None else None
            if desk is None:
                reason = "unknown catalogue"
                continue
            for segment in data.segment:
                group = desk.catalogue.find(segment.id)
                if group is not None:
                    return group, desk, ""
            reason = "unknown group"
        return 0, None, reason

    def _written(self, claim: Claim, play: Play, imp: Imp, seconds: int) -> bytes:
        """A bid, as `boundary.openrtb.Bid` would be written."""
        token = self._state.tokens.make(claim)
        base = self._base
        told = b"" if self._nurl is None else b',"nurl":"%b%b"' % (self._nurl, token)
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
            told,
            seconds,
            play.told,
        )
