"""Progress on a terminal: steps, the share of a scan that is done, silence in a pipe."""

import io
import time

import pytest
from rich.console import Console

import kreach as kr
from kreach.adsystem.log.engine import Engine
from kreach.cli import common


class _Status:
    """Takes the texts of a spinner."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def update(self, text: str) -> None:
        self.texts.append(text)


def spinner() -> tuple[common._Spinner, _Status]:
    made, status = common._Spinner(Console(file=io.StringIO())), _Status()
    made._status = status
    return made, status


def test_a_scan_shows_how_much_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "_POLL_SECONDS", 0.01)
    shown, status = spinner()
    with kr.EmbeddedEngine(threads=1) as engine:
        engine.run("SET progress_bar_time = 0")
        with shown.scanning(engine, "counting"):
            for _ in range(20):  # until one was caught in the act
                engine.run("SELECT count(DISTINCT hash(range) % 1000000) FROM range(3000000)")
                if any("% of this pass" in text for text in status.texts):
                    break
    assert status.texts[0] == "counting"
    assert any("% of this pass" in text for text in status.texts)


def test_an_engine_that_does_not_know_shows_the_step_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "_POLL_SECONDS", 0.001)
    shown, status = spinner()
    with kr.EmbeddedEngine() as engine:
        monkeypatch.setattr(engine, "share_done", lambda: Engine.share_done(engine))
        with shown.scanning(engine, "counting"):
            time.sleep(0.02)
    assert status.texts == ["counting"]


def test_a_pipe_stays_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with common.progress_spinner() as progress, kr.EmbeddedEngine() as engine:
        progress("reading")
        with progress.scanning(engine, "counting"):
            engine.run("SELECT 1")
    assert capfd.readouterr() == ("", "")
