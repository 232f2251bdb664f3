"""The console as an application. NiceGUI has one set of pages: one console per process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from nicegui import PageArguments, ui
from nicegui import app as pages_app

from kreach.adsystem.console.client import authorities, read_key
from kreach.adsystem.console.host_check import HostGuard
from kreach.adsystem.console.input_files import InputFile, read_audit, read_tradeoff, read_truth
from kreach.adsystem.console.layout import THEME_COOKIE, Frame
from kreach.adsystem.console.pages.campaign import campaign_page
from kreach.adsystem.console.pages.campaigns import campaigns_page
from kreach.adsystem.console.pages.compare import compare_page
from kreach.adsystem.console.pages.cost import cost_page
from kreach.adsystem.console.pages.planner import planner_page
from kreach.adsystem.console.pages.privacy import privacy_page
from kreach.adsystem.console.pages.review import review_page
from kreach.adsystem.console.sessions import Sessions
from kreach.adsystem.console.sign_in import SIGN_IN, SignIn
from kreach.adsystem.console.state import Console, InputFiles
from kreach.adsystem.console.widgets import EmptyState, box
from kreach.adsystem.settings import ConsoleSettings
from kreach.boundary.times import HOUR_SECONDS
from kreach.errors import KreachError
from kreach.extras import require_extra
from kreach.service.clock import Clock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.web import ready_response

__all__ = ["check_console", "console_app"]

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" '
    'rx="7" fill="#2753c9"/><g fill="#fff"><circle cx="11" cy="12" r="3.4"/><circle cx="21" '
    'cy="12" r="3.4"/><circle cx="16" cy="21" r="3.4"/></g></svg>'
)


class _Pages(ui.sub_pages):
    """Pages inside the frame, with our own text for unknown addresses and errors."""

    def _render_404(self) -> None:
        with box("k-page"):
            EmptyState("").show("wrong_location", "Page not found", "Choose one on the left.")

    def _render_error(self, error: Exception) -> None:
        pages_app.handle_exception(error)
        with box("k-page"):
            text = "See the console's log."
            EmptyState("").show("error_outline", "This page failed to load", text)


def console_app(settings: ConsoleSettings, log: Log, clock: Clock, speed: float = 1.0) -> HostGuard:
    """The pages over a reporting service. The key file must be readable.

    The clock (seconds since 1970) is that of the other services; in the demo it runs `speed` times
    as fast as real time.
    """
    inputs = InputFiles(settings, log)

    def make_console(key: str | None = None) -> Console:
        return Console(settings, log, clock, speed, inputs, key)

    sessions = Sessions(make_console, settings.session_hours * HOUR_SECONDS)
    sign_in = SignIn(settings, sessions, log) if settings.sign_in else None
    shared = None if settings.sign_in else make_console()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(inputs.run()), asyncio.create_task(sessions.run())]
        if shared is not None:
            await shared.start()
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if shared is not None:
            await shared.stop()
        await sessions.stop()

    app = FastAPI(title="kreach console", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.lifespan_context = lifespan

    def consoles() -> list[Console]:
        return sessions.consoles if shared is None else [shared]

    _add_probes(app, consoles, sessions)
    if sign_in is not None:
        sign_in.add_routes(app)
    _add_pages(shared, sign_in)
    pages_app.on_exception(lambda error: _log_error(log, error))
    # pages say themselves that they load; a bar without a name tells a screen reader nothing
    pages_app.config.quasar_config["loadingBar"]["skipHijack"] = True
    ui.run_with(
        app,
        title="kreach",
        favicon=_ICON,
        dark=None,
        language="en-US",
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=10.0,
        message_history_length=200,
        show_welcome_message=False,
    )
    return HostGuard(app, settings.names, settings.host)


def _add_pages(shared: Console | None, sign_in: SignIn | None) -> None:
    here = files("kreach.adsystem.console")
    style = here.joinpath("console.css").read_text(encoding="utf-8")
    script = here.joinpath("console.js").read_text(encoding="utf-8")

    @ui.page("/")
    @ui.page("/{_:path}")
    def root(request: Request) -> Response | None:
        session = None if sign_in is None else sign_in.session(request)
        console = shared if session is None else session.console
        if console is None:
            query = urlencode({"next": _address(request)})
            return RedirectResponse(f"{SIGN_IN}?{query}", 303)
        ui.add_head_html(f"<style>{style}</style><script>{script}</script>")
        theme = request.cookies.get(THEME_COOKIE)
        frame = Frame(console, theme if theme in ("dark", "light") else None, session)
        _Pages(_routes(frame))
        return None


def _routes(frame: Frame) -> dict[str, Callable[..., Any]]:
    def with_query(page: Callable[[Frame, list[tuple[str, str]]], None]) -> Callable[..., None]:
        def build(arguments: PageArguments) -> None:
            page(frame, arguments.query_parameters.multi_items())

        return build

    def campaign(campaign: str, arguments: PageArguments) -> None:
        campaign_page(frame, campaign, arguments.query_parameters.multi_items())

    return {
        "/": with_query(campaigns_page),
        "/campaign/{campaign}": campaign,
        "/compare": with_query(compare_page),
        "/planner": with_query(planner_page),
        "/review": lambda: review_page(frame),
        "/privacy": lambda: privacy_page(frame),
        "/cost": lambda: cost_page(frame),
    }


def _address(request: Request) -> str:
    """The page that a browser asks for, with its query."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _add_probes(app: FastAPI, consoles: Callable[[], list[Console]], sessions: Sessions) -> None:
    metrics = Metrics("console")
    requests, cached = "Requests to reporting", "Answers cached for pages"

    def total(count: Callable[[Console], float]) -> Callable[[], dict[str, float]]:
        return lambda: {"": float(sum(count(one) for one in consoles()))}

    def unavailable() -> str | None:
        return next((one.unavailable for one in consoles() if one.unavailable), None)

    def request_count() -> dict[str, float]:
        shared = 0 if sessions.consoles else sum(one.poller.request_count for one in consoles())
        return {"": float(sessions.request_count + shared)}

    metrics.tally("requests", requests, request_count)
    metrics.gauge("cached_answers", cached, total(lambda one: len(one.poller)))
    metrics.gauge("open_pages", "Open pages in browsers", lambda: {"": float(_open_pages())})
    metrics.gauge("sessions", "Browsers that are signed in", lambda: {"": float(len(sessions))})
    down = "1 while reporting does not answer"
    metrics.gauge("reporting_unavailable", down, lambda: {"": float(unavailable() is not None)})

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """The console runs without reporting, but then shows nothing new."""
        return {"status": "ok", "reporting": unavailable() or "ok"}

    @app.get("/readyz")
    async def readiness() -> Response:
        """Ready while reporting answers: there is something to show."""
        ready = ready_response({"reporting": unavailable() is not None})
        return Response(ready.body, ready.status, media_type="application/json")

    @app.get("/metrics")
    async def counters() -> Response:
        """Counters in the format of Prometheus."""
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _open_pages() -> int:
    return sum(client.has_socket_connection for client in pages_app.clients())


def _log_error(log: Log, error: Exception) -> None:
    """Log type and place only: the message may quote what somebody typed."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f"{last.tb_frame.f_globals.get('__name__')}:{last.tb_lineno}"
    log.error("page failed", kind=type(error).__name__, where=where)


def check_console(settings: ConsoleSettings) -> dict[str, str]:
    """Read the files in the settings and report them. This does not call reporting."""
    keys = {} if settings.oidc is None else settings.oidc.keys
    for key_file in (settings.key_file, *keys.values()):
        if key_file is not None:
            read_key(key_file)
    if settings.oidc is not None:
        require_extra("sign-in with oidc", "oidc")
    if settings.reporting_ca is not None:
        authorities(settings.reporting_ca)
    readers: dict[str, Callable[[Path], object]] = {
        "groups_audit": read_audit,
        "tradeoff": read_tradeoff,
        "truth_file": read_truth,
    }
    for name, read in readers.items():
        path = getattr(settings, name)
        problem = InputFile(path, read).refresh().problem
        if problem is not None:
            raise KreachError(f"{name}: {problem}: {path}")
    files = {
        "key": settings.key_file,
        "audit": settings.groups_audit,
        "tradeoff": settings.tradeoff,
        "truth": settings.truth_file,
    }
    paths = {name: "none" if path is None else str(path) for name, path in files.items()}
    sign_in = ", ".join(settings.sign_in) or "none"
    return {"reporting": settings.reporting_url, "sign_in": sign_in} | paths
