"""The frame around every page: navigation, clock, theme, and a banner when reporting is down."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from nicegui import ui

from kreach.adsystem.console.client import (
    Query,
    ReportingError,
    ReportingUnavailable,
    RequestRefused,
)
from kreach.adsystem.console.formatting import date_time
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.sessions import Session
from kreach.adsystem.console.sign_in import SIGN_IN, SIGN_OUT
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.widgets import Chart, Text, box, icon_button, sentence

__all__ = ["THEME_COOKIE", "Frame"]

PAGES = (
    ("/", "campaign", "Campaigns"),
    ("/compare", "join_inner", "Compare"),
    ("/planner", "insights", "Planner"),
    ("/review", "rate_review", "Creatives"),
    ("/privacy", "shield", "Privacy"),
    ("/cost", "balance", "Cost of anonymity"),
)
THEME_COOKIE = "kreach-theme"
_ROLE_PAGES = {"publisher": ("/privacy", "/cost")}  # others see all
_LATE_SECONDS = 8.0  # that reporting may take to answer before figures count as stale
_OLD_SECONDS, _FRESH_SECONDS = 45.0, 5.0
_LOOK_SECONDS, _WAITING_LOOK_SECONDS = 0.5, 0.05  # while a page has not all of its answers
_LOOKS_PER_REDRAW = 20  # at least: some text depends on the time
_BROWSER_SECONDS = 15.0  # that a busy browser may take to answer
_YEAR_SECONDS = 31_536_000


class Frame:
    """What stays while pages change, in one browser tab."""

    def __init__(self, console: Console, theme: str | None, session: Session | None = None) -> None:
        self.console, self._session = console, session
        self._left = False  # whether this tab was sent to the sign-in page
        self._charts: list[Chart] = []
        self.role = "operator" if session is None else session.viewer.role
        self.dark = ui.dark_mode(None if theme is None else theme == "dark")
        ui.colors(primary="#2753c9", negative="#b3261e")
        self._header()
        self._drawer()
        self._banner = box("k-banner", name="banner")
        with self._banner:
            ui.icon("cloud_off")
            self._message = Text("", "span")
        self._banner.props["role"] = "status"
        self._banner.set_visibility(False)
        ui.timer(0.5, self._tick)

    def _header(self) -> None:
        with ui.header(wrap=False).classes("k-header"):
            toggle = lambda: self._nav.toggle()  # noqa: E731, PLW0108 - the drawer comes later
            icon_button("menu", "Navigation", toggle).classes("lt-md")
            with ui.link(target="/").classes("k-brand"):
                Text("kreach", "span")
                Text("reach without user ids", "small")
            box("k-grow")
            with box("k-clock", name="clock"):
                self._time = Text("")
                simulated = self.console.speed != 1.0
                speed = f"simulated, {self.console.speed:,.0f}x speed"
                with box("k-sub"):
                    Text(f"{speed if simulated else 'UTC'} · ", "span", "k-long")
                    self._freshness = Text("data: …", "span", name="freshness")
            if self._session is not None:
                self._account(self._session)
            icon_button("link", "Copy a link to this page", self._copy_link).classes("gt-xs")
            show = lambda: ui.run_javascript("kreach.print()")  # noqa: E731
            icon_button("print", "Print or save as PDF", show).classes("gt-xs")
            switch = icon_button("dark_mode", "Dark or light theme", self._toggle_theme)
            switch.props["data-name"] = "theme"

    def _account(self, session: Session) -> None:
        """Who is signed in, and the button to sign out."""
        viewer = session.viewer
        with box("k-account", name="account"):
            Text(session.name, "span", "k-long")
            Text(viewer.role, "span", "k-chip")
        with box(tag="form") as form:
            form.props["method"], form.props["action"] = "post", SIGN_OUT
            out = icon_button("logout", "Sign out", lambda: None)
            out.props["type"] = "submit"
            out.props["data-name"] = "sign out"

    def _drawer(self) -> None:
        # value=None would ask the browser whether it is open, and warn if that takes long
        drawer = ui.left_drawer(value=False, fixed=True).classes("k-drawer")
        with (
            drawer.props("show-if-above width=232 breakpoint=1023") as self._nav,
            box(tag="nav") as nav,
        ):
            nav.props["aria-label"] = "Pages"
            nav.style("display: flex; flex-direction: column; gap: .15rem; flex: 1")
            self._links = {}
            for path, icon, name in PAGES:
                with ui.link(target=path).classes("k-nav") as link:
                    ui.icon(icon)
                    Text(name, "span")
                self._links[path] = link
            if self._session is not None:
                self._show_role(self._session.viewer.role)
            else:
                ui.timer(0.1, self._load_role, once=True)
            footer = "The ad system knows groups of people, never a person. Times are UTC."
            Text(footer, classes="k-foot")
        router = ui.context.client.sub_pages_router
        router.on_path_changed(self._open_page)
        self._open_page(router.current_path)

    async def _load_role(self) -> None:
        with suppress(ReportingError):
            self._show_role((await self.console.viewer()).role)

    def _show_role(self, role: str) -> None:
        """Show the pages of a role in the navigation."""
        self.role = role
        for path, link in self._links.items():
            link.set_visibility(path in _ROLE_PAGES.get(role, (path,)))

    def _open_page(self, path: str) -> None:
        """Mark the page in the navigation and reset what belongs to the one before."""
        self._charts.clear()
        if hasattr(self, "_banner"):
            self._banner.set_visibility(False)
        page = urlsplit(path).path.rstrip("/") or "/"
        here = "/" if page.startswith("/campaign/") else page
        names = {target: name for target, _, name in PAGES}
        ui.page_title(f"{names.get(page) or page.rpartition('/')[2]} · kreach")
        for target, link in self._links.items():
            link.classes(
                add="k-here" if target == here else "", remove="" if target == here else "k-here"
            )
            link.props.set_optional("aria-current", "page" if target == here else None)

    def _tick(self) -> None:
        self._time.set_text(date_time(self.console.now()))
        self._check_session()

    def _check_session(self, why: str = "expired") -> bool:
        """Whether this tab may show anything; if not, it goes to the sign-in page."""
        session = self._session
        if session is None or self._left:
            return not self._left
        if not session.valid:
            self._left = True
            reason = "out" if session.ended == "signed out" else why
            ui.run_javascript(f"location.assign('{SIGN_IN}?why={reason}')")  # no page of ours
        return not self._left

    async def _toggle_theme(self) -> None:
        dark = self.dark.value
        if dark is None:
            dark = bool(await ui.run_javascript("Quasar.Dark.isActive", timeout=_BROWSER_SECONDS))
        name = "light" if dark else "dark"
        cookie = f"{THEME_COOKIE}={name}; path=/; max-age={_YEAR_SECONDS}; samesite=strict"
        # store it before showing it: the next page must have the theme that was chosen
        await ui.run_javascript(f"document.cookie = '{cookie}'", timeout=_BROWSER_SECONDS)
        self.dark.value = not dark
        for chart in self._charts:
            chart.redraw()

    def today(self) -> tuple[str]:
        """The date, for names of files."""
        return (f"{self.console.now():%Y-%m-%d}",)

    def set_address(self, url: str) -> None:
        """Show the state of the page in the address, so that a link shows the same."""
        ui.context.client.sub_pages_router.current_path = url
        ui.navigate.history.replace(url)

    async def _copy_link(self) -> None:
        copied = await ui.run_javascript("kreach.copyLink()", timeout=_BROWSER_SECONDS)
        ui.notify("Link copied." if copied else "Copy the address of this page.")

    def follow_theme(self, *charts: Chart) -> None:
        """Redraw these charts when the theme changes."""
        self._charts += charts

    def watch(
        self,
        page: ui.element,
        queries: Callable[[], Iterable[Query[Any]]],
        show: Callable[[Answers], None],
        also: Callable[[], Any] = lambda: None,
    ) -> None:
        """Keep a page fresh: call `show` when an answer or the value of `also` changes.

        Reporting is asked at once, while the browser still loads what pages are made of.
        """
        last: Any = None
        looks = 0

        def look() -> None:
            nonlocal last, looks
            if not self._check_session():
                return
            asked, poller = list(queries()), self.console.poller
            answers = Answers(asked, poller.lease)
            late = self._show_freshness(answers, poller.seconds_waiting(asked))
            current = (answers.versions, also(), late)
            looks += 1
            if current != last or looks >= _LOOKS_PER_REDRAW:
                last, looks = current, 0
                self._show_banner(page, answers, late)
                show(answers)
                answers = Answers(queries(), poller.lease)  # an answer may lead to a question
            timer.interval = _WAITING_LOOK_SECONDS if answers.any_waiting else _LOOK_SECONDS

        timer = ui.timer(_LOOK_SECONDS, look)
        look()

    def _show_freshness(self, answers: Answers, waiting: float) -> bool:
        """Show how old the page is; returns whether it is older than it should be."""
        if answers.oldest is None:
            self._freshness.set_text("data: …")
            return False
        age = self.console.poller.age(answers.oldest)
        self._freshness.set_text("data: now" if age < _FRESH_SECONDS else f"data: {age:.0f} s old")
        return waiting > _LATE_SECONDS or age > _OLD_SECONDS

    def _show_banner(self, page: ui.element, answers: Answers, late: bool) -> None:
        """A banner if reporting is unavailable or rejects the key; old numbers turn gray."""
        errors = answers.errors
        down = next((one for one in errors if isinstance(one, ReportingUnavailable)), None)
        refusals = (one for one in errors if isinstance(one, RequestRefused))
        no_access = next((one for one in refusals if one.status == 401), None)
        if no_access is not None and self._session is not None:
            self._session.ended = "refused"
            self._check_session("refused")
        gray = bool(down) or late
        page.classes(add="k-stale" if gray else "", remove="" if gray else "k-stale")
        self._banner.set_visibility(bool(gray or no_access))
        self._banner.classes(add="k-bad" if no_access else "", remove="" if no_access else "k-bad")
        if down is not None:
            old = "The page shows the last numbers received. " if answers.any_stale else ""
            self._message.set_text(f"{sentence(down)} {old}Retrying automatically.")
        elif late and answers.oldest is not None:
            age = self.console.poller.age(answers.oldest)
            seen = self.console.now() - timedelta(seconds=age * self.console.speed)
            text = f"The page shows figures of {date_time(seen)}:{seen:%S} UTC."
            self._message.set_text(f"Reporting is slow to answer. {text}")
        elif no_access is not None:
            self._message.set_text(f"Reporting rejects the console's key: {no_access}.")
