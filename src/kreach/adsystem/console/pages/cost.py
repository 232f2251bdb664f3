"""What anonymity costs: the study that `kreach tradeoff` made on the publisher's own logs."""

from typing import Any

from nicegui import ui

from kreach.adsystem.console import charts
from kreach.adsystem.console.formatting import count, percent
from kreach.adsystem.console.input_files import NOT_YET
from kreach.adsystem.console.layout import Answers, Frame
from kreach.adsystem.console.tables import Row
from kreach.adsystem.console.widgets import (
    Chart,
    Table,
    Text,
    box,
    card,
    csv_button,
    empty,
    heading,
    skeleton,
)

__all__ = ["cost_page"]

_COMMAND = (
    "kreach tradeoff --visits visits.parquet --prices prices.csv "
    "--group-sizes 1,2,5,20,50 --out tradeoff/"
)
_NAMES = {
    "uniform": "the paper's bidder or estimator: everybody visits equally often",
    "planning_recency": "a bidder that plans ahead and remembers who was shown lately",
    "dispersed": "an estimator that knows how unevenly people visit",
    "counted": "an estimator that counts over the visits of a history",
}


class _Cost:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._handed = frame.console.tradeoff
        self._found: dict[str, Any] = {}
        with box("k-page") as page:
            with heading(
                "What does anonymity cost?",
                "The larger the groups, the less anybody can learn about a person, and the less "
                "an ad system can aim. A study on a publisher's own logs puts numbers on it.",
            ):
                csv_button("tradeoff", self._rows)
            self._empty = box("k-card", name="no study")
            self._loading = skeleton(3)
            with box().style("display: contents") as self._body:
                self._cards()
        self._body.set_visibility(False)
        self._empty.set_visibility(False)
        frame.follow_theme(self._reach, self._error)
        with page:
            frame.watch(page, dict, self._show, lambda: self._handed.version)

    def _cards(self) -> None:
        with card("In short", name="advice"):
            self._advice = box("k-list", "ul")
            self._setting = Text("", "p", "k-sub")
        with box("k-row"):
            Text("Groups are formed by", "span", "k-sub")
            self._ways = ui.toggle([], on_change=self._draw)
            self._ways.props("no-caps unelevated dense padding='4px 12px'")
        with box("k-grid"):
            with card(
                "Reach at equal budget",
                "Reach in groups of k people, as a share of what is reached when each person is "
                "known (k = 1, the paper's bidder). A drop is what anonymity costs.",
            ):
                self._reach = Chart("Reach at equal budget against k", name="cost of reach")
            with card(
                "Error of measured reach",
                "How far measured unique reach is from the truth. Near zero: reach can be "
                "measured in groups, whatever their size.",
            ):
                self._error = Chart("Error of measured reach against k", name="error of reach")
        with card("Numbers", "Mean over campaigns, with the lowest and the highest of them."):
            heads = ["what", "approach", "k", "mean", "lowest", "highest"]
            self._table = Table(heads, numeric=(2, 3, 4, 5), name="tradeoff")
            for name, says in _NAMES.items():
                Text(f"{name.replace('_', ' ')}: {says}.", "p", "k-sub")

    def _show(self, _: Answers) -> None:
        handed = self._handed
        self._loading.set_visibility(False)
        if handed.found is None:
            self._say_empty()
            return
        self._found = handed.found
        self._empty.set_visibility(False)
        self._body.set_visibility(True)
        self._advice.clear()
        with self._advice:
            for line in self._found["advice"]:
                Text(line, "li")
        setting = self._found["setting"]
        told = [f"{name.replace('_', ' ')}: {value}" for name, value in setting.items()]
        self._setting.tell("Setting: " + ", ".join(told) + ".")
        ways = list(self._found["relative_reach"])
        if ways != self._ways.options:
            self._ways.set_options(ways, value=ways[0] if ways else None)
        self._draw()

    def _draw(self) -> None:
        """The curves of one way of forming groups."""
        way = self._ways.value
        reach, error = (
            self._found.get(title, {}).get(way, {})
            for title in ("relative_reach", "measurement_error")
        )
        self._reach.tell(charts.against_k(reach, "% of reach at k = 1"))
        self._error.tell(charts.against_k(error, "error (%)"))
        self._table.tell(
            [
                (
                    *(row[name] for name in ("what", "approach")),
                    count(row["k"]),
                    *(percent(row[end]) for end in ("mean", "low", "high")),
                )
                for row in self._rows()
                if row["groups"] == way
            ]
        )

    def _say_empty(self) -> None:
        self._body.set_visibility(False)
        self._empty.clear()
        with self._empty:
            if self._handed.trouble == NOT_YET:
                says = "A study takes some minutes. It is shown here as soon as it is there."
                empty("hourglass_empty", "The study is not there yet", says)
            elif self._handed.trouble is not None:
                empty("error_outline", "The study cannot be shown", self._handed.trouble)
            else:
                empty(
                    "balance",
                    "No study yet",
                    "A publisher can make one from a log of visits and one of prices, and hand "
                    "over its folder; the setting tradeoff names it. The command is:",
                    _COMMAND,
                )
        self._empty.set_visibility(True)

    def _rows(self) -> list[Row]:
        words = {"relative_reach": "reach at equal budget", "measurement_error": "error of reach"}
        return [
            {
                "what": words[title],
                "groups": strategy,
                "approach": approach.replace("_", " "),
                "k": size,
                "mean": band[0],
                "low": band[1],
                "high": band[2],
            }
            for title in words
            for strategy, approaches in self._found.get(title, {}).items()
            for approach, by_size in approaches.items()
            for size, band in by_size.items()
        ]


def cost_page(frame: Frame) -> None:
    """Build it."""
    _Cost(frame)
