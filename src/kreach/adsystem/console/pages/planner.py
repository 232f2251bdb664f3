"""The planner: what budgets will reach, and what a reach will cost, before money is spent."""

import asyncio
from math import exp

from nicegui import ui

from kreach.adsystem.console import charts
from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.client import (
    CAMPAIGNS,
    CATALOGUES,
    Parameters,
    ReportingUnavailable,
    RequestRefused,
    plan_query,
)
from kreach.adsystem.console.forms import show_field_errors
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.status import max_cap, visible_text
from kreach.adsystem.console.tables import plan_rows
from kreach.adsystem.console.widgets import (
    Chart,
    EmptyState,
    Notes,
    Panel,
    Table,
    Text,
    box,
    button,
    card,
    csv_button,
    heading,
    sentence,
)
from kreach.adsystem.reports.report import (
    CampaignSummary,
    CatalogueSummary,
    Outlook,
    PlanDocument,
)

__all__ = ["planner_page"]

_BUDGET_SHARES = (1.0, 0.5, 1.5, 0.25, 2.0, 0.75)  # of the campaign's budget, most useful first
_MAX_CAP = 10
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_MIN_GROUPS = 10


class _PlannerPage:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._console = frame.console
        self._campaigns: dict[str, CampaignSummary] = {}
        self._plans: list[tuple[int, Outlook]] = []  # with the group size of each
        self._document: PlanDocument | None = None  # a plan for the groups as released
        self._catalogue: CatalogueSummary | None = None
        self._sizes: list[int] = []
        self._run = 0  # answers to earlier runs are dropped
        with box("k-page") as page:
            with heading(
                "Planner",
                "What a budget will reach before it is spent, and what a reach will cost. "
                "Reporting simulates flights on the campaign's audience and market.",
            ):
                csv_button("plan", lambda: plan_rows(self._plans))
            self._panel = Panel()
            with self._panel.content:
                with card("Plan"), box("k-form"):
                    self._add_inputs()
                    self._add_buttons()
                self._notes = Notes()
                self._add_result()
            frame.follow_theme(self._chart)
            queries = (CAMPAIGNS, CATALOGUES)
            frame.watch(page, lambda: queries, self._show)

    def _add_inputs(self) -> None:
        self._campaign = ui.select([], label="Campaign", on_change=self._pick_campaign)
        self._campaign.props("outlined dense stack-label")
        requests = ui.input("Eligible bid requests in the flight")
        requests.props["hint"] = "expected bid requests of the audience"
        with box():
            self._cap_text = Text("", classes="k-name")
            self._cap = ui.slider(min=1, max=_MAX_CAP, value=2, on_change=self._show_cap)
            self._cap.props("markers snap label").props["aria-label"] = "Frequency cap"
            self._show_cap()
        with box():
            self._size_text = Text("", classes="k-name")
            self._size = ui.slider(min=0, max=1, value=0, step=1, on_change=self._show_size)
            self._size.props("markers snap").props["aria-label"] = "Group size"
        auctions = {"second_price": "second price", "first_price": "first price"}
        self._auction = ui.select(auctions, label="Auctions", value="second_price")
        self._auction.props("outlined dense stack-label")
        reach = ui.input("Or: target reach")
        reach.props["hint"] = "which budget reaches this?"
        self._inputs = {"requests": requests, "reach": reach}
        for name, field in self._inputs.items():
            field.without_auto_validation()
            field.props("outlined dense stack-label inputmode=decimal")
            field.props["data-name"] = f"field {name}"
            field.on("keydown.enter", self._make_plans)

    def _add_buttons(self) -> None:
        with box("k-row"):
            self._start = button("Plan", self._make_plans, style="k-primary")
            self._cancel = button("Stop", self._stop)
            self._cancel.set_visibility(False)
            self._progress = Text("", "span", "k-sub", name="progress")

    def _add_result(self) -> None:
        with card(
            "Budget and reach",
            "Each point is a flight with that budget; the band holds its reach with the "
            "probability in the table. Where the curve is flat, more money buys little. Dashed: "
            "the same people in groups of another size.",
        ):
            self._no_plans = EmptyState("")
            with box() as self._result:
                self._chart = Chart("Reach against budget, with a band", name="plan")
                heads = ["k", "budget", "spend", "reach", "band", "impressions", "frequency"]
                self._table = Table(heads, numeric=range(7), name="plan")
                self._basis = Text("", "p", "k-sub")
        self._draw()

    # -- choices ------------------------------------------------------------------------------

    def _pick_campaign(self) -> None:
        campaign = self._campaigns.get(self._campaign.value or "")
        if campaign is None:
            return
        self._stop()
        self._plans, self._document = [], None
        expected = campaign.expected_requests
        self._inputs["requests"].value = "" if expected is None else str(expected)
        self._cap.value = min(max_cap(campaign), _MAX_CAP)
        self._draw()

    def _show_cap(self) -> None:
        self._cap_text.set_text(f"Frequency cap: {int(self._cap.value)} per person")

    @property
    def _released_size(self) -> int:
        """The group size that the publisher guarantees."""
        return 0 if self._catalogue is None else self._catalogue.group_size

    def _other_size(self) -> int | None:
        """The group size on the slider, if it is not the released one."""
        if not self._sizes:
            return None
        size = self._sizes[min(int(self._size.value), len(self._sizes) - 1)]
        return None if size == self._released_size else size

    def _show_size(self) -> None:
        other, released = self._other_size(), self._released_size
        if len(self._sizes) < 2:
            text = f"Groups of {released} people: other sizes cannot be planned for this catalogue"
        elif other is None:
            text = f"Groups of {released} people, as released; slide to compare with another size"
        else:
            text = f"Groups of {other} people, compared with {released} as released"
        self._size_text.set_text(text)

    # -- planning -----------------------------------------------------------------------------

    def _stop(self) -> None:
        self._run += 1
        self._progress.set_text("")
        self._start.enable()
        self._cancel.set_visibility(False)

    async def _make_plans(self) -> None:
        """Request one budget after the other; each point is shown when it is there."""
        campaign = self._campaigns.get(self._campaign.value or "")
        if campaign is None or not self._start.enabled:
            return
        self._stop()
        run = self._run
        self._start.disable()
        self._cancel.set_visibility(True)
        self._plans, self._document = [], None
        self._notes.show()
        for field in self._inputs.values():
            field.error = None
        steps = self._steps(campaign)
        for at, (parameters, size) in enumerate(steps, 1):
            self._progress.set_text(f"planning {at} of {len(steps)} …")
            if not await self._make_plan(campaign.id, parameters, size, run):
                return
        self._stop()

    def _steps(self, campaign: CampaignSummary) -> list[tuple[Parameters, int | None]]:
        """The parameters of each plan, and its group size if it is not the released one."""
        requests, reach = ((field.value or "").strip() for field in self._inputs.values())
        common = [("cap", str(int(self._cap.value))), ("auction", str(self._auction.value))]
        if requests:
            common.append(("requests", requests))
        goals = [("budget", f"{share * campaign.budget:.6g}") for share in _BUDGET_SHARES]
        if reach:
            goals.insert(0, ("reach", reach))
        other = self._other_size()
        size = [] if other is None else [("group_size", str(other))]
        steps: list[tuple[Parameters, int | None]] = []
        for goal in goals:
            steps.append(((*common, goal), None))
            if other is not None:
                steps.append(((*common, goal, *size), other))
        return steps

    async def _make_plan(
        self, campaign: str, parameters: Parameters, size: int | None, run: int
    ) -> bool:
        """Request and show one plan; False if the run must stop."""
        refusal: RequestRefused | None = None
        problem, document = None, None
        try:
            document = await self._console.plans.get(plan_query(campaign, parameters))
        except RequestRefused as error:
            refusal = error
        except ReportingUnavailable as error:
            problem = sentence(error)
        except asyncio.CancelledError:
            return False
        if run != self._run or self._chart.element.is_deleted:
            return False  # another run was started, or the page was closed
        if document is None:
            others = [problem]
            if refusal is not None:
                others = [*show_field_errors(refusal.error, self._inputs)[1]]
            self._notes.show(*others, tone="k-bad")
            self._stop()
            return False
        if size is None:
            self._document = document
        self._plans += [(size or self._released_size, outlook) for outlook in document.plans]
        self._plans.sort(key=lambda plan: (plan[0], plan[1].budget))
        self._draw()
        return True

    # -- display ------------------------------------------------------------------------------

    def _show(self, answers: Answers) -> None:
        answer, catalogues = answers.of(CAMPAIGNS), answers.of(CATALOGUES).document
        if answer.document is None:
            if answer.error is not None:
                self._panel.show_empty("cloud_off", "No data yet", sentence(answer.error))
            return
        self._campaigns = {one.id: one for one in reversed(answer.document.campaigns)}
        if not self._campaigns:
            text = "Plans use a campaign's audience and market: create a campaign first."
            self._panel.show_empty("insights", "No campaigns yet", text)
            return
        self._panel.show_content()
        names = list(self._campaigns)
        if names != list(self._campaign.options):
            chosen = self._campaign.value if self._campaign.value in names else names[0]
            self._campaign.set_options(names, value=chosen)
        if catalogues is not None and catalogues.catalogues:
            self._show_sizes(catalogues.catalogues[-1])

    def _show_sizes(self, catalogue: CatalogueSummary) -> None:
        """Offer the group sizes that can be planned."""
        if catalogue == self._catalogue:
            return
        self._catalogue = catalogue
        flexible = catalogue.visits != "shares" and catalogue.class_floor is None
        self._size.set_visibility(flexible)
        sizes = {self._released_size}
        if flexible:
            sizes |= {size for size in _SIZES if size <= catalogue.people // _MIN_GROUPS}
        self._sizes = sorted(sizes)
        self._size.props["max"] = len(self._sizes) - 1
        self._size.value = self._sizes.index(self._released_size)
        self._show_size()

    def _draw(self) -> None:
        if self._plans:
            self._no_plans.hide()
        else:
            text = "Press Plan. Points appear as they are computed."
            self._no_plans.show("insights", "No plans yet", text)
        self._result.set_visibility(bool(self._plans))
        plan, released = self._document, self._released_size
        currency = "" if plan is None else plan.currency
        unit = "people" if plan is not None and plan.cap == 1 else "impressions within the cap"
        ours = [outlook for size, outlook in self._plans if size == released]
        others = [outlook for size, outlook in self._plans if size != released]
        other = next((size for size, _ in self._plans if size != released), "")
        names = (f"groups of {released}", f"groups of {other}")
        self._chart.show(charts.budget_curve(ours, others, names, currency, unit))
        self._table.show(
            [
                (
                    fmt.count(size),
                    fmt.money(outlook.budget, currency),
                    fmt.money(outlook.spend, currency),
                    fmt.count(outlook.reach),
                    fmt.interval(outlook.band, outlook.level),
                    fmt.count(outlook.impressions),
                    fmt.decimal(outlook.average_frequency),
                )
                for size, outlook in self._plans
            ]
        )
        if plan is not None:
            self._basis.set_text(" ".join([_basis(plan), *_unspent(self._plans, currency)]))


def _unspent(plans: list[tuple[int, Outlook]], currency: str) -> list[str]:
    """What is left of the largest budget, and why; the limit on cost that was planned with."""
    if not plans:
        return []
    outlook = max((outlook for _, outlook in plans), key=lambda one: one.budget)
    texts = []
    if outlook.max_cost_per_reach is not None:
        most = fmt.money(outlook.max_cost_per_reach, currency)
        texts.append(f"A further reach costs at most {most}.")
    if outlook.unspent_reason is not None:
        left, budget = fmt.money(outlook.unspent, currency), fmt.money(outlook.budget, currency)
        texts.append(f"{left} of {budget} stay unspent: {outlook.unspent_reason}.")
    return texts


def _basis(plan: PlanDocument) -> str:
    """The inputs of a plan."""
    people = fmt.plural(plan.people, "person", "people")
    median = fmt.money(exp(plan.market.mu), plan.currency)
    return (
        f"Catalogue {plan.catalogue}: {people} in {fmt.plural(plan.groups, 'group')}. "
        f"{fmt.plural(plan.requests, 'eligible bid request')}, cap {plan.cap}, median CPM {median} "
        f"({plan.market.auction.replace('_', ' ')} auction). "
        + ("" if plan.visible is None else visible_text(plan.visible))
    )


def planner_page(frame: Frame) -> None:
    """Build the page."""
    _PlannerPage(frame)
