"""The planner: what a budget will reach and what people will cost, without a campaign."""

import asyncio
from collections.abc import Iterable
from math import exp
from typing import Any

import msgspec
from nicegui import ui

from kreach.adsystem.console import charts, forms
from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.client import CATALOGUES, ReportingUnavailable, RequestRefused
from kreach.adsystem.console.flight_choice import (
    FlightChoice,
    as_campaign,
    curve_budgets,
    plan_body,
)
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.status import visible_text
from kreach.adsystem.console.tables import plan_rows
from kreach.adsystem.console.widgets import (
    Chart,
    EmptyState,
    Notes,
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
from kreach.adsystem.reports.report import CatalogueSummary, Outlook, PlanDocument

__all__ = ["planner_page"]

_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_MIN_GROUPS = 10
_INPUT = "outlined dense stack-label"
_GOALS = {"budget": "Budget", "people": "People to reach"}
_TILES = (
    "People reached",
    "Cost per person reached",
    "Average frequency",
    "Budget",
    "Cost of anonymity",
)


class _PlannerPage:
    """The page."""

    def __init__(self, frame: Frame, choice: FlightChoice) -> None:
        self._frame, self._console, self._choice = frame, frame.console, choice
        self._inputs: dict[str, Any] = {}
        self._chosen: Outlook | None = None
        self._document: PlanDocument | None = None  # of the chosen point
        self._first: PlanDocument | None = None  # which says where its inputs come from
        self._plans: dict[int, dict[float, Outlook]] = {}  # by group size and budget
        self._catalogue: CatalogueSummary | None = None
        self._currency = ""
        self._run = 0  # answers to earlier runs are dropped
        with box("k-page") as page:
            with heading(
                "Planner",
                "What a budget will reach, and what people will cost, before anything is spent. "
                "Requests and prices are those that bidders saw.",
            ):
                csv_button("plan", self._rows, frame.today)
                self._save = button("Save as campaign", self._open_form, icon="save")
                self._save.set_enabled(False)
            with box("k-plan"):
                with card("Flight"), box(tag="form") as form:
                    form.on("submit.prevent", self._start)
                    self._add_inputs(choice)
                self._add_result()
            frame.follow_theme(self._chart)
            frame.watch(page, lambda: (CATALOGUES,), self._show)
        if choice.amount:
            ui.timer(0.1, self._start, once=True)

    def _add_inputs(self, choice: FlightChoice) -> None:
        with box("k-stack"):
            self._add("audience", ui.select([choice.audience], label="Audience"))
            self._add("start", ui.input("Start (UTC)"), type="datetime-local")
            self._add("end", ui.input("End (UTC)"), type="datetime-local")
            self._add("goal", ui.select(_GOALS, label="You know the"))
            self._add("amount", ui.input("Amount"), inputmode="decimal")
            self._add("cap", ui.input("Frequency cap"), inputmode="numeric")
            self._inputs["cap"].props["hint"] = "impressions per person in the flight"
            with ui.expansion("More").classes("w-full").props("dense"), box("k-stack"):
                self._add("requests", ui.input("Eligible bid requests"), inputmode="numeric")
                self._inputs["requests"].props["hint"] = "empty: as bidders saw"
                auctions = {"second_price": "second price", "first_price": "first price"}
                self._add("auction", ui.select(auctions, label="Auctions"))
                self._add("group_size", ui.select({"": "none"}, label="Compare with groups of"))
        for name, field in self._inputs.items():
            options = field.options if isinstance(field, ui.select) else None
            value = getattr(choice, name)
            if options is None or value in options:
                field.value = value
        self._inputs["goal"].on_value_change(self._show_goal)
        self._show_goal()
        self._notes = Notes()
        with box("k-row"):
            self._button = button("Plan", self._start, style="k-primary")
            self._progress = Text("", "span", "k-sub", name="progress")
            self._progress.props["role"] = "status"

    def _add(self, name: str, field: Any, **props: str) -> None:
        field.without_auto_validation().props(_INPUT).classes("w-full")
        field.props.update(props)
        field.props["data-name"] = f"field {name}"
        field.on("update:model-value", lambda: setattr(field, "error", None))
        if isinstance(field, ui.input):
            field.on("keydown.enter.prevent", self._start)
        self._inputs[name] = field

    def _add_result(self) -> None:
        with box("k-stack k-live"):
            self._empty = EmptyState()
            text = "Choose dates and a budget, or how many people you want, and press Plan."
            self._empty.show("insights", "No plan yet", text)
            with box("k-stack") as self._result:
                with box("k-tiles"):
                    self._tiles = {title: Tile(title) for title in _TILES}
                with card(
                    "Budget and people",
                    "People whom a budget reaches at least once, with the band that holds them. "
                    "Where the curve is flat, more money buys few. Dashed: the same people in "
                    "groups of another size.",
                ):
                    self._chart = Chart("People against budget, with a band", name="plan")
                    heads = ["k", "budget", "people", "band", "per person", "frequency", "spend"]
                    self._table = Table(heads, numeric=range(7), name="plan")
                    self._basis = Text("", "p", "k-sub", name="basis")
                    with box("k-row k-end"):
                        png_button("plan", self._chart, self._frame.today)
            self._result.set_visibility(False)

    # -- choices ------------------------------------------------------------------------------

    def _show_goal(self) -> None:
        people = self._inputs["goal"].value == "people"
        label = "How many people" if people else f"How much ({self._currency or 'money'})"
        self._inputs["amount"].props["label"] = label

    def _read(self) -> FlightChoice:
        texts = {name: str(one.value or "").strip() for name, one in self._inputs.items()}
        return FlightChoice(**texts)

    def _rows(self) -> list[Any]:
        return plan_rows(
            (size, outlook) for size, plans in self._plans.items() for outlook in plans.values()
        )

    async def _open_form(self) -> None:
        if self._document is not None and self._chosen is not None:
            given = as_campaign(self._choice, self._document, self._chosen)
            await forms.new_campaign(self._console, given)

    # -- planning -----------------------------------------------------------------------------

    async def _start(self) -> None:
        """Plan the chosen point coarsely, then its neighbours, then all of them finely."""
        self._choice = self._read()
        self._frame.set_address(self._choice.url)
        self._run += 1
        run = self._run
        self._notes.show()
        for field in self._inputs.values():
            field.error = None
        self._plans, self._chosen, self._first = {}, None, None
        body, size = plan_body(self._choice), self._other_size()
        self._progress.set_text("planning …")
        document = await self._plan(body | {"precision": "coarse"}, run)
        if document is None:
            return
        budget = document.plans[-1].budget
        body |= {  # all points of the curve rest on the same inventory and prices
            "requests": document.requests,
            "market_mu": document.market.mu,
            "market_sigma": document.market.sigma,
        }
        at_budget = {name: value for name, value in body.items() if name != "people"}
        around: dict[str, object] = at_budget | {"budgets": curve_budgets(budget)}
        self._take(document, chosen=True)
        self._progress.set_text("refining …")
        more: list[dict[str, object]] = [
            around | {"precision": "coarse"},
            at_budget | {"budgets": [budget], "with_ids": True, "precision": "coarse"},
        ]
        if size is not None:
            same = around | {"budgets": [budget, *curve_budgets(budget)]}
            more.append(same | {"group_size": size, "precision": "coarse"})
        more += [body | {"precision": "fine"}]
        for one in more:
            answer = await self._plan(one, run, optional="with_ids" in one)
            if answer is not None:
                self._take(answer, chosen=one["precision"] == "fine", size=one.get("group_size"))
            elif run != self._run:
                return
        self._progress.set_text("")

    async def _plan(
        self, body: dict[str, object], run: int, *, optional: bool = False
    ) -> PlanDocument | None:
        """One plan; None if it was refused, or if another run was started."""
        refusal, problem, document = None, None, None
        try:
            document = await self._console.flight_plans.get(body)
        except RequestRefused as error:
            refusal = error
        except ReportingUnavailable as error:
            problem = sentence(error)
        except asyncio.CancelledError:
            return None
        if run != self._run or self._chart.element.is_deleted:
            self._run += self._chart.element.is_deleted
            return None
        if document is None and not optional:
            self._progress.set_text("")
            others = [problem] if problem else []
            if refusal is not None:
                aliases = {"budgets": "amount", "budgets.0": "amount", "people": "amount"}
                aliases |= {"market_mu": "requests"}
                moved = forms.renamed_fields(refusal.error, aliases)
                others += forms.show_field_errors(moved, self._inputs)[1]
            self._notes.show(*others, tone="k-bad")
        return document

    def _other_size(self) -> int | None:
        text = self._choice.group_size
        return int(text) if text.isdigit() else None

    def _take(self, document: PlanDocument, *, chosen: bool, size: object = None) -> None:
        """Keep the plans of an answer and draw all so far."""
        released = 0 if self._catalogue is None else self._catalogue.group_size
        plans = self._plans.setdefault(size if isinstance(size, int) else released, {})
        for outlook in document.plans:
            plans[outlook.budget] = outlook
        if chosen:
            if self._chosen is not None and self._choice.goal == "people":
                plans.pop(self._chosen.budget, None)  # the fine one has another budget
            self._chosen = document.plans[-1]
            first = document if self._first is None else self._first
            self._first, names = first, ("inventory", "requests_source", "market_source")
            same = {name: getattr(first, name) for name in names}
            self._document = msgspec.structs.replace(document, **same)
            plans[self._chosen.budget] = self._chosen
        if document.anonymity is not None:
            cost = document.anonymity
            lost = 1.0 - cost.people / cost.people_with_ids if cost.people_with_ids else 0.0
            self._tiles["Cost of anonymity"].show(
                f"−{fmt.percent(max(lost, 0.0))}",
                "people, by the same bidder",
                "than in groups of one",
            )
        self._draw(released)

    # -- display ------------------------------------------------------------------------------

    def _show(self, answers: Answers) -> None:
        catalogues = answers.of(CATALOGUES).document
        if catalogues is None or not catalogues.catalogues:
            return
        names = list(catalogues.audiences) or [self._choice.audience]
        audience = self._inputs["audience"]
        if names != audience.options:
            wanted = audience.value if audience.value in names else self._choice.audience
            audience.set_options(names, value=wanted if wanted in names else names[0])
        if catalogues.currency != self._currency:
            self._currency = catalogues.currency
            self._show_goal()
        newest = catalogues.catalogues[-1]
        if newest == self._catalogue:
            return
        self._catalogue = newest
        flexible = newest.visits != "shares" and newest.class_floor is None
        sizes = [size for size in _SIZES if size <= newest.people // _MIN_GROUPS and flexible]
        options = {"": f"none: groups of {newest.group_size}, as released"}
        options |= {str(size): str(size) for size in sizes if size != newest.group_size}
        wanted = self._choice.group_size
        self._inputs["group_size"].set_options(options, value=wanted if wanted in options else "")

    def _draw(self, released: int) -> None:
        plan, chosen = self._document, self._chosen
        if plan is None or chosen is None:
            return
        self._empty.hide()
        self._result.set_visibility(True)
        self._save.set_enabled(True)
        currency = plan.currency
        share = chosen.people / plan.people if plan.people else None
        tiles = self._tiles
        tiles["People reached"].show(
            fmt.count(chosen.people),
            fmt.interval(chosen.people_band, chosen.level),
            f"{fmt.percent(share)} of {fmt.count(plan.people)}",
        )
        each = chosen.spend / chosen.people if chosen.people else None
        low, high = chosen.people_band
        ends = None if low <= 0.0 else (chosen.spend / high, chosen.spend / low)
        tiles["Cost per person reached"].show(
            fmt.money(each, currency),
            "" if ends is None else fmt.interval(ends, write=lambda one: fmt.money(one, "")),
            f"for {fmt.money(chosen.spend, currency)}",
        )
        tiles["Average frequency"].show(
            fmt.decimal(chosen.average_frequency),
            f"{fmt.count(chosen.impressions)} impressions",
            f"{fmt.count(chosen.reach)} within cap {plan.cap}",
        )
        unspent = chosen.unspent_reason
        tiles["Budget"].show(
            fmt.money(chosen.budget, currency),
            "spent in full" if unspent is None else f"{fmt.money(chosen.unspent, currency)} left",
            unspent or "",
        )
        ours = list(self._plans.get(released, {}).values())
        other = next((size for size in self._plans if size != released), None)
        others = [] if other is None else list(self._plans[other].values())
        names = (f"groups of {released}", f"groups of {other}")
        self._chart.show(charts.people_curve(ours, others, names, currency, chosen))
        self._table.show(
            [
                _row(size, one, currency)
                for size, plans in sorted(self._plans.items())
                for one in sorted(plans.values(), key=lambda outlook: outlook.budget)
            ]
        )
        self._basis.set_text(_basis(plan))


def _row(size: int, outlook: Outlook, currency: str) -> tuple[str, ...]:
    each = outlook.spend / outlook.people if outlook.people else None
    return (
        fmt.count(size),
        fmt.money(outlook.budget, currency),
        fmt.count(outlook.people),
        fmt.interval(outlook.people_band),
        fmt.money(each, currency),
        fmt.decimal(outlook.average_frequency),
        fmt.money(outlook.spend, currency),
    )


def _basis(plan: PlanDocument) -> str:
    """The inputs of a plan, and where they come from."""
    median = fmt.money(exp(plan.market.mu), plan.currency)
    auction = plan.market.auction.replace("_", " ")
    texts = [f"{fmt.plural(plan.requests, 'eligible bid request')} in the flight"]
    if plan.inventory is not None:
        seen = plan.inventory
        texts.append(
            f"as bidders saw {fmt.count(seen.requests_per_day)} a day over "
            f"{fmt.decimal(seen.observed_days, 1)} days, of which "
            f"{fmt.percent(seen.eligible_share, 0)} suit an ad"
        )
    source = "observed" if plan.market_source == "observed" else "given"
    texts.append(f"median CPM {median} ({source}, {auction} auctions)")
    people = fmt.plural(plan.people, "person", "people")
    groups = f"Catalogue {plan.catalogue}: {people} in {fmt.plural(plan.groups, 'group')}."
    visible = "" if plan.visible is None else visible_text(plan.visible)
    rough = " A rough plan, being refined." if plan.precision == "coarse" else ""
    return f"{', '.join(texts)}. {groups} {visible}{rough}"


def planner_page(frame: Frame, parameters: Iterable[tuple[str, str]] = ()) -> None:
    """Build the page for the parameters of its address."""
    _PlannerPage(frame, FlightChoice.of_query(parameters, frame.console.now()))
