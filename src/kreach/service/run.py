"""Run an ASGI application until a signal stops it."""

import asyncio
import gc
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kreach.errors import KreachError
from kreach.service.logs import Log, route_library_logs
from kreach.service.web import FastRoute

if TYPE_CHECKING:
    from kreach.service.connections import ServerSettings
    from kreach.service.reload import SettingsReload
    from kreach.service.tracing import Tracer

__all__ = ["bind", "serve"]

_GRACE_SECONDS = 10


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address, or a KreachError if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise KreachError.rule("host and port", "be free to listen on", f"{host}:{port}") from error
    return listener


@contextmanager
def _ignore_repeated_signal() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again, after it has stopped, for earlier handlers."""
    main = threading.current_thread() is threading.main_thread()  # no other may have handlers
    ending = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {number: signal.signal(number, lambda *_: None) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start_reload(reload: "SettingsReload[Any, Any]") -> None:
    """Reload on SIGHUP, and as often as it looks by itself."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()  # a task without a reference may be collected

    def begin(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = loop.create_task(work())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, begin, reload.reload)
    begin(reload.watch)


class _ByPort:
    """Several applications in one server: each has a port, and the first all else."""

    def __init__(self, first: Any, others: Mapping[int, Any]) -> None:
        self._first, self._others = first, others

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        _, port = scope.get("server") or ("", 0)
        await self._others.get(port, self._first)(scope, receive, send)


def _traced(
    tracer: "Tracer",
    app: Any,
    fast_route: FastRoute | None,
    also: tuple[socket.socket, Any] | None,
) -> tuple[Any, FastRoute | None, tuple[socket.socket, Any] | None]:
    from kreach.service.traced_app import TracedApp, traced_route  # noqa: PLC0415

    return (
        TracedApp(app, tracer),
        None if fast_route is None else traced_route(fast_route, tracer),
        None if also is None else (also[0], TracedApp(also[1], tracer)),
    )


def serve(
    app: Any,
    log: Log,
    listener: socket.socket,
    reload: "SettingsReload[Any, Any] | None" = None,
    fast_route: FastRoute | None = None,
    limits: "ServerSettings | None" = None,
    also: tuple[socket.socket, Any] | None = None,
    tracer: "Tracer | None" = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress are answered first.

    `reload` takes up changed settings, on SIGHUP at the latest. `fast_route` is answered without
    ASGI. `limits` are those of connections, with TLS if they name a certificate. `also` is
    a second application on a port of its own, which starts and stops with the first. With a
    `tracer` routes are wrapped, here and nowhere else; without one they are as they were.
    """
    import uvicorn  # noqa: PLC0415 - slow to import

    from kreach.service.connections import (  # noqa: PLC0415
        ServerSettings,
        allow_files,
        bounded_protocol,
        cut_slow_connections,
    )
    from kreach.service.fast_path import fast_path_protocol  # noqa: PLC0415
    from kreach.service.tls import CHECK_SECONDS, ServerCertificate  # noqa: PLC0415

    limits = allow_files(limits or ServerSettings())
    certificate = ServerCertificate.of(limits)
    if tracer is not None:
        app, fast_route, also = _traced(tracer, app, fast_route, also)
    if fast_route is None:
        protocol = bounded_protocol(limits)
    else:
        protocol = fast_path_protocol(fast_route, limits)
    listeners = [listener]
    if also is not None:
        listeners.append(also[0])
        app = _ByPort(app, {also[0].getsockname()[1]: also[1]})
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # client addresses are not used
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=limits.idle_seconds,
        http=protocol,
    )
    if certificate is not None:
        config.load()
        config.ssl = certificate.context
    route_library_logs(log)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.should_exit:
                if reload is not None:
                    _start_reload(reload)
                host, port = listener.getsockname()[:2]
                gc.collect()
                gc.freeze()  # loaded data stays: the collector need not scan it
                gc.set_threshold(4_000, 50, 50)  # requests leave no cycles; short pauses
                log.info("ready", host=host, port=port)
                for second in listeners[1:]:
                    host, port = second.getsockname()[:2]
                    log.info("second port ready", host=host, port=port)
                sweep()
                if certificate is not None:
                    renew()

    def sweep() -> None:
        loop = asyncio.get_running_loop()
        cut_slow_connections(server.server_state.connections, loop.time())
        loop.call_later(limits.sweep_seconds, sweep)

    def renew() -> None:
        if certificate is not None:
            certificate.renew(log)
            asyncio.get_running_loop().call_later(CHECK_SECONDS, renew)

    server = Server(config)
    try:
        with _ignore_repeated_signal():
            server.run(sockets=listeners)
    except SystemExit:  # the application did not start
        if server.started:
            raise
    finally:
        for each in listeners:
            each.close()
        if tracer is not None:
            tracer.close()
    gc.unfreeze()
    log.info("stopped")
    if not server.started:
        raise KreachError("the service could not start: see its log")
