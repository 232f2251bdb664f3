"""What to compare: campaigns, a cap and a window. Errors of reporting are shown at the inputs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nicegui import ui

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.comparison import MIN_CAMPAIGNS, Choice
from kreach.adsystem.console.date_range import CUSTOM, PRESETS, TO_DATE
from kreach.adsystem.console.forms import show_field_errors
from kreach.adsystem.console.pages.window_report import CAPS
from kreach.adsystem.console.widgets import Notes, Text, box, button, date_presets
from kreach.adsystem.reports.report import CampaignSummary, ErrorInfo, FamilyDefinition

__all__ = ["CompareInputs", "family_text", "input_text"]

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(T\d\d:\d\d)?")


def input_text(text: str | None) -> str:
    """A time of an address as the value of an input; empty if it is none.

    >>> input_text("2026-11-02T06:00:00Z"), input_text("2026-11-02"), input_text("now")
    ('2026-11-02T06:00', '2026-11-02T00:00', '')
    """
    time = _TIME.match(text or "")
    return "" if time is None else time[1] + (time[2] or "T00:00")


def family_text(family: FamilyDefinition, currency: str) -> str:
    """The caps and the budget of a family in words."""
    caps = " and ".join(fmt.cap_text(cap) for cap in family.caps) or "no cap of its own"
    if family.budget is None:
        return f"{caps}, no budget of its own"
    return f"{caps}, budget {fmt.money(family.budget, currency)}"


class CompareInputs:
    """The inputs; `on_choice` is called with each new choice."""

    def __init__(self, choice: Choice, on_choice: Callable[[Choice], None]) -> None:
        self._choice, self._on_choice = choice, on_choice
        self._campaigns: Sequence[CampaignSummary] = ()
        self._titles: Mapping[str, str] = {}
        self._families: dict[str, FamilyDefinition] = {}
        self._currency = ""
        with box("k-compare"):
            self._names = ui.select(
                {name: name for name in choice.campaigns},
                label="Campaigns, in the order they add",
                value=list(choice.campaigns),
                multiple=True,
                with_input=True,
                clearable=True,
                on_change=self._pick_campaigns,
            )
            self._names.props("outlined use-chips stack-label").classes("k-names")
            self._cap = ui.select({1: ""}, label="Cap", value=1, on_change=self._pick_cap)
            self._cap.props("outlined stack-label")
        with box("k-row") as self._family_row:
            self._family = ui.select([], label="All campaigns of", on_change=self._pick_family)
            self._family.props("outlined dense stack-label clearable").classes("k-family")
            self._family.props["data-name"] = "compare family"
            self._family_text = Text("", "span", "k-sub", name="family")
        self._family_row.set_visibility(False)
        self._presets = date_presets(PRESETS, choice.preset, self._pick_preset)
        with box("k-row") as self._custom:
            self._times = {"start": ui.input("Window from (UTC)"), "end": ui.input("to (UTC)")}
            for field in self._times.values():
                field.props("outlined dense stack-label type=datetime-local")
                field.on("keydown.enter", self._pick_window)
            button("Report this window", self._pick_window)
        self._inputs: dict[str, Any] = {"campaign": self._names, "cap": self._cap, **self._times}
        for name, field in self._inputs.items():
            field.without_auto_validation()
            field.props["data-name"] = f"compare {name}"
        self._notes = Notes()
        self.show_choice(choice)

    # -- choices ------------------------------------------------------------------------------

    def _choose(self, choice: Choice) -> None:
        if choice != self._choice:
            self._choice = choice
            self.clear_errors()
            self._on_choice(choice)

    def _pick_campaigns(self) -> None:
        self._choose(replace(self._choice, campaigns=tuple(self._names.value or ())))

    def _pick_family(self) -> None:
        """Choose the campaigns of a family; which they are is then in the address."""
        family = self._families.get(self._family.value or "")
        self._family_text.set_text("" if family is None else family_text(family, self._currency))
        if family is not None:
            self._names.value = list(family.campaigns)

    def _pick_cap(self) -> None:
        self._choose(replace(self._choice, cap=self._cap.value or 1))

    def _pick_preset(self, event: Any) -> None:
        """A preset; "custom" waits for a time."""
        self._custom.set_visibility(event.value == CUSTOM)
        if event.value not in (CUSTOM, self._choice.preset):
            self._choose(replace(self._choice, start=None, end=None, preset=event.value))

    def _pick_window(self) -> None:
        times = {name: f"{field.value}:00Z" for name, field in self._times.items() if field.value}
        start, end = times.get("start"), times.get("end")
        preset = CUSTOM if times else TO_DATE
        self._choose(replace(self._choice, start=start, end=end, preset=preset))

    # -- display ------------------------------------------------------------------------------

    def show_choice(self, choice: Choice) -> None:
        """Show a choice that was made elsewhere."""
        self._choice = choice
        self._show_options()
        self._names.value, self._cap.value = list(choice.campaigns), choice.cap
        for name, field in self._times.items():
            field.value = input_text(getattr(choice, name))
        self._presets.value = choice.preset
        self._custom.set_visibility(choice.preset == CUSTOM)
        self.clear_errors()

    def show_campaigns(
        self, campaigns: Sequence[CampaignSummary], titles: Mapping[str, str]
    ) -> None:
        """Offer these campaigns by their titles, the newest first."""
        self._campaigns, self._titles = campaigns, titles
        self._show_options()

    def show_families(self, families: Sequence[FamilyDefinition], currency: str) -> None:
        """Offer families that have campaigns to compare."""
        self._families = {one.id: one for one in families if len(one.campaigns) >= MIN_CAMPAIGNS}
        self._currency = currency
        self._family_row.set_visibility(bool(self._families))
        if list(self._families) != self._family.options:
            self._family.set_options(list(self._families))

    def _show_options(self) -> None:
        """Also offer what an address names, so that reporting can say what is wrong with it."""
        chosen = self._choice.campaigns
        ids = dict.fromkeys([*(one.id for one in reversed(self._campaigns)), *chosen])
        names = {name: self._titles.get(name, name) for name in ids}
        if names != self._names.options:
            self._names.set_options(names)
        limits = {cap.limit for one in self._campaigns if one.id in chosen for cap in one.caps}
        caps = {cap: f"cap {cap}" for cap in sorted({*CAPS, *limits, self._choice.cap})}
        caps[1] = "cap 1: people"
        if caps != self._cap.options:
            self._cap.set_options(caps)

    def clear_errors(self) -> None:
        """Forget what was wrong with another choice."""
        for field in self._inputs.values():
            field.error = None
        self._notes.show()

    def show_error(self, error: ErrorInfo) -> None:
        """Show what reporting refuses, where it was chosen."""
        self._custom.set_visibility(True)  # the window may be what is wrong
        _, others = show_field_errors(error, self._inputs)
        self._notes.show(*others, tone="k-bad")
