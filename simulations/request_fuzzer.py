"""Requests that no exchange would send: mutations of good ones, seeded."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

__all__ = ["good_requests", "mutated"]

_AT_ONCE = 10_000  # ms of time to answer: no run depends on how fast a machine is
_ODD_TEXT = (
    *("", "g0", "v1", "kreach", "\x00", "é", "漢字", "\U0001f600", "\u2028", "a" * 5_000),
    *("NaN", "null", "-1", "${AUCTION_PRICE}", '"', "\\", "../..", "%00", "' OR 1=1 --"),
)
_ODD_NUMBERS = (
    *(0, 1, -1, 2, 3, 255, 65_536, 2**31, 2**32, 2**53 + 1, 2**63, 2**64, -(2**63), 10**100),
    *(0.0, -0.0, 0.1, 1e-320, 1e16, 1e300, -1e300, 0.30000000000000004, 1.5),
)
_RAW = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"01", b"1.", b".5", b"+1", b"0x10"),
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u00"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"'),
    *(b"'single'", b"undefined", b"tru", b"//", b"", b"{", b"}", b"[", b"]", b'"', b","),
    *(b"[" * 2_000 + b"]" * 2_000, b'{"a":' * 900 + b"1" + b"}" * 900, b"9" * 5_000),
)
_FIELDS = (
    *("id", "imp", "user", "data", "name", "segment", "ext", "catalogue", "banner", "format"),
    *("w", "h", "pmp", "private_auction", "bidfloor", "bidfloorcur", "exp", "at", "tmax", "test"),
    *("source", "schain", "nodes", "asi"),
    *("regs", "coppa", "gdpr", "us_privacy", "gpp", "gpp_sid", "gpc", "consent", "lmt"),
    *("video", "audio", "native", "request", "mimes", "protocols", "minduration", "maxduration"),
    *("battr", "btype", "api", "secure", "deals", "wseat", "wadomain", "bcat", "cattax", "wlang"),
    *("segtax", "segclass"),
    *("cur", "badv", "device", "eids", "", "__proto__", "\u0000"),
)


def _user_data(group: str, catalogue: str = "v1", name: str = "kreach") -> dict[str, Any]:
    return {"name": name, "segment": [{"id": group}], "ext": {"catalogue": catalogue}}


def good_requests() -> list[dict[str, Any]]:
    """Requests of several shapes; most get a bid."""
    plain: dict[str, Any] = {
        "id": "80ce30c53c16e6ede735f123ef6e32361bfc7b22",
        "at": 2,
        "tmax": _AT_ONCE,
        "cur": ["USD"],
        "imp": [{"id": "1", "bidfloor": 0.01, "banner": {"w": 300, "h": 250}}],
        "user": {"data": [_user_data("g1")]},
    }
    rich = plain | {
        "badv": ["x.example"],
        "test": 0,
        "imp": [
            {
                "id": str(at),
                "bidfloor": 0.05 * at,
                "bidfloorcur": "USD",
                "exp": 60 + at,
                "pmp": {"private_auction": 0, "deals": []},
                "banner": {"format": [{"w": 300, "h": 250}, {"w": 300, "h": 600}], "pos": 1},
            }
            for at in range(4)
        ],
        "site": {"page": "https://news.example/a", "publisher": {"id": "8953"}},
        "device": {"ua": "Mozilla/5.0", "ip": "192.0.2.7", "geo": {"lat": 52.5, "lon": 13.4}},
        "user": {
            "id": "u",
            "data": [_user_data("x", "y", "other"), _user_data("g2"), _user_data("g3")],
            "consent": "CQlVK8AQlVK8AxD4zqDEAAE8AP_gAP_gAIYgF5wAQF5gY_ABgV4Bj4AA",
            "ext": {"consent": ""},
        },
        "regs": {
            "coppa": 0,
            "us_privacy": "1YNN",
            "gpp": "DBABBg~BVoAAABA",
            "gpp_sid": [8],
            "ext": {"gdpr": 1},
        },
    }
    assets = [{"id": 1, "required": 1, "title": {"len": 90}}, {"id": 2, "data": {"type": 2}}]
    media = plain | {
        "cur": ["EUR", "USD"],
        "bcat": ["IAB25"],
        "wlang": ["en"],
        "imp": [
            {
                "id": "v",
                "secure": 1,
                "bidfloorcur": "EUR",
                "video": {"mimes": ["video/mp4"], "protocols": [2, 3], "maxduration": 30},
                "pmp": {"deals": [{"id": "d1", "bidfloor": 0.1, "at": 3, "wadomain": ["x"]}]},
            },
            {"id": "n", "native": {"request": json.dumps({"assets": assets}), "ver": "1.2"}},
            {"id": "a", "audio": {"mimes": ["audio/mp4"], "minduration": 5}},
        ],
    }
    return [plain, rich, media, plain | {"at": 1}, {"id": "1", "imp": []}]


def _odd(generator: Random, depth: int = 0) -> Any:
    """Any JSON value, small more often than large."""
    kind = generator.randrange(9)
    if kind < 2:
        return generator.choice(_ODD_TEXT)
    if kind < 4:
        return generator.choice(_ODD_NUMBERS)
    if kind < 6 or depth > 4:
        return generator.choice((None, True, False))
    count = generator.randrange(4)
    if kind == 6:
        return [_odd(generator, depth + 1) for _ in range(count)]
    return {generator.choice(_FIELDS): _odd(generator, depth + 1) for _ in range(count)}


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from _places(node[key])


def _in_tree(generator: Random, base: bytes) -> bytes:
    """Values replaced, deleted, repeated or made of another type."""
    document = json.loads(base)
    for _ in range(generator.choice((1, 1, 1, 2, 5))):
        places = list(_places(document))
        if not places:
            break
        node, key = generator.choice(places)
        what = generator.randrange(6)
        if what == 0:
            del node[key]
        elif what == 1 and isinstance(node, list):
            node[:] = node * generator.choice((0, 2, 50))
        elif what == 2:
            node[key] = [node[key]] * generator.choice((1, 2))
        elif what == 3:
            node[key] = {generator.choice(_FIELDS): node[key]}
        elif what == 4 and isinstance(node[key], (str, int, float)):
            node[key] = str(node[key]) if generator.random() < 0.5 else node[key] * 3
        else:
            node[key] = _odd(generator)
    return json.dumps(document, ensure_ascii=generator.random() < 0.5).encode()


def _in_bytes(generator: Random, base: bytes) -> bytes:
    """Bytes flipped, changed, inserted, removed."""
    made = bytearray(base)
    for _ in range(generator.choice((1, 1, 2, 4, 16))):
        at = generator.randrange(len(made) or 1)
        what = generator.randrange(4)
        if what == 0 and made:
            made[at] ^= 1 << generator.randrange(8)
        elif what == 1 and made:
            made[at] = generator.randrange(256)
        elif what == 2:
            made[at:at] = generator.randbytes(generator.choice((1, 1, 2, 8)))
        else:
            del made[at : at + generator.choice((1, 1, 3, 20))]
    return bytes(made)


def _cut(generator: Random, base: bytes) -> bytes:
    """Truncated, doubled, or two halves of different places."""
    at, other = generator.randrange(len(base) + 1), generator.randrange(len(base) + 1)
    return generator.choice((base[:at], base[at:], base[:at] + base[other:], base + base[:at]))


def _with_raw(generator: Random, base: bytes) -> bytes:
    """A value replaced by what is no JSON, or hardly."""
    document = json.loads(base)
    places = list(_places(document))
    node, key = generator.choice(places)
    node[key] = "\u2603mark"
    marked = json.dumps(document, ensure_ascii=False).encode()
    return marked.replace('"\u2603mark"'.encode(), generator.choice(_RAW))


def _repeated_field(generator: Random, base: bytes) -> bytes:
    """A field told twice, differently."""
    field = json.dumps(generator.choice(_FIELDS)).encode()
    value = json.dumps(_odd(generator)).encode()
    added = field + b":" + value
    if generator.random() < 0.5:
        return b"{" + added + b"," + base[1:]
    return base[:-1] + b"," + added + b"}"


def _any_json(generator: Random, base: bytes) -> bytes:
    """Any JSON at all."""
    return json.dumps(_odd(generator)).encode()


_LONG = 250_000


def _extreme(generator: Random, base: bytes) -> bytes:
    """Near the longest body, or beyond."""
    document = json.loads(base)
    length = generator.choice((60_000, _LONG, 2 * _LONG))
    what = generator.randrange(4)
    if what == 0:
        document["id"] = generator.choice(("x", "é", '"', "\x01")) * (length // 6)
    elif what == 1:
        document["imp"] = [{"id": str(at)} for at in range(length // 20)]
    elif what == 2:
        document["user"] = {"data": [_user_data(f"g{at}") for at in range(length // 90)]}
    else:
        return base[:-1] + b',"x":"' + b"y" * length + b'"}'
    return json.dumps(document).encode()


_WAYS: tuple[tuple[int, Callable[[Random, bytes], bytes]], ...] = (
    (300, _in_tree),
    (300, _in_bytes),
    (100, _cut),
    (120, _with_raw),
    (100, _repeated_field),
    (78, _any_json),
    (2, _extreme),
)


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """So many bodies, the same for a seed."""
    generator = Random(seed)
    bases = [json.dumps(request).encode() for request in good_requests()]
    weights = [weight for weight, _ in _WAYS]
    ways = [way for _, way in _WAYS]
    for _ in range(count):
        way = generator.choices(ways, weights)[0]
        yield way(generator, generator.choice(bases[:3]))
