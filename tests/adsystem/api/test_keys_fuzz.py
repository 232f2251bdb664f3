"""Two worlds that differ in what others do, and one advertiser who must not be able to tell.

One store has campaigns of others, with impressions, budgets and creatives; the other has none.
Whatever an advertiser sends, both answer with the same bytes. Canaries are looked for besides.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.adsystem.campaigns.campaign import Creative
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import GuardSettings
from tests.adsystem.access.keyed_reporting import Keyed, bearer, keyed
from tests.adsystem.api.live_stores import END, START, LiveStore, make_campaign, make_catalogue

CANARY = "canary-7f3a"
BUDGET = 7654321.25
MARKUP = "<i>canary-markup-91c2</i>"
AFTER = END.timestamp() + 86_400
LOOSE = GuardSettings(min_impressions=1, min_people=1, min_audience=1, min_difference=0)


def theirs(name: str) -> Any:
    creative = Creative(id="canary-creative-55", markup=MARKUP, width=300, height=250)
    return make_campaign(name, budget=BUDGET, creative=creative)


class World:
    """A service that asks for keys, a client of it with acme's key, and a loop to run both."""

    def __init__(self, runner: asyncio.Runner, place: Keyed) -> None:
        self._runner, self._place = runner, place
        _, text = place.add("advertiser", "acme", rate_per_minute=1_000_000)
        self._headers = bearer(text)
        self._open = keyed(place)
        self._client = runner.run(self._open.__aenter__())

    def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any, bytes]:
        """All that acme gets to see of an answer."""

        async def send() -> httpx.Response:
            return await self._client.request(method, path, headers=self._headers, **more)

        answer = self._runner.run(send())
        return answer.status_code, sorted(answer.headers.items()), answer.content

    def close(self) -> None:
        """End the service, and let go of it: whoever remembers the test remembers this."""
        self._runner.run(self._open.__aexit__(None, None, None))
        del self._client, self._open


async def _live(live: LiveStore, *, others: bool) -> None:
    """The same traffic twice: once for the others, if there are any, and once for acme."""
    names = (f"bob.{CANARY}", "house", "bob.spring") if others else ()
    live.add(*(theirs(name) for name in names))
    async with live.open():
        assert await live.sell([0, 1, 2, 3, 4, 5] * 3) == (18 if others else 0)
    store = CampaignStore(live.shared.store)
    for name in names:
        store.change(name, {"state": "paused"})
    store.close()
    live.now = START.timestamp() + 7_200.0
    live.add(make_campaign("acme.spring", expected_requests=60))
    async with live.open():
        assert await live.sell([0, 0, 1, 2, 5, 5]) == 6


@pytest.fixture(scope="module", params=["unguarded", "guarded"])
def worlds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, World]]:
    """With others, and without."""
    guard = LOOSE if request.param == "guarded" else GuardSettings(enabled=False)
    with asyncio.Runner() as runner:
        made = []
        for others in (True, False):
            folder: Path = tmp_path_factory.mktemp("with" if others else "without")
            live = LiveStore(folder, make_catalogue("dispersed", groups=6))
            runner.run(_live(live, others=others))
            made.append(World(runner, Keyed(live, guard=guard, now=AFTER)))
        try:
            yield made[0], made[1]
        finally:
            for world in made:
                world.close()


KNOWN = ("spring", "autumn", "house", "bob", CANARY, f"bob.{CANARY}", "bob.spring", "acme.spring")
ODD = ("..", ".", "%2e%2e", "bob%2f", "*", "%", "_", "spring%00", "spring%0a", "acme", "acme.", "")
NAMES = st.sampled_from([*KNOWN, *ODD])
REST = st.sampled_from(
    ["", "", "/reach", "/series", "/pacing", "/plan", "/", "/keys", "/../house", "/..%2fhouse"]
)
PATHS = st.one_of(
    st.builds(lambda name, rest: f"/v1/campaigns/{name}{rest}", NAMES, REST),
    st.sampled_from(["/v1/campaigns", "/v1/suppressions", "/metrics", "/healthz", "/openapi.json"]),
    st.text("abcdefv1./%2-_", max_size=20).map(lambda text: "/" + text.lstrip("/")),
)
VALUES = st.one_of(
    NAMES,
    st.sampled_from(["1", "2", "0", "-1", "1000", "day", "hour", "v1", "v2", "0.9", "2026-11-01"]),
    st.text(max_size=8),
)
FIELDS = ("after", "limit", "cap", "level", "catalogue", "start", "end", "by", "points", "owner")
QUERIES = st.lists(
    st.tuples(st.sampled_from([*FIELDS, "campaign", "advertiser", "id", "x"]), VALUES), max_size=3
)
NEW = {
    "budget": 5.0,
    "max_cpm": 5.0,
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-12-01T00:00:00Z",
}
BODIES = st.one_of(
    st.none(),
    st.builds(lambda name: NEW | {"id": name}, NAMES),
    st.builds(lambda name, audience: NEW | {"id": name, "audience": audience}, NAMES, NAMES),
    st.fixed_dictionaries(
        {},
        optional={
            "id": NAMES,
            "campaign": NAMES,
            "state": st.sampled_from(["running", "paused", "bob"]),
            "budget": st.sampled_from([1.0, 1e3, -1.0, BUDGET]),
            "advertiser": NAMES,
            "audience": NAMES,
        },
    ),
    st.recursive(NAMES, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)),
)
REQUESTS = st.tuples(
    st.sampled_from(["GET", "GET", "GET", "POST", "PATCH", "DELETE", "HEAD", "PUT"]),
    PATHS,
    QUERIES,
    BODIES,
)


@settings(max_examples=80)
@given(st.lists(REQUESTS, min_size=1, max_size=4))
def test_whatever_an_advertiser_sends_others_leave_no_trace(
    worlds: tuple[World, World], requests: list[tuple[str, str, list[tuple[str, str]], Any]]
) -> None:
    for method, path, query, body in requests:
        if path.endswith("/plan") and "spring" in path:
            query = [("requests", "20"), *query]  # noqa: PLW2901 - a plan of more takes long
        more: dict[str, Any] = {"params": query}
        if body is not None:
            more["json"] = body
        full, bare = (world.ask(method, path, **more) for world in worlds)
        assert full == bare
        assert full[0] < 500
        said = str(full[1]) + full[2].decode()
        for hidden in ("canary-markup", "canary-creative"):
            assert hidden not in said
        if CANARY not in f"{path}{query}{body}":
            assert CANARY not in said
        if "budget" not in str(body):
            assert str(BUDGET) not in said
        assert "acme." not in said or "acme." in f"{path}{query}{body}"


def test_there_is_something_to_find(worlds: tuple[World, World]) -> None:
    """The worlds do differ, and acme does have numbers of its own."""
    status, _, body = worlds[0].ask("GET", "/v1/campaigns/spring/reach?cap=1")
    assert status == 200
    assert b'"impressions":6' in body
    full, bare = (world._place.shop.shared.store for world in worlds)
    held = [b"".join(f.read_bytes() for f in store.glob("*.sqlite3*")) for store in (full, bare)]
    assert [MARKUP.encode() in one for one in held] == [True, False]
    assert [CANARY.encode() in one for one in held] == [True, False]
