"""Bid responses in JSON, in the form that an exchange's profile wants."""

from collections.abc import Sequence

from kreach.adsystem.bidserver.profiles import Profile
from kreach.adsystem.bidserver.rotation import Accepted, ReadyCreative
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.currencies import MICROS_PER_CPM
from kreach.boundary.openrtb import as_json
from kreach.boundary.openrtb_places import Imp

__all__ = ["BidWriter", "bid_id", "no_bid_code"]

_PRICE = {"plain": b"?price=${AUCTION_PRICE}", "b64": b"?price64=${AUCTION_PRICE:B64}"}
_THOUSANDTHS = tuple(b"%03d" % each for each in range(MICROS_PER_CPM))
_ID_LENGTH = 21  # characters of Base64: all of the signature but its last bits
_NO_BID_CODES = {
    "no imp": 2,
    "duplicate imp id": 2,
    "no media type": 2,
    "not ready": 1,
    "log cannot be written": 1,
    "no user": 8,
    "no group": 8,
    "unknown catalogue": 8,
    "unknown group": 8,
    "tmax too short": 15,
}


def no_bid_code(reason: str) -> int:
    """The reason as OpenRTB defines it (`nbr`); 0, unknown, for what is our own affair."""
    return _NO_BID_CODES.get(reason, 0)


def bid_id(token: bytes) -> bytes:
    """The id of a bid: a part of its token's signature, which says nothing and never repeats."""
    return token[-_ID_LENGTH - 1 : -1]


class BidWriter:
    """Writes bids for exchanges with one profile."""

    def __init__(self, profile: Profile, settings: BidderSettings) -> None:
        self.profile = profile
        base = settings.notices.encode()
        self._ends: dict[str, bytes] = {}
        self._seat = as_json(settings.seat)
        self._seconds = settings.expiry_seconds
        self._expiry = b"%d," % self._seconds
        notices = list(profile.notices)
        if not settings.win_notices and profile.billing != "nurl":
            notices = [name for name in notices if name != "nurl"]
        billing = base + b"/openrtb2/billing/", _PRICE[profile.price]
        addresses = {
            "burl": billing,
            "nurl": billing if profile.billing == "nurl" else (base + b"/openrtb2/win/", b""),
            "lurl": (base + b"/openrtb2/loss/", b"?reason=${AUCTION_LOSS}"),
        }
        between, end = [], b","
        for name in ("burl", "lurl", "nurl"):
            if name in notices:
                address, query = addresses[name]
                between.append(b'%b"%b":"%b' % (end, name.encode(), address))
                end = query + b'",'
        self._addresses = (*between, end + b'"exp":')  # the token goes between these
        self.reads_data = "user.data" in profile.group_in
        self.reads_ext = "user.ext.data" in profile.group_in
        self._adid = "adid" in profile.extra
        self._bidid = "bidid" in profile.extra

    def accepted(self, domains: frozenset[str] | None) -> Accepted:
        """Whether a creative declares what the exchange requires, and is of these advertisers."""

        def accepted(creative: ReadyCreative) -> bool:
            own = creative.creative
            declared = {
                "adomain": own.domains,
                "cat": own.categories,
                "attr": own.attributes,
                "language": own.language,
                "bundle": own.bundle,
            }
            if domains is not None and domains.isdisjoint(creative.traits.domains):
                return False
            return all(declared[name] for name in self.profile.required)

        return accepted

    def bid(
        self,
        token: bytes,
        price_micros: int,
        imp: Imp,
        creative: ReadyCreative,
        deal: str | None,
        seconds: int,
    ) -> bytes:
        """A bid, as `boundary.openrtb.Bid` would be encoded; its price in the bid's currency."""
        extra = b"" if deal is None else b'"dealid":%b,' % as_json(deal)
        if self._adid:
            extra += b'"adid":%b,' % as_json(creative.creative.key)
        whole, thousandths = divmod(price_micros, MICROS_PER_CPM)
        return b"".join(
            (
                b'{"id":"',
                token[-_ID_LENGTH - 1 : -1],  # `bid_id`
                b'","impid":',
                as_json(imp.id),
                b',"price":%d.%b' % (whole, _THOUSANDTHS[thousandths]),
                token.join(self._addresses),
                self._expiry if seconds == self._seconds else b"%d," % seconds,
                extra,
                creative.tail(imp),
            )
        )

    def response(self, request_id: str, bids: Sequence[bytes], currency: str) -> bytes:
        """A bid response."""
        end = self._ends.get(currency)
        if end is None:
            end = b'],"seat":%b}],"cur":%b}' % (self._seat, as_json(currency))
            self._ends[currency] = end
        own = as_json(request_id)
        if self._bidid:
            own += b',"bidid":' + own
        return b"".join((b'{"id":', own, b',"seatbid":[{"bid":[', b",".join(bids), end))

    def no_bid(self, request_id: str, reason: str) -> bytes:
        """A response without bids, for exchanges that want to know why."""
        return b'{"id":%b,"nbr":%d}' % (as_json(request_id), no_bid_code(reason))
