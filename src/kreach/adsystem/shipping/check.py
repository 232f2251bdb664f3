"""What `--check-config` looks at of `[shipping]`: whether stream and object store answer."""

from typing import Any

from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import open_stream

__all__ = ["check_shipping"]


def check_shipping(settings: ShippingSettings) -> dict[str, Any]:
    """Reach both, and say what was found; nothing without `[shipping]`."""
    if not settings.enabled:
        return {}
    FileStore(settings).check()
    stream = open_stream(settings, "check")
    try:
        stream.newest()
    finally:
        stream.close()
    kind = "Kafka" if (settings.stream or "").startswith("kafka://") else "NATS JetStream"
    return {"shipping": f"{kind} and {settings.files}, notices {settings.acknowledge}"}
