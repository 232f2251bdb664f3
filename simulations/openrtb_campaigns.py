"""Campaigns with creatives of every kind, for runs against recorded or generated requests."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.creative import Creative, NativeAd, NativeImage, NativeText, Size

__all__ = ["campaigns_of_every_kind", "vast"]

_BANNER_SIZES = (
    *((300, 250), (728, 90), (320, 50), (300, 600), (970, 250), (160, 600), (320, 480)),
    *((468, 60), (250, 250), (336, 280), (120, 600), (1, 1), (600, 500), (320, 250), (300, 50)),
)


def vast(seconds: int, mimes: tuple[str, ...], version: str = "3.0") -> str:
    """A VAST document with one linear ad."""
    files = "".join(
        f'<MediaFile delivery="progressive" type="{mime}" width="640" height="360">'
        f"<![CDATA[https://cdn.shop.example/ad]]></MediaFile>"
        for mime in mimes
    )
    return (
        f'<VAST version="{version}"><Ad id="1"><InLine><AdSystem>x</AdSystem>'
        f"<AdTitle>x</AdTitle><Impression><![CDATA[https://shop.example/i?p=${{AUCTION_PRICE}}]]>"
        f"</Impression><Creatives><Creative><Linear><Duration>00:00:{seconds:02d}</Duration>"
        f"<MediaFiles>{files}</MediaFiles></Linear></Creative></Creatives></InLine></Ad></VAST>"
    )


def _banners() -> tuple[Creative, ...]:
    sizes = tuple(Size(width=width, height=height) for width, height in _BANNER_SIZES)
    return (
        Creative(id="plain", markup="<b>ad</b>", sizes=sizes, domains=("shop.example",)),
        Creative(
            id="script",
            markup='<script src="https://cdn.shop.example/a.js"></script>',
            sizes=sizes[:4],
            weight=2,
            domains=("www.shop.example",),
            categories=("IAB3-1",),
            attributes=(8,),
            language="en",
        ),
        Creative(id="insecure", markup="<img src=http://shop.example/a.png>", sizes=sizes[:6]),
        Creative(id="frame", markup="<iframe></iframe>", sizes=sizes, apis=(5,), bundle="1234"),
    )


def _timed(kind: str, mimes: tuple[str, ...]) -> tuple[Creative, ...]:
    versions = (("2.0", 2), ("3.0", 3), ("4.0", 7))
    return tuple(
        Creative(
            id=f"{kind}-{seconds}-{protocol}",
            kind=kind,
            markup=vast(seconds, mimes, version),
            mimes=mimes,
            duration_seconds=seconds,
            protocols=(protocol,),
            domains=("shop.example",),
        )
        for seconds in (6, 15, 30)
        for version, protocol in versions
    )


def _native() -> tuple[Creative, ...]:
    texts = tuple(
        NativeText(type=number, value=text)
        for number, text in ((1, "Shop"), (2, "A short text"), (12, "Buy"))
    )
    ad = NativeAd(
        link="https://shop.example",
        title="Spring sale",
        image=NativeImage(url="https://cdn.shop.example/i.png", width=1200, height=627),
        icon=NativeImage(url="https://cdn.shop.example/l.png", width=100, height=100),
        texts=texts,
        trackers=("https://shop.example/i?p=${AUCTION_PRICE}",),
    )
    return (Creative(id="native", kind="native", native=ad, domains=("shop.example",)),)


def campaigns_of_every_kind(now: datetime, deals: tuple[str, ...] = ()) -> Iterator[Campaign]:
    """Banners, videos, audio and native ads, and one campaign that buys by deals alone."""
    video = ("video/mp4", "video/webm")
    audio = ("audio/mp4", "audio/mpeg", "audio/mp3")
    kinds = {
        "banner": _banners(),
        "video": _timed("video", video),
        "audio": _timed("audio", audio),
        "native": _native(),
    }
    flight: dict[str, Any] = {"start": now - timedelta(minutes=1), "end": now + timedelta(days=7)}
    common: dict[str, Any] = {
        "budget": 10_000.0,
        "max_cpm": 100.0,
        "market_mu": 1.0,
        "market_sigma": 1.0,
    }
    for name, creatives in kinds.items():
        yield Campaign(id=name, creatives=creatives, **common, **flight)
    if deals:
        both = _banners() + _timed("video", video)
        yield Campaign(id="deals", creatives=both, deals=deals, deals_only=True, **common, **flight)
