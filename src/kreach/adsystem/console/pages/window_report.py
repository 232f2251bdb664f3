"""Reach over time, and a report of any window that is dragged on the chart or typed in."""

from datetime import UTC, datetime, timedelta
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from kreach.adsystem.console import charts
from kreach.adsystem.console.client import Question, Refused, of_campaign
from kreach.adsystem.console.form_fields import local_text
from kreach.adsystem.console.formatting import (
    between,
    count,
    level,
    moment,
    moment_of,
    money,
    plural,
    utc_text,
)
from kreach.adsystem.console.layout import Answers, Frame
from kreach.adsystem.console.status import line_of, why_not
from kreach.adsystem.console.tables import curve_rows, report_rows
from kreach.adsystem.console.widgets import (
    Chart,
    Notes,
    Table,
    Text,
    box,
    button,
    card,
    csv_button,
)

__all__ = ["WindowPanel"]

_BY_HOUR = timedelta(days=14)  # of a flight; after that, days are many enough
_AUTO = "auto"
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)


def _snapped(millis: float, unit: timedelta, *, up: bool) -> datetime:
    """A time on the chart, moved to a whole minute or hour."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    passed = timedelta(milliseconds=millis)
    return epoch + unit * (-(-passed // unit) if up else passed // unit)


class WindowPanel:
    """The card with the chart; `wanted` and `show` are called by the page."""

    def __init__(self, frame: Frame, name: str) -> None:
        self._frame, self._console, self._name = frame, frame.console, name
        self._by = _AUTO
        self._cap: int | None = None
        self._window: tuple[str, str] | None = None
        self._curve: dict[str, Any] = {}
        self._so_far: dict[str, Any] = {}
        self._report: dict[str, Any] = {}
        with card(name="over time"):
            with box("k-row k-between"):
                with box("k-title"):
                    Text("Reach over time", "h2")
                    self._meaning = Text("", "p", "k-sub")
                with box("k-row"):
                    self._caps = ui.select([1], value=1, on_change=self._pick_cap)
                    self._caps.props("outlined dense").props["aria-label"] = "Frequency cap"
                    self._periods = ui.toggle(
                        {_AUTO: "auto", "hour": "hours", "day": "days"},
                        value=_AUTO,
                        on_change=self._pick_period,
                    ).props("no-caps unelevated dense padding='4px 12px'")
                    csv_button("reach over time", lambda: curve_rows(self._curve))
            with box("k-live"):
                self.chart = Chart("Reach so far, with its band, over time", name="over time")
            self._notes = Notes()
            self._controls()
            with box("k-live") as self._found:
                self._title = Text("", "h3", name="window title")
                self._facts = Text("", "p", "k-sub", name="window facts")
                heads = ["cap", "reach", "interval", "people above the cap"]
                self._table = Table(heads, numeric=(0, 1, 2, 3), name="window report")
            self._found.set_visibility(False)
        self.chart.element.on("chart:brushEnd", self._dragged, ["areas"])
        ui.timer(0.6, self._allow_dragging, once=True)

    def _controls(self) -> None:
        with box("k-row"):
            self._start = ui.input("Window from (UTC)").props(
                "outlined dense stack-label type=datetime-local"
            )
            self._end = ui.input("to (UTC)").props("outlined dense stack-label type=datetime-local")
            for one, name in ((self._start, "window start"), (self._end, "window end")):
                one.props["data-name"] = name
                one.without_auto_validation()
                one.on("keydown.enter", self._typed)
            button("Report this window", self._typed)
            self._clear = button("Whole flight", self._forget)
            self._clear.set_visibility(False)
            self._allowed = box("k-row")
            csv_button("window report", lambda: report_rows(self._report))
        Text("Or drag across the chart.", "p", "k-sub gt-sm")

    def _allow_dragging(self) -> None:
        ui.run_javascript(f"kreach.brush(getElement({self.chart.element.id}))")

    # -- what the reader chooses --------------------------------------------------------------

    @property
    def view(self) -> tuple[Any, ...]:
        """What was chosen: another choice shows another chart."""
        return (self._by, self._cap, self._window)

    def _pick_cap(self, event: Any) -> None:
        self._cap = event.value

    def _pick_period(self, event: Any) -> None:
        self._by = event.value

    def _dragged(self, event: GenericEventArguments) -> None:
        areas = event.args.get("areas") or []
        self.chart.element.run_chart_method("dispatchAction", {"type": "brush", "areas": []})
        if not areas or len(areas[0].get("coordRange") or []) != 2:
            return
        low, high = (float(end) for end in areas[0]["coordRange"])
        unit = _HOUR if timedelta(milliseconds=high - low) >= 3 * _HOUR else _MINUTE
        start, end = _snapped(low, unit, up=False), _snapped(high, unit, up=True)
        self._start.value, self._end.value = local_text(start), local_text(end)
        self._choose(utc_text(start), utc_text(end))

    def _typed(self) -> None:
        for one in (self._start, self._end):
            one.error = None if one.value else "choose a time"
        if self._start.value and self._end.value:
            self._choose(f"{self._start.value}:00Z", f"{self._end.value}:00Z")

    def _choose(self, start: str, end: str) -> None:
        self._window = (start, end)
        self._end.error = self._start.error = None
        self._clear.set_visibility(True)

    def _take(self, name: str, text: str) -> None:
        """A time that reporting offers instead of one that it withholds."""
        if self._window is not None:
            start, end = self._window
            self._choose(*((text, end) if name == "start" else (start, text)))
            at = self._start if name == "start" else self._end
            at.value = local_text(moment_of(text))

    def _forget(self) -> None:
        self._window = None
        self._start.value = self._end.value = ""
        self._clear.set_visibility(False)
        self._found.set_visibility(False)
        self._allowed.clear()
        self._end.error = self._start.error = None

    # -- what is asked and shown --------------------------------------------------------------

    def wanted(self, campaign: dict[str, Any] | None) -> dict[str, Question]:
        """The curve, and the report of the window if one is chosen."""
        if campaign is None or self._cap is None:
            return {}
        asked = (("by", self._period(campaign)), ("cap", self._cap))
        found = {"curve": of_campaign(self._name, "curve", *asked)}
        if self._window is not None:
            caps = sorted({1, 2, 3, 4, 5, *(one["limit"] for one in campaign["caps"])})
            ends = (("start", self._window[0]), ("end", self._window[1]))
            each = (("cap", cap) for cap in caps[:10])
            found["window"] = of_campaign(self._name, "reach", *ends, *each)
        return found

    def show(self, campaign: dict[str, Any], answers: Answers) -> None:
        """Draw the chart and the report of the window."""
        if self._cap is None:
            self._begin(campaign)
        if "curve" in answers:
            self._curve = answers["curve"].document or {}
            self._so_far = answers["reach"].document or {}
            trouble = answers["curve"].trouble
            said = str(trouble) if isinstance(trouble, Refused) else None
            if not answers["curve"].version:
                said = "Waiting for reporting."
            self._notes.tell(said, why_not(self._curve))
            self._draw(campaign)
        if "window" in answers:
            self._show_window(answers)

    def _begin(self, campaign: dict[str, Any]) -> None:
        """The choice that fits this campaign."""
        limits = [one["limit"] for one in campaign["caps"]]
        self._cap = max(limits)
        options = {cap: f"cap {cap}" for cap in sorted({1, 2, 3, 4, 5, *limits})}
        self._caps.set_options(options, value=self._cap)

    def _period(self, campaign: dict[str, Any]) -> str:
        if self._by != _AUTO:
            return self._by
        passed = self._console.now() - moment_of(campaign["start"])
        return "hour" if passed <= _BY_HOUR else "day"

    def _points(self, campaign: dict[str, Any]) -> list[tuple[str, float, float, float]]:
        """Where the line goes through: the cap is that of the curve."""
        if not self._curve:
            return []
        last = min(self._console.now(), moment_of(campaign["end"]))
        return line_of(campaign["start"], last, self._curve["points"], self._so_far, self._cap)

    def _draw(self, campaign: dict[str, Any]) -> None:
        unit = "people" if self._cap == 1 else "impressions within the cap"
        at = next((one["level"] for one in self._so_far.get("reports", [])), None)
        truth = self._console.truth.found
        known = None
        if truth is not None:
            known = [
                (ts, here[self._name][self._cap - 1])
                for ts, here in truth["series"]
                if self._name in here and self._cap and self._cap <= len(here[self._name])
            ]
        band = f" The band holds the true number with {level(at)} probability." if at else ""
        beside = " Dashed: the truth, which only the simulation knows." if known else ""
        people = (
            "People reached so far."
            if self._cap == 1
            else (f"Impressions that count so far, at most {self._cap} a person.")
        )
        self._meaning.tell(people + band + beside)
        flight = (campaign["start"], campaign["end"])
        points = self._points(campaign)
        self.chart.tell(charts.cumulative(points, known, flight, unit, self._window))

    def _show_window(self, answers: Answers) -> None:
        answer = answers["window"]
        if isinstance(answer.trouble, Refused):
            self._refuse(answer.trouble)
            return
        if answer.document is None:
            return
        self._allowed.clear()
        self._report = report = answer.document
        self._found.set_visibility(True)
        self._title.tell(f"{moment(report['start'])} to {moment(report['end'])}")
        reports = report["reports"]
        facts = [plural(report["impressions"], "impression")] if report["impressions"] else []
        if report["impressions"] == 0:
            facts = ["no impressions"]
        if reports:
            unique = reports[0]
            ends = between(unique["unique_reach_interval"])
            facts.append(f"{count(unique['unique_reach'])} people reached ({ends})")
        facts.append(f"{money(report['spend'], report['currency'])} spent")
        self._facts.tell(", ".join(facts) + ". " + (why_not(report) or ""))
        self._table.tell(
            [
                (
                    str(one["cap"]),
                    count(one["reach"]),
                    between(one["interval"]),
                    count(one["over_exposed"]),
                )
                for one in reports
            ]
        )

    def _refuse(self, refused: Refused) -> None:
        """Say at the field what is wrong, and offer what is allowed instead."""
        message = str(refused)
        field = self._start if message.startswith("start") else self._end
        field.error = message
        self._found.set_visibility(False)
        self._allowed.clear()
        with self._allowed:
            for name, chosen in zip(("start", "end"), self._window or ("", ""), strict=True):
                for text in refused.allowed.get(name, []):
                    if text == chosen:
                        continue
                    words = f"{'from' if name == 'start' else 'to'} {moment(text)}"
                    button(words, lambda name=name, text=text: self._take(name, text))
