"""Which creative may have which place: the rules of OpenRTB 2.6 on media, size and blocking.

A creative is refused for what it declares. One that declares no category, attribute, language or
app passes the lists on these: exchanges scan for what buyers do not say.
"""

from collections.abc import Iterable

import msgspec

from kreach.adsystem.bidserver.native import native_mismatch
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.creative import Creative, NativeAd
from kreach.boundary.openrtb import BidRequest
from kreach.boundary.openrtb_places import Audio, Banner, Imp, Video

__all__ = [
    "Requirements",
    "Traits",
    "is_eligible",
    "mismatch",
    "requirements_of",
    "size_in",
    "traits_of",
]

_TEXT, _BANNER, _SCRIPT, _IFRAME = 1, 2, 3, 4  # btype
_ENDLESS = float("inf")


class Traits(msgspec.Struct, frozen=True):
    """What decides where a creative fits. Creatives with equal traits fit the same places."""

    kind: str
    sizes: tuple[tuple[int, int], ...]
    secure: bool
    domains: frozenset[str]  # with all their parents: blocking one blocks what is below it
    categories: frozenset[str]  # with their parents
    taxonomy: int
    attributes: frozenset[int]
    apis: frozenset[int]
    mimes: frozenset[str]
    banner_types: frozenset[int]
    duration: int
    protocols: frozenset[int]
    linearity: int | None
    rolls: frozenset[str]
    placements: frozenset[int]
    expands: frozenset[int]
    language: str | None
    bundle: str | None
    native: NativeAd | None


class Requirements(msgspec.Struct, frozen=True):
    """What decides where a campaign may bid."""

    creatives: tuple[Traits, ...]
    deals: tuple[str, ...]
    deals_only: bool


def traits_of(creative: Creative) -> Traits:
    """The traits of a creative."""
    mimes = creative.mimes or (("text/html",) if creative.kind == "banner" else ())
    return Traits(
        kind=creative.kind,
        sizes=creative.all_sizes,
        secure=creative.is_secure,
        domains=frozenset(each for name in creative.domains for each in _parents(name.lower())),
        categories=frozenset(
            each for name in creative.categories for each in (name, name.partition("-")[0])
        ),
        taxonomy=creative.category_taxonomy,
        attributes=frozenset(creative.attributes),
        apis=frozenset(creative.apis),
        mimes=frozenset(mimes),
        banner_types=_banner_types(creative.markup or ""),
        duration=creative.duration_seconds or 0,
        protocols=frozenset(creative.protocols),
        linearity=creative.linearity,
        rolls=frozenset(creative.rolls),
        placements=frozenset(creative.placements),
        expands=frozenset(creative.expands),
        language=creative.language,
        bundle=creative.bundle,
        native=creative.native,
    )


def requirements_of(campaign: Campaign) -> Requirements:
    """Where a campaign may bid, with the creatives that it may show."""
    traits = dict.fromkeys(traits_of(creative) for creative in campaign.servable)
    return Requirements(tuple(traits), campaign.deals, campaign.deals_only)


def _parents(domain: str) -> Iterable[str]:
    labels = domain.split(".")
    return (".".join(labels[at:]) for at in range(len(labels)))


def _banner_types(markup: str) -> frozenset[int]:
    lower = markup.lower()
    tags = ((_SCRIPT, "<script"), (_IFRAME, "<iframe"))
    found = {number for number, tag in tags if tag in lower}
    return frozenset(found or {_BANNER if "<" in markup else _TEXT})


def is_eligible(requirements: Requirements, request: BidRequest, imp: Imp) -> bool:
    """Whether a campaign may have a place: one of its creatives, in the open or by a deal."""
    if (imp.pmp is not None or requirements.deals_only) and not _may_buy(requirements, imp):
        return False
    creatives = requirements.creatives
    if len(creatives) == 1:
        return not mismatch(creatives[0], request, imp)
    return any(not mismatch(traits, request, imp) for traits in creatives)


def _may_buy(requirements: Requirements, imp: Imp) -> bool:
    pmp = imp.pmp
    if pmp is None:
        return not requirements.deals_only
    if not (pmp.private_auction or requirements.deals_only):
        return True
    return any(deal.id in requirements.deals for deal in pmp.deals or ())


def mismatch(traits: Traits, request: BidRequest, imp: Imp) -> str:
    """Why a creative may not have a place; empty if it may."""
    if request.badv or request.bcat or request.bapp or request.wlang:
        why = _blocked(traits, request)
        if why:
            return why
    if imp.secure and not traits.secure:
        return "secure"
    banner = imp.banner
    if traits.kind != "banner" or banner is None:
        return _other_media(traits, imp)
    for width, height in traits.sizes:
        if banner.fits(width, height):
            break
    else:
        return "size"
    if banner.mimes or banner.btype or banner.battr or traits.expands or traits.apis:
        return _banner_rules(traits, banner)
    return ""


def _other_media(traits: Traits, imp: Imp) -> str:
    if traits.kind == "banner":
        return "kind"
    if traits.kind == "video":
        return _video(traits, imp.video)
    if traits.kind == "audio":
        return "kind" if imp.audio is None else _timed(traits, imp.audio)
    native = imp.native
    if native is None or traits.native is None:
        return "kind"
    why = _framework(traits, native.api, native.battr)
    return why or native_mismatch(traits.native, native.request)


def _blocked(traits: Traits, request: BidRequest) -> str:
    if request.badv and not traits.domains.isdisjoint(map(str.lower, request.badv)):
        return "badv"
    if request.bcat and traits.categories:
        if (request.cattax or 1) != traits.taxonomy:
            return "cattax"  # lists that cannot be compared
        if not traits.categories.isdisjoint(request.bcat):
            return "bcat"
    if request.bapp and traits.bundle in request.bapp:
        return "bapp"
    if request.wlang and traits.language is not None:
        languages = {name.lower()[:2] for name in request.wlang}
        if traits.language not in languages:
            return "wlang"
    return ""


def size_in(traits: Traits, banner: Banner) -> tuple[int, int] | None:
    """The size of a banner creative that a place takes; None if it takes none."""
    for size in traits.sizes:
        if banner.fits(*size):
            return size
    return None


def _banner_rules(traits: Traits, banner: Banner) -> str:
    if banner.mimes and traits.mimes.isdisjoint(map(str.lower, banner.mimes)):
        return "mimes"
    if banner.btype and not traits.banner_types.isdisjoint(banner.btype):
        return "btype"
    if traits.expands and not traits.expands <= set(banner.expdir or ()):
        return "expdir"
    return _framework(traits, banner.api, banner.battr)


def _framework(traits: Traits, api: list[int] | None, battr: list[int] | None) -> str:
    if battr and not traits.attributes.isdisjoint(battr):
        return "battr"
    if traits.apis and traits.apis.isdisjoint(api or ()):
        return "api"  # what a place does not list it does not support
    return ""


def _video(traits: Traits, video: Video | None) -> str:
    if video is None:
        return "kind"
    if video.linearity is not None and (traits.linearity or 1) != video.linearity:
        return "linearity"
    if traits.placements and video.plcmt not in traits.placements:
        return "plcmt"
    if traits.sizes and video.w is not None and video.h is not None:
        player = video.w, video.h
        if not any(size[0] <= player[0] and size[1] <= player[1] for size in traits.sizes):
            return "size"
    return _timed(traits, video)


def _timed(traits: Traits, place: Audio) -> str:
    """The rules that video and audio share."""
    if place.mimes and traits.mimes.isdisjoint(map(str.lower, place.mimes)):
        return "mimes"
    if place.rqddurs:
        if traits.duration not in place.rqddurs:
            return "duration"
    elif not (place.minduration or 0) <= traits.duration <= (place.maxduration or _ENDLESS):
        return "duration"
    protocols = place.protocols or ([place.protocol] if place.protocol is not None else [])
    if protocols and traits.protocols.isdisjoint(protocols):
        return "protocols"
    if traits.rolls and _roll(place.startdelay) not in traits.rolls:
        return "startdelay"
    return _framework(traits, place.api, place.battr)


def _roll(delay: int | None) -> str | None:
    """Where in the content a place is: 0 pre-roll, above 0 or -1 mid-roll, -2 post-roll."""
    if delay is None:
        return None
    return "pre" if delay == 0 else "post" if delay == -2 else "mid"
