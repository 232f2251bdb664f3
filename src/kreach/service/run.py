"""Run an application on this machine until it is told to stop."""

import gc
import socket
from typing import Any

from kreach.errors import KreachError
from kreach.service.logs import Log, route_library_logs

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


def serve(app: Any, log: Log, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered first."""
    import uvicorn  # noqa: PLC0415 - slow to import

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    route_library_logs(log)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.should_exit:
                host, port = listening.getsockname()[:2]
                gc.collect()
                gc.freeze()  # what was loaded stays: the collector need not look at it again
                log.info("ready", host=host, port=port)

    server = Server(config)
    server.run(sockets=[listening])
    log.info("stopped")
    if not server.started:
        raise KreachError("the service could not start: see the log above")
