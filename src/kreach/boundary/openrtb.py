"""The part of OpenRTB 2.6 that kreach speaks.

Requests are decoded into these types only. A user id, device, address or `eids` entry has no
field, so the parser skips it and no object ever holds it. Consent and policy signals have fields,
in `boundary.consent.signals`; they live as long as the request.
"""

from typing import Any, ClassVar

import msgspec

from kreach.boundary.consent import signals
from kreach.boundary.consent.signals import NOT_AN_OBJECT, Device, Regs
from kreach.boundary.currencies import MICROS_PER_CPM
from kreach.boundary.lenient import Unreadable, decode_leniently
from kreach.boundary.openrtb_places import Banner, Imp
from kreach.errors import KreachError

__all__ = [
    "MICROS_PER_CPM",
    "Banner",
    "Bid",
    "BidRequest",
    "BidResponse",
    "Data",
    "Imp",
    "SeatBid",
    "UserExt",
    "as_json",
    "decode_request",
]


class Segment(msgspec.Struct, gc=False):
    """One segment of a data provider: for kreach, the group."""

    foreign: ClassVar = frozenset({"id"})
    id: str | None = None


class DataExt(msgspec.Struct, gc=False):
    """The gateway puts the catalogue version here; other providers may put anything.

    `segtax` is the taxonomy of the segments (a community extension of OpenRTB), `segclass` its
    version: what is left of an entry that passed a system which drops names and other extensions.
    """

    raw_catalogue: Any = msgspec.field(default=None, name="catalogue")
    segtax: Any = None
    segclass: Any = None

    @property
    def catalogue(self) -> str | None:
        """The version, if it is a text."""
        raw = self.segclass if self.raw_catalogue is None else self.raw_catalogue
        return raw if isinstance(raw, str) else None


class Data(msgspec.Struct, gc=False):
    """One provider's data on the user."""

    foreign: ClassVar = frozenset({"name", "segment", "ext"})
    name: str | None = None
    segment: list[Segment] | None = None
    ext: DataExt | None = None


class UserExt(signals.UserExt, gc=False):
    """The TC string of OpenRTB 2.5, and where Prebid Server has first-party data.

    The latter is decoded only if it is looked at.
    """

    raw_data: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="data")

    @property
    def data(self) -> list[Data]:
        """Entries as in `user.data`; none if it is something else."""
        raw = bytes(self.raw_data)
        if not raw.startswith(b"["):
            return []
        try:
            found: list[Data] = decode_leniently(raw, list[Data])
        except (Unreadable, msgspec.DecodeError):
            return []
        return found


class User(msgspec.Struct, gc=False):
    """Providers' data, and the TC string. There is no id."""

    foreign: ClassVar = frozenset({"ext"})
    data: list[Data] | None = None
    consent: Any = None
    ext: UserExt | NOT_AN_OBJECT = None


class SupplyNode(msgspec.Struct, gc=False):
    """A system that passed the request on."""

    raw_asi: Any = msgspec.field(default=None, name="asi")


class SupplyChain(msgspec.Struct, gc=False):
    """The systems between publisher and buyer; the last one sends the request."""

    foreign: ClassVar = frozenset({"nodes"})
    nodes: list[SupplyNode] | None = None


class SourceExt(msgspec.Struct, gc=False):
    """Where OpenRTB 2.5 has the supply chain."""

    foreign: ClassVar = frozenset({"schain"})
    schain: SupplyChain | None = None


class Source(msgspec.Struct, gc=False):
    """Where the request comes from."""

    foreign: ClassVar = frozenset({"schain", "ext"})
    schain: SupplyChain | None = None
    ext: SourceExt | None = None


class BidRequest(msgspec.Struct, gc=False):
    """A request for bids."""

    foreign: ClassVar = frozenset({"source"})
    id: str
    imp: list[Imp]
    user: User | None = None
    at: int | None = None
    tmax: float | None = None
    test: int | None = None
    cur: list[str] | None = None
    bcat: list[str] | None = None
    cattax: int | None = None
    badv: list[str] | None = None
    bapp: list[str] | None = None
    wlang: list[str] | None = None
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
    """A bid for one placement. An exchange's profile says which notices it has."""

    id: str
    impid: str
    price: float
    cid: str
    exp: int
    burl: str = ""
    lurl: str = ""
    nurl: str | None = None
    dealid: str | None = None
    crid: str | None = None
    adid: str | None = None
    adomain: tuple[str, ...] | None = None
    adm: str | None = None
    mtype: int | None = None
    cat: tuple[str, ...] | None = None
    cattax: int | None = None
    attr: tuple[int, ...] | None = None
    apis: tuple[int, ...] | None = None
    language: str | None = None
    bundle: str | None = None
    protocol: int | None = None
    dur: int | None = None
    w: int | None = None
    h: int | None = None


class SeatBid(msgspec.Struct):
    """The bids of one buyer."""

    bid: list[Bid]
    seat: str = "kreach"


class BidResponse(msgspec.Struct, omit_defaults=True):
    """The response to a request. (The bidder writes this form by hand, for speed.)"""

    id: str
    seatbid: list[SeatBid]
    cur: str
    bidid: str | None = None


_decoder = msgspec.json.Decoder(BidRequest)
as_json = msgspec.json.Encoder().encode


def decode_request(body: bytes) -> BidRequest:
    """A request from JSON; refuses what is not JSON or not OpenRTB, without quoting it."""
    try:
        try:
            return _decoder.decode(body)
        except msgspec.ValidationError:
            request: BidRequest = decode_leniently(body, BidRequest)
            return request
    except Unreadable as error:
        where = f" - at $.{error.path}" if error.path else ""
        raise KreachError(f"the request must be OpenRTB 2.6: {error.rule}{where}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KreachError("the request must be JSON") from None
