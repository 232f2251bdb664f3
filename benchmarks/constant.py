"""The same web server with an application that reads the request and answers a constant.

With `direct` the answer takes the bid route's way past ASGI.
"""

import sys

from kreach.service.logs import Log
from kreach.service.run import bind, serve
from kreach.service.web import FastRoute, Response

_BODY = b"x" * 560
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"560")]


async def app(scope, receive, send):  # type: ignore[no-untyped-def]
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})


if __name__ == "__main__":
    answer = Response(200, _BODY, _HEADERS[:1])
    direct = FastRoute(b"POST", b"/openrtb2/bid", 1_000_000, lambda body, encoding=b"": answer)
    skip = direct if "direct" in sys.argv[1:] else None
    serve(app, Log("constant"), bind("127.0.0.1", 0), fast_route=skip)
