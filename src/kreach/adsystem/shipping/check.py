"""What `--check-config` looks at of `[shipping]`: whether stream and object store answer."""

import re
from collections.abc import Callable
from typing import Any

from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import open_stream
from kreach.errors import KreachError

__all__ = ["check_shipping"]


def check_shipping(settings: ShippingSettings) -> dict[str, Any]:
    """Reach both, and say what was found; nothing without `[shipping]`.

    One that fails does not keep the other from being looked at: the error says how both stand.
    """
    if not settings.enabled:
        return {}
    address = re.sub(r"[^/,@]*@", "", settings.stream or "")  # without a password
    kind = "Kafka" if address.startswith("kafka://") else "NATS JetStream"
    stream, stream_error = _look(f"{kind} at {address} answers", lambda: _check_stream(settings))
    files, files_error = _look(f"{settings.files} can be read", FileStore(settings).check)
    if stream_error is not None or files_error is not None:
        raise KreachError(
            f"[shipping] stream: {stream_error or stream}; files: {files_error or files}"
        )
    return {"stream": stream, "files": files, "notices": settings.acknowledge}


def _look(well: str, check: Callable[[], None]) -> tuple[str, KreachError | None]:
    try:
        check()
    except KreachError as error:
        return well, error
    return well, None


def _check_stream(settings: ShippingSettings) -> None:
    stream = open_stream(settings, "check")
    try:
        stream.newest()
    finally:
        stream.close()
