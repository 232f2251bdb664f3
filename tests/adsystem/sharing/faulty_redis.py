"""A client of a real Redis whose commands and scripts fail when the test says so."""

from collections.abc import Callable
from types import TracebackType
from typing import Any

import redis

from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.redis_client import connect_redis
from kreach.adsystem.sharing.redis_scripts import SYNC

__all__ = ["CommandFault", "FaultyRedis", "FaultyScript"]


class CommandFault:
    """Around each command: after so many, one fails, before or after it is done.

    Or, with `meanwhile`, none fails and something happens before it.
    """

    def __init__(
        self, commands: int, *, done: bool = False, meanwhile: Callable[[], object] | None = None
    ) -> None:
        self._left, self._done, self._meanwhile = commands, done, meanwhile

    def __enter__(self) -> None:
        self._left -= 1
        if self._left == -1 and self._meanwhile is not None:
            self._meanwhile()
        elif self._left < 0 and not self._done and self._meanwhile is None:
            raise redis.ConnectionError("cut")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._left < 0 and error is None and self._meanwhile is None:
            raise redis.ConnectionError("answer lost")


class FaultyScript:
    """A script: its call may be delayed (`held`), or its answer lost."""

    def __init__(self, client: "FaultyRedis", text: str) -> None:
        self._client, self.text = client, text
        self.connect()

    def connect(self) -> None:
        """Register with the server that the client has now; delayed calls to another are gone."""
        self._script = self._client.server.register_script(self.text)
        self.mode = "ok"
        self.held: list[dict[str, Any]] = []

    def __call__(self, **call: Any) -> Any:
        if self.mode == "held":
            self.held.append(call)
            raise redis.ConnectionError("no answer")
        answer = self._client.run(lambda: self._script(**call))
        if self.mode == "lost":
            raise redis.ConnectionError("no answer")
        return answer

    def deliver(self, at: int) -> None:
        """A delayed call arrives after all; nobody waits for the answer."""
        self._script(**self.held.pop(at))


class _FaultyPipeline:
    def __init__(self, client: "FaultyRedis", pipeline: Any) -> None:
        self._client, self._pipeline = client, pipeline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipeline, name)

    def execute(self) -> Any:
        return self._client.run(self._pipeline.execute)


class FaultyRedis:
    """Stands in for the client of a `RedisPool` (its argument `connect`)."""

    def __init__(self, settings: RedisSettings) -> None:
        self.server = connect_redis(settings)
        self.fault: CommandFault | None = None
        self._scripts: dict[str, FaultyScript] = {}

    @property
    def sync(self) -> FaultyScript:
        """The script that reports and leases money."""
        return self._scripts[SYNC]

    def switch(self, settings: RedisSettings) -> None:
        """The address of Redis leads to another server from now on."""
        self.server.close()
        self.server = connect_redis(settings)
        for script in self._scripts.values():
            script.connect()

    def register_script(self, text: str) -> FaultyScript:
        self._scripts[text] = FaultyScript(self, text)
        return self._scripts[text]

    def pipeline(self, **options: Any) -> _FaultyPipeline:
        return _FaultyPipeline(self, self.server.pipeline(**options))

    def run(self, command: Callable[[], Any]) -> Any:
        """Run a command with the present fault."""
        if self.fault is None:
            return command()
        with self.fault:
            return command()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.server, name)
        if not callable(value) or name in ("close", "scan_iter"):
            return value
        return lambda *given, **named: self.run(lambda: value(*given, **named))
