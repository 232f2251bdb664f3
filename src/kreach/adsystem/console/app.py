"""The console as an application. NiceGUI has one set of pages: one console per process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request, Response
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
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.widgets import EmptyState, box
from kreach.adsystem.settings import ConsoleSettings
from kreach.errors import KreachError
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
    console = Console(settings, log, clock, speed)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await console.start()
        yield
        await console.stop()

    app = FastAPI(title="kreach console", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.lifespan_context = lifespan
    _add_probes(app, console)
    _add_pages(console)
    pages_app.on_exception(lambda error: _log_error(log, error))
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


def _add_pages(console: Console) -> None:
    here = files("kreach.adsystem.console")
    style = here.joinpath("console.css").read_text(encoding="utf-8")
    script = here.joinpath("console.js").read_text(encoding="utf-8")

    @ui.page("/")
    @ui.page("/{_:path}")
    def root(request: Request) -> None:
        ui.add_head_html(f"<style>{style}</style><script>{script}</script>")
        theme = request.cookies.get(THEME_COOKIE)
        frame = Frame(console, theme if theme in ("dark", "light") else None)

        def compare(arguments: PageArguments) -> None:
            compare_page(frame, arguments.query_parameters.multi_items())

        _Pages(
            {
                "/": lambda: campaigns_page(frame),
                "/campaign/{campaign}": lambda campaign: campaign_page(frame, campaign),
                "/compare": compare,
                "/planner": lambda: planner_page(frame),
                "/review": lambda: review_page(frame),
                "/privacy": lambda: privacy_page(frame),
                "/cost": lambda: cost_page(frame),
            }
        )


def _add_probes(app: FastAPI, console: Console) -> None:
    metrics, poller = Metrics("console"), console.poller
    requests = "Requests to reporting"
    metrics.tally("requests", requests, lambda: {"": float(poller.request_count)})
    metrics.gauge("cached_answers", "Answers cached for pages", lambda: {"": float(len(poller))})
    metrics.gauge("open_pages", "Open pages in browsers", lambda: {"": float(_open_pages())})
    down = "1 while reporting does not answer"
    metrics.gauge(
        "reporting_unavailable", down, lambda: {"": float(console.unavailable is not None)}
    )

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """The console runs without reporting, but then shows nothing new."""
        return {"status": "ok", "reporting": console.unavailable or "ok"}

    @app.get("/readyz")
    async def readiness() -> Response:
        """Ready while reporting answers: there is something to show."""
        ready = ready_response({"reporting": console.unavailable is not None})
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
    if settings.key_file is not None:
        read_key(settings.key_file)
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
    return {"reporting": settings.reporting_url} | paths
