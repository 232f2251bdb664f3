"""Campaigns together: whom all of them reached, whom several, whom only one, what each adds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from nicegui import ui

from kreach.adsystem.console import comparison_charts as charts
from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.client import CAMPAIGNS, FAMILIES, Query, RequestRefused
from kreach.adsystem.console.comparison import (
    MIN_CAMPAIGNS,
    Choice,
    Comparison,
    unique_titles,
)
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.pages.compare_inputs import CompareInputs
from kreach.adsystem.console.pages.overlap_matrix import OverlapMatrix
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.status import withheld_note
from kreach.adsystem.console.tables import comparison_rows, overlap_rows
from kreach.adsystem.console.widgets import (
    Chart,
    Notes,
    Panel,
    Table,
    Text,
    Tile,
    box,
    button,
    card,
    csv_button,
    heading,
    png_button,
    sentence,
)
from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.reports.report import CampaignSummary

__all__ = ["compare_page"]

_NAMED = 3  # campaigns in the name of a file


class _ComparePage:
    """The page."""

    def __init__(self, frame: Frame, choice: Choice) -> None:
        self._frame, self._choice = frame, choice
        self._router = ui.context.client.sub_pages_router
        self._address = self._router.current_path
        self._document: CombinedDocument | None = None
        self._campaigns: Sequence[CampaignSummary] = ()
        self._titles: dict[str, str] = {}
        self._heads: list[str] = []
        with box("k-page") as page:
            heading(
                "Compare",
                "Whom campaigns of one audience reached together, whom several of them reached, "
                "and what each adds.",
            )
            # inputs grow with names and families: they are shown when these are known
            self._ready = Panel("compare")
            with self._ready.content:
                with card(name="compare"):
                    self._inputs = CompareInputs(choice, self._choose)
                self._panel = Panel("comparison")
                with self._panel.content, box("k-results") as self._results:
                    self._add_results()
            self._charts = (self._bars, self._steps)
            frame.follow_theme(*self._charts)
            frame.watch(page, self._queries, self._show, lambda: self._choice)

    def _add_results(self) -> None:
        with box("k-live"):
            self._facts = Text("", "p", "k-sub k-line", name="facts")
            self._notes = Notes()
        with box("k-tiles k-live"):
            self._together = Tile("People reached together")
            self._overlap = Tile("Reached by two or more")
            self._sum = Tile("Sum of the campaigns")
            self._frequency = Tile("Average frequency")
            self._capped = Tile("Impressions within the cap")
        with box("k-grid k-live"):
            with card("One campaign or several"):
                self._bars_text = Text("", "p", "k-sub k-line")
                label = "Reached by one campaign only, and by two or more"
                self._bars = Chart(label, "k-chart", "one or several")
                with box("k-row k-end"):
                    png_button("one or several", self._bars, self._about)
            self._add_steps()
        with card(
            "Overlap of two campaigns",
            "Share of the people of the campaign on the left whom the one above reached too, and "
            "their number.",
        ) as self._pairs:
            self._pairs.classes("k-live")
            self._matrix = OverlapMatrix()
            with box("k-row k-end"):
                csv_button("overlap", lambda: overlap_rows(self._document), self._about)
        with card("Side by side").classes("k-live"):
            self._place = box()
            self._basis = Text("", "p", "k-sub")
            with box("k-row k-end"):
                csv_button("comparison", lambda: comparison_rows(self._document), self._about)

    def _add_steps(self) -> None:
        with card(
            "What each campaign adds",
            "In the order chosen: people whom no campaign above reached, and all so far.",
        ):
            self._steps = Chart("People that each campaign adds", "k-chart", "adds")
            with box("k-row k-end"):
                button("Largest first", self._sort, icon="sort")
                png_button("what each adds", self._steps, self._about)

    # -- choices ------------------------------------------------------------------------------

    def _choose(self, choice: Choice) -> None:
        """Take up a choice and put it into the address, so that a link shows the same."""
        self._choice = choice
        self._address = self._router.current_path = choice.url
        ui.navigate.history.replace(choice.url)

    def _follow_address(self) -> None:
        """Take up the address if a link or the browser changed it while this page stayed."""
        address = self._router.current_path
        parts = urlsplit(address)
        if address != self._address and parts.path.rstrip("/") == "/compare":
            self._address = address
            self._choice = Choice.of_query(parse_qsl(parts.query))
            self._inputs.show_choice(self._choice)
            self._frame.follow_theme(*self._charts)

    def _sort(self) -> None:
        if self._document is None or not all(part.reports for part in self._document.parts):
            return
        reach = {part.name: part.reports[0].unique_reach for part in self._document.parts}
        names = sorted(self._choice.campaigns, key=lambda name: -reach.get(name, 0.0))
        choice = replace(self._choice, campaigns=tuple(names))
        self._inputs.show_choice(choice)
        self._choose(choice)

    def _about(self) -> tuple[str, ...]:
        """Words for names of files."""
        return (*self._choice.campaigns[:_NAMED], self._choice.preset, *self._frame.today())

    def _query(self) -> Query[CombinedDocument] | None:
        return self._choice.query(self._frame.console.now(), self._campaigns)

    def _queries(self) -> list[Query[Any]]:
        self._follow_address()
        query = self._query()
        return [CAMPAIGNS, FAMILIES] if query is None else [CAMPAIGNS, FAMILIES, query]

    # -- display ------------------------------------------------------------------------------

    def _show(self, answers: Answers) -> None:
        campaigns = answers.of(CAMPAIGNS).document
        if campaigns is not None:
            self._campaigns = campaigns.campaigns
            self._titles = unique_titles(campaigns.campaigns)
            self._inputs.show_campaigns(campaigns.campaigns, self._titles)
            families = answers.of(FAMILIES).document
            if families is not None:
                self._inputs.show_families(families.families, campaigns.currency)
        if answers.of(CAMPAIGNS).version and answers.of(FAMILIES).version:
            self._ready.show_content()
        query = self._query()
        if query is None and len(self._choice.campaigns) >= MIN_CAMPAIGNS:
            return  # their flights are not known yet
        if query is None:
            few = campaigns is not None and len(campaigns.campaigns) < MIN_CAMPAIGNS
            text = "There is nothing to compare yet." if few else "Pick them above."
            self._panel.show_empty("join_inner", "Choose two campaigns or more", text)
            return
        answer = answers.of(query)
        waiting = answer.document is None and answer.error is None
        self._results.classes(
            add="k-waiting" if waiting else "", remove="" if waiting else "k-waiting"
        )
        if isinstance(answer.error, RequestRefused):
            self._inputs.show_error(answer.error.error)
            text = "Change what is marked above."
            self._panel.show_empty("block", "No report for this choice", text)
        elif answer.document is not None:
            self._inputs.clear_errors()
            self._show_document(answer.document)
        elif answer.error is not None:
            self._panel.show_empty("cloud_off", "No data yet", sentence(answer.error))
        elif not self._panel.content.visible:
            self._panel.show_loading()

    def _show_document(self, document: CombinedDocument) -> None:
        self._document = document
        comparison = Comparison.of(document, self._titles)
        if comparison is None:
            reasons = "; ".join(dict.fromkeys(one.why for one in document.suppressed))
            self._panel.show_empty("visibility_off", "Withheld", sentence(reasons or "no reason"))
            return
        self._panel.show_content()
        notes = [sentence(note) for note in document.notes]
        self._notes.show(withheld_note(document.suppressed), *notes)
        self._facts.set_text(
            f"{fmt.plural(len(document.parts), 'campaign')}, {comparison.span}, on an audience of "
            f"{fmt.count(document.people)} people."
        )
        self._show_tiles(comparison)
        self._show_charts(comparison)
        pairs = comparison.pairs()
        self._pairs.set_visibility(len(pairs) > MIN_CAMPAIGNS)
        if pairs:
            self._matrix.show(comparison.part_titles, pairs)
        if comparison.heads() != self._heads:
            self._heads = comparison.heads()
            self._place.clear()
            with self._place:
                numeric = range(1, len(self._heads))
                self._table = Table(self._heads, numeric, "side by side")
        self._table.show(comparison.rows())
        self._basis.set_text(f"Basis: {document.basis}." if document.basis else "")

    def _show_tiles(self, comparison: Comparison) -> None:
        self._together.show(*comparison.together_tile())
        self._overlap.show(*comparison.overlap_tile())
        self._sum.show(*comparison.sum_tile())
        self._frequency.show(*comparison.frequency_tile())
        self._capped.show(*comparison.cap_tile())
        self._capped.set_visibility(comparison.combined.cap > 1)
        self._frequency.set_visibility(comparison.combined.cap == 1)

    def _show_charts(self, comparison: Comparison) -> None:
        cap, bars = comparison.combined.cap, comparison.bars()
        what = "People" if cap == 1 else f"Impressions, at most {cap} per person, on people"
        self._bars_text.set_text(
            f"{what} whom one campaign alone reached, and whom two or more reached. A "
            "campaign's bar is all of its own."
        )
        self._bars.set_height(charts.chart_height(len(bars)))
        self._bars.show(charts.one_or_several(bars, comparison.unit))
        steps = comparison.combined.incremental
        self._steps.set_height(charts.chart_height(len(steps)))
        self._steps.show(charts.what_each_adds(steps, comparison.part_titles))


def compare_page(frame: Frame, parameters: Iterable[tuple[str, str]]) -> None:
    """Build the page for the parameters of its address."""
    _ComparePage(frame, Choice.of_query(parameters))
