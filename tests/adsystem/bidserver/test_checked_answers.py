"""Every answer to generated requests holds what the independent checker knows of OpenRTB."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from simulations.openrtb_campaigns import campaigns_of_every_kind
from simulations.openrtb_checker import violations
from simulations.openrtb_requests import RATES, requests_in

from tests.adsystem.bidserver.sample_bidders import NOW, bidding, sample_request

REQUESTS = 500
REGS = ({"coppa": 1}, {"gdpr": 1}, {"ext": {"us_privacy": "1YYN"}}, {"us_privacy": "1YNN"})
SIZES = [(300, 250), (728, 90), (320, 50), (1, 1), (999, 999), (300, 600)]


def some(chance: Random, values: list[Any], share: float = 0.3) -> list[Any] | None:
    """A few of the values, or most often nothing."""
    return chance.sample(values, chance.randint(1, 2)) if chance.random() < share else None


def generated_banner(chance: Random) -> dict[str, Any]:
    sizes = [{"w": w, "h": h} for w, h in chance.sample(SIZES, 2)]
    return {
        "format": sizes if chance.random() < 0.7 else None,
        "mimes": some(chance, ["text/html", "image/png", "application/javascript"]),
        "btype": some(chance, [1, 2, 3, 4]),
        "battr": some(chance, [1, 8, 9]),
        "api": some(chance, [3, 5, 6]),
    }


def generated_timed(chance: Random, mimes: list[str]) -> dict[str, Any]:
    return {
        "mimes": some(chance, mimes, 0.8),
        "minduration": chance.choice([None, 0, 5, 20]),
        "maxduration": chance.choice([None, 10, 15, 30, 60]),
        "rqddurs": some(chance, [6, 15, 45], 0.2),
        "protocols": some(chance, [2, 3, 5, 6, 7, 8], 0.6),
        "battr": some(chance, [1, 8, 16]),
    }


def generated_native(chance: Random) -> dict[str, Any]:
    assets: list[dict[str, Any]] = [
        {"title": {"len": chance.choice([5, 25, 90])}},
        {"img": {"type": chance.choice([1, 3]), "wmin": chance.choice([50, 600, 2000])}},
        {"data": {"type": chance.choice([1, 2, 5, 12])}},
        {"video": {"mimes": ["video/mp4"]}},
    ]
    picked = [
        {"id": at + 1, "required": chance.randint(0, 1)} | asset
        for at, asset in enumerate(chance.sample(assets, chance.randint(1, 3)))
    ]
    document = {"ver": "1.2", "assets": picked}
    return {"request": json.dumps({"native": document} if chance.random() < 0.3 else document)}


def generated_imp(chance: Random, name: str) -> dict[str, Any]:
    imp: dict[str, Any] = {"id": name, "secure": chance.choice([None, 0, 1])}
    media = {
        "banner": lambda: generated_banner(chance),
        "video": lambda: generated_timed(chance, ["video/mp4", "video/webm", "video/ogg"]),
        "audio": lambda: generated_timed(chance, ["audio/mp4", "audio/mpeg", "audio/ogg"]),
        "native": lambda: generated_native(chance),
    }
    for kind in chance.sample(sorted(media), chance.choice([0, 1, 1, 1, 2])):
        imp[kind] = media[kind]()
    if chance.random() < 0.5:
        imp["bidfloor"] = round(chance.expovariate(0.7), 4)
        imp["bidfloorcur"] = chance.choice(["USD", "EUR", "JPY", "XXX", None])
    if chance.random() < 0.3:
        deals = [
            {
                "id": chance.choice(["d1", "d2", "d3"]),
                "bidfloor": round(chance.expovariate(0.7), 3),
                "bidfloorcur": chance.choice(["USD", "GBP"]),
                "at": chance.choice([None, 1, 2, 3]),
                "wseat": some(chance, ["kreach", "other"]),
                "wadomain": some(chance, ["shop.example", "other.example"]),
            }
        ]
        imp["pmp"] = {"private_auction": chance.randint(0, 1), "deals": deals}
    return imp


def generated_request(chance: Random, number: int) -> dict[str, Any]:
    names = [str(chance.randint(1, 6)) for _ in range(chance.choice([1, 1, 2, 4]))]
    return sample_request(
        f"g{number % 6}",
        id=f"r{number}",
        at=chance.choice([None, 1, 2, 3]),
        imp=[generated_imp(chance, name) for name in names],
        cur=some(chance, ["USD", "EUR", "JPY", "XXX"]),
        bcat=some(chance, ["IAB3", "IAB3-1", "IAB7"]),
        badv=some(chance, ["shop.example", "www.shop.example", "x.example"], 0.2),
        bapp=some(chance, ["1234", "5"]),
        wlang=some(chance, ["en", "de"]),
        regs=chance.choice(REGS) if chance.random() < 0.1 else None,
        wseat=some(chance, ["kreach", "other"], 0.1),
        bseat=some(chance, ["other", "third"], 0.1),
    )


def test_generated_requests_are_answered_by_the_rules(tmp_path: Path) -> None:
    chance = Random(7)
    media: Counter[int] = Counter()
    deals = 0
    campaigns = list(campaigns_of_every_kind(NOW, ("d1", "d2")))
    with bidding(tmp_path, campaigns, rates=RATES) as exchange:
        for number in range(REQUESTS):
            request = generated_request(chance, number)
            reply = exchange.bid(request)
            assert reply.status in (200, 204), (reply, request)
            if reply.status == 200:
                found = violations(request, reply.document, {"USD": 1.0} | RATES)
                assert found == [], (found, request, reply.document)
                bids = reply.document["seatbid"][0]["bid"]
                media.update(bid["mtype"] for bid in bids)
                deals += sum("dealid" in bid for bid in bids)
                for bid in bids:
                    exchange.call(bid["lurl"])
    assert min(media[kind] for kind in (1, 2, 3, 4)) >= 20
    assert deals >= 10


GOOD = {"id": "b", "impid": "1", "price": 2.0, "crid": "c", "cid": "c", "burl": "x"}
BANNER_BID = GOOD | {"mtype": 1, "adm": "<b>x</b>", "w": 300, "h": 250}


def test_the_checker_finds_what_is_wrong() -> None:
    def judged(imp: dict[str, Any], bid: dict[str, Any], **more: Any) -> list[str]:
        request = {"id": "r", "imp": [{"id": "1"} | imp]} | more
        return violations(request, {"id": "r", "seatbid": [{"seat": "kreach", "bid": [bid]}]})

    place: dict[str, Any] = {"banner": {"w": 300, "h": 250}}
    assert judged(place, BANNER_BID) == []
    wrong: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        (place | {"bidfloor": 2.01}, {}, {}),
        (place | {"secure": 1}, {"adm": "<img src=http://x>"}, {}),
        (place, {}, {"regs": {"coppa": 1}}),
        (place, {}, {"regs": {"ext": {"gdpr": 1}}}),
        (
            place,
            {},
            {"regs": {"gdpr": 1}, "user": {"consent": "CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAY"}},
        ),
        (place, {}, {"regs": {"us_privacy": "1YYN"}}),
        (place | {"pmp": {"private_auction": 1}}, {}, {}),
        (place, {"dealid": "d"}, {}),
        (place, {"w": 301}, {}),
        (place, {"impid": "2"}, {}),
        (place, {"price": 0.0}, {}),
        (place, {"burl": None}, {}),
        (place, {"mtype": 2}, {}),
        ({"banner": {"battr": [3]}}, {"attr": [3]}, {}),
        ({"banner": {"mimes": ["image/png"]}}, {}, {}),
        (place, {"adomain": ["www.x.example"]}, {"badv": ["x.example"]}),
        (place, {"cat": ["IAB1-2"]}, {"bcat": ["IAB1"]}),
        (place, {"language": "de"}, {"wlang": ["en"]}),
        (place, {}, {"cur": ["EUR"]}),
        (place, {}, {"wseat": ["other"]}),
        ({"video": {"maxduration": 5}}, {"mtype": 2, "adm": "<VAST/>x"}, {}),
    ]
    for imp, bid, asked in wrong:
        assert judged(imp, BANNER_BID | bid, **asked), (imp, bid, asked)


def test_requests_are_found_in_files(tmp_path: Path) -> None:
    one = {"id": "1", "imp": [{"id": "1"}]}
    (tmp_path / "a.json").write_text(json.dumps({"mockBidRequest": one, "more": [one, {"imp": 7}]}))
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.md").write_text('text\n```\n{"id": "2", "imp": []}\n```\n')
    assert [each["id"] for each in requests_in(tmp_path)] == ["1", "2"]
