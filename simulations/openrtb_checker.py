"""An independent judge of bid responses by the rules of OpenRTB 2.6.

It shares no code with the bidder. It reads the request and the response as JSON, and the markup as
what it is: VAST is parsed, native responses are compared with the assets that were asked for.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

__all__ = ["violations"]

_PROTOCOLS = {"1.0": {1, 4}, "2.0": {2, 5}, "3.0": {3, 6}, "4.0": {7, 8}, "4.1": {11, 12}}
_MEDIA = {1: "banner", 2: "video", 3: "audio", 4: "native"}


def violations(
    request: Any, response: Any, rates: Mapping[str, float] | None = None, seat: str = "kreach"
) -> list[str]:
    """What an answer does that the request or the specification forbids; none if all is well.

    `rates`: units of one currency in another's terms, all against one; USD alone without.
    """
    rates = rates or {"USD": 1.0}
    found = list(_response(request, response, rates, seat))
    if any(seatbid.get("bid") for seatbid in response.get("seatbid", ())):
        found += _consent(request)
    seen: set[str] = set()
    for seatbid in response.get("seatbid", ()):
        for bid in seatbid.get("bid", ()):
            where = f"bid for {bid.get('impid')!r}: "
            if bid.get("impid") in seen:
                found.append(where + "second bid for one imp")
            seen.add(bid.get("impid"))
            currency = response.get("cur", "USD")
            found += [where + each for each in _bid(request, bid, currency, rates, seat)]
    return found


def _response(request: Any, response: Any, rates: Mapping[str, float], seat: str) -> Iterator[str]:
    if response.get("id") != request.get("id"):
        yield "response id is not the request's"
    currency = response.get("cur", "USD")
    if currency not in rates:
        yield f"unknown currency {currency}"
    allowed = _texts(request.get("cur"))
    if allowed and currency not in allowed:
        yield f"currency {currency} is not allowed"
    for seatbid in response.get("seatbid", ()):
        if not seatbid.get("bid"):
            yield "seatbid without bids"
        if _texts(request.get("wseat")) and seatbid.get("seat") not in request["wseat"]:
            yield "seat is not on wseat"
        if seatbid.get("seat") in _texts(request.get("bseat")):
            yield "seat is on bseat"
        if seatbid.get("seat", seat) != seat:
            yield "seat is not ours"


def _consent(request: Any) -> Iterator[str]:
    """Why nobody may bid on a request at all, with the bidder's default policy."""
    regs, user = _object(request.get("regs")), _object(request.get("user"))
    older = _object(regs.get("ext"))

    def signal(name: str) -> Any:
        return regs.get(name) or older.get(name)

    if signal("coppa") == 1:
        yield "a bid for a child (coppa)"
    text = user.get("consent") or _object(user.get("ext")).get("consent")
    if signal("gdpr") == 1:
        if not isinstance(text, str) or not text:
            yield "a bid under the GDPR without a TC string"
        elif not {2, 4, 7} <= _consented_purposes(text):
            yield "a bid under the GDPR without consent to its purposes"
    usp = signal("us_privacy")
    if isinstance(usp, str) and len(usp) == 4 and usp[2] in "Yy":
        yield "a bid after an opt-out of sale (us_privacy)"


def _consented_purposes(text: str) -> set[int]:
    """Purposes with consent: 24 bits from bit 152 of the core segment of a TC string."""
    core = text.split(".", maxsplit=1)[0]
    try:
        data = base64.urlsafe_b64decode(core + "=" * (-len(core) % 4))
    except ValueError:
        return set()
    bits = "".join(f"{byte:08b}" for byte in data)
    return {at + 1 for at, bit in enumerate(bits[152:176]) if bit == "1"}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _bid(
    request: Any, bid: Any, currency: str, rates: Mapping[str, float], seat: str
) -> Iterator[str]:
    same = [imp for imp in request["imp"] if imp.get("id") == bid.get("impid")]
    if len(same) != 1:
        yield f"{len(same)} places have this id"
        return
    (imp,) = same
    for name in ("id", "crid", "cid"):
        if not bid.get(name):
            yield f"no {name}"
    if not bid.get("burl") and "${AUCTION_PRICE" not in str(bid.get("nurl")):
        yield "no notice bills it"
    yield from _price(imp, bid, currency, rates, seat)
    yield from _policy(request, bid)
    media = _MEDIA.get(bid.get("mtype", 0), "")
    if not isinstance(imp.get(media), dict):
        yield f"the place does not take {media or 'what it is'}"
        return
    place = imp[media]
    if set(bid.get("attr", ())) & set(_numbers(place.get("battr"))):
        yield "blocked attribute"
    if bid.get("apis") and not set(bid["apis"]) & set(_numbers(place.get("api"))):
        yield "API is not supported"
    if _number(imp.get("secure")) and re.search(r"http://", str(bid.get("adm")), re.IGNORECASE):
        yield "insecure address"
    checks = {"banner": _banner, "video": _vast, "audio": _vast, "native": _native}
    yield from checks[media](place, bid)


def _price(
    imp: Any, bid: Any, currency: str, rates: Mapping[str, float], seat: str
) -> Iterator[str]:
    price = bid.get("price")
    if not isinstance(price, (int, float)) or price <= 0:
        yield "price is not above 0"
        return
    floors = imp
    pmp = imp.get("pmp") or {}
    if bid.get("dealid") is not None:
        deals = [one for one in pmp.get("deals") or () if one.get("id") == bid["dealid"]]
        if not deals:
            yield "deal was not offered"
            return
        floors = deals[-1]
        if floors.get("wseat") and seat not in floors["wseat"]:
            yield "deal is for other seats"
        domains = {name.lower() for name in floors.get("wadomain") or ()}
        own = {parent for name in bid.get("adomain", ()) for parent in _parents(name)}
        if domains and not domains & own:
            yield "deal is for other advertisers"
    elif _number(pmp.get("private_auction")):
        yield "private auction without a deal"
    floor = float(floors.get("bidfloor") or 0.0)
    if floor > 0 and currency in rates:
        unit = floors.get("bidfloorcur") or "USD"
        if unit not in rates:
            yield f"floor in unknown currency {unit}"
        elif price * rates[currency] < floor * rates[unit] - 1e-6 * max(1.0, floor * rates[unit]):
            yield f"price {price} {currency} is below the floor {floor} {unit}"


def _policy(request: Any, bid: Any) -> Iterator[str]:
    blocked = {name.lower() for name in _texts(request.get("badv"))}
    if any(parent in blocked for name in bid.get("adomain", ()) for parent in _parents(name)):
        yield "blocked advertiser"
    categories = set(bid.get("cat", ()))
    categories |= {name.partition("-")[0] for name in categories}
    if categories & set(_texts(request.get("bcat"))):
        yield "blocked category"
    if bid.get("bundle") in _texts(request.get("bapp")):
        yield "blocked app"
    languages = {name.lower()[:2] for name in _texts(request.get("wlang"))}
    if languages and bid.get("language") and bid["language"] not in languages:
        yield "language is not allowed"


def _banner(place: Any, bid: Any) -> Iterator[str]:
    sizes = {(_number(one.get("w")), _number(one.get("h"))) for one in place.get("format") or ()}
    if place.get("w") is not None and place.get("h") is not None:
        sizes.add((_number(place["w"]), _number(place["h"])))
    if sizes and (bid.get("w"), bid.get("h")) not in sizes:
        yield f"size {bid.get('w')}x{bid.get('h')} is not one of the place's"
    mimes = {name.lower() for name in _texts(place.get("mimes"))}
    if mimes and "text/html" not in mimes:
        yield "MIME type text/html is not accepted"
    markup = str(bid.get("adm")).lower()
    types = {3} if "<script" in markup else set()
    types |= {4} if "<iframe" in markup else set()
    if (types or {2}) & set(_numbers(place.get("btype"))):
        yield "blocked banner type"


def _vast(place: Any, bid: Any) -> Iterator[str]:
    try:
        root = ElementTree.fromstring(bid.get("adm", ""))
    except ElementTree.ParseError:
        yield "markup is not XML"
        return
    if root.tag not in ("VAST", "DAAST"):
        yield f"markup is {root.tag}"
    mimes = {(one.get("type") or "").lower() for one in root.iter("MediaFile")}
    accepted = {name.lower() for name in _texts(place.get("mimes"))}
    if accepted and not accepted & mimes:
        yield f"no media file of {sorted(accepted)}"
    accepted_protocols = set(_numbers(place.get("protocols")))
    if accepted_protocols and not accepted_protocols & _PROTOCOLS.get(
        root.get("version", ""), set()
    ):
        yield f"VAST {root.get('version')} is not one of the protocols {accepted_protocols}"
    for one in root.iter("Duration"):
        hours, minutes, seconds = (one.text or "0:0:0").strip().split(":")
        length = 3600 * int(hours) + 60 * int(minutes) + float(seconds)
        required = _numbers(place.get("rqddurs"))
        if required and length not in required:
            yield f"{length} s is not one of the required durations"
        elif not required and length < (_number(place.get("minduration")) or 0):
            yield f"{length} s is too short"
        elif not required and length > (_number(place.get("maxduration")) or float("inf")):
            yield f"{length} s is too long"


def _native(place: Any, bid: Any) -> Iterator[str]:
    asked = json.loads(place.get("request") or "{}")
    asked = asked.get("native", asked)
    answer = json.loads(bid.get("adm", "{}"))
    answer = answer.get("native", answer)
    if not answer.get("link", {}).get("url"):
        yield "native ad without a link"
    given = {asset.get("id"): asset for asset in answer.get("assets", ())}
    wanted = {asset.get("id"): asset for asset in asked.get("assets", ())}
    for number, asset in wanted.items():
        if _number(asset.get("required")) and number not in given:
            yield f"required asset {number} is missing"
    for number, asset in given.items():
        if number not in wanted:
            yield f"asset {number} was not asked for"
            continue
        for kind in ("title", "img", "data"):
            if (kind in asset) != (kind in wanted[number]):
                yield f"asset {number} is not a {kind}"
        limit = _number(wanted[number].get("title", {}).get("len"))
        if limit and len(asset.get("title", {}).get("text", "")) > limit:
            yield f"title {number} is too long"


def _parents(domain: str) -> list[str]:
    labels = domain.lower().split(".")
    return [".".join(labels[at:]) for at in range(len(labels))]


def _number(value: Any) -> float | None:
    """A number, however it is written."""
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _numbers(values: Any) -> Sequence[float]:
    return [one for one in map(_number, values or ()) if one is not None]


def _texts(values: Any) -> Sequence[str]:
    if isinstance(values, str):
        return [values]
    return [one for one in values or () if isinstance(one, str)]
