"""One campaign: reach over time, in any window, by cap and by frequency; spend and bidding."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict
from nicegui import ui

from kreach.adsystem.console import charts, forms
from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.client import (
    Query,
    ReportingError,
    RequestRefused,
    pacing_query,
    reach_query,
    status_query,
)
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.pages.reach_tiles import ReachTiles
from kreach.adsystem.console.pages.window_report import CAPS, WindowPanel, cap_rows, cap_table
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.status import (
    CampaignView,
    basis_note,
    data_note,
    flight_of,
    further_cost,
    max_cap,
    model_alarm,
    spend_pace,
    title_of,
    withheld_note,
)
from kreach.adsystem.console.tables import Row, frequency_rows, report_rows
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
    png_button,
    sentence,
)
from kreach.adsystem.reports.report import (
    CampaignStatus,
    PacingDocument,
    ReachDocument,
)

__all__ = ["campaign_page"]

_POINTS = 400


class _CampaignPage:
    """The page."""

    def __init__(self, frame: Frame, name: str, parameters: Sequence[tuple[str, str]] = ()) -> None:
        self._frame, self._console, self._name = frame, frame.console, name
        self._currency = ""
        self._campaign: CampaignStatus | None = None
        self._reach: ReachDocument | None = None
        self._shown: ReachDocument | None = None  # to date, or on the chosen range
        self._pacing: PacingDocument | None = None
        with box("k-page") as page:
            self._add_head()
            self._panel = Panel()
            with self._panel.content:
                self._alarm, self._notes = Notes(), Notes()
                with box("k-row k-between"):
                    dates = box("k-row")
                    self._range = Text("", "span", "k-sub", name="range")
                with box("k-tiles k-live"):
                    self._reach_tiles = ReachTiles(over_exposed=True)
                    self._spend = Tile("Spend")
                    self._win_rate = Tile("Win rate")
                    self._cost = Tile("Cost of a further person")
                self._basis = Text("", "p", "k-sub", name="basis")
                self._window = WindowPanel(frame, name, parameters)
                with dates:
                    self._window.add_presets()
                with box("k-grid k-live"):
                    self._add_reach_cards()
                    self._add_spend_cards()
            frame.follow_theme(
                self._window.chart,
                self._cap_chart,
                self._frequency_chart,
                self._spend_chart,
                self._bidding_chart,
            )
            frame.watch(page, self._queries, self._show, self._view)

    def _add_head(self) -> None:
        with box("k-top"):
            with box("k-title"):
                ui.link("Campaigns", "/").classes("k-sub")
                self._title = Text(self._name, "h1", name="title")
                with box("k-row").style("gap: .6rem; flex-wrap: nowrap; align-items: baseline"):
                    self._state = Text("", "span", "k-chip", name="state")
                    self._summary = Text("", "span", "k-sub")
            with box("k-row") as self._buttons:
                self._pause = button("Pause", self._toggle, icon="pause")
                self._edit = button("Edit", self._open_edit, icon="edit")
                self._end = button("End", self._open_end, icon="stop_circle")
                self._undo = button("Undo ending", self._undo_end, icon="undo")
            self._buttons.set_visibility(False)

    def _add_reach_cards(self) -> None:
        with card(
            "Impressions within the cap",
            "Impressions that count if each person counts at most so many times. At cap 1 these "
            "are people reached. Whiskers show the interval of the true number.",
        ):
            label = "Impressions within caps from one to five"
            self._cap_chart = Chart(label, "k-chart k-short", "by cap")
            self._cap_table = cap_table("by cap")
            self._formula = Text("", "p", "k-sub")
            with box("k-row k-end"):
                csv_button("reach by cap", lambda: report_rows(self._shown), self._about)
                png_button("reach by cap", self._cap_chart, self._about)
        with card(
            "Frequency",
            "Expected number of people by impressions seen. People above the cap are over-exposed. "
            "Without ids, caps are targets, not limits.",
        ):
            label = "People by impressions seen"
            self._frequency_chart = Chart(label, "k-chart k-short", "frequency")
            heads = ["impressions", "people", "interval"]
            self._at_least = Table(heads, numeric=(1, 2), name="at least")
            with box("k-row k-end"):
                csv_button("frequency", lambda: frequency_rows(self._shown), self._about)
                png_button("frequency", self._frequency_chart, self._about)

    def _add_spend_cards(self) -> None:
        with card(
            "Spend",
            "Spend to date, beside an evenly spent budget. The bidder may leave that line: it "
            "spends where reach is cheapest.",
        ):
            self._spend_chart = Chart("Spend over time", "k-chart k-short", "spend")
            with box("k-row k-end"):
                csv_button("pacing", self._pacing_rows, self._about)
                png_button("spend", self._spend_chart, self._about)
        with card(
            "Bidding",
            "Reach required per unit of money: the higher it is, the more selective the bidder. "
            "The win rate is the share of bids won to date.",
        ):
            label = "Required reach and win rate"
            self._bidding_chart = Chart(label, "k-chart k-short", "bidding")
            self._bidding_notes = Notes()
            with box("k-row k-end"):
                png_button("bidding", self._bidding_chart, self._about)

    def _about(self) -> tuple[str, ...]:
        return (self._name, *self._frame.today())

    def _pacing_rows(self) -> list[Row]:
        return [] if self._pacing is None else [asdict(pace) for pace in self._pacing.pacing]

    # -- queries ------------------------------------------------------------------------------

    def _reach_query(self) -> Query[ReachDocument]:
        caps = () if self._campaign is None else self._campaign.caps
        return reach_query(self._name, (*CAPS, *(cap.limit for cap in caps)))

    def _queries(self) -> list[Query[Any]]:
        return [
            status_query(self._name),
            self._reach_query(),
            pacing_query(self._name, _POINTS),
            *self._window.queries(self._campaign),
        ]

    def _view(self) -> tuple[Any, ...]:
        left = self._console.endings.seconds_left(self._name)
        return (self._console.truth.version, self._window.view, left if left is None else int(left))

    async def _toggle(self) -> None:
        campaign = self._campaign
        if campaign is not None:
            state = "paused" if campaign.state == "running" else "running"
            await forms.change_state(self._console, campaign, state)

    def _open_end(self) -> None:
        if self._campaign is not None:
            forms.confirm_end(self._console, self._campaign)

    async def _undo_end(self) -> None:
        if self._campaign is not None:
            await forms.undo_end(self._console, self._campaign)

    def _open_edit(self) -> None:
        if self._campaign is not None:
            forms.edit_campaign(self._console, self._campaign)

    # -- display ------------------------------------------------------------------------------

    def _show(self, answers: Answers) -> None:
        status, reach = answers.of(status_query(self._name)), answers.of(self._reach_query())
        campaign = status.document
        if campaign is None:
            if status.error is not None:
                self._show_missing(status.error)
            return
        self._panel.show_content()
        self._campaign, self._reach = campaign, reach.document
        self._pacing = answers.of(pacing_query(self._name, _POINTS)).document
        if self._reach is not None:
            self._currency = self._reach.currency or ""
        self._show_head(campaign)
        self._show_delivery(campaign)
        self._window.show(campaign, reach.document, answers)
        self._range.set_text(self._window.range_text)
        self._shown = self._window.report if self._window.has_range else self._reach
        self._show_tiles(campaign)
        delivery = campaign.status
        self._alarm.show(model_alarm(delivery.correction), tone="k-bad")
        self._notes.show(data_note(delivery), withheld_note(delivery.suppressed), reach.refusal)
        if self._shown is not None:
            self._show_reach(self._shown, max_cap(campaign))
        self._show_spend(campaign)

    def _show_tiles(self, campaign: CampaignStatus) -> None:
        """Figures to date from the status, which is of one instant; or those of the range."""
        view = CampaignView.of(campaign)
        if self._window.has_range:
            if self._window.report is None:
                return
            view = CampaignView.of_window(campaign, self._window.report)
        self._reach_tiles.show(view, self._currency)

    def _show_missing(self, error: ReportingError) -> None:
        if isinstance(error, RequestRefused) and error.status == 404:
            self._panel.show_empty("search_off", "Campaign not found", sentence(error))
        else:
            self._panel.show_empty("cloud_off", "No data yet", sentence(error))

    def _show_head(self, campaign: CampaignStatus) -> None:
        now, flight = self._console.now(), flight_of(campaign)
        self._title.set_text(title_of(campaign))
        left = self._console.endings.seconds_left(self._name)
        state = campaign.status.delivery if left is None else f"ends in {left:.0f} s"
        self._state.set_text(state)
        self._state.classes(replace=f"k-chip k-{state.replace(' ', '-')}")
        caps = " and ".join(fmt.cap_text(cap) for cap in campaign.caps)
        phase = fmt.flight_phase(*flight, now)
        reason = campaign.status.delivery_reason
        summary = (reason, phase, fmt.flight_text(*flight), caps, campaign.audience)
        self._summary.set_text(" · ".join(part for part in summary if part))
        self._buttons.set_visibility(state != "ended")
        paused = campaign.state == "paused"
        for one in (self._edit, self._end):
            one.set_visibility(left is None)
        self._undo.set_visibility(left is not None)
        self._pause.set_visibility(left is None and state != "completed")
        self._pause.set_text("Resume" if paused else "Pause")
        self._pause.props["icon"] = "play_arrow" if paused else "pause"

    def _show_delivery(self, campaign: CampaignStatus) -> None:
        pace = spend_pace(campaign, self._console.now())
        spend = fmt.money(campaign.status.spend, self._currency).replace("\u00a0", " ")
        budget = fmt.money(campaign.budget, self._currency)
        bidding = campaign.status.pace
        self._spend.show(spend, f"of {budget}", f"{pace.text}, to date")
        if bidding is None or bidding.bids is None:
            self._win_rate.show(fmt.WITHHELD)
            self._cost.show(fmt.WITHHELD)
        else:
            bids = f"{fmt.count(bidding.wins)} of {fmt.plural(bidding.bids, 'bid')}"
            self._win_rate.show(fmt.percent(bidding.win_rate), bids)
            self._cost.show(*further_cost(campaign, bidding, self._currency))

    def _show_reach(self, reach: ReachDocument, cap: int) -> None:
        truth = self._console.truth.content
        reports = [report for report in reach.reports if report.cap in CAPS]
        to_date = not self._window.has_range
        actual = truth.latest(self._name) if truth is not None and to_date else None
        self._cap_chart.show(charts.reach_by_cap(reports, actual))
        self._cap_table.show(cap_rows(reports))
        correction = reach.correction if to_date else None
        level = reports[0].level if reports else None
        self._basis.set_text(basis_note(reach.model, correction, level) or "")
        self._formula.set_text(f"Basis: {reach.basis}." if reach.basis else "")
        if not reports:
            return
        first = reports[0]
        self._frequency_chart.show(charts.frequency_bars(first.frequency, cap))
        at_least = zip(first.at_least[:5], first.at_least_intervals[:5], strict=True)
        self._at_least.show(
            [
                (f"{times} or more", fmt.count(people), fmt.interval(ends))
                for times, (people, ends) in enumerate(at_least, 1)
            ]
        )

    def _show_spend(self, campaign: CampaignStatus) -> None:
        if self._pacing is None:
            return
        flight, currency = flight_of(campaign), self._currency
        rows = [(fmt.parse_time(row.ts), row) for row in self._pacing.pacing]
        spend = [(moment, row.spent_micros / 1e6) for moment, row in rows]
        options = charts.spend_over_time(spend, campaign.budget, flight, currency)
        self._spend_chart.show(options)
        bidding = [(moment, row.multiplier, row.win_rate) for moment, row in rows]
        self._bidding_chart.show(charts.bidding_over_time(bidding, flight, currency))
        self._bidding_notes.show(withheld_note(self._pacing.suppressed))


def campaign_page(frame: Frame, name: str, parameters: Sequence[tuple[str, str]] = ()) -> None:
    """Build the page for the parameters of its address."""
    _CampaignPage(frame, name, parameters)
