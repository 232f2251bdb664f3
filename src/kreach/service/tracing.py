"""Traces of requests, sent to a collector with OpenTelemetry's protocol over HTTP.

Off, which is the default, nothing is imported and nothing wraps a route. On, a share of requests
is sampled before anything else happens; the others run as if tracing were off.

A span says which route, which status and how long. It holds no text of a request: paths are
templates, and neither addresses nor headers are read. Trace ids are drawn here and never taken
from a request (`traceparent`), because whoever sends one could write anything into it, for example
who somebody is (docs/decisions/0045-traces-without-context.md).
"""

import math
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kreach.errors import KreachError
from kreach.extras import require_extra
from kreach.service.config import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Span, TracerProvider

__all__ = ["Tracer", "TracingSettings", "in_step", "start_tracing", "step", "traced"]

DEFAULT_SHARE = 0.01
_SHARES = {"always_on": 1.0, "always_off": 0.0}  # of OpenTelemetry's samplers
_RATIO = "traceidratio"
_ENDPOINT = re.compile(
    r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,4}|:[1-5][0-9]{4}|:6[0-5][0-9]{3})?"
    r"(/[!-~]*)?"
)
_PARENT = "parentbased_"  # there is no parent, so these samplers are the plain ones
P = ParamSpec("P")
T = TypeVar("T")


class TracingSettings(Settings, frozen=True, kw_only=True):
    """`[tracing]`: where spans go, and which share of requests has some.

    Without `endpoint`, the address of a collector (http://127.0.0.1:4318), OpenTelemetry's own
    variables decide: OTEL_EXPORTER_OTLP_ENDPOINT, or tracing is off. Without `sample_share`
    OTEL_TRACES_SAMPLER and its argument, or 0.01.
    """

    endpoint: str | None = None
    sample_share: float | None = None

    def __post_init__(self) -> None:
        if self.endpoint is not None and not _ENDPOINT.fullmatch(self.endpoint):
            rule = "begin with http:// or https:// and go on with a host, such as 127.0.0.1:4318"
            raise KreachError.rule("endpoint", rule, self.endpoint)
        if self.sample_share is not None and not 0.0 <= self.sample_share <= 1.0:
            raise KreachError.rule("sample_share", "lie between 0 and 1", self.sample_share)

    def share(self, environment: Mapping[str, str]) -> float:
        """The share of requests with a trace."""
        if self.sample_share is not None:
            return self.sample_share
        name = environment.get("OTEL_TRACES_SAMPLER", "").removeprefix(_PARENT)
        if not name:
            return DEFAULT_SHARE
        if name in _SHARES:
            return _SHARES[name]
        if name != _RATIO:
            rule = f"be always_on, always_off or {_RATIO}, or one of these with {_PARENT}"
            raise KreachError.rule("OTEL_TRACES_SAMPLER", rule, name)
        text = environment.get("OTEL_TRACES_SAMPLER_ARG", "1")
        try:
            share = float(text)
        except ValueError:
            share = math.nan
        if not 0.0 <= share <= 1.0:
            raise KreachError.rule("OTEL_TRACES_SAMPLER_ARG", "lie between 0 and 1", text)
        return share

    def enabled(self, environment: Mapping[str, str]) -> bool:
        """Whether there is a collector to send to."""
        if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return False
        if environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
            return False
        names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
        return self.endpoint is not None or any(environment.get(name) for name in names)


def start_tracing(
    service: str, settings: TracingSettings, environment: Mapping[str, str] | None = None
) -> "Tracer | None":
    """A tracer for a service, or None where tracing is off."""
    environment = os.environ if environment is None else environment
    share = settings.share(environment)
    if not settings.enabled(environment) or share == 0.0:
        return None
    require_extra("tracing", "otel")
    return Tracer(_provider(service, settings, environment), share)


def _provider(
    service: str, settings: TracingSettings, environment: Mapping[str, str]
) -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415

    endpoint = None
    if settings.endpoint is not None:
        endpoint = settings.endpoint.rstrip("/") + "/v1/traces"
    resource = Resource.create()  # with OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
    named = "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not (environment.get("OTEL_SERVICE_NAME") or named):
        resource = resource.merge(Resource({"service.name": f"kreach-{service}"}))
    provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider


class Tracer:
    """Spans of sampled requests."""

    def __init__(
        self,
        provider: "TracerProvider",
        share: float,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._provider, self._share, self._draw = provider, share, draw
        self._tracer = provider.get_tracer("kreach")

    def sampled(self) -> bool:
        """Whether the next request gets a trace."""
        return self._draw() < self._share

    @contextmanager
    def request(self, name: str) -> "Iterator[Span]":
        """The span of a request, without a parent; steps within it become its children."""
        from opentelemetry.context import Context  # noqa: PLC0415
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        span: Any = self._tracer.start_span(name, context=Context(), kind=SpanKind.SERVER)
        token = _current.set((self, span))
        try:
            yield span
        finally:
            _current.reset(token)
            span.end()

    def child(self, parent: "Span", name: str, start_ns: int | None = None) -> Any:
        """A span within another one; the caller ends it."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        context = set_span_in_context(parent)
        return self._tracer.start_span(name, context=context, start_time=start_ns)

    def close(self) -> None:
        """Send what was recorded."""
        self._provider.shutdown()


_current: ContextVar[tuple[Tracer, "Span"] | None] = ContextVar("kreach_span", default=None)


@contextmanager
def step(name: str) -> Iterator[None]:
    """A step of the request that is traced, if there is one."""
    current = _current.get()
    if current is None:
        yield
        return
    tracer, parent = current
    span = tracer.child(parent, name)
    token = _current.set((tracer, span))
    try:
        yield
    finally:
        _current.reset(token)
        span.end()


def traced(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make every call of a function a step."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def run(*args: P.args, **named: P.kwargs) -> T:
            if _current.get() is None:
                return function(*args, **named)
            with step(name):
                return function(*args, **named)

        return run

    return decorate


def in_step(name: str, work: Callable[..., T]) -> Callable[..., T]:
    """Work for another thread, as a step of this request; and how long it waited, as another."""
    current = _current.get()
    if current is None:
        return work
    tracer, parent = current
    waiting = tracer.child(parent, "wait")

    def run(*args: Any) -> T:
        waiting.end()
        token = _current.set(current)
        try:
            with step(name):
                return work(*args)
        finally:
            _current.reset(token)

    return run
