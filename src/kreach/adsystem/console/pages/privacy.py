"""What the ad system can know: groups and their guarantee, the audit, and what was withheld."""

import html
from typing import Any

from nicegui import ui

from kreach.adsystem.console.client import Question, Refused
from kreach.adsystem.console.formatting import count, decimal, moment, moment_of, percent, plural
from kreach.adsystem.console.layout import Answers, Frame
from kreach.adsystem.console.pages.boundary_view import Sides
from kreach.adsystem.console.poller import Answer
from kreach.adsystem.console.state import CATALOGUES
from kreach.adsystem.console.tables import Row
from kreach.adsystem.console.widgets import (
    Table,
    Text,
    Tile,
    box,
    card,
    csv_button,
    empty,
    heading,
)

__all__ = ["privacy_page"]

_SUPPRESSIONS = Question("/v1/suppressions")
_VISITS = {
    "evenly": "nothing about visits is told",
    "dispersion": "one number tells how uneven visits are",
    "shares": "shares of visits are told, tied to nobody",
}
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
        return {"catalogues": CATALOGUES, "withheld": _SUPPRESSIONS}

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
        told = (answers["catalogues"].document or {}).get("catalogues", [])
        tell = {title: tile.tell for title, tile in self._tiles.items()}
        if told:
            newest = told[-1]
            more = f"and {len(told) - 1} before it" if len(told) > 1 else "the newest release"
            made = moment_of(newest["created"])
            tell["Catalogue"](f"{made:%d %b %Y}", f"version {newest['version']}, {more}")
            tell["Groups"](count(newest["groups"]), _VISITS[newest["visits"]])
            tell["Least group"](
                plural(newest["min_group"], "person", "people"),
                f"promised: {newest['group_size']}, on average {decimal(newest['mean_group'], 1)}",
            )
            tell["People"](count(newest["people"]), "in all groups")
        elif answers["catalogues"].version:
            for title in ("Catalogue", "Groups", "Least group", "People"):
                tell[title]("not told")
        worth = audit.get("effective") or {}
        tell["Least group, effective"](
            f"{worth['least']:.1f}" if worth else "not told",
            "equally active people would hide as well" if worth else "only an audit tells",
        )
        self._source.tell(
            "The catalogue tells what the publisher promises: whoever visits is one of at least "
            "so many people. How well they hide depends on how alike they are, which the "
            "publisher's audit measures."
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
