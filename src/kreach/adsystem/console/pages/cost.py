"""What anonymity costs: the study that `kreach tradeoff` made on a publisher's logs."""

from nicegui import ui

from kreach.adsystem.console import charts
from kreach.adsystem.console.formatting import count, percent
from kreach.adsystem.console.input_files import MISSING, Tradeoff
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.tables import Row
from kreach.adsystem.console.widgets import (
    Chart,
    Panel,
    Table,
    Text,
    box,
    card,
    csv_button,
    heading,
    png_button,
    sentence,
)

__all__ = ["cost_page"]

_COMMAND = (
    "kreach tradeoff --visits visits.parquet --prices prices.csv "
    "--group-sizes 1,2,5,20,50 --out tradeoff/"
)
_APPROACHES = {
    "uniform": "the paper's bidder or estimator: everybody visits equally often",
    "planning_visitors": "a bidder that plans ahead and follows visitors within their sessions",
    "dispersed": "an estimator that knows how unevenly people visit",
    "model": "effective draws with the site's visit model",
}


class _CostPage:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._file = frame, frame.console.tradeoff
        with box("k-page") as page:
            with heading(
                "Cost of anonymity",
                "Larger groups reveal less about a person and make an ad system less precise. A "
                "study on a publisher's own logs measures the difference.",
            ):
                csv_button("tradeoff", self._rows, self._about)
            self._panel = Panel("no study")
            with self._panel.content:
                self._add_cards()
            frame.follow_theme(self._reach, self._error)
            frame.watch(page, list, self._show, lambda: self._file.version)

    def _add_cards(self) -> None:
        with card("Summary", name="advice"):
            self._advice = box("k-list", "ul")
            self._setting = Text("", "p", "k-sub")
        with box("k-row"):
            Text("Grouping strategy", "span", "k-sub")
            self._strategies = ui.toggle([], on_change=self._draw)
            self._strategies.props("no-caps unelevated dense padding='4px 12px'")
        with box("k-grid"):
            with card(
                "Reach at equal budget",
                "Reach with groups of k people, as a share of reach when each person is known "
                "(k = 1, the paper's bidder). The drop is the cost of anonymity.",
            ):
                self._reach = Chart("Reach at equal budget against k", name="cost of reach")
                with box("k-row k-end"):
                    png_button("reach at equal budget", self._reach, self._about)
            with card(
                "Error of measured reach",
                "Difference between measured and actual unique reach. Near zero, reach can be "
                "measured with groups of any size.",
            ):
                self._error = Chart("Error of measured reach against k", name="error of reach")
                with box("k-row k-end"):
                    png_button("error of measured reach", self._error, self._about)
        with card("Numbers", "Mean over campaigns, with the lowest and the highest campaign."):
            heads = ["metric", "approach", "k", "mean", "lowest", "highest"]
            self._table = Table(heads, numeric=(2, 3, 4, 5), name="tradeoff")
            for name, meaning in _APPROACHES.items():
                Text(f"{name.replace('_', ' ')}: {meaning}.", "p", "k-sub")

    def _about(self) -> tuple[str, ...]:
        """Words for names of files: the strategy that is shown, and the date."""
        return (str(self._strategies.value or ""), *self._frame.today())

    def _show(self, _: Answers) -> None:
        study = self._file.content
        if study is None:
            self._show_empty()
            return
        self._panel.show_content()
        self._advice.clear()
        with self._advice:
            for line in study.advice:
                Text(line, "li")
        setting = [f"{name.replace('_', ' ')}: {value}" for name, value in study.setting.items()]
        self._setting.set_text(f"Settings: {', '.join(setting)}.")
        strategies = list(study.relative_reach)
        if strategies != self._strategies.options:
            self._strategies.set_options(strategies, value=strategies[0] if strategies else None)
        self._draw()

    def _draw(self) -> None:
        """Draw the curves of the chosen strategy."""
        study: Tradeoff | None = self._file.content
        if study is None:
            return
        strategy = self._strategies.value
        reach, error = (
            curves.get(strategy, {}) for curves in (study.relative_reach, study.measurement_error)
        )
        self._reach.show(charts.group_size_curves(reach, "% of reach at k = 1"))
        self._error.show(charts.group_size_curves(error, "error (%)"))
        self._table.show(
            [
                (metric, approach.replace("_", " "), count(size), *map(percent, ends))
                for metric, name, approach, size, *ends in self._values(study)
                if name == strategy
            ]
        )

    def _show_empty(self) -> None:
        if self._file.problem == MISSING:
            text = "A study takes some minutes. It appears here when it is finished."
            self._panel.show_empty("hourglass_empty", "The study is not finished yet", text)
        elif self._file.problem is not None:
            text = sentence(self._file.problem)
            self._panel.show_empty("error_outline", "The study cannot be shown", text)
        else:
            text = (
                "A publisher makes one from a log of visits and one of prices. Set `tradeoff` to "
                "its folder. The command is:"
            )
            self._panel.show_empty("balance", "No study configured", text, _COMMAND)

    def _values(self, study: Tradeoff) -> list[tuple[str, str, str, int, float, float, float]]:
        metrics = (
            ("reach at equal budget", study.relative_reach),
            ("error of reach", study.measurement_error),
        )
        return [
            (metric, strategy, approach, size, band.mean, band.low, band.high)
            for metric, curves in metrics
            for strategy, approaches in curves.items()
            for approach, by_size in approaches.items()
            for size, band in by_size.items()
        ]

    def _rows(self) -> list[Row]:
        study: Tradeoff | None = self._file.content
        names = ("metric", "groups", "approach", "k", "mean", "low", "high")
        values = [] if study is None else self._values(study)
        return [dict(zip(names, row, strict=True)) for row in values]


def cost_page(frame: Frame) -> None:
    """Build the page."""
    _CostPage(frame)
