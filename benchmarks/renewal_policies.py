"""Ways of renewing groups over a simulated year: the policies, and the versions that they make."""

from dataclasses import dataclass

import numpy as np

import kreach as kr
from benchmarks.renewal_year import HISTORY_WEEKS, Year
from kreach.numeric.types import IntArray
from kreach.publisher.grouping import Assignment, BySegments, Strategy, form_groups
from kreach.publisher.grouping.base import FORMED_BY_VISITS
from kreach.publisher.people import Attribute, People
from kreach.publisher.regrouping import regroup
from kreach.publisher.visit_knowledge import match_dispersion

__all__ = ["POLICIES", "SEEN_WEEKS", "WON_SHARE", "Policy", "Site", "Version", "next_version"]

SEEN_WEEKS = 4  # whoever was seen in these counts as active
WON_SHARE = 0.1


@dataclass(frozen=True)
class Policy:
    """How often groups are renewed, and how.

    `memory_weeks`: whoever was not seen for so long leaves. `newcomers`: "gaps" fill the groups
    that lack people, "named" stay in the group that the gateway named. `counted`: only people seen
    in the last four weeks count for k. `movers`: whether people whose segment changed are moved.
    """

    name: str
    every: int | None  # weeks; None: never
    anew: bool = False
    memory_weeks: int = 8
    newcomers: str = "gaps"
    counted: bool = False
    movers: bool = False
    room: float = 1.0  # counted people of a group at a renewal, at least so many times k
    first: float | None = None  # the same when groups are formed; None: k members, seen or not


def _seen(name: str, every: int, room: float = 1.25, first: float | None = 1.5) -> Policy:
    """Newcomers stay where the gateway put them, and only people seen lately count."""
    return Policy(name, every, False, 26, "named", counted=True, room=room, first=first)


POLICIES = (
    Policy("never renewed", None),
    Policy("anew, every week", 1, anew=True),
    Policy("anew, every 4 weeks", 4, anew=True),
    Policy("anew, every 26 weeks", 26, anew=True),
    Policy("gaps, every week", 1),
    Policy("gaps, every 4 weeks", 4),
    Policy("gaps, every 12 weeks", 12),
    Policy("gaps, every 26 weeks", 26),
    Policy("gaps, every 4, forget after 26", 4, memory_weeks=26),
    Policy("gaps, every 4, movers moved", 4, movers=True),
    Policy("named, every 4", 4, newcomers="named"),
    Policy("named, every 4, forget after 26", 4, memory_weeks=26, newcomers="named"),
    _seen("seen, every week", 1),
    _seen("seen, every 4 weeks (default)", 4),
    _seen("seen, every 12 weeks", 12),
    _seen("seen, every 26 weeks", 26),
    _seen("seen, every 4, no room", 4, room=1.0, first=1.0),
    _seen("seen, every 4, formed with k", 4, first=None),
)


@dataclass(frozen=True)
class Site:
    """The year, and how groups are formed."""

    year: Year
    segments: tuple[str, ...]
    sensitive: str
    strategy: Strategy
    group_size: int
    seed: int

    def people(self, chosen: IntArray, week: int) -> People:
        """Some people as a build before this week would see them."""
        names = (*self.segments, self.sensitive)
        columns = {name: self.year.attributes[name][chosen, week - 1] for name in names}
        attributes = {
            name: Attribute(codes, tuple(range(int(codes.max()) + 1)))
            for name, codes in columns.items()
        }
        return People(self.year.recent(week, HISTORY_WEEKS)[chosen], attributes)


@dataclass(frozen=True, eq=False)
class Version:
    """One version: everybody's group, members or not, and how it measures."""

    start: int
    members: IntArray
    assignment: Assignment
    named: IntArray
    audience: kr.Audience
    moved: float = 0.0


def next_version(
    site: Site,
    policy: Policy,
    last: Version | None,
    week: int,
    generator: np.random.Generator,
) -> Version:
    """The version that a policy serves in a week: the last one, or a new one if it is due."""
    if last is None:
        first = _formed(site, policy, week, generator)
        if policy.counted and policy.first is None:
            return _renewed(site, policy, first, week, generator)
        return first
    if policy.every is None or (week - HISTORY_WEEKS) % policy.every:
        return last
    if policy.anew:
        return _formed(site, policy, week, generator)
    return _renewed(site, policy, last, week, generator)


def _formed(site: Site, policy: Policy, week: int, generator: np.random.Generator) -> Version:
    weeks = policy.memory_weeks if policy.first is None else SEEN_WEEKS
    members = np.flatnonzero(site.year.recent(week, weeks))
    people = site.people(members, week)
    seed = int(generator.integers(2**31))
    size = round((policy.first or 1.0) * site.group_size)
    formed = form_groups(people, size, site.strategy, seed)
    assignment = Assignment(formed.groups, site.group_size, formed.strategy)
    fitted = _like_groups(site, members, size, week, seed) if _by_visits(site) else None
    return _version(site, members, assignment, week, generator, fitted=fitted)


def _by_visits(site: Site) -> bool:
    return site.strategy.name in FORMED_BY_VISITS


def _like_groups(site: Site, members: IntArray, size: int, week: int, seed: int) -> IntArray:
    """Groups that the strategy forms by earlier visits, to fit on visits that did not form them."""
    year = site.year
    earlier = year.recent(week - SEEN_WEEKS, HISTORY_WEEKS - SEEN_WEEKS)[members]
    people = People(earlier, site.people(members, week).attributes)
    return form_groups(people, size, site.strategy, seed).group_of()


def _renewed(
    site: Site, policy: Policy, last: Version, week: int, generator: np.random.Generator
) -> Version:
    known = site.year.recent(week, policy.memory_weeks) > 0
    stays = known[last.members]
    joined = known.copy()
    joined[last.members] = False
    if policy.movers:
        names = site.segments
        moved = site.year.cells(names, last.start - 1) != site.year.cells(names, week - 1)
        stays &= ~moved[last.members]
        joined[last.members] = known[last.members] & moved[last.members]
    joiners = np.flatnonzero(joined)
    members = np.concatenate([last.members[stays], joiners])
    seen = site.year.recent(week, SEEN_WEEKS) > 0
    by_segment = isinstance(site.strategy, BySegments)
    renewed = regroup(
        last.assignment,
        stays,
        len(joiners),
        int(generator.integers(2**31)),
        counted=seen[members] if policy.counted else None,
        named=last.named[joiners] if policy.newcomers == "named" else None,
        cells=site.year.cells(site.segments, week - 1)[members] if by_segment else None,
        repair_below=round(policy.room * site.group_size),
    )
    moved_share = renewed.moved / len(last.members)
    return _version(site, members, renewed.assignment, week, generator, moved_share)


def _version(
    site: Site,
    members: IntArray,
    assignment: Assignment,
    week: int,
    generator: np.random.Generator,
    moved: float = 1.0,
    fitted: IntArray | None = None,
) -> Version:
    """Names of everybody as the gateway gives them, and the dispersion of the last four weeks."""
    group = assignment.group_of()
    named = group[generator.integers(0, len(members), len(site.year.visits))]
    named[members] = group
    weeks = range(week - SEEN_WEEKS, week)
    visits = np.concatenate([site.year.visits[members, w] for w in weeks])
    within = group if fitted is None else fitted
    count = int(within.max()) + 1
    groups = np.concatenate([within + n * count for n in range(SEEN_WEEKS)])
    dispersion = match_dispersion(visits, groups, WON_SHARE)
    audience = kr.Audience.disjoint(assignment.group_sizes, dispersion=dispersion)
    return Version(week, members, assignment, named, audience, moved)
