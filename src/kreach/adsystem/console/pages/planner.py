"""Before spending: what budgets will reach, and what a reach will cost, with bands."""

import asyncio
from math import exp
from typing import Any

from nicegui import ui

from kreach.adsystem.console import charts
from kreach.adsystem.console.client import Away, Document, Refused
from kreach.adsystem.console.formatting import between, count, decimal, level, money, plural
from kreach.adsystem.console.layout import Answers, Frame
from kreach.adsystem.console.state import CATALOGUES, LIST
from kreach.adsystem.console.tables import plan_rows
from kreach.adsystem.console.widgets import (
    Chart,
    Notes,
    Table,
    Text,
    box,
    button,
    card,
    csv_button,
    empty,
    heading,
    skeleton,
)

__all__ = ["planner_page"]

_STEPS = (1.0, 0.5, 1.5, 0.25, 2.0, 0.75)  # of the campaign's budget, most telling first
_MAX_CAP = 10
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_FEWEST_GROUPS = 10


class _Planner:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._console = frame, frame.console
        self._campaigns: dict[str, dict[str, Any]] = {}
        self._plans: list[Document] = []  # each with the size of groups that it is for
        self._facts: Document = {}
        self._release: Document = {}
        self._sizes: list[int] = []
        self._round = 0  # answers to earlier questions are dropped
        with box("k-page") as page:
            with heading(
                "Planner",
                "What a budget will reach before it is spent, and what a reach will cost. Plans "
                "come from reporting: they simulate flights on the campaign's audience and market.",
            ):
                csv_button("plan", lambda: plan_rows(self._plans))
            self._loading = skeleton(3)
            self._nothing = box("k-card")
            self._nothing.set_visibility(False)
            with box().style("display: contents") as self._body:
                self._question()
                self._answer()
            self._body.set_visibility(False)
        frame.follow_theme(self._chart)
        with page:
            wanted = {"list": LIST, "catalogues": CATALOGUES}
            frame.watch(page, lambda: wanted, self._show)

    def _question(self) -> None:
        with card("Question"), box("k-form"):
            self._campaign = ui.select([], label="Campaign", on_change=self._other_campaign)
            self._campaign.props("outlined dense stack-label")
            self._requests = ui.input("Requests expected in the flight").without_auto_validation()
            self._requests.props("outlined dense stack-label inputmode=numeric")
            self._requests.props["hint"] = "how many bid requests of the audience will come"
            with box():
                self._cap_says = Text("", classes="k-name")
                self._cap = ui.slider(min=1, max=_MAX_CAP, value=2, on_change=self._say_cap)
                self._cap.props("markers snap label").props["aria-label"] = "Frequency cap"
                self._say_cap()
            with box():
                self._size_says = Text("", classes="k-name")
                self._size = ui.slider(min=0, max=1, value=0, step=1, on_change=self._say_size)
                self._size.props("markers snap").props["aria-label"] = "Size of groups"
            self._reach = ui.input("Or: reach wanted").without_auto_validation()
            self._reach.props("outlined dense stack-label inputmode=decimal")
            self._reach.props["hint"] = "what budget will reach so much?"
            for one, name in ((self._requests, "requests"), (self._reach, "reach")):
                one.props["data-name"] = f"field {name}"
                one.on("keydown.enter", self._plan)
            with box("k-row"):
                self._go = button("Plan", self._plan, style="k-primary")
                self._stop = button("Stop", self._halt)
                self._stop.set_visibility(False)
                self._progress = Text("", "span", "k-sub", name="progress")
        self._notes = Notes()

    def _answer(self) -> None:
        with card(
            "Budget and reach",
            "Each point is a flight with that budget; the band holds what it reaches with the "
            "probability in the table. Where the curve is flat, more money buys little. Dashed: "
            "the same people in groups of another size.",
        ):
            self._unplanned = empty(
                "insights", "Nothing is planned yet", "Press Plan: points appear as they are made."
            )
            with box() as self._planned:
                self._chart = Chart("Reach against budget, with a band", name="plan")
                heads = ["k", "budget", "spent", "reach", "band", "impressions", "frequency"]
                self._table = Table(heads, numeric=range(7), name="plan")
                self._basis = Text("", "p", "k-sub")
            self._planned.set_visibility(False)

    # -- what the reader chooses --------------------------------------------------------------

    def _other_campaign(self) -> None:
        chosen = self._campaigns.get(self._campaign.value or "")
        if chosen is None:
            return
        self._halt()
        self._plans, self._facts = [], {}
        expected = chosen["expected_requests"]
        self._requests.value = "" if expected is None else str(expected)
        self._cap.value = min(max(one["limit"] for one in chosen["caps"]), _MAX_CAP)
        self._draw()

    def _say_cap(self) -> None:
        self._cap_says.tell(f"Frequency cap: {int(self._cap.value)} a person")

    def _halt(self) -> None:
        self._round += 1
        self._progress.tell("")
        self._go.enable()
        self._stop.set_visibility(False)

    async def _plan(self) -> None:
        """Ask for one budget after the other: each takes a while, and shows when it is there."""
        chosen = self._campaigns.get(self._campaign.value or "")
        if chosen is None or not self._go.enabled:
            return
        self._halt()
        mine = self._round
        self._go.disable()
        self._stop.set_visibility(True)
        self._plans, self._facts = [], {}
        self._notes.tell()
        for one in (self._requests, self._reach):
            one.error = None
        asked: list[tuple[str, object]] = [("cap", int(self._cap.value))]
        if self._requests.value:
            asked.append(("requests", self._requests.value.strip()))
        wanted: list[tuple[str, object]] = [
            ("budget", f"{share * chosen['budget']:.6g}") for share in _STEPS
        ]
        if self._reach.value:
            wanted.insert(0, ("reach", self._reach.value.strip()))
        sizes = [None] if self._other_size() is None else [None, self._other_size()]
        every = [(question, size) for question in wanted for size in sizes]
        for at, (question, size) in enumerate(every, 1):
            self._progress.tell(f"planning {at} of {len(every)} …")
            if not await self._one(chosen["id"], [*asked, question], size, mine):
                return
        self._halt()

    async def _one(
        self, name: str, asked: list[tuple[str, object]], size: int | None, mine: int
    ) -> bool:
        """Ask for one plan; False if there is no point in going on."""
        said = ""
        if size is not None:
            asked = [*asked, ("group_size", size)]
        try:
            found = await self._console.plans.get(name, *asked)
        except Refused as refused:
            said = str(refused)
        except Away as away:
            said = f"Reporting does not answer: {away}."
        except asyncio.CancelledError:
            return False
        if mine != self._round or self._chart.element.is_deleted:
            return False  # something else is asked by now, or the page was left
        if said:
            self._refuse(said)
            self._halt()
            return False
        if size is None:
            self._facts = found
        made = [plan | {"group_size": size or self._today()} for plan in found["plans"]]
        self._plans = sorted(
            [*self._plans, *made], key=lambda one: (one["group_size"], float(one["budget"]))
        )
        self._draw()
        return True

    def _refuse(self, message: str) -> None:
        for name, field in (("requests", self._requests), ("reach", self._reach)):
            if message.startswith(name):
                field.error = message
                return
        self._notes.tell(message, tone="k-bad")

    # -- what is shown ------------------------------------------------------------------------

    def _show(self, answers: Answers) -> None:
        listed = answers["list"]
        if listed.document is None:
            if listed.trouble is not None:
                self._say("cloud_off", "Nothing to plan yet", f"Reporting: {listed.trouble}")
            return
        self._campaigns = {one["id"]: one for one in reversed(listed.document["campaigns"])}
        self._loading.set_visibility(False)
        if not self._campaigns:
            says = "Plans are made for a campaign's audience and market: create one first."
            self._say("insights", "No campaigns yet", says)
            return
        self._nothing.set_visibility(False)
        self._body.set_visibility(True)
        names = list(self._campaigns)
        if names != list(self._campaign.options):
            kept = self._campaign.value if self._campaign.value in names else names[0]
            self._campaign.set_options(names, value=kept)
        told = answers["catalogues"].document
        if told is not None:
            self._show_sizes(told["catalogues"][-1])

    def _say(self, icon: str, title: str, says: str) -> None:
        self._loading.set_visibility(False)
        self._body.set_visibility(False)
        self._nothing.clear()
        with self._nothing:
            empty(icon, title, says)
        self._nothing.set_visibility(True)

    def _today(self) -> int:
        """People in a group, as the publisher promises them."""
        return int(self._release.get("group_size", 0))

    def _show_sizes(self, release: Document) -> None:
        """Offer the sizes that these people can be put into."""
        if release == self._release:
            return
        self._release = release
        known = release["visits"] != "shares" and release["class_floor"] is None
        self._size.set_visibility(known)
        most = release["people"] // _FEWEST_GROUPS
        found = {size for size in _SIZES if size <= most} | {self._today()}
        self._sizes = sorted(found) if known else [self._today()]
        self._size.props["max"] = len(self._sizes) - 1
        self._size.value = self._sizes.index(self._today())
        self._say_size()

    def _other_size(self) -> int | None:
        """The size on the slider, if it is not today's."""
        if not self._sizes:
            return None
        size = self._sizes[min(int(self._size.value), len(self._sizes) - 1)]
        return None if size == self._today() else size

    def _say_size(self) -> None:
        other, today = self._other_size(), self._today()
        if len(self._sizes) < 2:
            says = f"Groups of {today} people: others cannot be planned with these groups"
        elif other is None:
            says = f"Groups of {today} people, as released; slide to compare with another k"
        else:
            says = f"Groups of {other} people, beside the {today} of today"
        self._size_says.tell(says)

    def _draw(self) -> None:
        self._unplanned.set_visibility(not self._plans)
        self._planned.set_visibility(bool(self._plans))
        currency = str(self._facts.get("currency", ""))
        unit = "people" if self._facts.get("cap") == 1 else "impressions within the cap"
        today = [one for one in self._plans if one["group_size"] == self._today()]
        others = [one for one in self._plans if one["group_size"] != self._today()]
        sizes = [str(told[0]["group_size"]) if told else "" for told in (today, others)]
        names = (f"groups of {sizes[0]}", f"groups of {sizes[1]}")
        self._chart.tell(charts.budget_curve(today, others, names, currency, unit))
        self._table.tell(
            [
                (
                    count(one["group_size"]),
                    money(one["budget"], currency),
                    money(one["spend"], currency),
                    count(one["reach"]),
                    f"{between(one['band'])} ({level(one['level'])})",
                    count(one["impressions"]),
                    decimal(one["average_frequency"]),
                )
                for one in self._plans
            ]
        )
        if self._facts:
            market = self._facts["market"]
            median = money(exp(market["mu"]), currency)
            facts, auction = self._facts, market["auction"].replace("_", " ")
            people = plural(facts["people"], "person", "people")
            groups = plural(facts["groups"], "group")
            self._basis.tell(
                f"On catalogue {facts['catalogue']}: {people} in {groups}, "
                f"{plural(facts['requests'], 'request')}, cap {facts['cap']}, a market with half "
                f"of the prices below {median} per thousand ({auction})."
            )


def planner_page(frame: Frame) -> None:
    """Build it."""
    _Planner(frame)
