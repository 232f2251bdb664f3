"""Dialogs that change campaigns: make one, change one, pause, resume, end."""

from collections.abc import Awaitable, Callable
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from kreach.adsystem.console.client import Away, Document, Refused
from kreach.adsystem.console.form_fields import CREATE, as_document, field_of, local_text
from kreach.adsystem.console.formatting import moment_of
from kreach.adsystem.console.state import CATALOGUES, Console
from kreach.adsystem.console.widgets import Text, box, button

__all__ = ["ask_to_end", "change_state", "edit_campaign", "new_campaign"]

_FLIGHT = timedelta(days=7)
_SOON_SECONDS = 2.0
Send = Callable[[Document], Awaitable[Document]]


class _Form:
    """A dialog with fields; what reporting refuses is said at the field."""

    def __init__(self, title: str, says: str, verb: str, names: tuple[str, ...]) -> None:
        self._names = names
        self._inputs: dict[str, Any] = {}
        self._send: Send | None = None
        self._done = ""
        with ui.dialog() as self.dialog, box("k-dialog", "form") as self._box:
            self._box.props["aria-label"] = title
            Text(title, "h2")
            Text(says, "p", "k-sub")
            self._fields = box("k-form")
            self._more = ui.expansion("More").classes("w-full").props("dense")
            self._trouble = Text("", "p", "k-note k-bad", name="form error")
            self._trouble.props["role"] = "alert"
            self._trouble.set_visibility(False)
            with box("k-row").style("justify-content: flex-end"):
                button("Cancel", self.dialog.close)
                self._go = button(verb, self._submit, style="k-primary")
        self._box.on("submit.prevent", self._submit)

    @contextmanager
    def main(self) -> Any:
        """The place for fields that everybody needs."""
        with self._fields:
            yield

    @contextmanager
    def more(self) -> Any:
        """The place for the others."""
        with self._more, box("k-form"):
            yield

    def without_more(self) -> None:
        """Nothing but the main fields."""
        self._more.set_visibility(False)

    def text(self, name: str, label: str, value: str = "", hint: str = "", **props: str) -> None:
        """A field for text or a number: reporting says what is wrong with it."""
        made = ui.input(label, value=value).classes("w-full").without_auto_validation()
        made.props("outlined dense stack-label bottom-slots")
        made.props.update({key.replace("_", "-"): given for key, given in props.items()})
        made.props.set_optional("hint", hint or None)
        made.on("keydown.enter.prevent", self._submit)
        self._keep(name, made)

    def choice(self, name: str, label: str, options: dict[str, str], value: str) -> None:
        """A field for one of some values."""
        made = ui.select(options, label=label, value=value).without_auto_validation()
        self._keep(name, made.props("outlined dense stack-label bottom-slots").classes("w-full"))

    def _keep(self, name: str, made: ValidationElement[Any]) -> None:
        made.props["data-name"] = f"field {name}"
        made.on("update:model-value", lambda: self._clear(made))
        self._inputs[name] = made

    def _clear(self, made: ValidationElement[Any]) -> None:
        made.error = None

    def open(self, send: Send, done: str) -> None:
        """Show it; `send` is called with what was filled in, until it is not refused."""
        self._send, self._done = send, done
        self.dialog.open()

    async def _submit(self) -> None:
        if self._send is None or not self._go.enabled:
            return
        self._trouble.set_visibility(False)
        for made in self._inputs.values():
            made.error = None
        self._go.disable()
        try:
            await self._send(as_document({name: one.value for name, one in self._inputs.items()}))
        except Refused as refused:
            self._say(str(refused))
        except Away as away:
            self._say(f"Nothing was changed that we know of: reporting does not answer, {away}.")
        else:
            self.dialog.close()
            ui.notify(self._done, type="positive")
        finally:
            self._go.enable()

    def _say(self, message: str) -> None:
        field = field_of(message, self._names)
        if field is not None and field in self._inputs:
            self._inputs[field].error = message
            self._more.set_value(self._more.value or field not in _MAIN)
            at = f"document.getElementById({self._inputs[field].html_id!r})"
            to_it = f"{at}?.focus(); {at}?.scrollIntoView({{block: 'center'}})"
            ui.run_javascript(f"setTimeout(() => {{ {to_it} }}, 350)")  # when it is unfolded
        else:
            self._trouble.tell(message)
            self._trouble.set_visibility(True)


_MAIN = ("id", "budget", "start", "end", "cap", "cap_days", "daily_budget", "audience", "state")


async def new_campaign(console: Console) -> None:
    """The dialog of a new campaign."""
    told: Document = {}
    with suppress(Refused, Away):  # then the form asks for the name of an audience
        told = await console.client.get(CATALOGUES, _SOON_SECONDS)
    audiences, currency = told.get("audiences", []), told.get("currency")
    now = console.now().replace(second=0, microsecond=0)
    says = "It bids as soon as its flight begins. "
    says += f"Money is in {currency}." if currency else "Money is in the ad system's currency."
    form = _Form("New campaign", says, "Create", CREATE)
    with form.main():
        form.text("id", "Name", hint="letters, digits, - and _", autofocus="")
        form.text("budget", "Budget", inputmode="decimal")
        form.text("start", "Start (UTC)", local_text(now), type="datetime-local")
        form.text("end", "End (UTC)", local_text(now + _FLIGHT), type="datetime-local")
        form.text("cap", "Frequency cap (times a person)", "2", inputmode="numeric")
        form.text("cap_days", "Cap counts within days", hint="empty: the whole flight")
        form.text("daily_budget", "Budget a day", hint="empty: no limit", inputmode="decimal")
        if audiences:
            names = {name: name for name in audiences}
            form.choice("audience", "Audience", names, audiences[0])
        else:
            form.text("audience", "Audience", "everyone")
    with form.more():
        planning = {"planning": "planning: looks ahead", "paper": "paper: the paper's rule"}
        form.choice("bidder", "Bidder", planning, "planning")
        auctions = {"second_price": "second price", "first_price": "first price"}
        form.choice("auction", "Auction", auctions, "second_price")
        form.text("expected_requests", "Requests expected", inputmode="numeric")
        form.text("min_cpm", "Least bid (per thousand)", inputmode="decimal")
        form.text("max_cpm", "Highest bid (per thousand)", inputmode="decimal")
        form.text("market_mu", "Market: mean of ln price", inputmode="decimal")
        form.text("market_sigma", "Market: spread of ln price", inputmode="decimal")
        form.text("width", "Width of the ad (pixels)", inputmode="numeric")
        form.text("height", "Height of the ad (pixels)", inputmode="numeric")
        form.text("markup", "Markup of the ad")
    form.open(console.create, "The campaign was created.")


def edit_campaign(console: Console, campaign: Document) -> None:
    """The dialog that changes what may change while a campaign runs."""
    names = ("budget", "daily_budget", "end", "min_cpm", "max_cpm")
    says = "What is left empty stays as it is. A budget may not be less than what is spent."
    form = _Form(f"Change {campaign['id']}", says, "Change", names)
    form.without_more()
    with form.main():
        form.text("budget", "Budget", f"{campaign['budget']:g}", inputmode="decimal")
        daily = campaign["daily_budget"]
        form.text("daily_budget", "Budget a day", "" if daily is None else f"{daily:g}")
        end = local_text(moment_of(campaign["end"]))
        form.text("end", "End (UTC)", end, type="datetime-local")
        form.text("max_cpm", "Highest bid (per thousand)", f"{campaign['max_cpm']:g}")

    async def send(changes: Document) -> Document:
        if changes.get("end") == f"{end}:00Z":  # seconds that the field cannot hold stay
            del changes["end"]
        return await console.change(campaign["id"], changes)

    form.open(send, "The campaign was changed.")


async def change_state(console: Console, campaign: str, state: str) -> None:
    """Pause, resume or end, and say how it went."""
    try:
        await console.change(campaign, {"state": state})
    except Refused as refused:
        ui.notify(str(refused), type="negative")
    except Away as away:
        ui.notify(f"Reporting does not answer: {away}. Nothing was changed.", type="warning")
    else:
        word = {"running": "running again", "paused": "paused", "ended": "ended"}[state]
        ui.notify(f"{campaign} is {word}.", type="positive")


def ask_to_end(console: Console, campaign: str) -> None:
    """Ending cannot be undone, so it is asked for."""
    with ui.dialog() as dialog, box("k-dialog").style("width: 440px") as inside:
        inside.props["role"] = "alertdialog"
        inside.props["aria-label"] = f"End {campaign}?"
        Text(f"End {campaign}?", "h2")
        Text(
            "It stops bidding for good and cannot be started again. Its reports stay. To stop for "
            "a while, pause it instead.",
            "p",
            "k-sub",
        )

        async def end() -> None:
            dialog.close()
            await change_state(console, campaign, "ended")

        with box("k-row").style("justify-content: flex-end"):
            button("Keep it", dialog.close).props("autofocus")
            button("End it", end, style="k-danger")
    dialog.open()
