"""The API with keys keeps its own description, for each role; and no route forgets to ask."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kreach.service.run import bind
from tests.adsystem.access.keyed_reporting import Keyed, bearer
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    ("/healthz", "GET"),
    ("/readyz", "GET"),
    ("/metrics", "GET"),
    ("/v1/campaigns", "GET"),
    ("/v1/campaigns", "POST"),
    ("/v1/campaigns/{campaign}", "GET"),
    ("/v1/campaigns/{campaign}", "PATCH"),
    ("/v1/campaigns/{campaign}/review", "POST"),
    ("/v1/campaigns/{campaign}/curve", "GET"),
    ("/v1/families/{family}/reach", "GET"),
    ("/v1/reach", "GET"),
    ("/v1/campaigns/{campaign}/pacing", "GET"),
    ("/v1/campaigns/{campaign}/plan", "GET"),
    ("/v1/campaigns/{campaign}/reach", "GET"),
    ("/v1/campaigns/{campaign}/series", "GET"),
    ("/v1/catalogues", "GET"),
    ("/v1/families", "GET"),
    ("/v1/families", "POST"),
    ("/v1/families/{family}", "GET"),
    ("/v1/families/{family}", "PATCH"),
    ("/v1/plans", "POST"),
    ("/v1/suppressions", "GET"),
    ("/v1/viewer", "GET"),
]


class _Hasty(Keyed):
    """Seconds pass with every look at the clock: no limit is ever reached."""

    def clock(self) -> float:
        self.now += 5.0
        return self.now


async def _sell(live: LiveStore) -> None:
    async with live.open():
        await live.sell([0, 0, 1, 2, 5] * 2)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dict[str, str]]]:
    """The schema of a server on a store with some impressions, and a key of each role."""
    live = LiveStore(tmp_path_factory.mktemp("api"), make_catalogue("disjoint", groups=12))
    live.add(make_campaign("acme.spring", expected_requests=100))
    asyncio.run(_sell(live))
    place = _Hasty(live)
    texts = {
        "operator": place.add("operator")[1],
        "advertiser": place.add("advertiser", "acme")[1],
        "publisher": place.add("publisher")[1],
    }
    listening = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(place.app(), log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/openapi.json"
        yield schemathesis.openapi.from_url(address, headers=bearer(texts["operator"])), texts
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("role", ["operator", "advertiser", "publisher"])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_each_role_is_answered_as_described(
    api: tuple[Any, dict[str, str]], path: str, method: str, role: str
) -> None:
    schema, texts = api
    mine = "acme.spring" if role == "operator" else "spring"
    few = path.endswith(("plan", "plans"))  # each takes a while

    @settings(max_examples=4 if few else 10, suppress_health_check=list(HealthCheck))
    @given(
        case=schema[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE),
        known=st.booleans(),
    )
    def ask(case: Any, known: bool) -> None:
        if known and "campaign" in case.path_parameters:
            case.path_parameters["campaign"] = mine
        if case.headers is not None:
            case.headers.pop("Authorization", None)
        case.call_and_validate(checks=CHECKS, headers=bearer(texts[role]))

    ask()


def test_no_route_forgets_to_ask(api: tuple[Any, dict[str, str]]) -> None:
    """Every route of the description, so that a new one is asked as well."""
    schema, texts = api
    wrong = texts["operator"][:-3] + "aaa"
    with httpx.Client(base_url=schema.get_base_url(), trust_env=False) as client:
        for operation in schema.get_all_operations():
            path, method = operation.ok().path, operation.ok().method
            if path in ("/healthz", "/readyz"):
                continue
            for headers in ({}, bearer(wrong), {"authorization": f"Basic {wrong}"}):
                named = path.format(campaign="spring", family="brand")
                answer = client.request(method, named, headers=headers)
                assert answer.status_code == 401, (method, path)


def test_every_operation_is_asked(api: tuple[Any, dict[str, str]]) -> None:
    found = {(one.ok().path, one.ok().method.upper()) for one in api[0].get_all_operations()}
    assert found == set(OPERATIONS)
