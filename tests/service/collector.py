"""A collector of traces: a small HTTP server that decodes OpenTelemetry's protocol."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Collector"]


class Collector:
    """What services sent: the bytes, and the spans in them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.bodies.append(body)
                collector.paths.append(self.path)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Where to send spans."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def resources(self) -> list[tuple[str, Any]]:
        """Every span, with the service that it is of."""
        found = []
        for body in self.bodies:
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                values = {one.key: one.value.string_value for one in group.resource.attributes}
                spans = [span for scope in group.scope_spans for span in scope.spans]
                found += [(values["service.name"], span) for span in spans]
        return found

    def spans(self, service: str) -> list[Any]:
        """The spans of a service."""
        return [span for name, span in self.resources() if name == service]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
