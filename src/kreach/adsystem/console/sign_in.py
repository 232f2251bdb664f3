"""The sign-in page, plain HTML, and the routes that start and end sessions."""

import html
from collections.abc import Mapping
from importlib.resources import files
from urllib.parse import parse_qs, urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from kreach.adsystem.console.client import (
    VIEWER,
    ReportingClient,
    ReportingUnavailable,
    RequestRefused,
)
from kreach.adsystem.console.sessions import SESSION_COOKIE, Session, Sessions, cookie_header
from kreach.adsystem.settings import ConsoleSettings
from kreach.extras import require_extra
from kreach.service.logs import Log

__all__ = ["SIGN_IN", "SIGN_OUT", "SignIn", "local_target"]

SIGN_IN, SIGN_OUT, _OIDC = "/sign-in", "/sign-out", "/sign-in/oidc"
_BINDING_COOKIE, _BINDING_SECONDS = "kreach-sign-in", 600
_MAX_BODY, _MAX_KEY, _HOUR = 4_000, 200, 3_600
_NO_KEYS = "Reporting runs without keys, so nobody can sign in here. Set `keys = true` for it."
_WRONG_KEY = "This key is not valid. Check that it was copied whole, or ask for a new one."
_NOTES = {
    "expired": "Your session has expired. Sign in again.",
    "out": "You are signed out.",
    "refused": "Your key is no longer valid. Sign in with another one.",
}


def local_target(text: str | None) -> str:
    """A page of this console to go to; anything else is the first page.

    >>> local_target("/planner?cap=2"), local_target("//evil.example"), local_target("/sign-in")
    ('/planner?cap=2', '/', '/')
    """
    target = text or "/"
    safe = target.startswith("/") and not target.startswith(("//", "/\\", "/sign-"))
    return target if safe and target.isprintable() else "/"


class SignIn:
    """Routes for browsers without a session. Keys come in the body of a form, never in a URL."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, log: Log) -> None:
        self._settings, self._sessions, self._log = settings, sessions, log
        self._secure = (settings.public_url or "").startswith("https://")
        self._seconds = int(settings.session_hours * _HOUR)
        self._oidc = None
        if settings.oidc is not None and settings.public_url is not None:
            require_extra("sign-in with oidc", "oidc")
            from kreach.adsystem.console.oidc import OidcSignIn  # noqa: PLC0415 - an extra

            self._oidc = OidcSignIn(settings.oidc, settings.public_url)

    def session(self, request: Request) -> Session | None:
        """The session of a browser."""
        return self._sessions.get(request.cookies.get(SESSION_COOKIE))

    def add_routes(self, app: FastAPI) -> None:
        """Sign-in page, sign-in, sign-out and, with a provider, the way there and back."""
        app.get(SIGN_IN)(self._show)
        app.post(SIGN_IN)(self._sign_in)
        app.post(SIGN_OUT)(self._sign_out)
        if self._oidc is not None:
            app.get(_OIDC)(self._to_provider)
            app.get("/sign-in/callback")(self._from_provider)

    async def _show(self, request: Request) -> Response:
        """The page with the form."""
        query = request.query_params
        if self.session(request) is not None:
            return RedirectResponse(local_target(query.get("next")), 303)
        return self._page(query.get("next"), note=_NOTES.get(query.get("why", ""), ""))

    async def _sign_in(self, request: Request) -> Response:
        """Check a key with reporting and start a session."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY:
                return self._page(None, "The form is too long.", status=413)
        form = parse_qs(body.decode("latin-1"), keep_blank_values=True)
        key, target = (form.get(name, [""])[0].strip() for name in ("key", "next"))
        if "key" not in self._settings.sign_in:
            return self._page(target, "Keys are not accepted here.", status=403)
        if not key:
            return self._page(target, "Enter your key.", status=422)
        return await self._start(request, key, None, target)

    async def _start(self, request: Request, key: str, name: str | None, target: str) -> Response:
        if len(key) > _MAX_KEY or not key.isascii() or not key.isprintable() or " " in key:
            return self._page(target, _WRONG_KEY, status=401)
        client = ReportingClient(
            self._settings.reporting_url, key=key, ca_file=self._settings.reporting_ca
        )
        try:
            viewer = await client.get(VIEWER)
        except RequestRefused as refusal:
            text = _WRONG_KEY if refusal.status == 401 else str(refusal)
            return self._page(target, text, status=401)
        except ReportingUnavailable as error:
            text = f"{error}. Try again in a moment."
            return self._page(target, text[:1].upper() + text[1:], status=503)
        finally:
            await client.close()
        if viewer.key is None:  # then any text would be a key
            return self._page(target, _NO_KEYS, status=403)
        shown = name or viewer.advertiser or viewer.role
        self._sessions.end(request.cookies.get(SESSION_COOKIE))  # of who used this browser before
        token = await self._sessions.start(key, viewer, shown)
        self._log.info("signed in", role=viewer.role, key=viewer.key)
        response = RedirectResponse(local_target(target), 303)
        self._set_cookie(request, response, SESSION_COOKIE, token, self._seconds)
        return response

    async def _sign_out(self, request: Request) -> Response:
        """End the session; all its tabs leave within a second."""
        self._sessions.end(request.cookies.get(SESSION_COOKIE))
        await self._sessions.sweep()
        response = RedirectResponse(f"{SIGN_IN}?why=out", 303)
        self._set_cookie(request, response, SESSION_COOKIE, "", 0)
        return response

    async def _to_provider(self, request: Request) -> Response:
        """Redirect to the identity provider."""
        from kreach.adsystem.console.oidc import OidcFailure  # noqa: PLC0415 - an extra

        assert self._oidc is not None
        target = local_target(request.query_params.get("next"))
        try:
            address, binding = await self._oidc.begin(target)
        except OidcFailure as failure:
            return self._page(target, str(failure), status=503)
        response = RedirectResponse(address, 303)
        self._set_cookie(request, response, _BINDING_COOKIE, binding, _BINDING_SECONDS)
        return response

    async def _from_provider(self, request: Request) -> Response:
        """Come back from the identity provider and start a session."""
        from kreach.adsystem.console.oidc import OidcFailure  # noqa: PLC0415 - an extra

        assert self._oidc is not None
        binding = request.cookies.get(_BINDING_COOKIE)
        try:
            person, target = await self._oidc.finish(request.query_params, binding)
        except OidcFailure as failure:
            self._log.warning("sign-in refused", reason=str(failure))
            return self._page(None, str(failure), status=403)
        response = await self._start(request, person.key, person.name, target)
        self._set_cookie(request, response, _BINDING_COOKIE, "", 0)
        return response

    def _set_cookie(
        self, request: Request, response: Response, name: str, value: str, seconds: int
    ) -> None:
        secure = self._secure or request.url.scheme == "https"  # by a proxy, or by [server]
        text = cookie_header(name, value, seconds, secure=secure)
        response.headers.append("set-cookie", text)

    def _page(
        self, target: str | None, error: str = "", note: str = "", status: int = 200
    ) -> HTMLResponse:
        ways = {"key": "key" in self._settings.sign_in, "oidc": self._oidc is not None}
        page = _render(local_target(target), error, note, ways)
        return HTMLResponse(page, status, {"cache-control": "no-store"})


def _render(target: str, error: str, note: str, ways: Mapping[str, bool]) -> str:
    style = files("kreach.adsystem.console").joinpath("console.css").read_text(encoding="utf-8")
    parts = []
    if note:
        parts.append(f'<p class="k-note" role="status">{html.escape(note)}</p>')
    if error:
        parts.append(f'<p class="k-note k-bad" role="alert" id="error">{html.escape(error)}</p>')
    if ways["oidc"]:
        address = html.escape(f"{_OIDC}?{urlencode({'next': target})}", quote=True)
        label = "Sign in with your organization"
        parts.append(f'<a class="k-sign-button k-primary" href="{address}">{label}</a>')
    if ways["key"]:
        invalid = ' aria-invalid="true" aria-describedby="error"' if error else ""
        quoted = html.escape(target, quote=True)
        head = "<p class='k-sub'>or with an API key</p>" if ways["oidc"] else ""
        parts.append(
            f'{head}<form method="post" action="{SIGN_IN}">'
            f'<input type="hidden" name="next" value="{quoted}">'
            '<label for="key">API key</label>'
            f'<input id="key" name="key" type="password" autocomplete="current-password" '
            f'spellcheck="false" required autofocus{invalid}>'
            '<p class="k-sub">It begins with kreach_ and comes from who operates this system. '
            "It stays on the server; your browser gets a cookie.</p>"
            '<button class="k-sign-button k-primary" type="submit">Sign in</button></form>'
        )
    dark = "(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')"
    script = (
        "const named = document.cookie.match(/kreach-theme=(dark|light)/);"
        f"document.body.classList.add('body--' + (named ? named[1] : {dark}));"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Sign in · kreach</title><style>{style}</style></head><body>"
        f'<script>{script}</script><main class="k-sign-in"><p class="k-brand">kreach'
        "<small>reach without user ids</small></p><h1>Sign in</h1>"
        f"{''.join(parts)}</main></body></html>"
    )
