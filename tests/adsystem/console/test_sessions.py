"""Sessions: one console per key, expiry, signing out, and what the sign-in page may lead to."""

import asyncio
from typing import Any

import pytest

from kreach.adsystem.console.sessions import Sessions
from kreach.adsystem.console.sign_in import local_target
from kreach.adsystem.reports.report import ViewerInfo

VIEWER = ViewerInfo(role="advertiser", advertiser="acme", key="abc")


class _Poller:
    request_count = 3


class _Console:
    """Counts starts and stops."""

    def __init__(self, key: str) -> None:
        self.key, self.running, self.poller = key, False, _Poller()

    async def start(self) -> None:
        self.running = True

    async def stop(self) -> None:
        self.running = False


class _Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _sessions(clock: _Time) -> Sessions:
    make: Any = _Console
    return Sessions(make, 100.0, clock)


def test_people_with_one_key_share_a_console_until_the_last_leaves() -> None:
    async def run() -> None:
        sessions = _sessions(_Time())
        first, second = [await sessions.start("key", VIEWER, "Ada") for _ in range(2)]
        other = await sessions.start("other", VIEWER, "Bob")
        assert len({first, second, other}) == 3
        one, two, three = (sessions.get(token) for token in (first, second, other))
        assert one is not None
        assert two is not None
        assert three is not None
        assert one.console is two.console is not three.console
        console: Any = one.console
        sessions.end(first)
        await sessions.sweep()
        assert not one.valid
        assert console.running
        sessions.end(second)
        await sessions.sweep()
        assert not console.running
        assert sessions.request_count == 6  # those of the console that stopped count on

    asyncio.run(run())


def test_a_session_expires() -> None:
    async def run() -> None:
        clock = _Time()
        sessions = _sessions(clock)
        token = await sessions.start("key", VIEWER, "Ada")
        session = sessions.get(token)
        assert session is not None
        clock.now = 99.0
        assert sessions.get(token) is session
        clock.now = 100.0
        assert sessions.get(token) is None
        assert session.ended == "expired"
        await sessions.sweep()
        assert len(sessions) == 0

    asyncio.run(run())


def test_only_its_cookie_opens_a_session() -> None:
    async def run() -> None:
        sessions = _sessions(_Time())
        token = await sessions.start("key", VIEWER, "Ada")
        for wrong in (None, "", "key", token[:-1], token + "x"):
            assert sessions.get(wrong) is None

    asyncio.run(run())


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:x",
        "/sign-out",
        "/a\n",
    ],
)
def test_nobody_is_sent_elsewhere_after_signing_in(target: str) -> None:
    assert local_target(target) == "/"
