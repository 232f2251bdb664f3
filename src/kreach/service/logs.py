"""Structured logs: one JSON object per line. Requests are never quoted."""

import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

__all__ = ["Log", "route_library_logs"]

_MAX_PER_SECOND = 20


class Log:
    """Events of one service as JSON lines.

    An event has a fixed name and fields that the caller passes one by one, so no request slips in.
    Exceptions are logged by type: their text may quote input. An event is logged at most 20 times a
    second; the next one says how many were `suppressed`. A storm of events must not stop a service
    whose log is read slowly.
    """

    def __init__(self, service: str, write: Callable[[str], object] | None = None) -> None:
        self._service = service
        self._recent: dict[
            str, tuple[int, int, int]
        ] = {}  # event: second, logged in it, suppressed
        self._write = write or _to_standard_error

    def info(self, event: str, **fields: Any) -> None:
        """For information."""
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Worth a look by an operator."""
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Needs an operator."""
        self._emit("error", event, fields)

    def _emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        second = int(time.monotonic())
        latest, logged, suppressed = self._recent.get(event, (second, 0, 0))
        if latest != second:
            logged = 0
        if logged >= _MAX_PER_SECOND:
            self._recent[event] = (second, logged, suppressed + 1)
            return
        self._recent[event] = (second, logged + 1, 0)
        if suppressed:
            fields = fields | {"suppressed": suppressed}
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {"ts": now, "level": level, "service": self._service, "event": event}
        line = head | {name: value for name, value in fields.items() if name not in head}
        self._write(json.dumps(line, default=_as_text) + "\n")


def _as_text(value: object) -> str:
    """A value that JSON does not support, as text; an exception as its type."""
    return type(value).__name__ if isinstance(value, BaseException) else str(value)


def _to_standard_error(line: str) -> None:
    with suppress(OSError):  # a full disk must not stop the service
        sys.stderr.write(line)
        sys.stderr.flush()


class _Handler(logging.Handler):
    """Warnings of libraries, without their messages, which may quote requests."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        failure = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        self._log.warning(
            "library",
            logger=record.name,
            line=f"{record.module}:{record.lineno}",
            failure=failure,
        )


def route_library_logs(log: Log) -> None:
    """Log warnings of libraries as events, without their messages."""
    root = logging.getLogger()
    root.handlers[:] = [_Handler(log)]
    root.setLevel(logging.WARNING)
