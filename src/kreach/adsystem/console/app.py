"""The console as an application. Its pages are registered with NiceGUI: one console a process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from nicegui import app as pages_app
from nicegui import ui

from kreach.adsystem.console.client import read_key
from kreach.adsystem.console.host_check import HostGuard
from kreach.adsystem.console.input_files import Handed, read_audit, read_tradeoff, read_truth
from kreach.adsystem.console.layout import THEME_COOKIE, Frame
from kreach.adsystem.console.pages.campaign import campaign_page
from kreach.adsystem.console.pages.campaigns import campaigns_page
from kreach.adsystem.console.pages.cost import cost_page
from kreach.adsystem.console.pages.planner import planner_page
from kreach.adsystem.console.pages.privacy import privacy_page
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.widgets import box, empty
from kreach.adsystem.settings import ConsoleSettings
from kreach.errors import KreachError
from kreach.service.clock import Clock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = ["check_console", "console_app"]

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" '
    'rx="7" fill="#2753c9"/><g fill="#fff"><circle cx="11" cy="12" r="3.4"/><circle cx="21" '
    'cy="12" r="3.4"/><circle cx="16" cy="21" r="3.4"/></g></svg>'
)


class _Pages(ui.sub_pages):
    """Pages inside the frame, with words of our own for an address that leads nowhere."""

    def _render_404(self) -> None:
        with box("k-page"):
            empty("wrong_location", "There is no such page", "Choose one on the left.")

    def _render_error(self, error: Exception) -> None:
        pages_app.handle_exception(error)
        with box("k-page"):
            empty("error_outline", "This page could not be shown", "The console's log says why.")


def console_app(settings: ConsoleSettings, log: Log, clock: Clock, speed: float = 1.0) -> HostGuard:
    """The pages over a reporting service. What the settings name must be readable now.

    The clock (seconds since 1970) is that of the other services; in a demonstration it runs
    `speed` times as fast as time does.
    """
    console = Console(settings, log, clock, speed)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await console.start()
        yield
        await console.stop()

    app = FastAPI(title="kreach console", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.lifespan_context = lifespan
    _watch(app, console)
    _serve_pages(console)
    pages_app.on_exception(lambda error: _tell(log, error))
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


def _serve_pages(console: Console) -> None:
    here = files("kreach.adsystem.console")
    style = here.joinpath("console.css").read_text(encoding="utf-8")
    script = here.joinpath("console.js").read_text(encoding="utf-8")

    @ui.page("/")
    @ui.page("/{_:path}")
    def root(request: Request) -> None:
        ui.add_head_html(f"<style>{style}</style><script>{script}</script>")
        theme = request.cookies.get(THEME_COOKIE)
        frame = Frame(console, theme if theme in ("dark", "light") else None)
        _Pages(
            {
                "/": lambda: campaigns_page(frame),
                "/campaign/{campaign}": lambda campaign: campaign_page(frame, campaign),
                "/planner": lambda: planner_page(frame),
                "/privacy": lambda: privacy_page(frame),
                "/cost": lambda: cost_page(frame),
            }
        )


def _watch(app: FastAPI, console: Console) -> None:
    metrics = Metrics("console")
    feed = console.feed
    metrics.tally("questions", "Questions asked of reporting", lambda: {"": float(feed.asked)})
    metrics.gauge("kept_answers", "Answers kept for pages", lambda: {"": float(len(feed))})
    metrics.gauge("browsers", "Pages that are open", lambda: {"": float(len(_open_pages()))})
    metrics.gauge("reporting_away", "1 while reporting does not answer", lambda: _away(console))

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """The console works without reporting, but shows nothing new then."""
        return {"status": "ok", "reporting": console.away or "ok"}

    @app.get("/metrics")
    async def counters() -> Response:
        """Counters in the format of Prometheus."""
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _open_pages() -> list[Any]:
    return [one for one in pages_app.clients() if one.has_socket_connection]


def _away(console: Console) -> dict[str, float]:
    return {"": float(console.away is not None)}


def _tell(log: Log, error: Exception) -> None:
    """By type and place: the text may quote what somebody typed."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f"{last.tb_frame.f_globals.get('__name__')}:{last.tb_lineno}"
    log.error("page failed", kind=type(error).__name__, where=where)


def check_console(settings: ConsoleSettings) -> dict[str, Any]:
    """Read what the settings name, and tell what was found. Reporting is not asked."""
    if settings.key_file is not None:
        read_key(settings.key_file)
    for name, read in (
        ("groups_audit", read_audit),
        ("tradeoff", read_tradeoff),
        ("truth_file", read_truth),
    ):
        path = getattr(settings, name)
        if path is not None:
            found = Handed(path, read).look()
            if found.trouble is not None:
                raise KreachError(f"{name}: {found.trouble}: {path}")
    return {
        "reporting": settings.reporting_url,
        "key": "none" if settings.key_file is None else str(settings.key_file),
        "audit": "none" if settings.groups_audit is None else str(settings.groups_audit),
        "tradeoff": "none" if settings.tradeoff is None else str(settings.tradeoff),
        "truth": "none" if settings.truth_file is None else str(settings.truth_file),
    }
