"""Optional dependencies: the modules that each extra installs, and the error without them."""

from importlib.util import find_spec

from kreach.errors import KreachError

__all__ = ["EXTRAS", "MissingExtra", "require_extra"]

_SERVE = ("fastapi", "httptools", "httpx", "prometheus_client", "uvicorn")
EXTRAS = {
    "serve": _SERVE,
    "console": (*_SERVE, "nicegui"),
    "lab": ("matplotlib",),
    "clickhouse": ("clickhouse_connect",),
    "postgres": ("psycopg",),
    "spark": ("pyspark",),
    "redis": ("redis",),
    "dp": ("opendp",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "kafka": ("confluent_kafka",),
    "nats": ("nats",),
    "object-store": ("obstore",),
    "oidc": ("authlib", "joserfc"),
}


class MissingExtra(KreachError):
    """An optional dependency is not installed. The message is the command that installs it."""


def require_extra(feature: str, extra: str) -> None:
    """Raise `MissingExtra` unless everything that `feature` needs is installed.

    Imports nothing, or the package of a dotted module.
    """
    if not all(_is_installed(module) for module in EXTRAS[extra]):
        raise MissingExtra(f"{feature} needs the extra {extra!r}: pip install 'kreach[{extra}]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
