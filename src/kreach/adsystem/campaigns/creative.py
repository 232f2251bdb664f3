"""A creative: what is shown, where it fits, and what it declares about itself.

Numbers of APIs, attributes, protocols and types are those of AdCOM 1.0, as in OpenRTB.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

import msgspec

from kreach.boundary.checks import as_whole_number
from kreach.boundary.macros import unknown_macros
from kreach.errors import KreachError, check_all

__all__ = [
    "KINDS",
    "MAX_CREATIVES",
    "Creative",
    "NativeAd",
    "NativeImage",
    "NativeText",
    "Size",
    "check_new_texts",
]

KINDS = ("banner", "video", "audio", "native")
ROLLS = ("pre", "mid", "post")
REVIEWS = ("approved", "pending", "rejected")
MAX_CREATIVES = 50
MAX_TEXT = 20_000
_MAX_SIDE = 100_000
_TAG = {"video": re.compile(r"<VAST\b"), "audio": re.compile(r"<(VAST|DAAST)\b")}
_DOMAIN = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?", re.IGNORECASE)
_INSECURE = re.compile(r"http://", re.IGNORECASE)
_LANGUAGE = re.compile(r"[a-z]{2}")
_MIME = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")


class Size(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Width and height in pixels."""

    width: int
    height: int


class NativeImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An image of a native ad."""

    url: str
    width: int
    height: int


class NativeText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text of a native ad; `type` is a data asset type: 1 sponsored by, 2 description, …"""

    type: int
    value: str


class NativeAd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a native ad consists of; a place takes what it has room for."""

    link: str
    title: str | None = None
    image: NativeImage | None = None
    icon: NativeImage | None = None
    texts: tuple[NativeText, ...] = ()
    trackers: tuple[str, ...] = ()

    def urls(self) -> Iterator[str]:
        """All addresses in it."""
        yield self.link
        yield from self.trackers
        for image in (self.image, self.icon):
            if image is not None:
                yield image.url


class Creative(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An ad of one kind: markup (HTML, VAST or DAAST) or a native ad, and what it declares.

    A banner has `width` and `height`, further `sizes`, or both. `rolls`, `placements` and
    `linearity` limit where a video or audio ad may run; without, it may run anywhere. `secure` is
    found out from the markup unless it is set.
    """

    id: str | None = None
    kind: str = "banner"
    markup: str | None = None
    native: NativeAd | None = None
    width: int | None = None
    height: int | None = None
    sizes: tuple[Size, ...] = ()
    weight: int = 1
    domains: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    category_taxonomy: int = 1
    attributes: tuple[int, ...] = ()
    apis: tuple[int, ...] = ()
    mimes: tuple[str, ...] = ()
    duration_seconds: int | None = None
    protocols: tuple[int, ...] = ()
    linearity: int | None = None
    rolls: tuple[Literal["pre", "mid", "post"], ...] = ()
    placements: tuple[int, ...] = ()
    expands: tuple[int, ...] = ()
    language: str | None = None
    bundle: str | None = None
    secure: bool | None = None
    review: str = "approved"
    review_reason: str | None = None

    def __post_init__(self) -> None:
        check_all(
            self._check_choices,
            self._check_size,
            self._check_texts,
            self._check_numbers,
            self._check_lists,
            self._check_kind,
            self._check_secure,
        )

    def _check_choices(self) -> None:
        for name, choices in (("kind", KINDS), ("review", REVIEWS)):
            if getattr(self, name) not in choices:
                rule = f"be one of {', '.join(choices)}"
                raise KreachError.rule(f"creative.{name}", rule, getattr(self, name))

    def _check_size(self) -> None:
        if (self.width is None) != (self.height is None):
            raise KreachError.rule("creative", "have width and height, or neither", self.width)
        for name in ("width", "height"):
            if getattr(self, name) is not None:
                _check_side(f"creative.{name}", getattr(self, name))
        for size in self.sizes:
            _check_side("creative.sizes", size.width)
            _check_side("creative.sizes", size.height)

    def _check_texts(self) -> None:
        for name in ("id", "markup", "bundle"):
            text = getattr(self, name)
            if text is not None and not 0 < len(text) <= MAX_TEXT:
                rule = f"have from 1 to {MAX_TEXT} characters"
                raise KreachError.rule(f"creative.{name}", rule, f"{len(text)} characters")
        for text in (self.id, self.markup, self.bundle, *self.domains, *self.categories):
            if text is not None and any("\ud800" <= c <= "\udfff" for c in text):
                raise KreachError("creative must be text that can be written as UTF-8")
        if self.language is not None and not _LANGUAGE.fullmatch(self.language):
            rule = "be two small letters (ISO 639-1), such as en"
            raise KreachError.rule("creative.language", rule, self.language)

    def _check_numbers(self) -> None:
        as_whole_number("creative.weight", self.weight, minimum=1, maximum=1_000)
        if self.duration_seconds is not None:
            name = "creative.duration_seconds"
            as_whole_number(name, self.duration_seconds, minimum=1, maximum=86_400)
        if self.linearity not in (None, 1, 2):
            rule = "be 1 (linear) or 2 (non-linear)"
            raise KreachError.rule("creative.linearity", rule, self.linearity)
        for name in ("attributes", "apis", "protocols", "placements", "expands"):
            for number in getattr(self, name):
                as_whole_number(f"creative.{name}", number, minimum=1, maximum=1_000)

    def _check_lists(self) -> None:
        for mime in self.mimes:
            if not _MIME.fullmatch(mime):
                rule = "be MIME types in small letters, such as video/mp4"
                raise KreachError.rule("creative.mimes", rule, mime)

    def check_new(self) -> None:
        """Refuse what creatives of earlier versions may have, and new ones must not."""
        check_new_texts(self.markup, self.domains)

    def _check_kind(self) -> None:
        """What a kind needs in order to be matched with a place."""
        if self.kind == "native":
            if self.markup is not None:
                raise KreachError.rule("creative.markup", "be left out: native has assets", "text")
        elif self.native is not None:
            raise KreachError.rule("creative.native", "be given for kind native only", self.kind)
        if self.kind in _TAG and self.markup is not None:
            required = ("duration_seconds", "mimes", "protocols")
            check_all(*(partial(self._check_given, name) for name in required), self._check_tag)

    def _check_given(self, name: str) -> None:
        if not getattr(self, name):
            field = f"creative.{name}"
            message = f"{field} is required for kind {self.kind}"
            raise KreachError(message, field=field, code="required")

    def _check_tag(self) -> None:
        if self.markup is not None and not _TAG[self.kind].search(self.markup):
            tags = "VAST" if self.kind == "video" else "VAST or DAAST"
            rule = f"be {tags} for kind {self.kind}"
            raise KreachError.rule("creative.markup", rule, self.markup[:40])

    def _check_secure(self) -> None:
        if self.secure and self._has_insecure_address:
            rule = "not be true: the creative has http:// addresses"
            raise KreachError.rule("creative.secure", rule, True)

    @property
    def _has_insecure_address(self) -> bool:
        texts = [self.markup or ""] if self.native is None else self.native.urls()
        return any(_INSECURE.search(text) for text in texts)

    @property
    def is_secure(self) -> bool:
        """Whether it may be shown on a page that is served by HTTPS."""
        return not self._has_insecure_address if self.secure is None else self.secure

    @property
    def all_sizes(self) -> tuple[tuple[int, int], ...]:
        """Sizes it can be shown in, the preferred one first."""
        own = []
        if self.width is not None and self.height is not None:
            own.append((self.width, self.height))
        return tuple(dict.fromkeys(own + [(size.width, size.height) for size in self.sizes]))

    @property
    def complete(self) -> bool:
        """Whether there is something to show."""
        if self.kind == "native":
            return self.native is not None
        return self.markup is not None and (self.kind != "banner" or bool(self.all_sizes))

    @property
    def key(self) -> str:
        """Its id, or else one made from its content: what exchanges know it by (`crid`)."""
        return self.version if self.id is None else self.id

    @property
    def version(self) -> str:
        """Changes with everything in it but its review: what an operator has looked at."""
        content = msgspec.json.encode(self.content())
        return hashlib.blake2b(content, digest_size=8, person=b"kreach-creative").hexdigest()

    def content(self) -> "Creative":
        """The creative without its review: what a review is about."""
        return msgspec.structs.replace(self, review="approved", review_reason=None)


def check_new_texts(markup: object, domains: object) -> None:
    """Refuse macros and domains that a new creative must not have; what is no text is no matter."""
    names = domains if isinstance(domains, (list, tuple)) else ()
    check_all(
        lambda: _check_macros(markup if isinstance(markup, str) else ""),
        lambda: _check_domains([name for name in names if isinstance(name, str)]),
    )


def _check_macros(markup: str) -> None:
    unknown = unknown_macros(markup)
    if unknown:
        rule = "hold macros of OpenRTB only: an exchange would leave others as they are"
        raise KreachError.rule("creative.markup", rule, ", ".join(unknown))


def _check_domains(domains: Sequence[str]) -> None:
    for domain in domains:
        if not _DOMAIN.fullmatch(domain):
            rule = "be domains without scheme and path, such as shop.example"
            raise KreachError.rule("creative.domains", rule, domain)


def _check_side(name: str, pixels: int) -> None:
    as_whole_number(name, pixels, minimum=1, maximum=_MAX_SIDE)
