"""What the ad system can know: groups and their guarantee, the audit, and what was withheld."""

import html
from typing import Any

from nicegui import ui

from kreach.adsystem.console.client import Question, Refused
from kreach.adsystem.console.feed import Answer
from kreach.adsystem.console.frame import Answers, Frame
from kreach.adsystem.console.pages.sides import Sides
from kreach.adsystem.console.parts import (
    Table,
    Text,
    Tile,
    box,
    card,
    csv_button,
    empty,
    heading,
)
from kreach.adsystem.console.state import LIST
from kreach.adsystem.console.tables import Row
from kreach.adsystem.console.words import count, decimal, moment, percent, plural

__all__ = ["privacy_page"]

_HEALTH, _SUPPRESSIONS = Question("/healthz"), Question("/v1/suppressions")
_TILES = ("Catalogue", "Groups", "Least group", "Least group, effective", "People")


class _Privacy:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._console = frame, frame.console
        self._withheld: list[Row] = []
        self._audited: int | None = None
        with box("k-page") as page:
            heading(
                "Privacy",
                "The publisher knows people. It releases groups of at least k of them, and names "
                "one group per visit. Nothing else crosses, so nothing else can be known here.",
            )
            with box("k-tiles k-live"):
                self._tiles = {title: Tile(title) for title in _TILES}
            self._source = Text("", "p", "k-sub")
            self._sides = Sides(self._console)
            self._audit = card(
                "The publisher's audit",
                "What an attacker could learn from the release, measured by the publisher on its "
                "own data before it was handed over.",
                name="audit",
            )
            with self._audit:
                self._audit_body = box("k-list")
            with card(
                "Reports that were withheld",
                "What advertisers asked and were not told, because the answer would have been "
                "about too few people or impressions.",
                name="withheld",
            ):
                with box("k-live") as self._told:
                    heads = ["why", "campaign", "what was asked", "first", "last", "times"]
                    self._table = Table(heads, numeric=(5,), name="withheld")
                    with box("k-row").style("justify-content: flex-end"):
                        csv_button("withheld", lambda: self._withheld)
                self._untold = box()
        with page:
            frame.watch(page, self._wanted, self._show, self._also)

    def _wanted(self) -> dict[str, Question]:
        return {"health": _HEALTH, "list": LIST, "withheld": _SUPPRESSIONS}

    def _also(self) -> tuple[Any, ...]:
        return (self._console.truth.version, self._console.audit.version)

    def _show(self, answers: Answers) -> None:
        self._sides.show()
        audit = self._console.audit.found or {}
        self._show_tiles(answers, audit)
        self._show_withheld(answers["withheld"])
        if self._audited != self._console.audit.version:
            self._audited = self._console.audit.version
            self._show_audit(audit)

    def _show_tiles(self, answers: Answers, audit: dict[str, Any]) -> None:
        versions = (answers["health"].document or {}).get("catalogues")
        listed = (answers["list"].document or {}).get("campaigns", [])
        used = {one["status"]["catalogue"] for one in listed if one["status"].get("catalogue")}
        known = versions or sorted(used)
        tell = {title: tile.tell for title, tile in self._tiles.items()}
        if answers["health"].version:
            newest = known[-1] if known else "not told"
            more = f"and {len(known) - 1} before it" if len(known) > 1 else "the newest release"
            tell["Catalogue"](newest, more)
        numbers = "group_size" in audit
        size = audit.get("group_size")
        tell["Groups"](
            count(audit.get("groups")), f"formed by: {audit['strategy']}" if numbers else ""
        )
        sizes, worth = audit.get("sizes") or {}, audit.get("effective") or {}
        tell["Least group"](
            plural(sizes["least"], "person", "people") if numbers else "not told",
            f"promised: {size}, on average {decimal(sizes['mean'], 1)}" if numbers else "",
        )
        tell["Least group, effective"](
            f"{worth['least']:.1f}" if worth else "not told",
            "equally active people would hide as well" if worth else "",
        )
        tell["People"](count(audit.get("people")), "in all groups" if numbers else "")
        where = "below" if "html" in audit else "which the setting groups_audit names"
        self._source.tell(
            "The catalogue is what reporting tells; the other numbers are the publisher's audit."
            if numbers
            else "Reporting tells the catalogue only. Number and size of the groups are in the "
            f"publisher's audit, {where}."
        )

    def _show_audit(self, audit: dict[str, Any]) -> None:
        self._audit_body.clear()
        with self._audit_body:
            if self._console.audit.trouble is not None:
                empty("error_outline", "The audit cannot be shown", self._console.audit.trouble)
            elif "html" in audit:
                page = html.escape(audit["html"], quote=True)
                inside = f'<iframe class="k-frame" sandbox title="Audit" srcdoc="{page}"></iframe>'
                ui.html(inside, sanitize=False).style("width: 100%")
            elif "findings" in audit:
                tones = {"ok": "k-good", "warning": "k-warn", "danger": "k-bad"}
                for level, text in audit["findings"]:
                    Text(f"{level}: {text}", "p", f"k-note {tones.get(level, '')}")
                _linkage(audit["linkage"])
            else:
                empty(
                    "fact_check",
                    "No audit was handed over",
                    "The publisher makes one, and the setting groups_audit names it:",
                    "kreach groups audit groups/ --json > audit.json",
                )

    def _show_withheld(self, answer: Answer) -> None:
        refused = answer.trouble if isinstance(answer.trouble, Refused) else None
        document = answer.document
        self._told.set_visibility(bool(document and document["suppressions"]))
        self._untold.clear()
        with self._untold:
            if refused is not None and refused.status == 404:
                says = (
                    "Reporting runs without keys: whoever reaches it is an operator, and operators "
                    "are told everything."
                )
                empty("key_off", "Nothing is withheld here", says)
            elif refused is not None:
                empty("lock", "Not for this key", str(refused))
            elif document is None and answer.trouble is not None:
                empty("cloud_off", "Nothing to show yet", f"Reporting: {answer.trouble}")
            elif document is not None and not document["suppressions"]:
                says = "Since reporting was started, every question was answered in full."
                empty("check_circle", "Nothing was withheld", says)
        if document is None:
            return
        self._withheld = document["suppressions"]
        self._table.tell(
            [
                (
                    one["reason"],
                    one["campaign"],
                    one["asked"],
                    moment(one["first"]),
                    moment(one["last"]),
                    count(one["times"]),
                )
                for one in self._withheld
            ]
        )


def _linkage(found: list[dict[str, Any]]) -> None:
    """The attack over time, as a table."""
    if not found:
        return
    Text(
        "Linkage: the share of people whom an observer of every version would have singled out.",
        "p",
        "k-sub",
    )
    versions = found[0]["versions"]
    heads = ["groups", *(plural(one, "version") for one in versions)]
    table = Table(heads, numeric=range(1, len(heads)), name="linkage")
    table.tell(
        [(one["method"], *(percent(share, 2) for share in one["unique_share"])) for one in found]
    )


def privacy_page(frame: Frame) -> None:
    """Build it."""
    _Privacy(frame)
