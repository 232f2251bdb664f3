"""What an OpenRTB 2.6 request says about one placement: its media, its floor, its deals."""

import msgspec

__all__ = ["Audio", "Banner", "Deal", "Format", "Imp", "Native", "Pmp", "Video"]


class Format(msgspec.Struct, gc=False):
    """An accepted size."""

    w: int | None = None
    h: int | None = None


class Banner(msgspec.Struct, gc=False):
    """A banner placement."""

    w: int | None = None
    h: int | None = None
    format: list[Format] | None = None
    mimes: list[str] | None = None
    btype: list[int] | None = None
    battr: list[int] | None = None
    expdir: list[int] | None = None
    api: list[int] | None = None

    def fits(self, width: int, height: int) -> bool:
        """Whether an ad of this size fits; without sizes every ad does."""
        if self.w == width and self.h == height:
            return True
        for size in self.format or ():
            if size.w == width and size.h == height:
                return True
        return not self.format and (self.w is None or self.h is None)


class Audio(msgspec.Struct, gc=False):
    """An audio placement, and what a video placement shares with it."""

    mimes: list[str] | None = None
    minduration: int | None = None
    maxduration: int | None = None
    rqddurs: list[int] | None = None
    protocols: list[int] | None = None
    protocol: int | None = None  # deprecated in 2.3, and still sent
    startdelay: int | None = None
    battr: list[int] | None = None
    api: list[int] | None = None


class Video(Audio, gc=False):
    """A video placement."""

    w: int | None = None
    h: int | None = None
    plcmt: int | None = None
    linearity: int | None = None


class Native(msgspec.Struct, gc=False):
    """A native placement. What it asks for is a JSON text of its own (`native.parse_native`)."""

    request: str | None = None
    battr: list[int] | None = None
    api: list[int] | None = None


class Deal(msgspec.Struct, gc=False):
    """A deal of a private marketplace."""

    id: str | None = None
    bidfloor: float | None = None
    bidfloorcur: str | None = None
    at: int | None = None
    wseat: list[str] | None = None
    wadomain: list[str] | None = None


class Pmp(msgspec.Struct, gc=False):
    """A private marketplace."""

    private_auction: int | None = None
    deals: list[Deal] | None = None


class Imp(msgspec.Struct, gc=False):
    """One placement of a request."""

    id: str
    banner: Banner | None = None
    video: Video | None = None
    audio: Audio | None = None
    native: Native | None = None
    pmp: Pmp | None = None
    bidfloor: float | None = None
    bidfloorcur: str | None = None
    secure: int | None = None
    exp: float | None = None
