"""All campaigns: delivery, reach, and the actions on each."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console import forms
from kreach.adsystem.console.client import CAMPAIGNS, Query, status_query
from kreach.adsystem.console.comparison import Choice
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.pages.reach_tiles import ReachTiles
from kreach.adsystem.console.poller import Answers, PolledAnswer
from kreach.adsystem.console.status import (
    CampaignView,
    data_note,
    flight_of,
    model_alarm,
    spend_pace,
    title_of,
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
from kreach.adsystem.reports.report import CampaignStatus, CampaignSummary, Summary

__all__ = ["campaigns_page"]

_PER_PAGE = 10  # each campaign needs a request of its own
_ALL = "all states"
_STATES = [
    *(_ALL, "running", "limited", "budget spent", "no creative", "creative in review"),
    *("creative rejected", "paused", "scheduled", "completed", "ended"),
]
_OVER = ("ended", "completed")


class _CampaignCard:
    """One campaign. All its figures come from one document, and so are of one instant."""

    def __init__(
        self, frame: Frame, campaign: CampaignSummary, chosen: list[str], currency: str
    ) -> None:
        self._console = frame.console
        self._campaign: CampaignStatus | CampaignSummary = campaign
        self._title, name = title_of(campaign), campaign.id
        self._chosen = chosen  # to compare, in that order; shared by all cards
        self.row: Row = {}
        with box("k-campaign", "article", f"campaign {name}"):
            with box("k-cell k-wide"):
                with box("k-row").style("gap: .5rem; flex-wrap: nowrap; align-items: flex-start"):
                    choose = ui.checkbox(value=name in chosen, on_change=self._choose)
                    choose.props("dense size=xs").style("margin-top: .2rem")
                    choose.props["aria-label"] = choose.props["title"] = f"Compare {self._title}"
                    ui.link(self._title, f"/campaign/{name}")
                with box("k-row").style("gap: .4rem"):
                    self._state = Text("", "span", "k-chip", name="state")
                    self._phase = Text("", "span", "k-sub")
                self._reason = Text("", classes="k-sub", name="reason")
                self._flight = Text("", classes="k-sub")
                self._caps = Text("", classes="k-sub")
            with box("k-cell k-wide", name="budget"):
                Text("Budget", classes="k-name")
                self._spend = Text("", classes="k-value")
                self._progress = ProgressBar()
                self._pace = Text("", classes="k-sub")
            self._reach = ReachTiles("k-cell")
            with box("k-actions k-wide"):
                self._pause = icon_button("pause", f"Pause {self._title}", self._toggle)
                self._edit = icon_button("edit", f"Edit {self._title}", self._open_edit)
                self._end = icon_button("stop_circle", f"End {self._title}", self._open_end)
                self._undo = icon_button("undo", f"Undo ending {self._title}", self._undo_end)
            self._notes = Notes("k-wide k-all")
        self._show_definition(campaign, currency)

    def _choose(self) -> None:
        """Add the campaign to those to compare, or take it away."""
        name = self._campaign.id
        if name in self._chosen:
            self._chosen.remove(name)
        else:
            self._chosen.append(name)

    async def _toggle(self) -> None:
        state = "paused" if self._campaign.state == "running" else "running"
        await forms.change_state(self._console, self._campaign, state)

    def _open_edit(self) -> None:
        forms.edit_campaign(self._console, self._campaign)

    def _open_end(self) -> None:
        forms.confirm_end(self._console, self._campaign)

    async def _undo_end(self) -> None:
        await forms.undo_end(self._console, self._campaign)

    def show(self, answer: PolledAnswer[CampaignStatus], currency: str) -> None:
        """Show delivery and reach, once they are loaded."""
        if answer.refusal is not None:
            self._notes.show(sentence(answer.refusal), tone="k-bad")
        campaign = answer.document
        if campaign is None:
            return
        self._campaign = campaign
        status = campaign.status
        self._show_definition(campaign, currency)
        view = CampaignView.of(campaign)
        self._reach.show(view, currency)
        self.row = campaign_row(campaign, view, currency)
        alarm = model_alarm(status.correction)
        notes = (data_note(status), withheld_note(status.suppressed), alarm)
        self._notes.show(*notes, tone="k-bad" if alarm else "k-warn")

    def _show_definition(self, campaign: CampaignStatus | CampaignSummary, currency: str) -> None:
        """Show what a list and a status both have."""
        now, (start, end) = self._console.now(), flight_of(campaign)
        self._show_state(campaign.status)
        self._phase.set_text(fmt.flight_phase(start, end, now))
        self._flight.set_text(fmt.flight_text(start, end))
        self._caps.set_text(" and ".join(fmt.cap_text(cap) for cap in campaign.caps))
        self._show_spend(campaign, currency)

    def _show_spend(self, campaign: CampaignStatus | CampaignSummary, currency: str) -> None:
        pace = spend_pace(campaign, self._console.now())
        spend = fmt.money(campaign.status.spend, "")
        self._spend.set_text(f"{spend} of {fmt.money(campaign.budget, currency)}")
        label = f"{fmt.percent(pace.share)} spent, {pace.text}"
        self._progress.show(pace.share, pace.even_share, label)
        self._pace.set_text(pace.text)

    def _show_state(self, status: Summary) -> None:
        left = self._console.endings.seconds_left(self._campaign.id)
        state = status.delivery if left is None else "ending"
        self._state.set_text(state)
        self._state.classes(replace=f"k-chip k-{state.replace(' ', '-')}")
        reason = status.delivery_reason or ""
        self._reason.set_text(reason if left is None else f"ends in {left:.0f} s")
        paused, over = self._campaign.state == "paused", status.delivery in _OVER
        self._pause.set_visibility(left is None)
        self._edit.set_visibility(left is None)
        self._end.set_visibility(left is None)
        self._undo.set_visibility(left is not None)
        self._pause.set_enabled(not over)
        self._edit.set_enabled(status.delivery != "ended")
        self._end.set_enabled(status.delivery != "ended")
        self._pause.props["icon"] = "play_arrow" if paused else "pause"
        label = f"{'Resume' if paused else 'Pause'} {self._title}"
        self._pause.props["title"] = self._pause.props["aria-label"] = label


class _CampaignsPage:
    """The page."""

    def __init__(self, frame: Frame, parameters: Iterable[tuple[str, str]]) -> None:
        self._frame, given = frame, dict(parameters)
        self._cards: dict[str, _CampaignCard] = {}
        self._titles: list[tuple[str, str]] = []
        self._shown: list[CampaignSummary] = []
        self._chosen: list[str] = []
        self._page = 0
        with box("k-page") as page:
            with heading(
                "Campaigns",
                "Estimated reach per campaign, from groups of people. Intervals show where the "
                "true number lies; the mark on a bar shows an evenly spent budget.",
            ):
                csv_button(
                    "campaigns",
                    lambda: [card.row for card in self._cards.values() if card.row],
                    frame.today,
                )
                button("New campaign", self._open_new, style="k-primary", icon="add")
            self._panel = Panel()
            with self._panel.content:
                self._add_filters(given)
                self._list = box("k-list k-live", name="campaigns")
                self._no_match = EmptyState()
                with box("k-row k-between") as self._pager:
                    button("Previous", lambda: self._turn(-1), icon="chevron_left")
                    self._position = Text("", "span", "k-sub")
                    button("Next", lambda: self._turn(1), icon="chevron_right")
            frame.watch(page, self._queries, self._show, self._view)

    def _add_filters(self, given: dict[str, str]) -> None:
        state = given.get("state", _ALL)
        with box("k-row") as self._filters:
            self._search = ui.input(placeholder="Search by name", value=given.get("search", ""))
            self._search.props("outlined dense clearable debounce=200 aria-label='Search by name'")
            chosen = state if state in _STATES else _ALL
            self._state = ui.select(_STATES, value=chosen).props("outlined dense")
            for field in (self._search, self._state):
                field.on_value_change(self._keep_address)
            self._state.props["aria-label"] = "State"
            self._compare = button("Compare", self._open_compare, icon="join_inner")

    async def _open_new(self) -> None:
        await forms.new_campaign(self._frame.console)

    def _keep_address(self) -> None:
        """Put the filters into the address, so that a link shows the same."""
        pairs = {"search": (self._search.value or "").strip(), "state": self._state.value}
        given = {name: value for name, value in pairs.items() if value and value != _ALL}
        self._frame.set_address(f"/?{urlencode(given)}" if given else "/")

    def _open_compare(self) -> None:
        ui.navigate.to(Choice(tuple(self._chosen)).url)

    def _turn(self, step: int) -> None:
        self._page = max(self._page + step, 0)

    def _view(self) -> tuple[Any, ...]:
        left = [self._frame.console.endings.seconds_left(one) for one in self._cards]
        seconds = [one if one is None else int(one) for one in left]
        return (self._page, self._search.value, self._state.value, len(self._chosen), seconds)

    def _queries(self) -> list[Query[Any]]:
        return [CAMPAIGNS, *(status_query(campaign.id) for campaign in self._shown)]

    def _filter(self, campaigns: Sequence[CampaignSummary]) -> list[CampaignSummary]:
        """Campaigns that match the filters, the newest first."""
        text = (self._search.value or "").strip().lower()
        state = self._state.value
        return [
            campaign
            for campaign in reversed(campaigns)
            if text in f"{campaign.id} {campaign.name or ''}".lower()
            and state in (_ALL, campaign.status.delivery)
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
        shown = [(campaign.id, title_of(campaign)) for campaign in self._shown]
        if shown != self._titles:
            self._titles = shown
            self._list.clear()
            with self._list:
                self._cards = {
                    one.id: _CampaignCard(self._frame, one, self._chosen, currency)
                    for one in self._shown
                }
        for campaign in self._shown:
            self._cards[campaign.id].show(answers.of(status_query(campaign.id)), currency)


def campaigns_page(frame: Frame, parameters: Iterable[tuple[str, str]] = ()) -> None:
    """Build the page for the parameters of its address."""
    _CampaignsPage(frame, parameters)
