"""Sign-in at an OpenID Connect provider: authorization code flow with PKCE and a nonce.

The provider says who somebody is; the settings map a claim to an API key. Tokens of the provider
are checked, used once and dropped.
"""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from authlib.oauth2.rfc7636 import (  # type: ignore[import-untyped]
    create_s256_code_challenge,
)
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from kreach.adsystem.console.client import read_key
from kreach.adsystem.settings import OidcSettings
from kreach.errors import KreachError
from kreach.service.clock import Clock

__all__ = ["CALLBACK", "OidcFailure", "OidcSignIn", "Person"]

CALLBACK = "/sign-in/callback"
_SECONDS = 10.0
_PENDING_SECONDS = 600.0
_MAX_PENDING = 1_000
_LEEWAY_SECONDS = 60
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
_METADATA_SECONDS = 3_600.0
_UNREADABLE = (httpx.HTTPError, httpx.InvalidURL, ValueError)
_NEEDED = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")


class OidcFailure(RuntimeError):
    """Somebody cannot sign in; the message is for them."""


@dataclass(frozen=True)
class Person:
    """Who signed in: a name to show, and the API key that a claim gives them."""

    name: str
    key: str


@dataclass(frozen=True)
class _Pending:
    """A sign-in under way in one browser (`binding` is in its cookie)."""

    binding: str
    nonce: str
    verifier: str
    target: str
    until: float


class OidcSignIn:
    """The flow with one provider. For use on one event loop."""

    def __init__(
        self, settings: OidcSettings, public_url: str, clock: Clock = time.monotonic
    ) -> None:
        self._settings, self._clock = settings, clock
        self.callback = public_url.rstrip("/") + CALLBACK
        self._pending: dict[str, _Pending] = {}
        self._metadata: tuple[float, dict[str, Any]] | None = None

    async def begin(self, target: str) -> tuple[str, str]:
        """The provider's address for a new sign-in, and what the browser's cookie must hold."""
        metadata = await self._provider()
        now = self._clock()
        self._pending = {state: one for state, one in self._pending.items() if one.until > now}
        while len(self._pending) >= _MAX_PENDING:
            self._pending.pop(next(iter(self._pending)))
        state, binding, nonce = (secrets.token_urlsafe(24) for _ in range(3))
        verifier = secrets.token_urlsafe(48)
        until = now + _PENDING_SECONDS
        self._pending[state] = _Pending(binding, nonce, verifier, target, until)
        parameters = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self.callback,
            "scope": self._settings.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        address = str(metadata["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(parameters)}", binding

    async def finish(
        self, parameters: Mapping[str, str], binding: str | None
    ) -> tuple[Person, str]:
        """Who came back from the provider, and the page that they wanted."""
        pending = self._pending.pop(parameters.get("state", ""), None)
        if pending is None or pending.until <= self._clock():
            raise OidcFailure("This sign-in is too old or was used already. Sign in again.")
        if not secrets.compare_digest((binding or "").encode(), pending.binding.encode()):
            raise OidcFailure("This sign-in was begun in another browser. Sign in again.")
        if "code" not in parameters:
            raise OidcFailure("The identity provider did not sign you in.")
        metadata = await self._provider()
        tokens = await self._exchange(metadata, parameters["code"], pending.verifier)
        claims = await self._claims(metadata, str(tokens.get("id_token", "")), pending.nonce)
        return self._person(claims), pending.target

    async def _provider(self) -> dict[str, Any]:
        """The provider's metadata, read once an hour."""
        now = self._clock()
        if self._metadata is None or now - self._metadata[0] > _METADATA_SECONDS:
            issuer = self._settings.issuer.rstrip("/")
            document = await _get_json(f"{issuer}/.well-known/openid-configuration")
            same = str(document.get("issuer", "")).rstrip("/") == issuer
            if not same or any(name not in document for name in _NEEDED):
                raise OidcFailure("The identity provider's configuration cannot be used.")
            self._metadata = (now, document)
        return self._metadata[1]

    async def _exchange(
        self, metadata: Mapping[str, Any], code: str, verifier: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.callback,
            "client_id": self._settings.client_id,
            "code_verifier": verifier,
        }
        secret = self._settings.client_secret_file
        login = None if secret is None else (form["client_id"], _read(secret))
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_SECONDS) as client:
                address = str(metadata["token_endpoint"])
                more: dict[str, Any] = {} if login is None else {"auth": login}
                answer = await client.post(address, data=form, **more)
            document = answer.json() if answer.status_code == 200 else None
        except _UNREADABLE:
            document = None
        if isinstance(document, dict):
            return document
        raise OidcFailure("The identity provider did not confirm your sign-in.")

    async def _claims(
        self, metadata: Mapping[str, Any], token: str, nonce: str
    ) -> Mapping[str, Any]:
        """The claims of a token that the provider signed for us, now, and for this sign-in."""
        try:
            keys = KeySet.import_key_set(await _get_json(str(metadata["jwks_uri"])))  # type: ignore[arg-type]
            decoded = jwt.decode(token, keys, algorithms=_ALGORITHMS)
            registry = jwt.JWTClaimsRegistry(
                leeway=_LEEWAY_SECONDS,
                iss={"essential": True, "value": metadata["issuer"]},
                aud={"essential": True, "value": self._settings.client_id},
                nonce={"essential": True, "value": nonce},
                exp={"essential": True},
                iat={"essential": True},
                sub={"essential": True},
            )
            registry.validate(decoded.claims)
        except (JoseError, ValueError, KeyError, TypeError):
            raise OidcFailure("The identity provider's answer could not be verified.") from None
        audience, claims = decoded.claims["aud"], decoded.claims
        several = isinstance(audience, list) and len(audience) > 1
        if several and claims.get("azp") != self._settings.client_id:
            raise OidcFailure("The identity provider's answer is for another application.")
        return claims

    def _person(self, claims: Mapping[str, Any]) -> Person:
        given = claims.get(self._settings.claim)
        values = given if isinstance(given, list) else [given]
        for value, path in self._settings.keys.items():
            if value in values:
                name = claims.get("name") or claims.get("email") or claims["sub"]
                try:
                    return Person(str(name)[:100], read_key(path))
                except KreachError:
                    raise OidcFailure("The console's key for your role cannot be read.") from None
        raise OidcFailure("Your account has no role here. Ask who operates this console.")


async def _get_json(url: str) -> dict[str, Any]:
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_SECONDS) as client:
            answer = await client.get(url)
        document = answer.json() if answer.status_code == 200 else None
    except _UNREADABLE:
        document = None
    if not isinstance(document, dict):
        raise OidcFailure("The identity provider cannot be reached. Try again later.")
    return document


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise OidcFailure("The console's client secret cannot be read.") from None
