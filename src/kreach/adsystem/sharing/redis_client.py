"""Clients of Redis, and their errors."""

from collections.abc import Callable
from typing import Any

from kreach.adsystem.settings import RedisSettings
from kreach.errors import KreachError
from kreach.extras import require_extra

__all__ = ["Connect", "RedisErrors", "RedisUnavailable", "connect_redis"]

Connect = Callable[[RedisSettings], Any]
"""Makes a client of Redis."""


class RedisUnavailable(RuntimeError):
    """Redis cannot be reached, or answers with an error."""


def connect_redis(settings: RedisSettings) -> Any:
    """A client with a time-out."""
    require_extra("[redis]", "redis")
    import redis  # noqa: PLC0415 - an extra
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    try:
        return redis.Redis.from_url(
            settings.url or "",
            socket_timeout=settings.timeout_seconds,
            socket_connect_timeout=settings.timeout_seconds,
            retry=Retry(NoBackoff(), 0),  # callers decide whether to try again
            decode_responses=False,
        )
    except ValueError:
        raise KreachError("[redis] url: not an address of a Redis") from None


class RedisErrors:
    """Raises errors of Redis as `RedisUnavailable`, without its address."""

    def __init__(self) -> None:
        import redis  # noqa: PLC0415 - an extra

        self._failures = (redis.RedisError, OSError)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, self._failures):
            raise RedisUnavailable(type(error).__name__) from None
