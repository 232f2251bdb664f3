"""Report services for tests, whose answers are plain values as HTTP answers them.

Every answer is encoded and read back as its own type, so a test that asks anything also checks that
the report types and what fills them agree.
"""

from collections.abc import Callable
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import msgspec

from kreach.adsystem.api.scope import CampaignScope
from kreach.adsystem.disclosure.chapters.policy import ChapterPolicy
from kreach.adsystem.disclosure.noise.policy import NoisePolicy
from kreach.adsystem.disclosure.open import OpenPolicy
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.measure import cap_reports
from kreach.adsystem.reports.policy import Policy
from kreach.adsystem.reports.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.reports.report import to_json
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.settings import AdSystemSettings, GuardSettings, NoiseSettings
from kreach.boundary.discrete_noise import Draw
from kreach.boundary.times import Window
from kreach.service.clock import Clock
from kreach.service.logs import Log

__all__ = [
    "PlainReports",
    "chapter_reports",
    "noisy_reports",
    "open_reports",
    "plain",
    "plain_caps",
    "report_context",
]

D = TypeVar("D", bound=msgspec.Struct)


def plain(document: Any) -> Any:
    """A struct as HTTP answers it; it must read back as itself."""
    text = to_json(document)
    if isinstance(document, msgspec.Struct):
        assert msgspec.json.decode(text, type=type(document)) == document
    return msgspec.json.decode(text)


def plain_caps(reports: tuple[ReachReport, ...], level: float) -> list[dict[str, Any]]:
    """The library's reports as HTTP answers them."""
    result: list[dict[str, Any]] = plain(cap_reports(reports, level))
    return result


def report_context(shared: AdSystemSettings) -> ReportContext:
    """A store whose log messages nobody reads."""
    return ReportContext(shared, "200MB", Log("reporting", lambda line: None))


class PlainReports:
    """A service as its caller sees it: an operator, or an advertiser by its own names."""

    def __init__(self, service: ReportService, advertiser: str | None = None) -> None:
        self.service = service
        self._scope = CampaignScope(service, advertiser)

    def own(self, advertiser: str) -> "PlainReports":
        """The same service as an advertiser sees it."""
        return PlainReports(self.service, advertiser)

    def _ask(self, question: Callable[..., D], name: str, *args: Any) -> dict[str, Any]:
        result: dict[str, Any] = plain(self._scope.ask(question, name, *args))
        return result

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Create a campaign."""
        result: dict[str, Any] = plain(self._scope.create(document))
        return result

    def listing(self, after: str | None, limit: int) -> dict[str, Any]:
        """List campaigns."""
        result: dict[str, Any] = plain(self._scope.listing(after, limit))
        return result

    def change(self, name: str, changes: dict[str, Any]) -> dict[str, Any]:
        """Change a campaign."""
        return self._ask(self.service.change, name, changes)

    def status(self, name: str, level: float) -> dict[str, Any]:
        """A campaign and its delivery."""
        return self._ask(self.service.status, name, level)

    def reach(self, name: str, question: ReachQuestion) -> dict[str, Any]:
        """Reach in a window."""
        return self._ask(self.service.reach, name, question)

    def together(self, names: list[str], question: ReachQuestion) -> dict[str, Any]:
        """Several campaigns alone and together."""
        result: dict[str, Any] = plain(self._scope.together(names, question))
        return result

    def series(self, name: str, by: str, question: ReachQuestion) -> dict[str, Any]:
        """Reach by period."""
        return self._ask(self.service.series, name, by, question)

    def curve(self, name: str, by: str, question: ReachQuestion) -> dict[str, Any]:
        """Reach over time."""
        return self._ask(self.service.curve, name, by, question)

    def pacing(self, name: str, window: Window, points: int) -> dict[str, Any]:
        """Spend over time."""
        return self._ask(self.service.pacing, name, window, points)

    def plan(self, name: str, question: PlanQuestion) -> dict[str, Any]:
        """What budgets will reach."""
        return self._ask(self.service.plan, name, question)

    def catalogues(self) -> dict[str, Any]:
        """Releases and audiences."""
        result: dict[str, Any] = plain(self.service.catalogues())
        return result

    def suppressions(self) -> dict[str, Any]:
        """What was withheld."""
        result: dict[str, Any] = plain(self.service.suppressions.document())
        return result

    def suppressed_by_reason(self) -> dict[str, float]:
        """How often."""
        return self.service.suppressions.by_reason()

    def close(self) -> None:
        """Close the policy."""
        self.service.close()


@contextmanager
def _reports(
    shared: AdSystemSettings, policy: Callable[[ReportContext], Policy], clock: Clock
) -> Any:
    with closing(report_context(shared)) as store:
        service = ReportService(store, policy(store), clock)
        try:
            yield PlainReports(service)
        finally:
            service.close()


def open_reports(shared: AdSystemSettings, clock: Clock = lambda: 0.0) -> Any:
    """As operators see it."""
    return _reports(shared, OpenPolicy, clock)


def chapter_reports(shared: AdSystemSettings, guard: GuardSettings, clock: Clock) -> Any:
    """As advertisers see it behind the guard."""
    return _reports(shared, lambda store: ChapterPolicy(store, guard, clock), clock)


def noisy_reports(
    shared: AdSystemSettings, noise: NoiseSettings, clock: Clock, draw: Draw | None
) -> Any:
    """As advertisers see it with noise and without a guard."""
    return _reports(shared, lambda store: NoisePolicy(store, noise, clock, None, draw), clock)
