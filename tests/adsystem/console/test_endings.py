"""Ending a campaign: paused at once, ended in a while, and as before if that is undone."""

import asyncio
from collections.abc import Mapping

from kreach.adsystem.console.client import ReportingUnavailable
from kreach.adsystem.console.endings import Endings
from kreach.service.logs import Log


class _Reporting:
    """Keeps the states that a campaign was given."""

    def __init__(self, fail: bool = False) -> None:
        self.states: list[object] = []
        self._fail = fail

    async def change(self, campaign: str, body: Mapping[str, object]) -> None:
        assert campaign == "spring"
        if self._fail and body["state"] == "ended":
            raise ReportingUnavailable("reporting cannot be reached")
        self.states.append(body["state"])


def _log(lines: list[str]) -> Log:
    return Log("console", write=lines.append)


async def _begin(state: str, seconds: float) -> tuple[_Reporting, Endings]:
    reporting = _Reporting()
    endings = Endings(reporting.change, _log([]), undo_seconds=seconds)
    await endings.begin("spring", state)
    return reporting, endings


def test_a_campaign_ends_after_a_while() -> None:
    async def run() -> None:
        reporting, endings = await _begin("running", 0.02)
        left = endings.seconds_left("spring")
        assert left is not None
        assert 0.0 <= left <= 0.02
        await asyncio.sleep(0.1)
        assert reporting.states == ["paused", "ended"]
        assert "spring" not in endings
        assert not await endings.undo("spring")

    asyncio.run(run())


def test_undo_puts_it_back_as_it_was() -> None:
    async def run() -> None:
        for state, expected in (("running", ["paused", "running"]), ("paused", [])):
            reporting, endings = await _begin(state, 60.0)
            await endings.begin("spring", state)  # a second press changes nothing
            assert await endings.undo("spring")
            await endings.close()  # which would end what waits
            assert reporting.states == expected

    asyncio.run(run())


def test_stopping_ends_what_waits() -> None:
    async def run() -> None:
        reporting, endings = await _begin("running", 60.0)
        await endings.close()
        assert reporting.states == ["paused", "ended"]

    asyncio.run(run())


def test_a_campaign_that_cannot_be_ended_stays_paused_and_is_logged() -> None:
    async def run() -> None:
        lines: list[str] = []
        reporting = _Reporting(fail=True)
        endings = Endings(reporting.change, _log(lines), undo_seconds=0.01)
        await endings.begin("spring", "running")
        await asyncio.sleep(0.1)
        assert reporting.states == ["paused"]
        assert "campaign not ended" in "".join(lines)

    asyncio.run(run())
