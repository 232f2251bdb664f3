"""All campaigns: how each stands, and what can be done with it."""

from typing import Any

from nicegui import ui

from kreach.adsystem.console import forms
from kreach.adsystem.console.client import Question, of_campaign
from kreach.adsystem.console.formatting import (
    between,
    cap_words,
    count,
    decimal,
    flight_words,
    interval,
    moment_of,
    money,
    percent,
    phase,
)
from kreach.adsystem.console.layout import Answers, Frame
from kreach.adsystem.console.state import LIST
from kreach.adsystem.console.status import how_told, pace_of, standing_of, state_of, why_not
from kreach.adsystem.console.tables import Row
from kreach.adsystem.console.widgets import (
    Meter,
    Notes,
    Text,
    box,
    button,
    csv_button,
    empty,
    heading,
    icon_button,
    skeleton,
)

__all__ = ["campaigns_page"]

_AT_ONCE = 10  # campaigns on a page: each is asked for by itself


class _Line:
    """One campaign."""

    def __init__(self, frame: Frame, name: str) -> None:
        self._console, self._name = frame.console, name
        self.row: Row = {}
        self._document: dict[str, Any] = {}
        with box("k-campaign", "article", f"campaign {name}") as self.element:
            with box("k-cell k-wide"):
                ui.link(name, f"/campaign/{name}")
                with box("k-row").style("gap: .4rem"):
                    self._state = Text("", "span", "k-chip", name="state")
                    self._phase = Text("", "span", "k-sub")
                self._flight = Text("", classes="k-sub")
                self._caps = Text("", classes="k-sub")
            with box("k-cell k-wide", name="budget"):
                Text("Budget", classes="k-name")
                self._spent = Text("", classes="k-value")
                self._meter = Meter()
                self._pace = Text("", classes="k-sub")
            self._people = self._cell("People reached")
            self._reach = self._cell("Capped reach")
            self._frequency = self._cell("Frequency")
            self._over = self._cell("Over-exposed")
            with box("k-actions k-wide"):
                self._pause = icon_button("pause", f"Pause {name}", self._toggle)
                self._edit = icon_button("edit", f"Change {name}", self._change)
                self._end = icon_button("stop_circle", f"End {name}", self._ask)
            self._notes = Notes("k-wide k-all")

    def _cell(self, name: str) -> tuple[Text, Text, Text]:
        with box("k-cell", name=name):
            Text(name, classes="k-name")
            value = Text("…", classes="k-value")
            return value, Text("", classes="k-sub"), Text("", classes="k-sub")

    async def _toggle(self) -> None:
        running = self._document.get("state") == "running"
        await forms.change_state(self._console, self._name, "paused" if running else "running")

    def _change(self) -> None:
        forms.edit_campaign(self._console, self._document)

    def _ask(self) -> None:
        forms.ask_to_end(self._console, self._name)

    def show(self, campaign: dict[str, Any], reach: dict[str, Any] | None, loaded: bool) -> None:
        """Write the numbers; until they are there, dots."""
        self._document = campaign
        now = self._console.now()
        state = state_of(campaign, now)
        self._state.tell(state)
        self._state.classes(replace=f"k-chip k-{state}")
        start, end = moment_of(campaign["start"]), moment_of(campaign["end"])
        self._phase.tell(phase(start, end, now))
        caps = " and ".join(cap_words(cap) for cap in campaign["caps"])
        self._flight.tell(flight_words(start, end))
        self._caps.tell(caps)
        self._show_money(campaign, (reach or {}).get("currency", ""))
        self._show_reach(campaign, reach, loaded)
        ended = campaign["state"] == "ended"
        for one in (self._pause, self._edit, self._end):
            one.set_enabled(not ended)
        paused = campaign["state"] == "paused"
        self._pause.props["icon"] = "play_arrow" if paused else "pause"
        says = f"{'Resume' if paused else 'Pause'} {self._name}"
        self._pause.props["title"] = self._pause.props["aria-label"] = says
        self._notes.tell(how_told(campaign["status"]), why_not(campaign["status"]))

    def _show_money(self, campaign: dict[str, Any], currency: str) -> None:
        pace = pace_of(campaign, self._console.now())
        spent = money(campaign["status"]["spend"], "")
        self._spent.tell(f"{spent} of {money(campaign['budget'], currency)}")
        self._meter.tell(pace.share, pace.even_share, f"{percent(pace.share)} spent, {pace.words}")
        self._pace.tell(pace.words)

    def _show_reach(
        self, campaign: dict[str, Any], reach: dict[str, Any] | None, loaded: bool
    ) -> None:
        if not loaded:
            return
        found = standing_of(campaign, reach)
        told = found.unique is not None
        often = between(found.average_frequency_interval, decimal)
        cells = (
            (
                self._people,
                count(found.unique),
                interval(found.unique_interval, found.level),
                f"{percent(found.share)} of {count(found.people)}",
            ),
            (
                self._reach,
                count(found.reach),
                interval(found.reach_interval, found.level),
                f"at most {found.cap} a person count",
            ),
            (self._frequency, decimal(found.average_frequency), often, "times a person reached"),
            (
                self._over,
                count(found.over_exposed),
                f"people above the cap of {found.cap}",
                f"{percent(found.over_share)} of all",
            ),
        )
        for texts, value, *below in cells:
            texts[0].tell(value)
            for text, words in zip(texts[1:], below, strict=True):
                text.tell(words if told else "")
        self.row = _row(campaign, reach)


def _row(campaign: dict[str, Any], reach: dict[str, Any] | None) -> Row:
    """A campaign as a line of CSV."""
    found, status = standing_of(campaign, reach), campaign["status"]
    low, high = found.unique_interval or (None, None)
    reach_low, reach_high = found.reach_interval or (None, None)
    return {
        "campaign": campaign["id"],
        "state": campaign["state"],
        "start": campaign["start"],
        "end": campaign["end"],
        "budget": campaign["budget"],
        "spend": status["spend"],
        "currency": (reach or {}).get("currency"),
        "impressions": status["impressions"],
        "people": found.people,
        "unique_reach": found.unique,
        "unique_reach_low": low,
        "unique_reach_high": high,
        "cap": found.cap,
        "reach": found.reach,
        "reach_low": reach_low,
        "reach_high": reach_high,
        "level": found.level,
        "average_frequency": found.average_frequency,
        "over_exposed": found.over_exposed,
    }


class _Listing:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._lines: dict[str, _Line] = {}
        self._shown: list[dict[str, Any]] = []
        self._at = 0
        with box("k-page") as page:
            with heading(
                "Campaigns",
                "What each campaign reached, as far as anybody can tell who knows groups only. "
                "Intervals say where the true number lies; marks on the bars, where even spending "
                "would be.",
            ):
                csv_button("campaigns", lambda: [line.row for line in self._lines.values()])
                style = "k-primary"
                button("New campaign", self._new, style=style, icon="add")
            with box("k-row") as self._filters:
                self._search = ui.input(placeholder="Search by name").props(
                    "outlined dense clearable debounce=200 aria-label='Search by name'"
                )
                states = ["all states", "running", "paused", "scheduled", "over", "ended"]
                self._states = ui.select(states, value=states[0]).props("outlined dense")
                self._states.props["aria-label"] = "State"
            self._filters.set_visibility(False)
            self._loading = skeleton(4)
            self._list = box("k-list k-live", name="campaigns")
            self._nothing = box("k-card")
            self._nothing.set_visibility(False)
            with box("k-row k-between") as self._pages:
                button("Previous", lambda: self._turn(-1), icon="chevron_left")
                self._where = Text("", "span", "k-sub")
                button("Next", lambda: self._turn(1), icon="chevron_right")
            self._pages.set_visibility(False)
        with page:
            frame.watch(page, self._wanted, self._show, lambda: self._view)

    @property
    def _view(self) -> tuple[Any, ...]:
        return (self._at, self._search.value, self._states.value)

    async def _new(self) -> None:
        await forms.new_campaign(self._frame.console)

    def _turn(self, step: int) -> None:
        self._at = max(self._at + step, 0)

    def _wanted(self) -> dict[str, Question]:
        """The list, and a report for each campaign that is shown."""
        wanted = {"list": LIST}
        for one in self._shown:
            caps = sorted({1, *(cap["limit"] for cap in one["caps"])})
            wanted[one["id"]] = of_campaign(one["id"], "reach", *(("cap", cap) for cap in caps))
        return wanted

    def _chosen(self, campaigns: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that the filters let through, the newest first."""
        text = (self._search.value or "").strip().lower()
        wanted, now = self._states.value, self._frame.console.now()
        return [
            one
            for one in reversed(campaigns)
            if text in one["id"].lower()
            and (wanted == "all states" or state_of(one, now) == wanted)
        ]

    def _show(self, answers: Answers) -> None:
        listed = answers["list"]
        if listed.document is None:
            if listed.trouble is not None:
                self._loading.set_visibility(False)
                self._say("cloud_off", "Nothing to show yet", f"Reporting: {listed.trouble}")
            return
        self._loading.set_visibility(False)
        campaigns = listed.document["campaigns"]
        chosen = self._chosen(campaigns)
        pages = max(-(-len(chosen) // _AT_ONCE), 1)
        self._at = min(self._at, pages - 1)
        self._shown = chosen[self._at * _AT_ONCE :][:_AT_ONCE]
        self._filters.set_visibility(len(campaigns) > 1)
        self._pages.set_visibility(pages > 1)
        more = ", the first 1,000 that were made" if listed.document["next"] else ""
        self._where.tell(f"page {self._at + 1} of {pages}, {count(len(chosen))} campaigns{more}")
        self._nothing.set_visibility(not chosen)
        if not campaigns:
            self._say("campaign", "No campaigns yet", "Create one to see what it reaches.")
        elif not chosen:
            self._say("search_off", "No campaign fits", "Change the search or the state.")
        self._draw(answers)

    def _say(self, icon: str, title: str, says: str) -> None:
        self._nothing.clear()
        with self._nothing:
            empty(icon, title, says)
        self._nothing.set_visibility(True)

    def _draw(self, answers: Answers) -> None:
        names = [one["id"] for one in self._shown]
        if names != list(self._lines):
            self._list.clear()
            with self._list:
                self._lines = {name: _Line(self._frame, name) for name in names}
        for one in self._shown:
            answer = answers.get(one["id"])
            loaded = answer is not None and bool(answer.version)
            document = None if answer is None else answer.document
            self._lines[one["id"]].show(one, document, loaded)


def campaigns_page(frame: Frame) -> None:
    """Build it."""
    _Listing(frame)
