"""Win, loss and billing notices. Losses and billing wait for the log, and billing for the stream
where `acknowledge = "replicated"` says so.
"""

import asyncio
import sqlite3
from math import ceil, isfinite
from urllib.parse import parse_qs

from kreach.adsystem.bidserver.loss_writer import LossWriter
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.ledger.ledger import Outcome
from kreach.adsystem.ledger.notice_rows import add_conflict
from kreach.adsystem.ledger.tokens import Claim
from kreach.boundary.currencies import MICROS_PER_CPM, paid_micros
from kreach.boundary.macros import plain_value
from kreach.boundary.times import MICROS
from kreach.errors import KreachError
from kreach.service.metrics import Metrics
from kreach.service.web import Request, Response, error_response, json_response

__all__ = ["Notices"]

_STATUS = {
    Outcome.DONE: 200,
    Outcome.REPEATED: 200,
    Outcome.CONFLICT: 200,  # sending it again would change nothing
    Outcome.EXPIRED: 410,
    Outcome.UNKNOWN: 404,
    Outcome.OVERPRICED: 400,
}
_MEANING = {
    Outcome.EXPIRED: "the bid has expired",
    Outcome.UNKNOWN: "no such bid is open",
    Outcome.OVERPRICED: "price must be from 0 to the bid",
}


class Notices:
    """Win, loss and billing notices."""

    def __init__(self, state: BidderState, metrics: Metrics) -> None:
        self._state = state
        self._posting: dict[int, asyncio.Future[str | None]] = {}
        self._impressions = metrics.count(
            "impressions", "Impressions billed, by campaign", "campaign"
        )
        self._spend = metrics.count("spend_micros", "Money spent, by campaign", "campaign")
        self._loss_reasons = metrics.count("losses", "Losses, by OpenRTB's reason code", "reason")
        self._conflicts = metrics.count(
            "price_conflicts",
            "Billing notices that named another price than the first, by campaign",
            "campaign",
        )
        self._losses = LossWriter(state)
        self._notices = metrics.count("notices", "Notices, by kind and outcome", "notice")

    def _claim(self, kind: str, token: str) -> Claim | None:
        claim = self._state.tokens.read(token)
        if claim is None:
            self._notices.add(f"{kind} tampered")
        return claim

    def _answer(self, kind: str, outcome: Outcome) -> Response:
        self._notices.add(f"{kind} {outcome.value}")
        status = _STATUS[outcome]
        if status == 200:
            return json_response({"status": outcome.value})
        return error_response(status, _MEANING[outcome])

    def win(self, request: Request) -> Response:
        """GET /openrtb2/win/{token}: count the impression until it expires unbilled."""
        claim = self._claim("win", request.rest)
        if claim is None:
            return error_response(403, "the token is not one of ours")
        outcome = self._state.ledger.won(claim, self._state.clock())
        if outcome is Outcome.DONE and claim.epoch == self._state.ledger.epoch:
            self._record(claim)
        return self._answer("win", outcome)

    async def loss(self, request: Request) -> Response:
        """GET /openrtb2/loss/{token}: release the money, once the log has it.

        A loss that was acknowledged is never billed, also after a crash.
        """
        claim = self._claim("loss", request.rest)
        if claim is None:
            return error_response(403, "the token is not one of ours")
        state = self._state
        outcome = state.ledger.void(claim, state.clock())
        if outcome is not Outcome.DONE:
            return self._answer("loss", outcome)
        won = state.ledger.was_won(claim)
        failure = await self._losses.write(claim, won=won)
        if failure is not None:
            return self._finish("loss", failure, outcome)
        self._loss_reasons.add(_loss_reason(request.query))
        if won:
            state.revert(claim)
        bidder = state.bidder_of(claim)
        if bidder is not None and claim.campaign in bidder.runtimes:
            runtime = bidder.runtimes[claim.campaign]
            bidder.learn(
                runtime,
                claim.micros,
                0,
                won=False,
                venue=claim.venue,
                group=claim.group,
                issued=claim.issued_micros / MICROS,
            )
        return self._answer("loss", outcome)

    async def billing(self, request: Request) -> Response:
        """GET /openrtb2/billing/{token}?price=…: one impression, however often it is repeated."""
        claim = self._claim("billing", request.rest)
        if claim is None:
            return error_response(403, "the token is not one of ours")
        price = _price(request.query, claim.rate)
        state = self._state
        now = state.clock()
        if claim.impression in self._posting:
            outcome = Outcome.REPEATED
        else:
            outcome = state.ledger.post(claim, price, now)
        if outcome is Outcome.REPEATED:
            return await self._repeated(claim, price)
        if outcome is not Outcome.DONE:
            return self._answer("billing", outcome)
        won = state.ledger.was_won(claim)
        if not won:
            self._record(claim)
        failure = await self._write(claim, price, now, won=won)
        if failure is not None:
            if not won:
                state.revert(claim)
            return self._finish("billing", failure, outcome)
        campaign = state.stored_campaigns[claim.campaign].campaign.id
        self._impressions.add(campaign)
        self._spend.add(campaign, price)
        bidder = state.bidder_of(claim)
        if bidder is not None and claim.campaign in bidder.runtimes:
            runtime = bidder.runtimes[claim.campaign]
            issued = claim.issued_micros / MICROS
            bidder.learn(runtime, claim.micros, price, won=True, venue=claim.venue, issued=issued)
        return await self._replicated(outcome)

    async def _replicated(self, outcome: Outcome) -> Response:
        """Acknowledge what is in the log, once it is where the settings require it.

        The impression is booked either way. A notice that is sent again is a repeated one, and
        waits here as well.
        """
        failure = await self._state.replicated()
        if failure is None:
            return self._answer("billing", outcome)
        self._notices.add("billing not replicated")
        return error_response(503, f"recorded, not replicated, send again: {failure}")

    async def _repeated(self, claim: Claim, price: int) -> Response:
        """The price that came first stands; another one is kept as a conflict."""
        same = self._posting.get(claim.impression)
        failure = None if same is None else await asyncio.shield(same)
        if failure is not None:
            return self._finish("billing", failure, Outcome.REPEATED)
        state = self._state
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        at_us = int(state.clock() * MICROS)
        conflict = False

        def compare(connection: sqlite3.Connection) -> None:
            nonlocal conflict
            conflict = add_conflict(connection, claim, price, at_us)

        def done(error: Exception | None) -> None:
            if not waiting.done():
                waiting.set_result(None if error is None else state.journal.failure or "failed")

        state.journal.run(compare, state.on_loop(done))
        failure = await waiting
        if failure is not None:
            return self._finish("billing", failure, Outcome.REPEATED)
        if not conflict:
            return await self._replicated(Outcome.REPEATED)
        self._conflicts.add(state.stored_campaigns[claim.campaign].campaign.id)
        return await self._replicated(Outcome.CONFLICT)

    def _finish(self, kind: str, failure: str | None, outcome: Outcome) -> Response:
        if failure is None:
            return self._answer(kind, outcome)
        self._notices.add(f"{kind} not written")
        return error_response(
            503, f"not recorded, send again: the log cannot be written ({failure})"
        )

    def _record(self, claim: Claim) -> None:
        bidder = self._state.bidder_of(claim)
        if bidder is not None and claim.campaign in bidder.runtimes:
            valuation = bidder.runtimes[claim.campaign].bidder.valuation
            valuation.record(claim.group, claim.issued_micros / MICROS)

    async def _write(self, claim: Claim, price: int, now: float, *, won: bool) -> str | None:
        """Wait until the impression is in the log and its price spent; the error, if any."""
        state = self._state
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._posting[claim.impression] = waiting

        def done(error: Exception | None) -> None:  # the money moves even if nobody waits
            if error is None:
                state.ledger.posted(claim, price)
            else:
                state.ledger.unpost(claim, won=won)
            if not waiting.done():
                waiting.set_result(None if error is None else state.journal.failure or "failed")

        row = (
            claim.impression,
            claim.campaign,
            claim.catalogue,
            claim.group,
            int(now * MICROS),
            claim.issued_micros,
            claim.expires,
            price,
        )
        state.journal.submit("impression", row, state.on_loop(done))
        try:
            return await asyncio.shield(waiting)
        finally:
            del self._posting[claim.impression]


def _price(query: bytes, rate: int = 0) -> int:
    """The price of one impression in micros, rounded up, from a price per thousand.

    `price64` is the same in Base64; `rate` that of the currency in which the bid was made.
    """
    fields = parse_qs(query.decode("ascii", "replace"))
    prices = fields.get("price", []) + [plain_value(each) for each in fields.get("price64", [])]
    try:
        price = float(prices[0]) if len(prices) == 1 else -1.0
    except ValueError:
        price = -1.0
    if not (isfinite(price) and 0.0 <= price <= 1e9):
        raise KreachError("price must be one number ≥ 0, a price per thousand")
    micros = ceil(round(price * MICROS_PER_CPM, 6))
    return paid_micros(micros, rate) if rate else micros


def _loss_reason(query: bytes) -> str:
    """The code of a loss (AdCOM's loss reasons) as a label; "unknown" if it is none."""
    reasons = parse_qs(query.decode("ascii", "replace")).get("reason", [])
    code = reasons[0] if len(reasons) == 1 else ""
    return code if code.isdecimal() and code.isascii() and int(code) < 1_000 else "unknown"
