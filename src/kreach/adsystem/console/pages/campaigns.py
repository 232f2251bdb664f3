"""All campaigns: delivery, reach, and the actions on each."""

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console import forms
from kreach.adsystem.console.client import CAMPAIGNS, Query, reach_query
from kreach.adsystem.console.comparison import Choice
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.pages.reach_tiles import ReachTiles
from kreach.adsystem.console.poller import Answers, PolledAnswer
from kreach.adsystem.console.status import (
    CampaignView,
    data_note,
    display_state,
    flight_of,
    spend_pace,
    withheld_note,
)
from kreach.adsystem.console.tables import Row, campaign_row
from kreach.adsystem.console.widgets import (
    EmptyState,
    Notes,
    Panel,
    ProgressBar,
    Text,
    box,
    button,
    csv_button,
    heading,
    icon_button,
    sentence,
)
from kreach.adsystem.reports.report import CampaignSummary, ReachDocument

__all__ = ["campaigns_page"]

_PER_PAGE = 10  # each campaign needs a request of its own
_ALL = "all states"
_STATES = [
    *(_ALL, "running", "no creative", "creative in review", "creative rejected"),
    *("paused", "scheduled", "completed", "ended"),
]


def _reach_of(campaign: CampaignSummary) -> Query[ReachDocument]:
    return reach_query(campaign.id, (1, *(cap.limit for cap in campaign.caps)))


class _CampaignCard:
    """One campaign."""

    def __init__(self, frame: Frame, campaign: CampaignSummary, chosen: list[str]) -> None:
        self._console, self._campaign, name = frame.console, campaign, campaign.id
        self._chosen = chosen  # to compare, in that order; shared by all cards
        self.row: Row = {}
        with box("k-campaign", "article", f"campaign {name}"):
            with box("k-cell k-wide"):
                with box("k-row").style("gap: .5rem; flex-wrap: nowrap; align-items: flex-start"):
                    choose = ui.checkbox(value=name in chosen, on_change=self._choose)
                    choose.props("dense size=xs").style("margin-top: .2rem")
                    choose.props["aria-label"] = choose.props["title"] = f"Compare {name}"
                    ui.link(name, f"/campaign/{name}")
                with box("k-row").style("gap: .4rem"):
                    self._state = Text("", "span", "k-chip", name="state")
                    self._phase = Text("", "span", "k-sub")
                self._flight = Text("", classes="k-sub")
                self._caps = Text("", classes="k-sub")
            with box("k-cell k-wide", name="budget"):
                Text("Budget", classes="k-name")
                self._spend = Text("", classes="k-value")
                self._progress = ProgressBar()
                self._pace = Text("", classes="k-sub")
            self._reach = ReachTiles("k-cell")
            with box("k-actions k-wide"):
                self._pause = icon_button("pause", f"Pause {name}", self._toggle)
                self._edit = icon_button("edit", f"Edit {name}", self._open_edit)
                end = lambda: forms.confirm_end(self._console, name)  # noqa: E731
                self._end = icon_button("stop_circle", f"End {name}", end)
            self._notes = Notes("k-wide k-all")

    def _choose(self) -> None:
        """Add the campaign to those to compare, or take it away."""
        name = self._campaign.id
        if name in self._chosen:
            self._chosen.remove(name)
        else:
            self._chosen.append(name)

    async def _toggle(self) -> None:
        state = "paused" if self._campaign.state == "running" else "running"
        await forms.change_state(self._console, self._campaign.id, state)

    def _open_edit(self) -> None:
        forms.edit_campaign(self._console, self._campaign)

    def show(
        self, campaign: CampaignSummary, reach: PolledAnswer[ReachDocument], currency: str
    ) -> None:
        """Show delivery and, once it is loaded, reach."""
        self._campaign = campaign
        now, (start, end) = self._console.now(), flight_of(campaign)
        state = display_state(campaign, now)
        self._state.set_text(state)
        self._state.classes(replace=f"k-chip k-{state.replace(' ', '-')}")
        self._phase.set_text(fmt.flight_phase(start, end, now))
        self._flight.set_text(fmt.flight_text(start, end))
        self._caps.set_text(" and ".join(fmt.cap_text(cap) for cap in campaign.caps))
        self._show_spend(currency)
        if reach.version:
            view = CampaignView.of(campaign, reach.document)
            self._reach.show(view, campaign.status.impressions)
            self.row = campaign_row(campaign, state, view, currency)
        self._show_actions(state)
        status = campaign.status
        self._notes.show(data_note(status), withheld_note(status.suppressed))

    def _show_spend(self, currency: str) -> None:
        campaign = self._campaign
        pace = spend_pace(campaign, self._console.now())
        spend = fmt.money(campaign.status.spend, "")
        self._spend.set_text(f"{spend} of {fmt.money(campaign.budget, currency)}")
        label = f"{fmt.percent(pace.share)} spent, {pace.text}"
        self._progress.show(pace.share, pace.even_share, label)
        self._pace.set_text(pace.text)

    def _show_actions(self, state: str) -> None:
        paused, name = self._campaign.state == "paused", self._campaign.id
        self._pause.set_enabled(state not in ("ended", "completed"))
        self._edit.set_enabled(state != "ended")
        self._end.set_enabled(state != "ended")
        self._pause.props["icon"] = "play_arrow" if paused else "pause"
        label = f"{'Resume' if paused else 'Pause'} {name}"
        self._pause.props["title"] = self._pause.props["aria-label"] = label


class _CampaignsPage:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._cards: dict[str, _CampaignCard] = {}
        self._shown: list[CampaignSummary] = []
        self._chosen: list[str] = []
        self._page = 0
        with box("k-page") as page:
            with heading(
                "Campaigns",
                "Estimated reach per campaign, from groups of people. Intervals show where the "
                "true number lies; the mark on a bar shows an evenly spent budget.",
            ):
                csv_button("campaigns", lambda: [card.row for card in self._cards.values()])
                button("New campaign", self._open_new, style="k-primary", icon="add")
            self._panel = Panel()
            with self._panel.content:
                self._add_filters()
                self._list = box("k-list k-live", name="campaigns")
                self._no_match = EmptyState()
                with box("k-row k-between") as self._pager:
                    button("Previous", lambda: self._turn(-1), icon="chevron_left")
                    self._position = Text("", "span", "k-sub")
                    button("Next", lambda: self._turn(1), icon="chevron_right")
            frame.watch(page, self._queries, self._show, self._view)

    def _add_filters(self) -> None:
        with box("k-row") as self._filters:
            self._search = ui.input(placeholder="Search by name").props(
                "outlined dense clearable debounce=200 aria-label='Search by name'"
            )
            self._state = ui.select(_STATES, value=_ALL).props("outlined dense")
            self._state.props["aria-label"] = "State"
            self._compare = button("Compare", self._open_compare, icon="join_inner")

    async def _open_new(self) -> None:
        await forms.new_campaign(self._frame.console)

    def _open_compare(self) -> None:
        ui.navigate.to(Choice(tuple(self._chosen)).url)

    def _turn(self, step: int) -> None:
        self._page = max(self._page + step, 0)

    def _view(self) -> tuple[Any, ...]:
        return (self._page, self._search.value, self._state.value, len(self._chosen))

    def _queries(self) -> list[Query[Any]]:
        return [CAMPAIGNS, *(_reach_of(campaign) for campaign in self._shown)]

    def _filter(self, campaigns: Sequence[CampaignSummary]) -> list[CampaignSummary]:
        """Campaigns that match the filters, the newest first."""
        text = (self._search.value or "").strip().lower()
        state, now = self._state.value, self._frame.console.now()
        return [
            campaign
            for campaign in reversed(campaigns)
            if text in campaign.id.lower() and state in (_ALL, display_state(campaign, now))
        ]

    def _show(self, answers: Answers) -> None:
        answer = answers.of(CAMPAIGNS)
        document = answer.document
        if document is None:
            if answer.error is not None:
                self._panel.show_empty("cloud_off", "No data yet", sentence(answer.error))
            return
        if not document.campaigns:
            text = "Create one to see its reach."
            self._panel.show_empty("campaign", "No campaigns yet", text)
            return
        self._panel.show_content()
        chosen = len(self._chosen)
        self._compare.set_text(f"Compare {chosen}" if chosen else "Compare")
        matches = self._filter(document.campaigns)
        pages = max(-(-len(matches) // _PER_PAGE), 1)
        self._page = min(self._page, pages - 1)
        self._shown = matches[self._page * _PER_PAGE :][:_PER_PAGE]
        self._filters.set_visibility(len(document.campaigns) > 1)
        self._pager.set_visibility(pages > 1)
        more = ", the first 1,000 created" if document.next else ""
        total = f"{fmt.count(len(matches))} campaigns{more}"
        self._position.set_text(f"page {self._page + 1} of {pages}, {total}")
        if matches:
            self._no_match.hide()
        else:
            text = "Change the search or the state."
            self._no_match.show("search_off", "No matching campaigns", text)
        self._show_cards(answers, document.currency)

    def _show_cards(self, answers: Answers, currency: str) -> None:
        if [campaign.id for campaign in self._shown] != list(self._cards):
            self._list.clear()
            with self._list:
                self._cards = {
                    one.id: _CampaignCard(self._frame, one, self._chosen) for one in self._shown
                }
        for campaign in self._shown:
            self._cards[campaign.id].show(campaign, answers.of(_reach_of(campaign)), currency)


def campaigns_page(frame: Frame) -> None:
    """Build the page."""
    _CampaignsPage(frame)
