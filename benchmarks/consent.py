"""What reading and obeying consent signals costs a bid request, beside decoding the request."""

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from benchmarks.timing import duration, print_table, race_prepared
from kreach.adsystem.bidserver.consent import ConsentPolicy
from kreach.adsystem.settings import ConsentSettings
from kreach.boundary.openrtb import BidRequest, decode_request

__all__ = ["run", "tc_string"]

_REQUESTS = 2_000
_REPEATS = 15
_VENDOR, _VENDORS = 755, 1_200
_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def tc_string(chance: Random, share: float = 0.9) -> str:
    """A TC string as consent managers write it: consent to all, and vendors in bit fields."""
    day = 17_700_000_000 + 864_000 * chance.randrange(300)
    consents = [vendor == _VENDOR or chance.random() < share for vendor in range(1, _VENDORS + 1)]
    field = f"{_VENDORS:016b}0" + "".join("01"[given] for given in consents)
    head = ((2, 6), (day, 36), (day, 36), (300, 12), (1, 12), (1, 6), (259, 12), (90, 12), (5, 6))
    core = "".join(f"{number:0{width}b}" for number, width in head)
    core += "10" + "0" * 12 + 2 * ("1" * 11 + "0" * 13) + "0" + f"{259:012b}"
    return f"{_text(core + 2 * field + '0' * 12)}.{_text('001' + field)}"


def _text(bits: str) -> str:
    bits += "0" * (-len(bits) % 6)
    return "".join(_CHARACTERS[int(bits[at : at + 6], 2)] for at in range(0, len(bits), 6))


def run() -> None:
    """Print the time per request: decoding it, and deciding on its signals."""
    chance = Random(1)
    few = [tc_string(chance) for _ in range(50)]
    many = [tc_string(chance) for _ in range(_REQUESTS)]
    kinds: dict[str, Callable[[int], dict[str, Any]]] = {
        "no signals": lambda _: {},
        "no law applies": lambda _: {"regs": {"coppa": 0, "ext": {"gdpr": 0}}},
        "US Privacy": lambda _: {"regs": {"us_privacy": "1YNN"}},
        "GPP, California": lambda _: {"regs": {"gpp": "DBABBg~BVoAAABA", "gpp_sid": [8]}},
        "TCF, a string seen before": lambda at: _consented(few[at % len(few)]),
        "TCF, a new string": lambda at: _consented(many[at]),
    }
    rows = []
    for name, signals in kinds.items():
        bodies = [_body(signals(at)) for at in range(_REQUESTS)]
        requests = [decode_request(body) for body in bodies]
        known = ConsentPolicy(ConsentSettings(vendor_id=_VENDOR))
        fresh = name.endswith("new string")
        for request in [] if fresh else requests:
            known.refusal(request)
        contestants: dict[str, Callable[[], Callable[[], int]]] = {
            "decode": partial(partial[int], _decode, bodies),
            "decide": partial(_deciding, None if fresh else known, requests),
        }
        timings = race_prepared(contestants, _REPEATS)
        if timings["decide"].result:
            raise RuntimeError(f"{name}: all of these requests should get a bid")
        per = {what: duration(timing.seconds / _REQUESTS) for what, timing in timings.items()}
        rows.append((name, f"{len(bodies[0]):,}", per["decode"], per["decide"]))
    header = ("signals", "bytes", "decode the request", "decide")
    print_table("Consent of one bid request", header, rows)


def _consented(text: str) -> dict[str, Any]:
    return {"regs": {"gdpr": 1}, "user": {"consent": text}}


def _body(signals: dict[str, Any]) -> bytes:
    data = [{"name": "kreach", "segment": [{"id": "g1"}], "ext": {"catalogue": "v1"}}]
    device = {"ip": "192.0.2.7", "ua": "Mozilla/5.0 (X11; Linux x86_64)", "lmt": 0}
    user = {"data": data} | signals.get("user", {})
    imp = [{"id": "1", "bidfloor": 0.01, "banner": {"w": 300, "h": 250}}]
    rest = {"id": "1", "imp": imp, "device": device, "user": user}
    return json.dumps(signals | rest, separators=(",", ":")).encode()


def _decode(bodies: list[bytes]) -> int:
    for body in bodies:
        decode_request(body)
    return 0


def _deciding(known: ConsentPolicy | None, requests: list[BidRequest]) -> Callable[[], int]:
    """Decisions by a policy that knows these signals, or by a new one."""
    policy = known or ConsentPolicy(ConsentSettings(vendor_id=_VENDOR))
    return partial(_decide, policy, requests)


def _decide(policy: ConsentPolicy, requests: list[BidRequest]) -> int:
    return sum(bool(policy.refusal(request)) for request in requests)


if __name__ == "__main__":
    run()
