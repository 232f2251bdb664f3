"""Around every page: name, navigation, time, theme, and a banner when reporting is away."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from nicegui import ui

from kreach.adsystem.console.client import Away, Question, Refused
from kreach.adsystem.console.formatting import moment
from kreach.adsystem.console.poller import Answer
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.widgets import Chart, Text, box, icon_button

__all__ = ["Frame"]

PAGES = (
    ("/", "campaign", "Campaigns"),
    ("/planner", "insights", "Planner"),
    ("/privacy", "shield", "Privacy"),
    ("/cost", "balance", "Cost of anonymity"),
)
THEME_COOKIE = "kreach-theme"
_LOOK_SECONDS = 0.5
_MIN_EVERY = 20  # looks: what depends on the time is shown anew so often
_PATIENCE = 15.0  # seconds, of a browser that is busy
_YEAR_SECONDS = 31_536_000

Answers = dict[str, Answer]


class Frame:
    """What stays while pages change, for one browser tab."""

    def __init__(self, console: Console, theme: str | None) -> None:
        self.console = console
        self._charts: list[Chart] = []
        self.dark = ui.dark_mode(None if theme is None else theme == "dark")
        ui.colors(primary="#2753c9", negative="#b3261e")
        self._header()
        self._drawer()
        self._banner = box("k-banner", name="banner")
        with self._banner:
            ui.icon("cloud_off")
            self._says = Text("", "span")
        self._banner.props["role"] = "status"
        self._banner.set_visibility(False)
        ui.timer(0.5, self._tick)

    def _header(self) -> None:
        with ui.header(wrap=False).classes("k-header"):
            self._menu = icon_button("menu", "Navigation", lambda: self._nav.toggle())  # noqa: PLW0108 - made later
            self._menu.classes("lt-md")
            with ui.link(target="/").classes("k-brand"):
                Text("kreach", "span")
                Text("reach without knowing who", "small")
            box("k-grow")
            with box("k-clock", name="clock"):
                self._time = Text("")
                simulated = self.console.speed != 1.0
                speed = f"simulated, {self.console.speed:,.0f} times as fast"
                Text(speed if simulated else "UTC", classes="k-sub")
            self._switch = icon_button("dark_mode", "Dark or light", self._toggle_theme)
            self._switch.props["data-name"] = "theme"

    def _drawer(self) -> None:
        # value=None would ask the browser whether it is open, and complain if that takes long
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
            says = "The ad system knows groups of people, never a person. Times are UTC."
            Text(says, classes="k-foot")
        router = ui.context.client.sub_pages_router
        router.on_path_changed(self._mark)
        self._mark(router.current_path)

    def _mark(self, path: str) -> None:
        """Show in the navigation which page this is."""
        self._charts.clear()
        self.calm()
        asked = urlsplit(path).path.rstrip("/") or "/"
        here = "/" if asked.startswith("/campaign/") else asked
        names = {target: name for target, _, name in PAGES}
        ui.page_title(f"{names.get(asked) or asked.rpartition('/')[2]} · kreach")
        for target, link in self._links.items():
            link.classes(
                add="k-here" if target == here else "", remove="" if target == here else "k-here"
            )
            link.props.set_optional("aria-current", "page" if target == here else None)

    def _tick(self) -> None:
        self._time.tell(moment(self.console.now()))

    async def _toggle_theme(self) -> None:
        dark = self.dark.value
        if dark is None:
            dark = bool(await ui.run_javascript("Quasar.Dark.isActive", timeout=_PATIENCE))
        name = "light" if dark else "dark"
        cookie = f"{THEME_COOKIE}={name}; path=/; max-age={_YEAR_SECONDS}; samesite=strict"
        # remembered before it is seen: who leaves the page at once finds the other as it was left
        await ui.run_javascript(f"document.cookie = '{cookie}'", timeout=_PATIENCE)
        self.dark.value = not dark
        for chart in self._charts:
            chart.redraw()

    def follow_theme(self, *charts: Chart) -> None:
        """Charts to be drawn again when the theme changes."""
        self._charts += charts

    # -- what pages use -----------------------------------------------------------------------

    def watch(
        self,
        page: ui.element,
        questions: Callable[[], Mapping[str, Question]],
        show: Callable[[Answers], None],
        also: Callable[[], Any] = lambda: None,
    ) -> None:
        """Keep a page fresh: `show` is called when an answer, or what `also` tells, has changed."""
        last: list[Any] = [None, 0]

        def look() -> None:
            wanted = questions()
            answers = {name: self.console.feed.want(one) for name, one in wanted.items()}
            seen = ([(*key, answers[key[0]].version) for key in wanted.items()], also())
            last[1] += 1
            if seen != last[0] or last[1] >= _MIN_EVERY:
                last[:] = [seen, 0]
                self._warn(page, answers)
                show(answers)

        ui.timer(_LOOK_SECONDS, look)

    def calm(self) -> None:
        """No banner."""
        if hasattr(self, "_banner"):
            self._banner.set_visibility(False)

    def _warn(self, page: ui.element, answers: Answers) -> None:
        """A banner if reporting is away or refuses the key; numbers from before turn grey."""
        troubles = [answer.trouble for answer in answers.values() if answer.trouble is not None]
        away = next((one for one in troubles if isinstance(one, Away)), None)
        barred = next(
            (one for one in troubles if isinstance(one, Refused) and one.status == 401), None
        )
        page.classes(add="k-stale" if away else "", remove="" if away else "k-stale")
        self._banner.set_visibility(away is not None or barred is not None)
        self._banner.classes(add="k-bad" if barred else "", remove="" if barred else "k-bad")
        if away is not None:
            old = any(answer.document is not None for answer in answers.values() if answer.stale)
            shown = "What you see is the last that it said. " if old else ""
            self._says.tell(f"Reporting does not answer: {away}. {shown}Trying again by itself.")
        elif barred is not None:
            self._says.tell(f"Reporting does not let the console in: {barred}.")
