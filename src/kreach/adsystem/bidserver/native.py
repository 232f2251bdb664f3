"""Native ads: which assets a place asks for, and the answer in OpenRTB Native 1.2."""

from typing import Any

import msgspec

from kreach.adsystem.campaigns.creative import NativeAd, NativeImage
from kreach.boundary.lenient import Unreadable, decode_leniently

__all__ = ["native_markup", "native_mismatch"]

_ICON, _MAIN = 1, 3  # image types


class Title(msgspec.Struct):
    """A title of at most `len` characters."""

    len: int | None = None


class Image(msgspec.Struct):
    """An image: of exactly this size, or of at least the other."""

    type: int | None = None
    w: int | None = None
    h: int | None = None
    wmin: int | None = None
    hmin: int | None = None


class Text(msgspec.Struct):
    """A text of a type."""

    type: int | None = None
    len: int | None = None


class Video(msgspec.Struct):
    """A video asset; kreach has none."""


class Asset(msgspec.Struct):
    """Something that the place has room for."""

    id: int | None = None
    required: int | None = None
    title: Title | None = None
    img: Image | None = None
    data: Text | None = None
    video: Video | None = None


class NativeRequest(msgspec.Struct):
    """A native request of version 1.1 or 1.2; that of 1.0 has it in `native`."""

    assets: list[Asset] | None = None
    native: "NativeRequest | None" = None


def _read(request: str | None) -> NativeRequest | None:
    if not request:
        return None
    try:
        read: NativeRequest = decode_leniently(request.encode(), NativeRequest)
    except (Unreadable, msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return read


def native_mismatch(ad: NativeAd, request: str | None) -> str:
    """Why an ad may not have a native place; empty if it may."""
    read = _read(request)
    if read is None:
        return "native request"
    wanted = (read.native or read).assets
    if not wanted:
        return "native request"
    for asset in wanted:
        if asset.required and _filled(ad, asset) is None:
            return "assets"
    return ""


def native_markup(ad: NativeAd, request: str | None) -> str:
    """The ad as a native place takes it: the assets that it asks for and that the ad has."""
    read = _read(request)
    assert read is not None
    inner = read.native or read
    assets = []
    for asset in inner.assets or ():
        filled = _filled(ad, asset)
        if filled is not None:
            assets.append({"id": asset.id, "required": asset.required or 0} | filled)
    answer: dict[str, Any] = {"ver": "1.2", "assets": assets, "link": {"url": ad.link}}
    if ad.trackers:
        answer["imptrackers"] = list(ad.trackers)
        answer["eventtrackers"] = [{"event": 1, "method": 1, "url": url} for url in ad.trackers]
    return msgspec.json.encode(answer if read.native is None else {"native": answer}).decode()


def _filled(ad: NativeAd, asset: Asset) -> dict[str, Any] | None:
    """An asset as the ad fills it; None if it cannot, or if nobody could tell which it answers."""
    if asset.id is None:
        return None
    if asset.title is not None:
        fits = asset.title.len is None or len(ad.title or "") <= asset.title.len
        return {"title": {"text": ad.title}} if ad.title is not None and fits else None
    if asset.img is not None:
        return _image(ad, asset.img)
    wanted = asset.data
    if wanted is not None:
        for text in ad.texts:
            if text.type == wanted.type and (wanted.len is None or len(text.value) <= wanted.len):
                return {"data": {"value": text.value}}
    return None


def _image(ad: NativeAd, wanted: Image) -> dict[str, Any] | None:
    image = {None: ad.image, _MAIN: ad.image, _ICON: ad.icon}.get(wanted.type)
    if image is None or not _image_fits(image, wanted):
        return None
    return {"img": {"url": image.url, "w": image.width, "h": image.height}}


def _image_fits(image: NativeImage, wanted: Image) -> bool:
    for have, exact, minimum in (
        (image.width, wanted.w, wanted.wmin),
        (image.height, wanted.h, wanted.hmin),
    ):
        if minimum is not None:
            if have < minimum:
                return False
        elif exact is not None and have != exact:
            return False
    return True
