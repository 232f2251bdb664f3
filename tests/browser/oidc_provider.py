"""A small OpenID Connect provider on loopback: discovery, authorization code with PKCE, keys."""

import base64
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

from kreach.service.run import bind

__all__ = ["CLIENT_ID", "CLIENT_SECRET", "Provider", "running_provider"]

CLIENT_ID, CLIENT_SECRET = "kreach-console", "a-client-secret"


class Provider:
    """Signs everybody in as `person`; `change` spoils the claims of the next token."""

    def __init__(self) -> None:
        self.url = ""
        self.person: dict[str, Any] = {"sub": "u1", "name": "Ada", "groups": ["acme-buyers"]}
        self.change: dict[str, Any] = {}
        self.key = RSAKey.generate_key(2048, parameters={"kid": "k1"})
        self.sign_with = self.key
        self._codes: dict[str, dict[str, str]] = {}
        self.app = FastAPI()
        self.app.get("/.well-known/openid-configuration")(self._metadata)
        self.app.get("/authorize")(self._authorize)
        self.app.post("/token")(self._token)
        self.app.get("/jwks")(self._jwks)

    async def _metadata(self) -> dict[str, str]:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token"}
        found = {name: f"{self.url}/{path}" for name, path in ends.items()}
        return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks", **found}

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        query = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{query}", 303)

    async def _token(self, request: Request) -> Response:
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        asked = self._codes.pop(form.get("code", ""), None)
        expected = (CLIENT_ID, CLIENT_SECRET)
        given = _basic(request.headers.get("authorization", ""))
        if asked is None or given != expected or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if create_s256_code_challenge(form["code_verifier"]) != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 60}
        claims |= {"nonce": asked["nonce"], **self.person, **self.change}
        token = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.sign_with)
        return JSONResponse({"id_token": token, "access_token": "x", "token_type": "Bearer"})

    async def _jwks(self) -> dict[str, Any]:
        return {"keys": [self.key.as_dict(private=False)]}


def _basic(header: str) -> tuple[str, str]:
    user, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
    return user, password


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider()
    listening = bind("127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(provider.app, log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield provider
    finally:
        server.should_exit = True
        thread.join()
