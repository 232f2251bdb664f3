"""Tracing: off unless turned on, sampled before anything else, templates instead of paths."""

import subprocess
import sys
from itertools import cycle
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.traced_app import TracedApp, traced_route
from kreach.service.tracing import Tracer, TracingSettings, in_step, start_tracing, step, traced
from kreach.service.web import App, Request, Response
from tests.service.collector import Collector


def recording(*draws: float, share: float = 0.5) -> tuple[Tracer, InMemorySpanExporter]:
    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Tracer(provider, share, cycle(draws or (0.0,)).__next__), spans


def application() -> App:
    app = App(Log("test", lambda _: None), Metrics("test"))
    no_bid = Response(204, b"", [(b"x-no-bid", b"no group")])
    app.route("POST /bid", lambda _: no_bid, public=True)
    app.route("GET /notice/*", lambda request: Response(200, request.rest.encode()))

    def fail(_: Request) -> Response:
        raise RuntimeError

    app.route("GET /fails", fail)
    app.route("GET /healthz", lambda _: Response(200))
    return app


async def ask(app: Any, method: str, path: str) -> int:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"u=person"}
    headers = [(b"traceparent", b"00-" + b"c" * 32 + b"-" + b"a" * 16 + b"-01")]
    await app(scope | {"headers": headers}, receive, send)
    return int(sent[0]["status"])


def test_off_is_the_default_and_imports_nothing() -> None:
    code = (
        "import sys; from kreach.service.tracing import *; import kreach.service.run;"
        "assert start_tracing('bidder', TracingSettings(), {}) is None;"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("settings", "environment", "on"),
    [
        ({}, {}, False),
        ({"endpoint": "http://here:4318"}, {}, True),
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://here:4318"}, True),
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://here:4318/v1/traces"}, True),
        ({"endpoint": "http://here:4318"}, {"OTEL_SDK_DISABLED": "true"}, False),
        ({"endpoint": "http://here:4318"}, {"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_what_turns_it_on(settings: dict[str, Any], environment: dict[str, str], on: bool) -> None:
    assert TracingSettings(**settings).enabled(environment) is on


@pytest.mark.parametrize(
    ("settings", "environment", "share"),
    [
        ({}, {}, 0.01),
        ({"sample_share": 0.2}, {"OTEL_TRACES_SAMPLER": "always_on"}, 0.2),
        ({}, {"OTEL_TRACES_SAMPLER": "always_on"}, 1.0),
        ({}, {"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
        ({}, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.3"}, 0.3),
        ({}, {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, 1.0),
    ],
)
def test_the_share_of_requests(
    settings: dict[str, Any], environment: dict[str, str], share: float
) -> None:
    assert TracingSettings(**settings).share(environment) == share


def test_bad_settings_are_refused() -> None:
    for wrong in ("collector:4318", "http://", "http://[", "http://a b", "http://h:99999"):
        with pytest.raises(KreachError, match="endpoint must begin with http"):
            TracingSettings(endpoint=wrong)
    assert TracingSettings(endpoint="http://[::1]:4318/v1").enabled({})
    with pytest.raises(KreachError, match="sample_share must lie between 0 and 1"):
        TracingSettings(sample_share=1.5)
    for environment, message in (
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "OTEL_TRACES_SAMPLER must be always_on"),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "all"},
            "OTEL_TRACES_SAMPLER_ARG must lie",
        ),
    ):
        with pytest.raises(KreachError, match=message):
            TracingSettings().share(environment)


def test_the_fast_route_is_sampled_first() -> None:
    tracer, spans = recording(0.9, 0.1)
    route = application().fast_route("POST /bid", lambda _: Response(204, b"", []))
    wrapped = traced_route(route, tracer)
    for _ in range(4):
        assert wrapped.respond(b"{}").status == 204
    (first, second) = spans.get_finished_spans()
    assert first.name == second.name == "POST /bid"
    assert first.attributes == {"http.response.status_code": 204}
    assert (wrapped.method, wrapped.path, wrapped.max_body_bytes) == (
        route.method,
        route.path,
        route.max_body_bytes,
    )


def test_spans_have_templates_and_ids_of_their_own() -> None:
    import asyncio

    tracer, spans = recording()
    app = TracedApp(application(), tracer)
    for method, path, status in (
        ("POST", "/bid", 204),
        ("GET", "/notice/person", 200),
        ("GET", "/person/person", 404),
        ("PERSON", "/bid", 405),
        ("GET", "/fails", 500),
        ("GET", "/healthz", 200),
    ):
        assert asyncio.run(ask(app, method, path)) == status
    done = spans.get_finished_spans()
    names = [span.name for span in done]
    assert names == ["POST /bid", "GET /notice/*", "GET other", "other /bid", "GET /fails"]
    assert "person" not in "".join(span.to_json() for span in done)
    assert dict(done[0].attributes or {})["kreach.no_bid"] == "no group"
    assert [span.status.is_ok for span in done] == [True, True, True, True, False]
    for span in done:  # nobody else chooses our ids
        assert span.parent is None
        assert span.context is not None
        assert format(span.context.trace_id, "032x") != "c" * 32


def test_steps_are_children_also_in_other_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    @traced("count")
    def count(number: int) -> int:
        with step("inside"):
            return number + 1

    assert count(1) == 2
    assert in_step("measure", count) is count  # nothing is traced now
    tracer, spans = recording()
    with tracer.request("report"), ThreadPoolExecutor(1) as threads:
        assert threads.submit(in_step("measure", count), 4).result() == 5
    done = {span.name: span for span in spans.get_finished_spans()}
    assert set(done) == {"wait", "inside", "count", "measure", "report"}
    for child, parent in (
        ("wait", "report"),
        ("measure", "report"),
        ("count", "measure"),
        ("inside", "count"),
    ):
        above, context = done[child].parent, done[parent].context
        assert above is not None
        assert context is not None
        assert above.span_id == context.span_id


def test_spans_arrive_at_a_collector() -> None:
    with Collector() as collector:
        settings = TracingSettings(endpoint=collector.address + "/", sample_share=1.0)
        tracer = start_tracing("bidder", settings, {})
        assert tracer is not None
        with tracer.request("GET /somewhere"):
            pass
        tracer.close()
        assert [span.name for span in collector.spans("kreach-bidder")] == ["GET /somewhere"]
        assert collector.paths == ["/v1/traces"]
