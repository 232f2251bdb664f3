"""Advertisers who turn reports against a person, and how much better than a coin they guess.

Each attack is a game. A coin decides whether one person's secret is so or so: whether she visited
at a certain second (and saw the ad), or whether she is in an audience. The attacker knows her
group, the second and how busy the campaign is, asks what reports he may, and says which. His

    advantage = 2 · P(right) − 1

is 0 for who guesses and 1 for who knows. What he is refused he makes up for with what he is offered
instead; and where that tells him nothing he throws a coin, which counts as half a game right.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kreach.adsystem.api.app import advertiser_policy
from kreach.adsystem.campaigns.campaign import campaign_from
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.questions import ReachQuestion
from kreach.adsystem.reports.report import Allowed
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.settings import (
    AdSystemSettings,
    GuardSettings,
    NoiseSettings,
)
from kreach.adsystem.store_layout import GUARD_KEY
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.boundary.times import Window
from kreach.errors import KreachError
from kreach.lab.trials import generator_for
from kreach.service.logs import Log

__all__ = ["ATTACKS", "MODES", "AttackScore", "attack_table"]

MODES = ("open", "guard", "noise")
START = datetime(2026, 3, 2, tzinfo=UTC)
_DAYS = 3
_GROUPS, _GROUP_SIZE = 100, 20
_IMPRESSIONS = 3_000  # of the campaign, apart from the one in question
_BASE = 1_400  # people of the attacker's list
_SECOND = timedelta(seconds=1)
_REPEATS = 50

Counts = list[int]  # people of an audience, by group


@dataclass(frozen=True)
class AttackScore:
    """An attack in one mode: advantage with its standard error, and how often it was refused."""

    attack: str
    mode: str
    trials: int
    advantage: float
    error: float
    refused: float


class _Scene:
    """A store with a campaign that has run for three days, and a secret."""

    def __init__(
        self, folder: Path, chance: np.random.Generator, people: dict[str, Counts]
    ) -> None:
        """`people` of further audiences, by name: how many members of each group."""
        self.folder, self.chance = folder, chance
        ids = tuple(f"g{j:03d}" for j in range(_GROUPS))
        sizes = np.full(_GROUPS, _GROUP_SIZE)
        made = Catalogue("v1", START - timedelta(days=1), _GROUP_SIZE, ids, sizes)
        write_catalogue(made, folder / "release")
        self.shared = AdSystemSettings(
            store=folder / "store",
            catalogues=(folder / "release",),
            audiences={name: folder / f"{name}.csv" for name in people},
        )
        for name, counts in people.items():
            lines = ["group,size,targeted"]
            for group, count in zip(ids, counts, strict=True):
                lines.append(f"{group},{_GROUP_SIZE},{count}")
            (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        self.now = (START + timedelta(days=_DAYS, hours=4)).timestamp()
        self.second = START + timedelta(
            seconds=int(chance.integers(90_000, 160_000)), milliseconds=500
        )
        self.group = int(chance.integers(_GROUPS))
        self._row = 0
        self._view: ReportService | None = None
        self._open_ones = ExitStack()
        self.shared.store.mkdir()
        (self.shared.store / GUARD_KEY).write_text(chance.bytes(32).hex() + "\n")  # as seeded

    def campaign(self, name: str, audience: str = "everyone") -> dict[str, Any]:
        """A campaign's definition."""
        return {
            "id": name,
            "budget": 1_000.0,
            "max_cpm": 5.0,
            "start": START.isoformat(),
            "end": (START + timedelta(days=_DAYS)).isoformat(),
            "audience": audience,
        }

    def number_of(self, name: str) -> int:
        """Under which the log knows a campaign."""
        store = CampaignStore(self.shared.store)
        try:
            return store.get(name).number
        finally:
            store.close()

    def show(self, name: str, moments: list[datetime], groups: list[int]) -> None:
        """Write impressions to the log, as the bidder does."""
        number = self.number_of(name)
        journal = Journal(self.shared.store, Log("lab", lambda line: None))
        catalogue = journal.catalogue_number("v1")
        for moment, group in sorted(zip(moments, groups, strict=True)):
            self._row += 1
            ts = round(moment.timestamp() * 1e6)
            expires = ts // 1_000_000 + 900
            row = (
                journal.epoch << 40 | self._row,
                number,
                catalogue,
                group,
                ts,
                ts,
                expires,
                2_000,
            )
            journal.submit("impression", row)
        journal.close()

    def background(self, name: str, until: datetime | None = None) -> int:
        """The campaign's other impressions, none of them in the second in question."""
        moments: list[datetime] = []
        while len(moments) < _IMPRESSIONS:
            at = START + timedelta(seconds=float(self.chance.uniform(0.0, _DAYS * 86_400.0)))
            if abs(at - self.second) > _SECOND:
                moments.append(at)
        chosen = [at for at in moments if until is None or at < until]
        self.show(name, chosen, self.chance.integers(0, _GROUPS, len(chosen)).tolist())
        return len(chosen)

    def seen(self, mode: str) -> ReportService:
        """Reports as this mode shows them; opened once a game."""
        if self._view is None:
            self._view = self._open(mode)
        return self._view

    def _open(self, mode: str) -> ReportService:
        store = ReportContext(self.shared, "1500MB", Log("lab", lambda line: None))
        self._open_ones.callback(store.close)
        guard = GuardSettings(enabled=mode != "open")
        noise = NoiseSettings(enabled=mode == "noise")
        policy = advertiser_policy(store, guard, noise, lambda: self.now)
        service = ReportService(store, policy, lambda: self.now)
        self._open_ones.callback(service.close)
        return service

    def close(self) -> None:
        """Let go of the store."""
        self._open_ones.close()


def _first(people: int) -> Counts:
    """So many people, group after group: as many as each holds."""
    return [max(min(people - at * _GROUP_SIZE, _GROUP_SIZE), 0) for at in range(_GROUPS)]


def _members(low: int, high: int, without: int | None = None) -> Counts:
    """All people of some groups, one person of one of them left out."""
    return [_GROUP_SIZE * (low <= at < high) - (at == without) for at in range(_GROUPS)]


Guess = tuple[bool | None, bool]
"""What is guessed (None: a coin, worth half a game), and whether something was refused."""


def _impressions(
    view: ReportService, name: str, start: datetime | None, end: datetime | None
) -> int | None:
    return view.reach(name, ReachQuestion(Window(start, end), (1,))).impressions


def _around(
    view: ReportService, name: str, moment: datetime
) -> tuple[datetime, datetime, int] | None:
    """The smallest window around a moment that is told, and its impressions."""
    try:
        _impressions(view, name, moment, moment + _SECOND)
    except Withheld as refused:
        allowed = refused.allowed or Allowed()
        starts = [datetime.fromisoformat(text) for text in allowed.start]
        ends = [datetime.fromisoformat(text) for text in allowed.end]
        for start in sorted((s for s in starts if s <= moment), reverse=True):
            for end in sorted(e for e in ends if e > moment):
                try:
                    told = _impressions(view, name, start, end)
                except KreachError:
                    continue
                if told is not None:
                    return start, end, told
    except KreachError:
        return None
    return None


def _by_rate(found: tuple[datetime, datetime, int] | None) -> bool | None:
    """One more than the campaign's rate would have?"""
    if found is None:
        return None
    start, end, told = found
    usual = _IMPRESSIONS * (end - start).total_seconds() / (_DAYS * 86_400.0)
    return told > usual + 0.5


def _short_window(scene: _Scene, mode: str, secret: bool) -> Guess:
    """The impressions of the one second."""
    _ready(scene, secret)
    half = timedelta(milliseconds=500)
    view = scene.seen(mode)
    try:
        told = _impressions(view, "mine", scene.second - half, scene.second + half)
        return (None if told is None else told >= 1), False
    except KreachError:
        return _by_rate(_around(view, "mine", scene.second)), True


def _window_difference(scene: _Scene, mode: str, secret: bool) -> Guess:
    """Impressions until just after the second, less those until just before."""
    _ready(scene, secret)
    half = timedelta(milliseconds=500)
    view = scene.seen(mode)
    try:
        after = _impressions(view, "mine", None, scene.second + half)
        before = _impressions(view, "mine", None, scene.second - half)
        if after is None or before is None:
            return None, True
        return after - before >= 1, False
    except KreachError:
        return _by_rate(_around(view, "mine", scene.second)), True


def _polling(scene: _Scene, mode: str, secret: bool) -> Guess:
    """What the campaign has spent, looked at just before the second and just after."""
    _begin(scene)
    scene.background("mine", until=scene.second)
    spent = []
    for shown, wait in ((False, timedelta(0)), (secret, _SECOND)):
        if shown:
            scene.show("mine", [scene.second], [scene.group])
        scene.now = (scene.second + wait).timestamp()
        view = scene.seen(mode)
        spent.append(view.status("mine", 0.95).status.spend_micros)
    if None in spent:
        return None, True
    return spent[1] != spent[0] if spent[1] != spent[0] or mode == "open" else None, False


def _tracker(scene: _Scene, mode: str, secret: bool) -> Guess:
    """A campaign on an audience of one person; her group shows up when she comes."""
    scene.second = scene.second.replace(microsecond=0)
    try:
        view = scene.seen(mode)
        view.create(scene.campaign("mine", "one"))
    except KreachError:
        return None, True
    if secret:
        scene.show("mine", [scene.second], [0])
    view = scene.seen(mode)
    try:
        told = _impressions(view, "mine", None, None)
    except KreachError:
        return None, True
    return (None, True) if told is None else (told >= 1, False)


def _people(scene: _Scene, mode: str, name: str, audience: str) -> int | str:
    """How many people an audience has, or how one is refused to know."""
    try:
        view = scene.seen(mode)
        view.create(scene.campaign(name, audience))
        scene.background(name)
        view = scene.seen(mode)
        return view.reach(name, ReachQuestion(caps=(1,))).people
    except KreachError as error:
        return type(error).__name__


def _audience_difference(scene: _Scene, mode: str, secret: bool) -> Guess:
    """The list, and the list with her: no different if she was on it."""
    one, two = (_people(scene, mode, f"acme.{name}", name) for name in ("list", "listplus"))
    return one == two, isinstance(two, str)


def _two_advertisers(scene: _Scene, mode: str, secret: bool) -> Guess:
    """The same, by two advertisers who pool what they are told."""
    one = _people(scene, mode, "acme.mine", "list")
    two = _people(scene, mode, "bolt.mine", "listplus")
    return one == two, isinstance(two, str)


def _audience_sum(scene: _Scene, mode: str, secret: bool) -> Guess:
    """All are on one of two lists; those on both are too few by one if she is not on both."""
    told = {name: _people(scene, mode, f"acme.{name}", name) for name in ("left", "right", "both")}
    counts = [number for number in told.values() if not isinstance(number, str)]
    if len(counts) < len(told):
        return None, True
    left, right, both = counts
    return left + right - both == _GROUPS * _GROUP_SIZE, False


def _audience_size(scene: _Scene, mode: str, secret: bool) -> Guess:
    """A list that is just large enough if she is on it."""
    told = _people(scene, mode, "mine", "edge")
    if isinstance(told, str):
        return False, True
    return told >= _edge(), False


def _knows_all_others(scene: _Scene, mode: str, secret: bool) -> Guess:
    """Who knows all other impressions subtracts them from the total."""
    _begin(scene)
    others = scene.background("mine")
    if secret:
        scene.show("mine", [scene.second], [scene.group])
    view = scene.seen(mode)
    told = _impressions(view, "mine", None, None)
    return (None, True) if told is None else (told > others + 0.5, False)


def _averaging(scene: _Scene, mode: str, secret: bool) -> Guess:
    """The same, asked again and again, and the answers averaged."""
    _begin(scene)
    others = scene.background("mine")
    if secret:
        scene.show("mine", [scene.second], [scene.group])
    view = scene.seen(mode)
    told = [_impressions(view, "mine", None, None) for _ in range(_REPEATS)]
    known = [number for number in told if number is not None]
    return (None, True) if not known else (float(np.mean(known)) > others + 0.5, False)


def _overlap(view: ReportService) -> float | None:
    """People whom both campaigns reached."""
    found = view.together(["mine", "bait"], ["mine", "bait"], ReachQuestion(caps=(1,)))
    return None if found.combined is None else found.combined.overlap.reach


def _spread(scene: _Scene, name: str, low: int, high: int, day: tuple[float, float]) -> None:
    """Impressions on some groups, evenly, in a stretch of days."""
    count = _IMPRESSIONS // 4
    at = np.sort(scene.chance.uniform(*day, count)) * 86_400.0
    moments = [START + timedelta(seconds=float(seconds)) for seconds in at]
    scene.show(name, moments, (low + np.arange(count) % (high - low)).tolist())


def _two_campaigns(scene: _Scene) -> None:
    store = CampaignStore(scene.shared.store)
    for name in ("mine", "bait"):
        store.add(campaign_from(scene.campaign(name)))
    store.close()


def _shared_group(scene: _Scene, mode: str, secret: bool) -> Guess:
    """One campaign on her half of the groups, one on the other half: only she can be in both."""
    _two_campaigns(scene)
    _spread(scene, "bait", 0, _GROUPS // 2, (0.0, 2.9))
    _spread(scene, "mine", _GROUPS // 2, _GROUPS, (0.0, 2.9))
    if secret:
        scene.show("mine", [scene.second], [scene.group % (_GROUPS // 2)])
    try:
        told = _overlap(scene.seen(mode))
    except KreachError:
        return None, True
    return (None, True) if told is None else (told > 0.0, False)


def _set_over_time(scene: _Scene, mode: str, secret: bool) -> Guess:
    """Two campaigns on her half; then one of them moves away, and comes back to her or not."""
    _two_campaigns(scene)
    half = _GROUPS // 2
    for name in ("bait", "mine"):
        _spread(scene, name, 0, half, (0.0, 1.5))
    scene.now = (START + timedelta(days=1.5, hours=2)).timestamp()
    told: list[float | None] = []
    for step in range(2):
        if step:
            _spread(scene, "mine", half, _GROUPS, (1.6, 2.9))
            if secret:
                scene.show("mine", [START + timedelta(days=2)], [scene.group % half])
            scene.now = (START + timedelta(days=_DAYS, hours=4)).timestamp()
        try:
            told.append(_overlap(scene.seen(mode)))
        except KreachError:
            told.append(None)
    before, after = told
    if before is None or after is None:
        return None, True
    if mode != "open" and after == before:
        return None, False
    return after > before + 1e-9, False


def _begin(scene: _Scene) -> None:
    store = CampaignStore(scene.shared.store)
    store.add(campaign_from(scene.campaign("mine")))
    store.close()


def _ready(scene: _Scene, secret: bool) -> None:
    _begin(scene)
    scene.background("mine")
    if secret:
        scene.show("mine", [scene.second], [scene.group])


def _edge() -> int:
    return GuardSettings().min_audience


def _audiences(attack: str, secret: bool) -> dict[str, Counts]:
    """The audiences of an attack; the secret is whether she is on the list in question."""
    if attack == "audience of one person":
        return {"one": _first(1)}
    if attack.startswith("audiences that differ"):
        return {"list": _first(_BASE), "listplus": _first(_BASE if secret else _BASE + 1)}
    if attack == "audiences that add up to her":
        both = _members(20, 80, without=None if secret else 50)
        return {"left": _members(0, 80), "right": _members(20, 100), "both": both}
    if attack == "audience at the edge of the floor":
        return {"edge": _first(_edge() if secret else _edge() - 1)}
    return {}


ATTACKS: dict[str, Callable[[_Scene, str, bool], Guess]] = {
    "window of a second": _short_window,
    "windows that differ by a second": _window_difference,
    "polling of the spend": _polling,
    "audience of one person": _tracker,
    "audiences that differ by her": _audience_difference,
    "audiences that differ by her, pooled": _two_advertisers,
    "audiences that add up to her": _audience_sum,
    "audience at the edge of the floor": _audience_size,
    "campaigns that share only her group": _shared_group,
    "campaigns together, before and after": _set_over_time,
    "knowing all other impressions": _knows_all_others,
    "the same question fifty times": _averaging,
}


def attack_table(
    trials: int,
    seed: int,
    attacks: tuple[str, ...] = tuple(ATTACKS),
    modes: tuple[str, ...] = MODES,
    folder: Path | None = None,
) -> list[AttackScore]:
    """All attacks in all modes, so many games each."""
    result = []
    for a, attack in enumerate(attacks):
        for mode in modes:
            scores, refused = [], 0
            for trial in range(trials):
                chance = generator_for(seed, a, trial)
                secret = bool(chance.integers(2))
                people = _audiences(attack, secret)
                with (
                    TemporaryDirectory(dir=folder) as place,
                    closing(_Scene(Path(place), chance, people)) as scene,
                ):
                    guess, no = ATTACKS[attack](scene, mode, secret)
                scores.append(0.5 if guess is None else float(guess == secret))
                refused += no
            advantage = 2.0 * float(np.mean(scores)) - 1.0
            error = 2.0 * sqrt(max(float(np.var(scores)), 1.0 / trials) / trials)
            result.append(AttackScore(attack, mode, trials, advantage, error, refused / trials))
    return result
