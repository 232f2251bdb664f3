"""The part of OpenRTB 2.6 that kreach speaks.

Requests are decoded into these types only. A user id, device, address or `eids` entry has no
field, so the parser skips it and no object ever holds it. Consent and policy signals have fields,
in `boundary.consent.signals`; they live as long as the request.
"""

from typing import Any

import msgspec

from kreach.boundary.consent.signals import NOT_AN_OBJECT, Device, Regs, UserExt
from kreach.errors import KreachError

__all__ = [
    "Banner",
    "Bid",
    "BidRequest",
    "BidResponse",
    "Imp",
    "SeatBid",
    "as_json",
    "decode_request",
]

MICROS_PER_CPM = 1_000  # a price is per thousand, the ledger counts single impressions


class Segment(msgspec.Struct, gc=False):
    """One segment of a data provider: for kreach, the group."""

    id: str | None = None


class DataExt(msgspec.Struct, gc=False):
    """The gateway puts the catalogue version here; other providers may put anything."""

    raw_catalogue: Any = msgspec.field(default=None, name="catalogue")

    @property
    def catalogue(self) -> str | None:
        """The version, if it is a text."""
        raw = self.raw_catalogue
        return raw if isinstance(raw, str) else None


class Data(msgspec.Struct, gc=False):
    """One provider's data on the user."""

    name: str | None = None
    segment: list[Segment] | None = None
    ext: DataExt | None = None


class User(msgspec.Struct, gc=False):
    """Providers' data, and the TC string. There is no id."""

    data: list[Data] | None = None
    consent: Any = None
    ext: UserExt | NOT_AN_OBJECT = None


class Format(msgspec.Struct, gc=False):
    """An accepted size."""

    w: int | None = None
    h: int | None = None


class Banner(msgspec.Struct, gc=False):
    """A banner placement."""

    w: int | None = None
    h: int | None = None
    format: list[Format] | None = None

    def fits(self, width: int, height: int) -> bool:
        """Whether an ad of this size fits; without sizes every ad does."""
        if self.w == width and self.h == height:
            return True
        for size in self.format or ():
            if size.w == width and size.h == height:
                return True
        return not self.format and (self.w is None or self.h is None)


class Pmp(msgspec.Struct, gc=False):
    """A private marketplace; kreach has no deals."""

    private_auction: int = 0


class Other(msgspec.Struct, gc=False):
    """A placement of a type that kreach does not bid on; only its presence matters."""


class Imp(msgspec.Struct, gc=False):
    """One placement of a request."""

    id: str
    banner: Banner | None = None
    video: Other | None = None
    audio: Other | None = None
    native: Other | None = None
    pmp: Pmp | None = None
    bidfloor: float = 0.0
    bidfloorcur: str = "USD"
    exp: int | None = None


class SupplyNode(msgspec.Struct, gc=False):
    """A system that passed the request on."""

    raw_asi: Any = msgspec.field(default=None, name="asi")


class SupplyChain(msgspec.Struct, gc=False):
    """The systems between publisher and buyer; the last one sends the request."""

    nodes: list[SupplyNode] | None = None


class SourceExt(msgspec.Struct, gc=False):
    """Where OpenRTB 2.5 has the supply chain."""

    schain: SupplyChain | None = None


class Source(msgspec.Struct, gc=False):
    """Where the request comes from."""

    schain: SupplyChain | None = None
    ext: SourceExt | None = None


class BidRequest(msgspec.Struct, gc=False):
    """A request for bids."""

    id: str
    imp: list[Imp]
    user: User | None = None
    at: int = 2
    tmax: int | None = None
    test: int = 0
    cur: list[str] | None = None
    badv: list[str] | None = None
    wseat: list[str] | None = None
    bseat: list[str] | None = None
    source: Source | None = None
    regs: Regs | NOT_AN_OBJECT = None
    device: Device | NOT_AN_OBJECT = None

    @property
    def first_price(self) -> bool:
        """Whether a win costs its bid. Every other type charges at most that: `at` 2, if absent."""
        return self.at == 1

    @property
    def exchange(self) -> str:
        """The domain of the system that sent the request; empty if the request does not say."""
        source = self.source
        chain = None if source is None else source.schain
        if chain is None and source is not None and source.ext is not None:
            chain = source.ext.schain
        if chain is None or not chain.nodes:
            return ""
        name = chain.nodes[-1].raw_asi
        return name if isinstance(name, str) else ""


class Bid(msgspec.Struct, omit_defaults=True):
    """A bid for one placement."""

    id: str
    impid: str
    price: float
    burl: str
    lurl: str
    cid: str
    exp: int
    nurl: str | None = None
    crid: str | None = None
    adomain: tuple[str, ...] | None = None
    adm: str | None = None
    w: int | None = None
    h: int | None = None


class SeatBid(msgspec.Struct):
    """The bids of one buyer."""

    bid: list[Bid]
    seat: str = "kreach"


class BidResponse(msgspec.Struct):
    """The response to a request. (The bidder writes this form by hand, for speed.)"""

    id: str
    seatbid: list[SeatBid]
    cur: str


_decoder = msgspec.json.Decoder(BidRequest)
as_json = msgspec.json.Encoder().encode


def decode_request(body: bytes) -> BidRequest:
    """A request from JSON; refuses what is not JSON or not OpenRTB, without quoting it."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise KreachError(f"the request must be OpenRTB 2.6: {_reason(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KreachError("the request must be JSON") from None


def _reason(error: msgspec.ValidationError) -> str:
    """The error and its place; msgspec names types and paths, never values of the request."""
    return str(error).replace("`", "")
