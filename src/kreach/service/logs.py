"""Structured logs: one JSON object a line, of fields that the code names. No request is quoted."""

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

    An event has a fixed name and fields that the caller picks one by one; there is no way to pass a
    request, so none can slip in. Exceptions are logged by type: their text may quote input. An
    event is said at most 20 times a second, then counted (`unsaid`): a storm of them must not stop
    a service whose log is read too slowly.
    """

    def __init__(self, service: str, write: Callable[[str], object] | None = None) -> None:
        self._service = service
        self._said: dict[str, tuple[int, int, int]] = {}  # event: second, how often in it, not said
        self._write = write or _to_standard_error

    def info(self, event: str, **fields: Any) -> None:
        """Something that an operator may want to know."""
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something that an operator should look at."""
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something that an operator must look at."""
        self._emit("error", event, fields)

    def _emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        second = int(time.monotonic())
        begun, said, unsaid = self._said.get(event, (second, 0, 0))
        if begun != second:
            begun, said = second, 0
        if said >= _MAX_PER_SECOND:
            self._said[event] = (begun, said, unsaid + 1)
            return
        self._said[event] = (begun, said + 1, 0)
        if unsaid:
            fields = fields | {"unsaid": unsaid}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {"ts": moment, "level": level, "service": self._service, "event": event}
        told = head | {name: value for name, value in fields.items() if name not in head}
        self._write(json.dumps(told, default=_plain) + "\n")


def _plain(value: object) -> str:
    """A value that JSON does not know, as text; of an exception its type."""
    return type(value).__name__ if isinstance(value, BaseException) else str(value)


def _to_standard_error(line: str) -> None:
    with suppress(OSError):  # a full disk under the log must not end the service
        sys.stderr.write(line)
        sys.stderr.flush()


class _Handler(logging.Handler):
    """What libraries log: where and how bad, not what; their messages quote requests."""

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
    """Let warnings of libraries appear as events, without their text."""
    root = logging.getLogger()
    root.handlers[:] = [_Handler(log)]
    root.setLevel(logging.WARNING)
