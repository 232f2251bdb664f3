"""The advertiser of the demo: a key of its own, what it sees, and an attack that the guard stops.

The attack is differencing: ask for reach up to a minute, and up to the next minute. The difference
would be about the few people who saw the ad in that minute. The guard refuses both questions,
because neither window ends where a chapter does.
"""

from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kreach.adsystem.access.key import MAX_RATE_PER_MINUTE
from kreach.adsystem.access.keys import KeyStore
from kreach.boundary.times import iso_seconds
from kreach.lab.exchange import Client

__all__ = ["ADVERTISER", "AttackResult", "DemoKeys", "difference_attack"]

ADVERTISER = "acme"
_OPERATOR_FILE, _ADVERTISER_FILE = "operator.key", "acme.key"
_MINUTE = 60
_PROBES = 24  # minutes that are tried for one with impressions


@dataclass(frozen=True)
class DemoKeys:
    """The keys of the operator (the console's) and of the advertiser."""

    operator: str
    advertiser: str

    @classmethod
    def of_demo(cls, folder: Path) -> "DemoKeys":
        """Those of the folder's demo; made when it begins."""
        files = [folder / _OPERATOR_FILE, folder / _ADVERTISER_FILE]
        if not all(file.exists() for file in files):
            (folder / "store").mkdir(exist_ok=True)
            with closing(KeyStore(folder / "store")) as store:
                operator = store.add("operator", rate_per_minute=MAX_RATE_PER_MINUTE)
                advertiser = store.add("advertiser", ADVERTISER)
            for file, key in zip(files, (operator, advertiser), strict=True):
                file.touch(mode=0o600)
                file.write_text(key.text + "\n")
        operator_key, advertiser_key = (file.read_text().strip() for file in files)
        return cls(operator_key, advertiser_key)

    @staticmethod
    def operator_file() -> str:
        """Where the console finds its key, within the demo's folder."""
        return _OPERATOR_FILE


@dataclass(frozen=True)
class AttackResult:
    """What a differencing attack learned."""

    campaign: str
    first_end: str
    second_end: str
    impressions_between: int  # as the operator sees them
    statuses: tuple[int, int]  # of the advertiser's two questions
    answer: str  # to the second

    @property
    def stopped(self) -> bool:
        """Whether the guard refused at least one of the two, so that nothing can be subtracted."""
        return any(status != 200 for status in self.statuses)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values."""
        return {**asdict(self), "stopped": self.stopped}


async def difference_attack(
    operator: Client, advertiser: Client, campaign: str, begin: float, now: float
) -> AttackResult:
    """Ask, as the advertiser, for two windows a minute apart that few impressions tell apart.

    The operator, who is not guarded, looks for a minute with impressions first: an attacker who
    buys the ads knows when they were shown.
    """
    step = max(int((now - begin) / (_PROBES + 2) // _MINUTE), 1) * _MINUTE
    stored = f"{ADVERTISER}.{campaign}"
    best = (begin + _MINUTE, 0)
    for probe in range(1, _PROBES + 1):
        end = begin + probe * step + 17 * _MINUTE
        if end + _MINUTE >= now:
            break
        path = f"/v1/campaigns/{stored}/reach?cap=1&start={iso_seconds(end)}"
        answer = await operator.ask("GET", f"{path}&end={iso_seconds(end + _MINUTE)}")
        seen = answer.document["impressions"] if answer.status == 200 else 0
        if seen and (not best[1] or seen < best[1]):
            best = (end, int(seen))
    first, second = iso_seconds(best[0]), iso_seconds(best[0] + _MINUTE)
    answers = [
        await advertiser.ask(
            "GET", f"/v1/campaigns/{campaign}/reach?cap=1&start={iso_seconds(begin)}&end={end}"
        )
        for end in (first, second)
    ]
    last = answers[-1]
    text = last.document["error"]["message"] if last.status != 200 else "answered"
    statuses = (answers[0].status, answers[1].status)
    return AttackResult(campaign, first, second, best[1], statuses, text)
