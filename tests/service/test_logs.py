"""Logs are JSON lines of named fields, and quote nobody."""

import json
import logging
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from kreach.service.logs import Log, route_library_logs

SECRET = "zx81-secret-zx81"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def log(lines: list[str]) -> Log:
    return Log("bidder", lines.append)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    logger = logging.getLogger()
    before, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = before
    logger.setLevel(level)


def test_a_line_is_one_json_object(log: Log, lines: list[str]) -> None:
    log.info("begun", rows=3, names=["a", "ü\n"], where=Path("x"), nothing=None)
    log.warning("odd")
    log.error("broken", kind="OSError")
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    first, second, third = map(json.loads, lines)
    assert (first["level"], second["level"], third["level"]) == ("info", "warning", "error")
    assert first["service"] == "bidder"
    assert (first["event"], first["rows"], first["names"]) == ("begun", 3, ["a", "ü\n"])
    assert (first["where"], first["nothing"]) == ("x", None)
    assert datetime.fromisoformat(first["ts"]).tzinfo is not None


def test_an_exception_is_logged_by_its_type(log: Log, lines: list[str]) -> None:
    log.error("broken", error=ValueError(SECRET), nested=[KeyError(SECRET)])
    event = json.loads(lines[0])
    assert (event["error"], event["nested"]) == ("ValueError", ["KeyError"])
    assert SECRET not in lines[0]


def test_fields_do_not_take_the_place_of_the_head(log: Log, lines: list[str]) -> None:
    log.info("begun", **{"level": "none", "service": "other", "ts": 0})
    event = json.loads(lines[0])
    assert (event["level"], event["service"], event["event"]) == ("info", "bidder", "begun")
    assert event["ts"] != 0


def test_messages_of_libraries_are_not_quoted(
    log: Log, lines: list[str], root: logging.Logger
) -> None:
    route_library_logs(log)
    logger = logging.getLogger("some.library")
    logger.warning("got %s", SECRET)
    logger.info("not worth a line")
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        logger.exception("failed on %s", SECRET, extra={"request": SECRET})
    logger.error("badly formatted %d", SECRET)
    events = [json.loads(line) for line in lines]
    assert [event["logger"] for event in events] == ["some.library"] * 3
    assert [event["failure"] for event in events] == [None, "RuntimeError", None]
    assert SECRET not in "".join(lines)


def test_a_log_that_cannot_be_written_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full:
        def write(self, _: str) -> None:
            raise OSError(28, "No space left on device")

    log = Log("bidder")
    log.info("begun")
    assert '"begun"' in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr", Full())
    log.info("gone")


def test_a_storm_of_events_is_counted(
    log: Log, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("kreach.service.logs.time.monotonic", lambda: now[0])
    for _ in range(500):
        log.warning("storm")
    log.warning("other")
    events = [json.loads(line)["event"] for line in lines]
    assert events.count("storm") <= 50
    assert events.count("other") == 1
    now[0] += 2.0
    log.warning("storm")
    assert json.loads(lines[-1])["suppressed"] == 500 - events.count("storm")
