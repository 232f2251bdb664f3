"""Review of creatives: operators look at what advertisers want to show, and decide."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from nicegui import ui

from kreach.adsystem.console.client import (
    CAMPAIGNS,
    SUPPRESSIONS,
    ReportingUnavailable,
    RequestRefused,
)
from kreach.adsystem.console.creative_preview import preview_frame, safe_preview
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.widgets import (
    EmptyState,
    Notes,
    Panel,
    Table,
    Text,
    box,
    button,
    card,
    heading,
    sentence,
)
from kreach.adsystem.reports.report import CampaignSummary, Creative

__all__ = ["review_page"]

_FORBIDDEN = 403
_MAX_CARDS = 20  # each has a frame and its source
_MAX_REASON = 500
_DECLARED = (
    *("domains", "categories", "attributes", "apis", "mimes", "duration_seconds", "protocols"),
    *("rolls", "placements", "expands", "language", "bundle", "secure", "weight"),
)


class _Subject(NamedTuple):
    """A creative as somebody looks at it: another version is another one."""

    campaign: str
    key: str
    version: str


def _subjects(campaigns: Sequence[CampaignSummary]) -> Iterator[tuple[_Subject, Creative]]:
    for campaign in campaigns:
        if campaign.state == "ended":
            continue
        for creative in campaign.creatives:
            yield _Subject(campaign.id, creative.key or "", creative.version or ""), creative


class _CreativeCard:
    """A creative that waits: preview, source, what it declares, and the decision."""

    def __init__(self, console: Console, subject: _Subject, creative: Creative) -> None:
        self._console, self._subject = console, subject
        name = f"{subject.key} of {subject.campaign}"
        with card(subject.key, name=f"creative {subject.campaign} {subject.key}") as self.box:
            with box("k-row"):
                Text(f"{creative.kind}, {_sizes(creative)}", "span", "k-sub")
                ui.link(subject.campaign, f"/campaign/{subject.campaign}")
            self._show_preview(creative)
            Text("Source", "h3")
            Text(_source(creative), "pre", "k-scroll", name="source").style(
                "white-space: pre-wrap; overflow-wrap: anywhere; max-height: 18rem; overflow: auto"
            )
            declared = _declared(creative)
            Text(declared or "It declares nothing about itself.", "p", "k-sub")
            with box("k-row") as self.actions:
                self._reason = ui.input(label="Reason, for the advertiser")
                self._reason.props(f"outlined dense maxlength={_MAX_REASON}").classes("k-grow")
                self._reason.props["data-name"] = "reason"
                self._buttons = (
                    button("Reject", self._reject, style="k-danger"),
                    button("Approve", self._approve, style="k-primary"),
                )
            for element, verb in zip(self._buttons, ("Reject", "Approve"), strict=True):
                element.props["aria-label"] = f"{verb} {name}"

    def _show_preview(self, creative: Creative) -> None:
        if creative.kind != "banner" or creative.markup is None:
            Text(f"There is no preview of {creative.kind} ads.", "p", "k-sub")
            return
        preview = safe_preview(creative.markup)
        Text("Preview", "h3")
        ui.html(preview_frame(preview, *_first_size(creative)), sanitize=False)
        missing = ", ".join(f"{count} {tag}" for tag, count in preview.left_out.items())
        Notes().show(
            "Nothing runs and nothing is loaded in the preview."
            + (f" Left out: {missing}." if missing else ""),
            tone="",
        )

    async def _approve(self) -> None:
        await self._decide({"decision": "approve"}, "approved")

    async def _reject(self) -> None:
        reason = (self._reason.value or "").strip()
        if not reason:
            self._reason.error = "A rejection needs a reason: the advertiser reads it."
            return
        await self._decide({"decision": "reject", "reason": reason}, "rejected")

    async def _decide(self, decision: dict[str, str], done: str) -> None:
        self._reason.error = None
        body = {"creative": self._subject.key, "version": self._subject.version, **decision}
        for element in self._buttons:
            element.disable()
        try:
            await self._console.client.review(self._subject.campaign, body)
        except RequestRefused as refusal:
            ui.notify(sentence(refusal), type="negative")
        except ReportingUnavailable as error:
            ui.notify(f"{sentence(error)} The decision may not be stored.", type="warning")
        else:
            ui.notify(f"{self._subject.key} is {done}.", type="positive")
        finally:
            for element in self._buttons:
                element.enable()
            self._console.poller.refresh(CAMPAIGNS.path)


class _ReviewPage:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._console = frame.console
        self._cards: dict[_Subject, _CreativeCard] = {}
        with box("k-page") as page:
            heading(
                "Creatives",
                "What advertisers want to show. A creative is not served before an operator has "
                "approved it; one that changes in anything waits again.",
            )
            self._panel = Panel()
            with self._panel.content:
                self._nothing = EmptyState(name="nothing waits")
                self._more = Notes()
                self._waiting = box("k-list", name="waiting")
                with card("All creatives", "Of campaigns that have not ended.", name="all"):
                    heads = ["campaign", "creative", "kind", "size", "review", "reason"]
                    self._table = Table(heads, name="creatives")
            frame.watch(page, lambda: (CAMPAIGNS, SUPPRESSIONS), self._show)

    def _show(self, answers: Answers) -> None:
        answer = answers.of(CAMPAIGNS)
        if answer.document is None:
            if answer.error is not None:
                self._panel.show_empty("cloud_off", "No data yet", sentence(answer.error))
            return
        self._panel.show_content()
        creatives = list(_subjects(answer.document.campaigns))
        pending = [(one, creative) for one, creative in creatives if creative.review == "pending"]
        self._show_waiting(pending[:_MAX_CARDS], may_decide=not _is_advertiser(answers))
        hidden = len(pending) - _MAX_CARDS
        partly = "Only the first 1,000 campaigns are shown." if answer.document.next else None
        self._more.show(f"{hidden} more wait behind these." if hidden > 0 else None, partly)
        if pending:
            self._nothing.hide()
        else:
            self._nothing.show("task_alt", "No creative waits for review")
        self._table.show([_row(subject, creative) for subject, creative in creatives])

    def _show_waiting(
        self, pending: Sequence[tuple[_Subject, Creative]], *, may_decide: bool
    ) -> None:
        """Cards stay while their creative does: somebody may be typing a reason."""
        subjects = [subject for subject, _ in pending]
        for gone in [one for one in self._cards if one not in subjects]:
            self._cards.pop(gone).box.delete()
        with self._waiting:
            for subject, creative in pending:
                if subject not in self._cards:
                    self._cards[subject] = _CreativeCard(self._console, subject, creative)
        for one in self._cards.values():
            one.actions.set_visibility(may_decide)


def _is_advertiser(answers: Answers) -> bool:
    """Whether the console's key may not decide: it may not see what was withheld either."""
    error = answers.of(SUPPRESSIONS).error
    return isinstance(error, RequestRefused) and error.status == _FORBIDDEN


def _first_size(creative: Creative) -> tuple[int | None, int | None]:
    if creative.width is None and creative.sizes:
        return creative.sizes[0].width, creative.sizes[0].height
    return creative.width, creative.height


def _sizes(creative: Creative) -> str:
    own = [(creative.width, creative.height)] if creative.width is not None else []
    sizes = [*own, *((size.width, size.height) for size in creative.sizes)]
    return ", ".join(f"{width} x {height}" for width, height in sizes) or "any size"


def _source(creative: Creative) -> str:
    """The markup, or the parts of a native ad, as text."""
    if creative.markup is not None:
        return creative.markup
    native: Any = msgspec.to_builtins(creative.native)
    return json.dumps(native, indent=2, ensure_ascii=False)


def _declared(creative: Creative) -> str:
    """What the creative says about itself, as text."""
    found = []
    for name in _DECLARED:
        value = getattr(creative, name)
        if value not in (None, (), 1):
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            found.append(f"{name.replace('_', ' ')}: {text}")
    return "; ".join(found)


def _row(subject: _Subject, creative: Creative) -> tuple[str, ...]:
    reason = creative.review_reason or ""
    return (
        *(subject.campaign, subject.key, creative.kind, _sizes(creative)),
        *(creative.review, reason),
    )


def review_page(frame: Frame) -> None:
    """Build the page."""
    _ReviewPage(frame)
