"""What the ad system can know: groups and their guarantee, the audit, and withheld reports."""

import html
from typing import Any

from msgspec.structs import asdict
from nicegui import ui

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.client import (
    CAMPAIGNS,
    CATALOGUES,
    SUPPRESSIONS,
    Query,
    RequestRefused,
)
from kreach.adsystem.console.input_files import Audit, AuditPage
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.pages.audit_document import show_audit_document
from kreach.adsystem.console.pages.boundary_view import BoundaryView
from kreach.adsystem.console.pages.budget_card import BudgetCard
from kreach.adsystem.console.poller import Answers, PolledAnswer
from kreach.adsystem.console.status import title_of
from kreach.adsystem.console.widgets import (
    EmptyState,
    Panel,
    Table,
    Text,
    Tile,
    box,
    card,
    csv_button,
    heading,
    sentence,
)
from kreach.adsystem.reports.report import (
    CampaignList,
    CatalogueList,
    Crossed,
    Suppression,
    SuppressionList,
    VisiblePeople,
)

__all__ = ["privacy_page"]

_VISITS = {
    "evenly": "no data about visits",
    "dispersion": "one number for how uneven visits are",
    "shares": "shares of visits, not linked to people",
}
_CATALOGUE_TILES = ("Catalogue", "Groups", "Smallest group", "People")
_EFFECTIVE = "Smallest group, effective"


class _PrivacyPage:
    """The page."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._console = frame, frame.console
        self._suppressions: tuple[Suppression, ...] = ()
        self._audit_version: int | None = None
        with box("k-page") as page:
            heading(
                "Privacy",
                "The publisher knows people. It releases groups of at least k people and names one "
                "group per visit. Nothing else crosses. The console reads only the reporting API.",
            )
            # all of it is shown at once, when reporting has answered: nothing moves then
            self._panel = Panel("privacy")
            with self._panel.content:
                self._add_content()
            frame.watch(page, self._queries, self._show, self._versions)

    def _add_content(self) -> None:
        self._verdict = Text("", "p", "k-note", name="overall verdict")
        self._verdict.set_visibility(False)
        with box("k-tiles k-live"):
            self._tiles = {title: Tile(title) for title in (*_CATALOGUE_TILES, _EFFECTIVE)}
        Text(
            "The catalogue states the publisher's guarantee: a visitor is one of at least so "
            "many people. How well they are hidden depends on how alike they are, which the "
            "publisher's audit measures.",
            "p",
            "k-sub",
        )
        self._boundary = BoundaryView(self._console)
        with card(
            "What crossed",
            "All that came from the publisher to the ad system, by type. There is no other.",
            name="crossed",
        ) as self._crossed_card:
            heads = ["type", "count", "what it says"]
            self._crossed = Table(heads, numeric=(1,), name="crossed")
        self._budget = BudgetCard()
        with card(
            "Audiences",
            "How many people of a group a campaign can see: the targeted ones. Groups of k "
            "hide nobody from a campaign on one of their members, so an audience targets "
            "nobody in a group or at least so many people.",
            name="visible",
        ):
            heads = ["audience", "people", "groups", "min per group", "median", "requests of"]
            self._visible = Table(heads, numeric=(1, 2, 3, 4), name="visible")
        with card(
            "Publisher's audit",
            "What an attacker could learn from the release, measured by the publisher on its "
            "own data.",
            name="audit",
        ):
            self._audit = box("k-list")
        self._add_withheld()
        self._boundary.show()
        self._show_audit()
        self._audit_version = self._console.audit.version
        self._visible.show([("…",) * 6])
        self._crossed.show([("…",) * 3] * 3)
        self._crossed_card.set_visibility(not self._own_view)

    @property
    def _own_view(self) -> bool:
        """Whether somebody looks who has campaigns of their own, and sees part of their figures."""
        return self._frame.role == "advertiser"

    def _queries(self) -> list[Query[Any]]:
        return [CATALOGUES, CAMPAIGNS if self._own_view else SUPPRESSIONS]

    def _add_withheld(self) -> None:
        with card(
            "Withheld reports",
            "Figures that were withheld from advertisers because they would cover too few people "
            "or impressions. Disclosures cannot be undone.",
            name="withheld",
        ):
            with box("k-live") as self._withheld:
                heads = ["reason", "campaign", "query", "first", "last", "times"]
                self._table = Table(heads, numeric=(5,), name="withheld")
                with box("k-row k-end"):
                    csv_button("withheld", lambda: [asdict(one) for one in self._suppressions])
            with box("k-live") as self._own:
                heads = ["campaign", "what you do not see", "why"]
                self._own_table = Table(heads, name="withheld from you")
            self._own.set_visibility(False)
            self._no_withheld = EmptyState("")

    def _versions(self) -> tuple[Any, ...]:
        return (self._console.truth.version, self._console.audit.version)

    def _show(self, answers: Answers) -> None:
        self._boundary.show()
        if all(answers.of(query).version for query in self._queries()):
            self._panel.show_content()
        self._show_catalogue(answers.of(CATALOGUES))
        if self._own_view:
            self._show_own(answers.of(CAMPAIGNS))
        else:
            self._show_withheld(answers.of(SUPPRESSIONS))
        if self._audit_version != self._console.audit.version:
            self._audit_version = self._console.audit.version
            self._show_audit()

    def _show_catalogue(self, answer: PolledAnswer[CatalogueList]) -> None:
        catalogues = () if answer.document is None else answer.document.catalogues
        if not catalogues:
            for title in _CATALOGUE_TILES if answer.version else ():
                self._tiles[title].show("unknown")
            return
        newest, tiles = catalogues[-1], self._tiles
        earlier = len(catalogues) - 1
        which = f"and {earlier} earlier" if earlier else "the newest release"
        created = fmt.parse_time(newest.created)
        tiles["Catalogue"].show(f"{created:%d %b %Y}", f"version {newest.version}, {which}")
        tiles["Groups"].show(fmt.count(newest.groups), _VISITS.get(newest.visits, newest.visits))
        sizes = f"guaranteed: {newest.group_size}, mean: {fmt.decimal(newest.mean_group, 1)}"
        smallest = fmt.plural(newest.min_group, "person", "people")
        tiles["Smallest group"].show(smallest, sizes)
        tiles["People"].show(fmt.count(newest.people), "in all groups")
        visible = answer.document.visible if answer.document is not None else ()
        nobody = ("none that you may use", *("–",) * 5)
        self._visible.show([_visible_row(one) for one in visible] or [nobody])
        crossed = None if answer.document is None else answer.document.crossed
        self._crossed_card.set_visibility(crossed is not None)  # others may not see it
        if answer.document is not None and crossed is not None:
            self._crossed.show(_crossed_rows(crossed))
            self._budget.show(answer.document)
        self._budget.set_visibility(crossed is not None)

    def _show_audit(self) -> None:
        audit, problem = self._console.audit.content, self._console.audit.problem
        effective = audit.effective if isinstance(audit, Audit) else None
        verdict = audit.verdict if isinstance(audit, Audit) else None
        self._verdict.set_visibility(bool(verdict))
        if isinstance(audit, Audit) and verdict:
            bad = any(finding.level == "danger" for finding in audit.findings)
            self._verdict.classes(replace=f"k-note {'k-bad' if bad else 'k-good'}")
            self._verdict.set_text(f"The publisher's audit: {verdict}")
        if effective is None:
            self._tiles[_EFFECTIVE].show("unknown", "needs the publisher's audit")
        else:
            self._tiles[_EFFECTIVE].show(f"{effective.least:.1f}", "equally active people")
        self._audit.clear()
        with self._audit:
            if problem is not None:
                EmptyState("").show("error_outline", "The audit cannot be shown", sentence(problem))
            elif isinstance(audit, AuditPage):
                page = html.escape(audit.html, quote=True)
                frame = f'<iframe class="k-frame" sandbox title="Audit" srcdoc="{page}"></iframe>'
                ui.html(frame, sanitize=False).style("width: 100%")
            elif isinstance(audit, Audit):
                show_audit_document(audit)
            else:
                text = "The publisher makes one. Set `groups_audit` to its file:"
                command = "kreach groups audit groups/ --json > audit.json"
                EmptyState("").show("fact_check", "No audit configured", text, command)

    def _show_own(self, answer: PolledAnswer[CampaignList]) -> None:
        """What an advertiser does not see of its own campaigns, and why."""
        self._withheld.set_visibility(False)
        document = answer.document
        if document is None:
            return
        rows = list(
            dict.fromkeys(
                (title_of(one), note.what, note.why)
                for one in document.campaigns
                for note in one.status.suppressed
            )
        )
        self._own.set_visibility(bool(rows))
        self._own_table.show(rows)
        if rows:
            self._no_withheld.hide()
        else:
            text = "All figures of your campaigns are shown."
            self._no_withheld.show("check_circle", "Nothing is withheld", text)

    def _show_withheld(self, answer: PolledAnswer[SuppressionList]) -> None:
        document = answer.document
        self._suppressions = () if document is None else document.suppressions
        self._withheld.set_visibility(bool(self._suppressions))
        self._no_withheld.hide()
        self._own.set_visibility(False)
        if isinstance(answer.error, RequestRefused) and answer.error.status == 404:
            text = "Reporting runs without keys: every caller is an operator and sees all figures."
            self._no_withheld.show("key_off", "Nothing is withheld", text)
        elif isinstance(answer.error, RequestRefused):
            self._no_withheld.show("lock", "No access with this key", sentence(answer.error))
        elif document is None and answer.error is not None:
            self._no_withheld.show("cloud_off", "No data yet", sentence(answer.error))
        elif document is not None and not self._suppressions:
            text = "All queries since reporting started were answered in full."
            self._no_withheld.show("check_circle", "Nothing was withheld", text)
        self._table.show(
            [
                (
                    one.reason,
                    one.campaign,
                    one.asked,
                    fmt.date_time(one.first),
                    fmt.date_time(one.last),
                    fmt.count(one.times),
                )
                for one in self._suppressions
            ]
        )


def _crossed_rows(crossed: Crossed) -> list[tuple[str, ...]]:
    protected = "" if crossed.corrections == 0 else "; without noise"
    if crossed.panel_rho is not None:
        protected = "; with noise, see the budget"
    return [
        ("releases of groups", fmt.count(crossed.catalogues), "group ids, sizes, a visit model"),
        ("group ids in requests", fmt.count(crossed.group_ids), "one group per visit, no person"),
        (
            "corrections of a panel",
            fmt.count(crossed.corrections),
            f"by how much reach is off in all groups together{protected}",
        ),
    ]


def _visible_row(one: VisiblePeople) -> tuple[str, ...]:
    numbers = (one.people, one.groups, one.min)
    return (one.audience, *map(fmt.count, numbers), fmt.decimal(one.median, 1), one.requests)


def privacy_page(frame: Frame) -> None:
    """Build the page."""
    _PrivacyPage(frame)
