"""What the page on campaigns together shows, derived from one report."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.client import Query, together_query
from kreach.adsystem.console.date_range import CUSTOM, TO_DATE, DateRange
from kreach.adsystem.console.status import title_of
from kreach.adsystem.reports.combined_report import CombinedDocument, CombinedReport, SetReport
from kreach.adsystem.reports.report import CampaignDefinition, CapReport

__all__ = ["MIN_CAMPAIGNS", "Bar", "Choice", "Comparison", "PairShare", "unique_titles"]

MIN_CAMPAIGNS = 2
_PATH = "/compare"
_MAX_CAP = 1_000


@dataclass(frozen=True)
class Choice:
    """Campaigns in the order they add, a cap and dates: the page's address has all of it.

    Dates are a preset, or a window of which one end may be open.
    """

    campaigns: tuple[str, ...] = ()
    cap: int = 1
    start: str | None = None
    end: str | None = None
    preset: str = TO_DATE

    @classmethod
    def of_query(cls, parameters: Iterable[tuple[str, str]]) -> "Choice":
        """Read an address; a cap that is none is 1.

        >>> Choice.of_query([("campaign", "a"), ("campaign", "b"), ("campaign", "a"), ("cap", "x")])
        Choice(campaigns=('a', 'b'), cap=1, start=None, end=None, preset='to-date')
        """
        given = [(name, value.strip()) for name, value in parameters]
        campaigns = dict.fromkeys(value for name, value in given if name == "campaign" and value)
        single = dict(given)
        digits = single.get("cap", "")
        cap = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 1
        start, end = (single.get(name) or None for name in ("start", "end"))
        preset = CUSTOM if start or end else DateRange.of_query(given).preset
        return cls(tuple(campaigns), cap if 1 <= cap <= _MAX_CAP else 1, start, end, preset)

    @property
    def url(self) -> str:
        """The address that shows this choice.

        >>> Choice(("a", "b&c"), cap=2).url
        '/compare?campaign=a&campaign=b%26c&cap=2'
        """
        pairs = [("campaign", name) for name in self.campaigns]
        pairs += [("cap", str(self.cap))] if self.cap != 1 else []
        pairs += [(name, text) for name in ("start", "end") if (text := getattr(self, name))]
        pairs += [("range", self.preset)] if self.preset not in (TO_DATE, CUSTOM) else []
        return f"{_PATH}?{urlencode(pairs, safe=':')}" if pairs else _PATH

    def query(
        self, now: datetime, campaigns: Sequence[CampaignDefinition] = ()
    ) -> Query[CombinedDocument] | None:
        """What to ask reporting, once there are campaigns to compare and their flights are known.

        The whole flight is that of all of them: from the first start to the last end.
        """
        if len(self.campaigns) < MIN_CAMPAIGNS:
            return None
        start, end = self.start, self.end
        if self.preset not in (TO_DATE, CUSTOM):
            flights = [
                (fmt.parse_time(one.start), fmt.parse_time(one.end))
                for one in campaigns
                if one.id in self.campaigns
            ]
            if not flights:
                return None
            whole = min(one[0] for one in flights), max(one[1] for one in flights)
            start, end = DateRange(self.preset).window(now, whole) or (None, None)
        return together_query(self.campaigns, self.cap, start, end)


def unique_titles(campaigns: Iterable[CampaignDefinition]) -> dict[str, str]:
    """What people call campaigns, by id; where two have one name, their ids tell them apart."""
    titles = {one.id: title_of(one) for one in campaigns}
    times = Counter(titles.values())
    return {
        name: title if times[title] == 1 else f"{title} ({name})" for name, title in titles.items()
    }


@dataclass(frozen=True)
class Bar:
    """Those whom one campaign alone reached, and those whom several reached."""

    name: str
    only: float
    several: float

    @property
    def total(self) -> float:
        """Both."""
        return self.only + self.several


@dataclass(frozen=True)
class PairShare:
    """People of a campaign whom another reached too; `share` is None if it reached nobody."""

    people: float
    share: float | None


@dataclass(frozen=True)
class Comparison:
    """A report on campaigns together of which nothing is withheld."""

    document: CombinedDocument
    combined: CombinedReport
    titles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, document: CombinedDocument, titles: Mapping[str, str] | None = None
    ) -> "Comparison | None":
        """The comparison in a report; None where it is withheld. Titles are by id."""
        if document.combined is None:
            return None
        return cls(document, document.combined, {} if titles is None else titles)

    def title(self, name: str) -> str:
        """What people call a campaign."""
        return self.titles.get(name, name)

    @property
    def part_titles(self) -> list[str]:
        """Of all campaigns, in their order."""
        return [self.title(part.name) for part in self.document.parts]

    @property
    def unit(self) -> str:
        """What bars count."""
        return "people" if self.combined.cap == 1 else "impressions within the cap"

    @property
    def span(self) -> str:
        """The window in words."""
        start, end = self.document.start, self.document.end
        if start and end:
            return f"{fmt.date_time(start)} to {fmt.date_time(end)}"
        if start:
            return f"since {fmt.date_time(start)}"
        return f"up to {fmt.date_time(end)}" if end else "to date"

    def together_tile(self) -> tuple[str, ...]:
        """People whom any campaign reached."""
        union, audience = self.combined.union, self.document.people
        share = union.unique_reach / audience if audience else 0.0
        return (
            fmt.count(union.unique_reach),
            fmt.interval(union.unique_reach_interval, union.level),
            f"{fmt.percent(share)} of {fmt.count(audience)}",
        )

    def overlap_tile(self) -> tuple[str, ...]:
        """People whom two or more campaigns reached."""
        union, overlap = self.combined.union.unique_reach, self.combined.overlap
        share = overlap.unique_reach / union if union else 0.0
        return (
            fmt.count(overlap.unique_reach),
            fmt.interval(overlap.unique_reach_interval, overlap.level),
            f"{fmt.percent(share)} of people reached together",
        )

    def sum_tile(self) -> tuple[str, ...]:
        """What adding up the campaigns would say, and by how much that is too high."""
        total = sum(part.reports[0].unique_reach for part in self.document.parts)
        excess = max(total - self.combined.union.unique_reach, 0.0)
        if len(self.document.parts) == MIN_CAMPAIGNS:
            return (fmt.count(total), f"counted twice: {fmt.count(excess)} people")
        return (
            fmt.count(total),
            f"{fmt.count(excess)} more than together",
            "people count once per campaign",
        )

    def frequency_tile(self) -> tuple[str, ...]:
        """Impressions of all campaigns per person reached."""
        lines = [fmt.decimal(self.combined.union.average_frequency), "per person reached"]
        if self.document.impressions is not None:
            lines.append(f"{fmt.plural(self.document.impressions, 'impression')} in all")
        return tuple(lines)

    def cap_tile(self) -> tuple[str, ...]:
        """Impressions within the cap if it holds over all campaigns."""
        union = self.combined.union
        alone = sum(part.reports[0].reach for part in self.document.parts)
        return (
            fmt.count(union.reach),
            fmt.interval(union.interval, union.level),
            f"cap {union.cap} over all campaigns",
            f"{fmt.count(alone)} with that cap in each",
        )

    def bars(self) -> list[Bar]:
        """All together, then each campaign: its own reach, in those it shares and the others."""
        only = {name: report.reach for name, report in self.combined.only.items()}
        rows = [Bar("all together", sum(only.values()), self.combined.overlap.reach)]
        for part in self.document.parts:
            alone, own = only[part.name], part.reports[0].reach
            rows.append(Bar(self.title(part.name), min(alone, own), max(own - alone, 0.0)))
        return rows

    def pairs(self) -> list[list[PairShare]]:
        """By campaign: its people whom each campaign reached too."""
        matrix = self.document.overlap_matrix
        return [
            [PairShare(people, min(people / row[at], 1.0) if row[at] else None) for people in row]
            for at, row in enumerate(matrix)
        ]

    def heads(self) -> list[str]:
        """Heads of the table."""
        capped = [] if self.combined.cap == 1 else ["within the cap"]
        people = ["people reached", "interval", *capped, "frequency"]
        return ["campaign", "impressions", *people, "only this campaign", "adds"]

    def rows(self) -> list[tuple[str, ...]]:
        """Rows of the table: each campaign, and all together."""
        combined = self.combined
        rows = []
        for part, step in zip(self.document.parts, combined.incremental, strict=True):
            only, adds = combined.only[part.name].unique_reach, step.adds.unique_reach
            cells = self._cells(part.reports[0])
            ends = (fmt.count(only), f"+{fmt.count(adds)}")
            title = self.title(part.name)
            named = title if part.name in title else f"{title} ({part.name})"
            rows.append((named, fmt.count(part.impressions), *cells, *ends))
        alone = sum(report.unique_reach for report in combined.only.values())
        last = (fmt.count(alone), fmt.count(combined.union.unique_reach))
        impressions = fmt.count(self.document.impressions)
        rows.append(("all together", impressions, *self._cells(combined.union), *last))
        return rows

    def _cells(self, report: CapReport | SetReport) -> tuple[str, ...]:
        people = (fmt.count(report.unique_reach), fmt.interval(report.unique_reach_interval))
        capped = () if self.combined.cap == 1 else (fmt.count(report.reach),)
        return (*people, *capped, fmt.decimal(report.average_frequency))
