"""Bid requests. The hot path: no disk, no network, few objects."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter

from kreach.adsystem.bidserver.bid_writer import BidWriter
from kreach.adsystem.bidserver.campaign_runtime import CampaignRuntime
from kreach.adsystem.bidserver.catalogue_bidder import CatalogueBidder
from kreach.adsystem.bidserver.consent import REASONS, ConsentPolicy
from kreach.adsystem.bidserver.pending_request import PendingRequest
from kreach.adsystem.bidserver.profiles import profiles_by_exchange
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.bidserver.terms import Terms, terms_of
from kreach.boundary.currencies import Rates
from kreach.boundary.openrtb import BidRequest, Data, Imp, UserExt, decode_request
from kreach.boundary.times import DAY_SECONDS
from kreach.service.metrics import Metrics
from kreach.service.web import JSON_HEADERS, Request, Response

__all__ = ["PUBLIC_REASONS", "Bids"]

_MAX_IMPS = 100
_VISITS = frozenset(
    {"log cannot be written", "clock in doubt", "tmax too short", "currency", "seat"}
)
"""Reasons for no bid on requests that are visits all the same: they count as traffic."""
PUBLIC_REASONS = frozenset(
    {
        *("no imp", "no user", "no group", "unknown catalogue", "unknown group"),
        *("tmax too short", "currency", "floor currency", "seat", "test"),
        *("duplicate imp id", "no media type", "private auction"),
        *("not ready", "log cannot be written", "clock in doubt"),
        *REASONS,
    }
)
"""Reasons about the request, and technical ones. Others are our own affair: metrics have them."""


class Bids:
    """Answers bid requests."""

    def __init__(self, state: BidderState, metrics: Metrics) -> None:
        self._state = state
        self._no_bid: dict[str, Response] = {}
        settings, shared = state.settings, state.shared
        self._consent = ConsentPolicy(settings.consent)
        self._provider, self._segtax, self._seat = settings.provider, settings.segtax, settings.seat
        self._rates = Rates(shared.currency, shared.rates)
        self._home = shared.currency
        self._writers = _writers(state)
        self._writer = self._writers[""]
        self._seconds = settings.expiry_seconds
        self._no_bids = metrics.count("no_bids", "Requests without a bid, by reason", "reason")
        self._latency = metrics.histogram("latency_seconds", "Time to decide on a bid request")
        metrics.tally("requests", "Bid requests", lambda: {"": sum(self._latency.cells)})
        metrics.tally("bids", "Bids made, by campaign", self._by_campaign, "campaign")
        metrics.gauge("rates_age_days", "Age of the currency rates", self._rates_age)
        what = "Campaigns without an eligible place in sampled requests, by kind and rule"
        metrics.tally("creative_mismatches", what, self._mismatches, "reason")

    def _by_campaign(self) -> dict[str, float]:
        bids: dict[str, float] = {}
        for bidder in self._state.catalogue_bidders.values():
            for runtime in bidder.runtimes.values():
                bids[runtime.campaign.id] = bids.get(runtime.campaign.id, 0) + runtime.bids
        return bids

    def _rates_age(self) -> dict[str, float]:
        day = self._state.shared.rates_date
        if day is None:
            return {}
        dated = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        return {"": (self._state.clock() - dated) / DAY_SECONDS}

    def _mismatches(self) -> dict[str, float]:
        counts: Counter[str] = Counter()
        for bidder in self._state.catalogue_bidders.values():
            counts.update(bidder.mismatches)
        return dict(counts)

    def bid(self, request: Request) -> Response:
        """POST /openrtb2/bid, or /openrtb2/bid/{exchange}."""
        return self.answer(request.body, request.rest)

    def answer(self, body: bytes, exchange: str = "") -> Response:
        """The answer to a bid request."""
        begun = perf_counter()
        answer = self._decide(decode_request(body), exchange)
        self._latency.observe(perf_counter() - begun)
        return answer

    def _refuse(self, reason: str, request: BidRequest, writer: BidWriter) -> Response:
        self._no_bids.add(reason)
        if writer.profile.no_bid == "nbr":
            return Response(200, writer.no_bid(request.id, reason), JSON_HEADERS)
        answer = self._no_bid.get(reason)
        if answer is None:
            public = reason in PUBLIC_REASONS
            answer = Response(204, b"", [(b"x-no-bid", reason.encode())] if public else [])
            self._no_bid[reason] = answer
        return answer

    def _decide(self, request: BidRequest, exchange: str) -> Response:
        writer = self._writers.get(exchange, self._writer) if exchange else self._writer
        currency = self._home
        if request.cur is None or currency not in request.cur:
            currency = self._currency(request, writer)
        reason = self._consent.refusal(request) or self._no_bid_reason(request)
        reason = reason or ("" if currency else "currency")
        if reason:
            if reason in _VISITS:
                bidder = self._group(request, writer)[1]
                if bidder is not None:
                    bidder.own_requests += 1
            return self._refuse(reason, request, writer)
        group, bidder, reason = self._group(request, writer)
        if bidder is None:
            return self._refuse(reason, request, writer)
        if request.at is None:
            request.at = writer.profile.auction
        if not exchange and request.first_price:
            exchange = request.exchange
        pending = bidder.begin_request(group, self._state.clock(), request, exchange)
        bids = []
        imps = request.imp
        repeated: Collection[str] = () if len(imps) == 1 else _repeated_ids(imps)
        for imp in imps if len(imps) <= _MAX_IMPS else imps[:_MAX_IMPS]:
            if repeated and imp.id in repeated:
                reason = "duplicate imp id"
                continue
            bid, why = self._bid(bidder, pending, imp, writer, currency)
            if bid is None:
                reason = why
            else:
                bids.append(bid)
        if not bids:
            return self._refuse(reason, request, writer)
        return Response(200, writer.response(request.id, bids, currency), JSON_HEADERS)

    def _bid(
        self,
        bidder: CatalogueBidder,
        pending: PendingRequest,
        imp: Imp,
        writer: BidWriter,
        currency: str,
    ) -> tuple[bytes | None, str]:
        """A bid for a place in JSON, or why there is none."""
        open_terms, deals, why = terms_of(
            imp, pending.venue, pending.first_price_venue, self._rates, currency, self._seat
        )
        if open_terms is None and deals is None:
            return None, why
        seconds = self._seconds
        if imp.exp is not None and 1 <= imp.exp < seconds:
            seconds = int(imp.exp)
        accepts = None
        if deals is not None or writer.profile.required:
            accepts = _condition(pending.request, imp, writer)
        runtime, claim, terms, why = bidder.offer(pending, imp, open_terms, deals, seconds, accepts)
        if runtime is None or claim is None or terms is None:
            return None, why
        accepted = None if accepts is None else writer.accepted(terms.domains)
        creative = runtime.rotation.choose(pending.request, imp, accepted)
        runtime.bids += 1
        account = runtime.account
        low = account.granted - account.spent - account.reserved < runtime.low_funds_micros
        if low or account.family is not None:
            self._request_money(runtime)
        micros = claim.micros
        if currency != self._home:
            claim = claim._replace(rate=self._rates.nanos(currency))
            micros = self._rates.bid_micros(micros, currency)
        token = self._state.tokens.make(claim)
        return writer.bid(token, micros, imp, creative, terms.deal, seconds), ""

    def _request_money(self, runtime: CampaignRuntime) -> None:
        """Have more granted to a campaign that runs low, and to its family."""
        account = runtime.account
        if account.granted - account.spent - account.reserved < runtime.low_funds_micros:
            self._state.request_money(runtime.number)
        family = account.family
        if family is not None and (
            family.granted - family.spent - family.reserved < family.low_funds_micros
        ):
            self._state.request_family_money(runtime.number)

    def _no_bid_reason(self, request: BidRequest) -> str:
        """Why we do not bid on this request at all; empty if we may."""
        state = self._state
        if not request.imp or not state.ready:
            return "not ready" if request.imp else "no imp"
        if state.journal.failure is not None or state.clock.doubt is not None:
            return "clock in doubt" if state.journal.failure is None else "log cannot be written"
        if request.tmax is not None and 0 < request.tmax < state.min_tmax_ms:
            return "tmax too short"
        if request.wseat or request.bseat:
            seat = self._seat
            if seat in (request.bseat or ()) or seat not in (request.wseat or (seat,)):
                return "seat"
        return "test" if request.test else ""

    def _currency(self, request: BidRequest, writer: BidWriter) -> str:
        """The currency to bid in: ours if it is accepted, else the first we have a rate for."""
        if not request.cur:
            currency = writer.profile.currency or self._home
            return currency if currency in self._rates else ""
        if self._home in request.cur:
            return self._home
        return next((each for each in request.cur if each in self._rates), "")

    def _group(
        self, request: BidRequest, writer: BidWriter
    ) -> tuple[int, CatalogueBidder | None, str]:
        """The group that our provider names, in a catalogue that we have; or why there is none."""
        user = request.user
        if user is None:
            return 0, None, "no user"
        group, bidder, reason = self._find(user.data or () if writer.reads_data else ())
        if bidder is None and writer.reads_ext and isinstance(user.ext, UserExt):
            elsewhere = user.ext.data  # as Prebid Server passes first-party data
            if elsewhere:
                return self._find(elsewhere)
        return group, bidder, reason

    def _find(self, entries: Sequence[Data]) -> tuple[int, CatalogueBidder | None, str]:
        """Ours are the entries of our provider, and those with our taxonomy of segments."""
        reason = "no group"
        catalogue_bidders = self._state.catalogue_bidders
        provider, segtax = self._provider, self._segtax
        for data in entries:
            ext = data.ext
            if data.name != provider and (ext is None or ext.segtax != segtax):
                continue
            if not data.segment:
                continue
            bidder = None
            if ext is not None:
                version = ext.raw_catalogue
                if version.__class__ is not str:
                    version = ext.catalogue or ""
                bidder = catalogue_bidders.get(version)
            if bidder is None:
                reason = "unknown catalogue"
                continue
            for segment in data.segment:
                group = bidder.find_group(segment.id)
                if group is not None:
                    return group, bidder, ""
            reason = "unknown group"
        return 0, None, reason


def _condition(
    request: BidRequest, imp: Imp, writer: BidWriter
) -> Callable[[CampaignRuntime, Terms], bool]:
    """Whether a campaign has a creative for a place that the exchange and the deal accept."""

    def accepts(runtime: CampaignRuntime, terms: Terms) -> bool:
        return runtime.rotation.fits(request, imp, writer.accepted(terms.domains))

    return accepts


def _writers(state: BidderState) -> Mapping[str, BidWriter]:
    """Writers by the exchange that an address names; "" for the address without a name."""
    settings = state.settings
    profiles = profiles_by_exchange(settings)
    return {exchange: BidWriter(profile, settings) for exchange, profile in profiles.items()}


def _repeated_ids(imps: Sequence[Imp]) -> Collection[str]:
    """Ids that several places have: nobody could say which of them a bid is for."""
    counts = Counter(imp.id for imp in imps)
    return {name for name, count in counts.items() if count > 1}
