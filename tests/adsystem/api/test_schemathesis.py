"""The API keeps its own description: generated requests never get a 5xx or an undeclared answer."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from kreach.adsystem.api.app import reporting_app
from kreach.adsystem.campaigns.campaign import Cap
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.settings import ReportingSettings
from kreach.service.run import bind
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue, quiet

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]

REFUSALS = (400, 404, 405, 409, 413, 415, 422)
"""413: what is generated may also be too long."""

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
    ("/v1/plans", "POST"),
    ("/v1/reach", "GET"),
    ("/v1/viewer", "GET"),
    ("/v1/campaigns/{campaign}/pacing", "GET"),
    ("/v1/campaigns/{campaign}/plan", "GET"),
    ("/v1/campaigns/{campaign}/reach", "GET"),
    ("/v1/campaigns/{campaign}/series", "GET"),
    ("/v1/catalogues", "GET"),
    ("/v1/families", "GET"),
    ("/v1/families", "POST"),
    ("/v1/families/{family}", "GET"),
    ("/v1/families/{family}", "PATCH"),
]
NEVER_WRONG = {
    (path, "GET")
    for path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/catalogues",
        "/v1/families",
        "/v1/families/{family}",
        "/v1/viewer",
    )
}


async def _sell(live: LiveStore) -> None:
    async with live.open():
        await live.sell([0, 0, 1, 2, 5] * 4)
        live.compact()
        await live.sell([3, 4])


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The schema of a server on a store with some impressions."""
    live = LiveStore(tmp_path_factory.mktemp("api"), make_catalogue("disjoint", groups=12))
    live.add_family(Family(id="brand", caps=(Cap(limit=3),), budget=20.0))
    live.add(make_campaign("spring", expected_requests=100, family="brand"))
    asyncio.run(_sell(live))
    app = reporting_app(live.shared, ReportingSettings(), quiet("reporting"))
    listening = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/openapi.json"
        config = schemathesis.Config.from_dict(
            {"checks": {"negative_data_rejection": {"expected-statuses": list(REFUSALS)}}}
        )
        yield schemathesis.openapi.from_url(address, config=config)
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_api_is_as_described(api: Any, path: str, method: str, mode: Any) -> None:
    operation = api[path][method]
    if mode is GenerationMode.NEGATIVE and (path, method) in NEVER_WRONG:
        pytest.skip("nothing can be wrong with it")

    slow = path.endswith(("plan", "plans"))  # each takes a second
    few = slow and mode is GenerationMode.POSITIVE

    @settings(max_examples=8 if few else 25, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), known=st.integers(0, 3))
    def ask(case: Any, known: int) -> None:
        if known and "campaign" in case.path_parameters and method == "GET":
            case.path_parameters["campaign"] = "spring"
        if known and "family" in case.path_parameters:
            case.path_parameters["family"] = "brand"
        case.call_and_validate(checks=CHECKS, timeout=120)  # however busy the machine is

    ask()


def test_every_operation_is_asked(api: Any) -> None:
    found = {(one.ok().path, one.ok().method.upper()) for one in api.get_all_operations()}
    assert found == set(OPERATIONS)
