"""One campaign: reach over time and in any window, by cap, by frequency, and how the money goes."""

from typing import Any

from nicegui import ui

from kreach.adsystem.console import charts, forms
from kreach.adsystem.console.client import Question, Refused, of_campaign
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
    plural,
)
from kreach.adsystem.console.layout import Answers, Frame
from kreach.adsystem.console.pages.window_report import WindowPanel
from kreach.adsystem.console.status import (
    Standing,
    how_told,
    pace_of,
    standing_of,
    state_of,
    why_not,
)
from kreach.adsystem.console.tables import frequency_rows, report_rows
from kreach.adsystem.console.widgets import (
    Chart,
    Notes,
    Table,
    Text,
    Tile,
    box,
    button,
    card,
    csv_button,
    empty,
    skeleton,
)

__all__ = ["campaign_page"]

_CAPS = (1, 2, 3, 4, 5)
_POINTS = 400
_TILES = (
    "Spent",
    "People reached",
    "Capped reach",
    "Average frequency",
    "Over-exposed",
    "Bids won",
)


class _Campaign:
    """The page."""

    def __init__(self, frame: Frame, name: str) -> None:
        self._frame, self._console, self._name = frame, frame.console, name
        self._campaign: dict[str, Any] | None = None
        self._reach: dict[str, Any] = {}
        self._pacing: dict[str, Any] = {}
        with box("k-page") as self._page:
            self._head()
            self._loading = skeleton(4)
            self._missing = box("k-card")
            self._missing.set_visibility(False)
            with box("k-live").style("display: contents") as self._body:
                self._notes = Notes()
                with box("k-tiles k-live"):
                    self._tiles = {title: Tile(title) for title in _TILES}
                self._window = WindowPanel(frame, name)
                with box("k-grid k-live"):
                    self._reach_cards()
                    self._money_cards()
            self._body.set_visibility(False)
        frame.follow_theme(self._window.chart, self._caps, self._often, self._spend, self._bids)
        with self._page:
            frame.watch(self._page, self._wanted, self._show, self._also)

    def _head(self) -> None:
        with box("k-top"):
            with box("k-title"):
                ui.link("Campaigns", "/").classes("k-sub")
                Text(self._name, "h1", name="title")
                with box("k-row").style("gap: .6rem; flex-wrap: nowrap; align-items: baseline"):
                    self._state = Text("", "span", "k-chip", name="state")
                    self._phase = Text("", "span", "k-sub")
            with box("k-row") as self._buttons:
                self._pause = button("Pause", self._toggle, icon="pause")
                change = lambda: forms.edit_campaign(self._console, self._campaign or {})  # noqa: E731
                button("Change", change, icon="edit")
                end = lambda: forms.ask_to_end(self._console, self._name)  # noqa: E731
                button("End", end, icon="stop_circle")
            self._buttons.set_visibility(False)

    def _reach_cards(self) -> None:
        with card(
            "Reach by cap",
            "Impressions that count if each person counts at most so often: at cap 1 these are "
            "people. Whiskers show where the true number lies.",
        ):
            self._caps = Chart("Reach at caps from one to five", "k-chart k-short", "by cap")
            heads = ["cap", "reach", "interval", "above the cap"]
            self._by_cap = Table(heads, numeric=(1, 2, 3), name="by cap")
            self._basis = Text("", "p", "k-sub")
            with box("k-row").style("justify-content: flex-end; margin-top: auto"):
                csv_button("reach by cap", lambda: report_rows(self._reach))
        with card(
            "How often people saw it",
            "Expected number of people by the number of times they saw the ad. Those above the "
            "cap are over-exposed; who they are, nobody on this side knows.",
        ):
            self._often = Chart("People by times seen", "k-chart k-short", "frequency")
            heads = ["at least", "people", "interval"]
            self._at_least = Table(heads, numeric=(1, 2), name="at least")
            with box("k-row").style("justify-content: flex-end"):
                csv_button("frequency", lambda: frequency_rows(self._reach))

    def _money_cards(self) -> None:
        with card(
            "Spend",
            "Money spent so far, beside the line of a budget that is spent evenly. The bidder need "
            "not keep to that line: it spends where reach is cheapest.",
        ):
            self._spend = Chart("Spend over time", "k-chart k-short", "spend")
            with box("k-row").style("justify-content: flex-end"):
                csv_button("pacing", lambda: self._pacing.get("pacing", []))
        with card(
            "Multiplier and wins",
            "The multiplier is the reach that one unit of money must bring: the higher, the "
            "pickier the bidder. Wins are the share of bids so far that won.",
        ):
            self._bids = Chart("Multiplier and share of bids won", "k-chart k-short", "multiplier")
            self._bid_notes = Notes()

    # -- what is asked ------------------------------------------------------------------------

    def _wanted(self) -> dict[str, Question]:
        caps = list(_CAPS)
        if self._campaign is not None:
            caps += [one["limit"] for one in self._campaign["caps"]]
        each = [("cap", cap) for cap in sorted(set(caps))[:10]]
        return {
            "status": of_campaign(self._name),
            "reach": of_campaign(self._name, "reach", *each),
            "pacing": of_campaign(self._name, "pacing", ("points", _POINTS)),
            **self._window.wanted(self._campaign),
        }

    def _also(self) -> tuple[Any, ...]:
        return (self._console.truth.version, self._window.view)

    async def _toggle(self) -> None:
        running = (self._campaign or {}).get("state") == "running"
        await forms.change_state(self._console, self._name, "paused" if running else "running")

    # -- what is shown ------------------------------------------------------------------------

    def _show(self, answers: Answers) -> None:
        status = answers["status"]
        if status.document is None:
            if status.trouble is not None:
                self._say_missing(status.trouble)
            return
        self._loading.set_visibility(False)
        self._missing.set_visibility(False)
        self._body.set_visibility(True)
        self._buttons.set_visibility(status.document["state"] != "ended")
        self._campaign = status.document
        self._reach = answers["reach"].document or {}
        self._pacing = answers["pacing"].document or {}
        self._show_head(status.document)
        refused = answers["reach"].trouble
        said = str(refused) if isinstance(refused, Refused) else None
        told = status.document["status"]
        self._notes.tell(how_told(told), why_not(told), said)
        found = standing_of(status.document, self._reach)
        if answers["reach"].version:  # before that there are dots
            self._show_tiles(status.document, found)
        self._window.show(status.document, answers)
        self._show_reach(found)
        self._show_money(status.document)

    def _say_missing(self, trouble: Exception) -> None:
        self._loading.set_visibility(False)
        self._missing.clear()
        with self._missing:
            gone = isinstance(trouble, Refused) and trouble.status == 404
            title = "There is no such campaign" if gone else "Nothing to show yet"
            empty("search_off" if gone else "cloud_off", title, str(trouble))
        self._missing.set_visibility(True)

    def _show_head(self, campaign: dict[str, Any]) -> None:
        now = self._console.now()
        state = state_of(campaign, now)
        self._state.tell(state)
        self._state.classes(replace=f"k-chip k-{state}")
        start, end = moment_of(campaign["start"]), moment_of(campaign["end"])
        caps = " and ".join(cap_words(cap) for cap in campaign["caps"])
        words = (phase(start, end, now), flight_words(start, end), caps, campaign["audience"])
        self._phase.tell(" · ".join(words))
        paused = campaign["state"] == "paused"
        self._pause.set_text("Resume" if paused else "Pause")
        self._pause.props["icon"] = "play_arrow" if paused else "pause"

    def _show_tiles(self, campaign: dict[str, Any], found: Standing) -> None:
        currency = self._reach.get("currency", "")
        status, told = campaign["status"], found.unique is not None
        spent = money(status["spend"], currency)
        pace = pace_of(campaign, self._console.now())
        budget = money(campaign["budget"], currency)
        tell = {title: tile.tell for title, tile in self._tiles.items()}
        tell["Spent"](spent.replace("\u00a0", " "), f"of {budget}, {pace.words}")
        share = f"{percent(found.share)} of {count(found.people)} people"
        unique = interval(found.unique_interval, found.level)
        tell["People reached"](count(found.unique), f"{unique}, {share}" if told else "")
        ends = interval(found.reach_interval, found.level)
        shown = plural(status["impressions"], "impression") if status["impressions"] else ""
        below = f"{ends}, cap {found.cap}, of {shown}" if told and shown else f"cap {found.cap}"
        tell["Capped reach"](count(found.reach), below)
        often = between(found.average_frequency_interval, decimal)
        below = f"{often} times a person reached" if told else ""
        tell["Average frequency"](decimal(found.average_frequency), below)
        over = f"people saw it more than {plural(found.cap, 'time')}, {percent(found.over_share)}"
        tell["Over-exposed"](count(found.over_exposed), over if told else "")
        pace_now = status["pace"] or {}
        won, bids = pace_now.get("wins"), pace_now.get("bids")
        below = "" if bids is None else f"{count(won)} of {plural(bids, 'bid')}"
        tell["Bids won"](percent(pace_now.get("win_rate")), below)

    def _show_reach(self, found: Standing) -> None:
        reports = self._reach.get("reports") or []
        truth = None
        if self._console.truth.found is not None:
            series = self._console.truth.found["series"]
            truth = next((p[self._name] for _, p in reversed(series) if self._name in p), None)
        shown = [one for one in reports if one["cap"] in _CAPS]
        self._caps.tell(charts.by_cap(shown, truth))
        self._by_cap.tell(
            [
                (
                    str(one["cap"]),
                    count(one["reach"]),
                    between(one["interval"]),
                    f"{count(one['over_exposed'])} people",
                )
                for one in shown
            ]
        )
        self._basis.tell(f"Basis: {self._reach['basis']}." if self._reach.get("basis") else "")
        if not reports:
            return
        first = reports[0]
        self._often.tell(charts.frequencies(first["frequency"], found.cap))
        self._at_least.tell(
            [
                (f"{times}+ times", count(people), between(ends))
                for times, (people, ends) in enumerate(
                    zip(first["at_least"][:5], first["at_least_intervals"][:5], strict=True), 1
                )
            ]
        )

    def _show_money(self, campaign: dict[str, Any]) -> None:
        rows = self._pacing.get("pacing", [])
        currency = self._reach.get("currency", "")
        flight = (campaign["start"], campaign["end"])
        spent = [(row["ts"], row["spent_micros"] / 1e6) for row in rows]
        self._spend.tell(charts.spend(spent, campaign["budget"], flight, currency))
        told = [(row["ts"], row["multiplier"], row["win_rate"]) for row in rows]
        self._bids.tell(charts.multiplier(told, flight, currency))
        self._bid_notes.tell(why_not(self._pacing))


def campaign_page(frame: Frame, name: str) -> None:
    """Build it."""
    _Campaign(frame, name)
