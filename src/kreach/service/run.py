"""Run an application on this machine until it is told to stop."""

import asyncio
import gc
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kreach.errors import KreachError
from kreach.service.logs import Log, route_library_logs
from kreach.service.web import Direct

__all__ = ["bind", "serve"]

_GRACE_SECONDS = 10


def bind(host: str, port: int) -> socket.socket:
    """A socket on an address, or one clear line if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise KreachError.rule("host and port", "be free to listen on", f"{host}:{port}") from error
    return made


@contextmanager
def _no_second_blow() -> Iterator[None]:
    """The server raises the signal that ended it once more, to the handlers from before it."""
    main = threading.current_thread() is threading.main_thread()  # no other may have handlers
    ending = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {number: signal.signal(number, lambda *_: None) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen_to(on_signals: Mapping[int, Callable[[], Coroutine[Any, Any, None]]]) -> None:
    loop = asyncio.get_running_loop()
    kept: set[asyncio.Task[None]] = set()  # a task that nobody holds may vanish

    def begin(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = loop.create_task(work())
        kept.add(task)
        task.add_done_callback(kept.discard)

    for number, work in on_signals.items():
        loop.add_signal_handler(number, begin, work)


def serve(
    app: Any,
    log: Log,
    listening: socket.socket,
    on_signals: Mapping[int, Callable[[], Coroutine[Any, Any, None]]] | None = None,
    direct: Direct | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered first.

    `on_signals` gives further signals something to do (SIGHUP: read the settings again). The route
    `direct` is answered without ASGI.
    """
    import uvicorn  # noqa: PLC0415 - slow to import

    from kreach.service.fast_path import direct_protocol  # noqa: PLC0415

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # nobody here wants to know where a request came from
        timeout_graceful_shutdown=_GRACE_SECONDS,
        http="httptools" if direct is None else direct_protocol(direct),
    )
    route_library_logs(log)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.should_exit:
                _listen_to(on_signals or {})
                host, port = listening.getsockname()[:2]
                gc.collect()
                gc.freeze()  # what was loaded stays: the collector need not look at it again
                gc.set_threshold(20_000, 20, 20)  # requests leave no cycles behind
                log.info("ready", host=host, port=port)

    server = Server(config)
    try:
        with _no_second_blow():
            server.run(sockets=[listening])
    except SystemExit:  # how the server says that the application did not start
        if server.started:
            raise
    finally:
        listening.close()
    gc.unfreeze()
    log.info("stopped")
    if not server.started:
        raise KreachError("the service could not start: see the log above")
