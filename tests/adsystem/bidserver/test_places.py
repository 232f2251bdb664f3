"""Which creative may have which place, rule by rule."""

import json
from typing import Any

import msgspec
import pytest
from simulations.openrtb_campaigns import vast

from kreach.adsystem.bidserver.native import native_markup, native_mismatch
from kreach.adsystem.bidserver.places import mismatch, traits_of
from kreach.adsystem.campaigns.creative import Creative, NativeAd, NativeImage, NativeText, Size
from kreach.boundary.openrtb import BidRequest


def request(imp: dict[str, Any], **more: Any) -> BidRequest:
    return msgspec.convert({"id": "r", "imp": [{"id": "1"} | imp]} | more, BidRequest)


def why(creative: Creative, imp: dict[str, Any], **more: Any) -> str:
    asked = request(imp, **more)
    return mismatch(traits_of(creative), asked, asked.imp[0])


def banner(**more: Any) -> Creative:
    fields: dict[str, Any] = {"markup": "<b>ad</b>", "width": 300, "height": 250}
    return Creative(**(fields | more))


def video(**more: Any) -> Creative:
    fields: dict[str, Any] = {
        "kind": "video",
        "markup": vast(15, ("video/mp4",)),
        "mimes": ("video/mp4",),
        "duration_seconds": 15,
        "protocols": (3,),
    }
    return Creative(**(fields | more))


BANNERS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # reason, creative, banner, request
    ("", {}, {}, {}),
    ("size", {}, {"w": 728, "h": 90}, {}),
    ("", {"sizes": (Size(width=728, height=90),)}, {"w": 728, "h": 90}, {}),
    ("", {}, {"mimes": ["TEXT/HTML", "image/png"]}, {}),
    ("mimes", {}, {"mimes": ["image/png"]}, {}),
    ("", {"mimes": ("image/png",)}, {"mimes": ["image/png"]}, {}),
    ("btype", {}, {"btype": [2]}, {}),
    ("", {}, {"btype": [1, 3, 4]}, {}),
    ("btype", {"markup": "<SCRIPT>x</SCRIPT>"}, {"btype": [3]}, {}),
    ("btype", {"markup": "<iframe>"}, {"btype": [4]}, {}),
    ("battr", {"attributes": (3, 8)}, {"battr": [8]}, {}),
    ("", {"attributes": (3,)}, {"battr": [8]}, {}),
    ("api", {"apis": (5,)}, {}, {}),
    ("api", {"apis": (5,)}, {"api": [3]}, {}),
    ("", {"apis": (3, 5)}, {"api": [3]}, {}),
    ("expdir", {"expands": (4,)}, {}, {}),
    ("expdir", {"expands": (2, 4)}, {"expdir": [4]}, {}),
    ("", {"expands": (4,)}, {"expdir": [4]}, {}),
    ("bcat", {"categories": ("IAB7-3",)}, {}, {"bcat": ["IAB7-3"]}),
    ("bcat", {"categories": ("IAB7-3",)}, {}, {"bcat": ["IAB7"]}),
    ("", {"categories": ("IAB7",)}, {}, {"bcat": ["IAB7-3"]}),
    ("", {}, {}, {"bcat": ["IAB7"]}),
    ("cattax", {"categories": ("IAB7",)}, {}, {"bcat": ["150"], "cattax": 2}),
    ("", {"categories": ("150",), "category_taxonomy": 2}, {}, {"bcat": ["9"], "cattax": 2}),
    ("badv", {"domains": ("shop.example",)}, {}, {"badv": ["SHOP.example"]}),
    ("badv", {"domains": ("www.shop.example",)}, {}, {"badv": ["shop.example"]}),
    ("", {"domains": ("shop.example",)}, {}, {"badv": ["www.shop.example"]}),
    ("", {"domains": ("myshop.example",)}, {}, {"badv": ["shop.example"]}),
    ("bapp", {"bundle": "123"}, {}, {"bapp": ["123"]}),
    ("", {}, {}, {"bapp": ["123"]}),
    ("wlang", {"language": "de"}, {}, {"wlang": ["en", "fr"]}),
    ("", {"language": "en"}, {}, {"wlang": ["en-US"]}),
    ("", {}, {}, {"wlang": ["en"]}),
]


@pytest.mark.parametrize(("reason", "creative", "place", "asked"), BANNERS)
def test_banners(
    reason: str, creative: dict[str, Any], place: dict[str, Any], asked: dict[str, Any]
) -> None:
    assert why(banner(**creative), {"banner": place}, **asked) == reason


def test_a_kind_needs_a_place_of_its_kind() -> None:
    others: list[dict[str, Any]] = [{}, {"video": {}}, {"audio": {}}, {"native": {}}]
    for imp in others:
        assert why(banner(), imp) == "kind"
    for name in ("banner", "audio"):
        assert why(video(), {name: {}}) == "kind"


@pytest.mark.parametrize(
    ("markup", "secure", "reason"),
    [
        ("<img src=http://x.example/a.png>", None, "secure"),
        ("<img src=HTTP://x.example/a.png>", None, "secure"),
        ("<img src=https://x.example/a.png>", None, ""),
        ("<img src=//x.example/a.png>", None, ""),
        ("<b>ad</b>", False, "secure"),
    ],
)
def test_secure_places_take_no_insecure_markup(
    markup: str, secure: bool | None, reason: str
) -> None:
    creative = banner(markup=markup, secure=secure)
    assert why(creative, {"banner": {}, "secure": 1}) == reason
    assert why(creative, {"banner": {}, "secure": 0}) == ""


VIDEOS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("", {}, {}),
    ("", {}, {"mimes": ["video/mp4", "video/webm"], "minduration": 5, "maxduration": 30}),
    ("mimes", {}, {"mimes": ["video/webm"]}),
    ("duration", {}, {"maxduration": 10}),
    ("duration", {}, {"minduration": 16}),
    ("", {}, {"minduration": 15, "maxduration": 15}),
    ("", {}, {"maxduration": 0}),
    ("duration", {}, {"rqddurs": [30, 60]}),
    ("", {}, {"rqddurs": [15], "maxduration": 10}),
    ("protocols", {}, {"protocols": [2, 5]}),
    ("", {}, {"protocols": [2, 3]}),
    ("protocols", {}, {"protocol": 2}),
    ("linearity", {}, {"linearity": 2}),
    ("", {"linearity": 2}, {"linearity": 2}),
    ("plcmt", {"placements": (1,)}, {}),
    ("plcmt", {"placements": (1,)}, {"plcmt": 4}),
    ("", {"placements": (1, 4)}, {"plcmt": 4}),
    ("startdelay", {"rolls": ("pre",)}, {"startdelay": 5}),
    ("startdelay", {"rolls": ("pre",)}, {"startdelay": -1}),
    ("startdelay", {"rolls": ("pre",)}, {}),
    ("", {"rolls": ("pre", "post")}, {"startdelay": -2}),
    ("", {"rolls": ("pre",)}, {"startdelay": 0}),
    ("size", {"width": 1920, "height": 1080}, {"w": 640, "h": 360}),
    ("", {"width": 640, "height": 360}, {"w": 640, "h": 360}),
    ("battr", {"attributes": (16,)}, {"battr": [16]}),
    ("api", {"apis": (2,)}, {"api": [1]}),
]


@pytest.mark.parametrize(("reason", "creative", "place"), VIDEOS)
def test_videos(reason: str, creative: dict[str, Any], place: dict[str, Any]) -> None:
    assert why(video(**creative), {"video": place}) == reason


def test_audio_follows_the_rules_of_video() -> None:
    markup = vast(30, ("audio/mp4",))
    fields: dict[str, Any] = {"mimes": ("audio/mp4",), "duration_seconds": 30, "protocols": (3,)}
    creative = Creative(kind="audio", markup=markup, **fields)
    assert why(creative, {"audio": {"mimes": ["audio/mp4"], "maxduration": 30}}) == ""
    assert why(creative, {"audio": {"mimes": ["audio/mpeg"]}}) == "mimes"
    assert why(creative, {"audio": {"maxduration": 29}}) == "duration"


AD = NativeAd(
    link="https://shop.example",
    title="Sale",
    image=NativeImage(url="https://x.example/i.png", width=1200, height=627),
    texts=(NativeText(type=2, value="cheap"),),
    trackers=("https://x.example/t",),
)


def native_request(*assets: dict[str, Any], wrapped: bool = False) -> str:
    document = {"ver": "1.2", "assets": [{"id": at + 1} | one for at, one in enumerate(assets)]}
    return json.dumps({"native": document} if wrapped else document)


@pytest.mark.parametrize(
    ("asset", "fits"),
    [
        ({"title": {"len": 4}}, True),
        ({"title": {"len": 3}}, False),
        ({"img": {"type": 3, "wmin": 600, "hmin": 300}}, True),
        ({"img": {"type": 3, "wmin": 1201, "hmin": 300}}, False),
        ({"img": {"type": 3, "w": 1200, "h": 627}}, True),
        ({"img": {"type": 3, "w": 600, "h": 300}}, False),
        ({"img": {"type": 1}}, False),
        ({"data": {"type": 2}}, True),
        ({"data": {"type": 2, "len": 4}}, False),
        ({"data": {"type": 1}}, False),
        ({"video": {"mimes": ["video/mp4"]}}, False),
    ],
)
def test_required_assets_must_be_there(asset: dict[str, Any], fits: bool) -> None:
    assert native_mismatch(AD, native_request(asset | {"required": 1})) == (
        "" if fits else "assets"
    )
    assert native_mismatch(AD, native_request(asset)) == ""


@pytest.mark.parametrize("odd", [None, "", "x", "[]", "{}", '{"assets":7}', '{"assets":[]}'])
def test_native_requests_that_cannot_be_read(odd: str | None) -> None:
    assert native_mismatch(AD, odd) == "native request"


@pytest.mark.parametrize("wrapped", [False, True])
def test_native_answers_have_what_was_asked_for(wrapped: bool) -> None:
    asked = native_request(
        {"required": 1, "title": {"len": 90}}, {"data": {"type": 1}}, {"img": {}}, wrapped=wrapped
    )
    answer = json.loads(native_markup(AD, asked))
    assert ("native" in answer) is wrapped
    answer = answer.get("native", answer)
    assert [asset["id"] for asset in answer["assets"]] == [1, 3]
    assert answer["assets"][0]["title"] == {"text": "Sale"}
    assert answer["link"] == {"url": "https://shop.example"}
    assert answer["imptrackers"] == ["https://x.example/t"]
