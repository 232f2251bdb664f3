"""Dialogs that create, edit, pause, resume and end campaigns."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import msgspec
from nicegui import ui

from kreach.adsystem.console.client import (
    CATALOGUES,
    ReportingError,
    ReportingUnavailable,
    RequestRefused,
)
from kreach.adsystem.console.endings import UNDO_SECONDS
from kreach.adsystem.console.form_fields import (
    CAP_LIMIT,
    CAP_SPAN,
    id_from,
    input_for,
    local_text,
    number_text,
    request_body,
)
from kreach.adsystem.console.formatting import parse_time
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.status import title_of
from kreach.adsystem.console.widgets import Text, box, button, sentence
from kreach.adsystem.reports.report import (
    CampaignDefinition,
    CatalogueList,
    Creative,
    ErrorInfo,
    FieldError,
)

__all__ = [
    "change_state",
    "confirm_end",
    "edit_campaign",
    "new_campaign",
    "renamed_fields",
    "show_field_errors",
    "undo_end",
]

_FLIGHT = timedelta(days=7)
_CATALOGUE_SECONDS = 2.0
_INPUT = "outlined dense stack-label bottom-slots"
_STATES = {"running": "running again", "paused": "paused"}
_NOT_SENT = ("key", "version", "review", "review_reason")
Body = dict[str, object]
Send = Callable[[Body], Awaitable[None]]


def show_field_errors(error: ErrorInfo, inputs: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Show each error at its input. Returns the inputs with errors and the other messages."""
    by_input: dict[str, list[str]] = {}
    others = [] if error.fields else [sentence(error.message)]
    for one in error.fields:
        name = input_for(one.field, inputs)
        if name is None:
            others.append(sentence(one.message))
        else:
            by_input.setdefault(name, []).append(_at_input(one))
    for name, messages in by_input.items():
        inputs[name].error = "; ".join(messages)
    return list(by_input), others


def _at_input(error: FieldError) -> str:
    """A message beside its input, which names the field already: "must be greater than 0"."""
    rest = error.message.removeprefix(error.field)
    return rest.strip() if rest.startswith((" must ", " is ")) else error.message


def renamed_fields(error: ErrorInfo, names: Mapping[str, str]) -> ErrorInfo:
    """The same error, with what is wrong with some fields at other inputs."""

    def rename(one: FieldError) -> FieldError:
        to, text = names.get(one.field), _at_input(one)
        if to is None:
            return one
        message = one.message if text == one.message else f"{to} {text}"
        return msgspec.structs.replace(one, field=to, message=message)

    fields = tuple(rename(one) for one in error.fields)
    return msgspec.structs.replace(error, fields=fields)


def _focus(wrong: list[str], unfolds: bool) -> str:
    """JavaScript that moves to the first wrong input, unless one of them has the focus.

    Whoever types already must not be interrupted: the rest of the text would go elsewhere.
    """
    move = (
        f"(() => {{ if ({json.dumps(wrong)}.includes(document.activeElement?.id)) return;"
        f" const input = document.getElementById({json.dumps(wrong[0])});"
        " input?.focus(); input?.scrollIntoView({block: 'center'}); })"
    )
    if not unfolds:
        return f"{move}()"
    return (  # when it is unfolded, if nobody went elsewhere meanwhile
        "{ const before = document.activeElement;"
        f" setTimeout(() => {{ if (document.activeElement === before) {move}(); }}, 350) }}"
    )


class _Form:
    """A dialog with inputs; errors of reporting are shown at their inputs."""

    def __init__(self, title: str, subtitle: str, submit: str, send: Send, done: str) -> None:
        self._inputs: dict[str, Any] = {}
        self._advanced: set[str] = set()
        self._send, self._done = send, done
        with ui.dialog() as self.dialog, box("k-dialog", "form") as form:
            form.props["aria-label"] = title
            Text(title, "h2")
            Text(subtitle, "p", "k-sub")
            self.main = box("k-form")
            self._more = ui.expansion("More").classes("w-full").props("dense")
            self._more.set_visibility(False)
            self._error = Text("", "p", "k-note k-bad", name="form error")
            self._error.props["role"] = "alert"
            self._error.set_visibility(False)
            with box("k-row k-end"):
                button("Cancel", self.dialog.close)
                self._button = button(submit, self._submit, style="k-primary")
        form.on("submit.prevent", self._submit)

    @contextmanager
    def advanced(self) -> Iterator[None]:
        """The place for inputs that few people need."""
        before = set(self._inputs)
        self._more.set_visibility(True)
        with self._more, box("k-form"):
            yield
        self._advanced = set(self._inputs) - before

    def text(self, name: str, label: str, value: str = "", hint: str = "", **props: str) -> None:
        """An input for text or a number; reporting validates it."""
        field = ui.input(label, value=value).without_auto_validation()
        field.props.update(props)
        field.props.set_optional("hint", hint or None)
        field.on("keydown.enter.prevent", self._submit)
        self._add(name, field)

    def number(self, name: str, label: str, value: float | None = None, hint: str = "") -> None:
        """An input for a number."""
        self.text(name, label, number_text(value), hint, inputmode="decimal")

    def choice(self, name: str, label: str, options: dict[str, str]) -> None:
        """An input for one of some values; the first is the default."""
        field = ui.select(options, label=label, value=next(iter(options)))
        self._add(name, field.without_auto_validation())

    def _add(self, name: str, field: Any) -> None:
        field.props(_INPUT).classes("w-full").props["data-name"] = f"field {name}"
        field.on("update:model-value", lambda: setattr(field, "error", None))
        self._inputs[name] = field

    def fill(self, values: Mapping[str, str]) -> None:
        """Set inputs to these values."""
        for name, value in values.items():
            self._inputs[name].value = value

    async def _submit(self) -> None:
        if not self._button.enabled:
            return
        self._error.set_visibility(False)
        for field in self._inputs.values():
            field.error = None
        self._button.disable()
        try:
            await self._send(request_body({name: one.value for name, one in self._inputs.items()}))
        except RequestRefused as refusal:
            self._show_errors(refusal.error)
        except ReportingUnavailable as error:
            self._show_message(f"{sentence(error)} The change may not have been saved.")
        else:
            self.dialog.close()
            ui.notify(self._done, type="positive")
        finally:
            self._button.enable()

    def _show_errors(self, error: ErrorInfo) -> None:
        wrong, others = show_field_errors(error, self._inputs)
        if others:
            self._show_message(" ".join(others))
        unfolds = bool(self._advanced & set(wrong))
        if unfolds:
            self._more.set_value(True)
        if wrong:
            ui.run_javascript(_focus([self._inputs[name].html_id for name in wrong], unfolds))

    def _show_message(self, message: str) -> None:
        self._error.set_text(message)
        self._error.set_visibility(True)


async def new_campaign(console: Console, given: Mapping[str, str] | None = None) -> None:
    """Open the dialog for a new campaign; `given` are values by input, such as those of a plan."""
    catalogues: CatalogueList | None = None
    with suppress(ReportingError):  # then the form asks for the name of an audience
        catalogues = await console.client.get(CATALOGUES, _CATALOGUE_SECONDS)
    now = console.now().replace(second=0, microsecond=0)
    currency = "the ad system's currency" if catalogues is None else catalogues.currency
    subtitle = f"It starts bidding when its flight starts. Money is in {currency}."
    done = "The campaign was created."

    async def send(body: Body) -> None:
        derived = "id" not in body
        if derived and id_from(str(body.get("name", ""))):
            body["id"] = id_from(str(body["name"]))
        try:
            await console.create(body)
        except RequestRefused as refusal:
            if not derived:
                raise
            moved = renamed_fields(refusal.error, {"id": "name"})
            raise RequestRefused(refusal.status, moved) from None

    form = _Form("New campaign", subtitle, "Create", send, done)
    with form.main:
        form.text("name", "Name", hint="as people call it", autofocus="", maxlength="100")
        form.number("budget", "Budget")
        form.text("start", "Start (UTC)", local_text(now), type="datetime-local")
        form.text("end", "End (UTC)", local_text(now + _FLIGHT), type="datetime-local")
        form.text(CAP_LIMIT, "Frequency cap (impressions per person)", "2", inputmode="numeric")
        form.number(CAP_SPAN, "Cap period (days)", hint="empty: the whole flight")
        form.number("max_cpm", "Max CPM bid", hint="the most to bid for a thousand impressions")
        form.number("daily_budget", "Daily budget", hint="empty: no limit")
        if catalogues is not None and catalogues.audiences:
            form.choice("audience", "Audience", {name: name for name in catalogues.audiences})
        else:
            form.text("audience", "Audience", "everyone")
        form.text("creative.markup", "Ad markup", hint="without markup and size it does not bid")
        form.text("creative.width", "Ad width (pixels)", inputmode="numeric")
        form.text("creative.height", "Ad height (pixels)", inputmode="numeric")
    with form.advanced():
        form.text("id", "Id", hint="for programs; empty: made from the name")
        bidders = {"planning": "planning: looks ahead", "paper": "paper: the paper's rule"}
        form.choice("bidder", "Bidder", bidders)
        form.text("expected_requests", "Expected bid requests", inputmode="numeric")
        form.number("min_cpm", "Min CPM bid")
        hint = "empty: ten times what the first costs"
        form.number("max_cost_per_reach", "Max cost of a further person", hint=hint)
        form.number("market_mu", "Market: mean of ln CPM")
        form.number("market_sigma", "Market: standard deviation of ln CPM")
    form.fill(given or {})
    form.dialog.open()


def edit_campaign(console: Console, campaign: CampaignDefinition) -> None:
    """Open the dialog for what can be changed while a campaign runs."""
    end = local_text(parse_time(campaign.end))
    kept = campaign.creative

    async def send(body: Body) -> None:
        if body.get("end") == f"{end}:00Z":  # the input has no seconds: keep those of the campaign
            del body["end"]
        creative = body.get("creative")
        if isinstance(creative, dict):  # it is replaced as a whole, and others stay
            body["creative"] = _as_input(kept) | creative
            others = [_as_input(each) for each in campaign.creatives[1:]]
            if others:
                body["creatives"] = [body.pop("creative"), *others]
        await console.change(campaign.id, body)

    subtitle = "Empty fields stay as they are. The budget cannot be less than what was spent."
    done = "The campaign was changed."
    form = _Form(f"Edit {title_of(campaign)}", subtitle, "Save", send, done)
    with form.main:
        form.text("name", "Name", campaign.name or "", maxlength="100")
        form.number("budget", "Budget", campaign.budget)
        form.number("daily_budget", "Daily budget", campaign.daily_budget)
        form.text("end", "End (UTC)", end, type="datetime-local")
        form.number("max_cpm", "Max CPM bid", campaign.max_cpm)
        most = campaign.max_cost_per_reach
        form.number("max_cost_per_reach", "Max cost of a further person", most)
        form.text("creative.markup", "Ad markup", kept.markup or "")
        form.text("creative.width", "Ad width (pixels)", number_text(kept.width))
        form.text("creative.height", "Ad height (pixels)", number_text(kept.height))
    form.dialog.open()


def _as_input(creative: Creative) -> dict[str, object]:
    """A creative as it is sent: without what the service adds to it."""
    document: dict[str, object] = msgspec.to_builtins(creative)
    return {name: value for name, value in document.items() if name not in _NOT_SENT}


async def change_state(console: Console, campaign: CampaignDefinition, state: str) -> None:
    """Pause or resume a campaign, and notify."""
    await _notify(
        console.change(campaign.id, {"state": state}), f"{title_of(campaign)} is {_STATES[state]}."
    )


async def undo_end(console: Console, campaign: CampaignDefinition) -> None:
    """Put a campaign back that is about to end, and notify."""
    name = title_of(campaign)

    async def undo() -> None:
        if not await console.endings.undo(campaign.id):
            ui.notify(f"{name} has ended already.", type="negative")

    await _notify(undo(), f"{name} is as before.")


async def _notify(change: Awaitable[None], done: str) -> None:
    try:
        await change
    except RequestRefused as refusal:
        ui.notify(sentence(refusal), type="negative")
    except ReportingUnavailable as error:
        ui.notify(f"{sentence(error)} The state may not have changed.", type="warning")
    else:
        ui.notify(done, type="positive")


def confirm_end(console: Console, campaign: CampaignDefinition) -> None:
    """Ask before ending a campaign, which can be undone for a few seconds only."""
    name = title_of(campaign)
    with ui.dialog() as dialog, box("k-dialog").style("width: 440px") as content:
        content.props["role"] = "alertdialog"
        content.props["aria-label"] = f"End {name}?"
        Text(f"End {name}?", "h2")
        text = (
            f"It stops bidding now and ends in {UNDO_SECONDS:.0f} seconds; until then you can "
            "undo it. After that it cannot be restarted. Its reports remain available. To stop "
            "for a while, pause it instead."
        )
        Text(text, "p", "k-sub")

        async def end() -> None:
            dialog.close()
            begin = console.endings.begin(campaign.id, campaign.state)
            await _notify(begin, f"{name} is ending.")

        with box("k-row k-end"):
            button("Cancel", dialog.close).props("autofocus")
            button("End campaign", end, style="k-danger")
    dialog.open()
