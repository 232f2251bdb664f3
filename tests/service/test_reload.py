"""Settings that change under a running service are taken up whole, or refused and said so."""

import asyncio
import json
from collections.abc import Callable

from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.reload import SettingsReload


class Settled:
    """A service that uses a number; what is on disk, what it uses, what it logged."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.on_disk, self.uses, self.prepared = "1", 1, 0
        self.lines: list[str] = []
        self.metrics = Metrics("reporting")
        log = Log("reporting", self.lines.append)
        self.reload = SettingsReload(lambda: self.on_disk, self._prepare, "1", log, seconds)
        self.reload.attach(self._apply, self.metrics)

    def _prepare(self, text: str) -> int:
        self.prepared += 1
        if text == "broken":
            raise OSError("no text of this appears")
        if not text.isdigit():
            raise KreachError.rule("number", "be digits", text)
        return int(text)

    async def _apply(self, number: int) -> None:
        if number == 13:
            raise KreachError("13 cannot be used")
        self.uses = number

    @property
    def refused(self) -> bool:
        return "kreach_reporting_reload_refused 1.0" in self.metrics.render().decode()

    @property
    def events(self) -> list[tuple[str, str | None]]:
        read = [json.loads(line) for line in self.lines]
        return [(line["event"], line.get("reason")) for line in read]


def test_a_signal_takes_up_what_can_be_used_and_refuses_all_else() -> None:
    async def run() -> None:
        service = Settled()
        for text, reason in (
            ("many", "number must be digits, got 'many'"),
            ("13", "13 cannot be used"),
            ("broken", "OSError"),
        ):
            service.on_disk = text
            await service.reload.reload()
            assert (service.uses, service.refused) == (1, True)
            assert service.reload.failure == reason
            assert service.events[-1] == ("reload refused", reason)
        service.on_disk = "2"
        await service.reload.reload()
        assert (service.uses, service.refused, service.reload.failure) == (2, False, None)
        await service.reload.watch()  # without an interval only the signal counts
        assert [event for event, _ in service.events] == ["reload refused"] * 3 + [
            "settings taken up"
        ]

    asyncio.run(run())


def test_a_service_that_looks_by_itself_tries_again_and_says_a_refusal_once() -> None:
    async def until(true: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not true():
                await asyncio.sleep(0.001)

    async def run() -> None:
        service = Settled(seconds=0.001)
        watching = asyncio.create_task(service.reload.watch())
        await asyncio.sleep(0.02)
        assert service.prepared == 0  # nothing has changed
        service.on_disk = "many"
        await until(lambda: service.prepared >= 8)
        assert service.reload.wait_seconds == 0.032  # and no longer
        assert [event for event, _ in service.events] == ["reload refused"]
        service.on_disk = "1"  # as it was
        await until(lambda: service.reload.failure is None)
        assert service.reload.wait_seconds == 0.001
        service.on_disk = "3"
        await until(lambda: service.uses == 3)
        assert [event for event, _ in service.events[1:]] == [
            "settings are those in use again",
            "settings taken up",
        ]
        watching.cancel()

    asyncio.run(run())
