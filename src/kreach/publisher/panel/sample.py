"""Which groups are in a panel: a keyed, secret, stable sample for each campaign.

Groups are ordered by their visits in history and cut into strata of neighbours; in each stratum a
keyed hash of campaign and group picks two. The same key, campaign and catalogue give the same
panel, another campaign another one, and without the key every choice of two in each stratum is as
likely as any other. Two is the fewest from which the spread within a stratum can be estimated, and
so the finest stratification.

Another part of the hash orders groups with as many visits. If the part that picks did that too,
those of them that come before a cut between strata would be picked too often.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.checks import as_probability
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Panel", "choose_panel"]

_PER_STRATUM = 2


@dataclass(frozen=True, eq=False)
class Panel:
    """Groups by their index in the catalogue, ordered by stratum. Never leaves the publisher."""

    groups: IntArray
    stratum: IntArray  # of each
    weights: FloatArray  # N/n of its stratum
    group_count: int  # of the catalogue

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def whole(self) -> bool:
        """Whether every group is in it: there is no sampling error then."""
        return len(self.groups) == self.group_count

    def positions(self) -> IntArray:
        """For each group of the catalogue its place in the panel, −1 for those outside."""
        place = np.full(self.group_count, -1, dtype=np.int64)
        place[self.groups] = np.arange(len(self.groups))
        return place


def choose_panel(
    catalogue: Catalogue, visits: IntArray, share: float, key: bytes, campaign: str
) -> Panel:
    """The panel of a campaign: about `share` of the groups of a catalogue.

    `visits` are those of each group in history; where they mean nothing, zeros.
    """
    if share != 1.0:
        as_probability("share", share)
    if catalogue.classes is not None:
        rule = "have disjoint groups: a panel of overlapping groups counts people twice"
        raise KreachError.rule("groups", rule, "overlapping groups")
    if len(visits) != len(catalogue):
        rule = f"have one entry per group ({len(catalogue)})"
        raise KreachError.rule("visits", rule, len(visits))
    if len(key) < 16:
        raise KreachError.rule("key", "have at least 16 bytes", f"{len(key)} bytes")
    if len(catalogue) < _PER_STRATUM:
        raise KreachError.rule("groups", "be at least 2 for a panel", len(catalogue))
    ties, ranks = _ranks(catalogue, key, campaign)
    order = np.lexsort((ties, catalogue.sizes, visits))
    if share == 1.0:
        everything = np.arange(len(order))
        pairs = np.minimum(everything // _PER_STRATUM, len(order) // _PER_STRATUM - 1)
        return Panel(order, pairs, np.ones(len(order)), len(order))
    strata = max(1, round(share * len(order) / _PER_STRATUM))
    chosen, weights = [], []
    for members in np.array_split(order, strata):
        chosen.append(members[np.argsort(ranks[members])[:_PER_STRATUM]])
        weights.append(len(members) / len(chosen[-1]))
    sizes = [len(picked) for picked in chosen]
    return Panel(
        np.concatenate(chosen),
        np.repeat(np.arange(strata), sizes),
        np.repeat(weights, sizes),
        len(order),
    )


def _ranks(catalogue: Catalogue, key: bytes, campaign: str) -> tuple[IntArray, IntArray]:
    """Two keyed numbers for each group, as good as random without the key."""
    seed = hashlib.blake2b(
        f"{catalogue.version}\0{campaign}".encode("utf-8", "surrogatepass"),
        key=key[:64],
        person=b"panel",
        digest_size=32,
    ).digest()
    digests = b"".join(
        hashlib.blake2b(group.encode(), key=seed, digest_size=16).digest()
        for group in catalogue.groups
    )
    ties, ranks = (np.frombuffer(digests, dtype=">u8").reshape(-1, 2).T >> 1).astype(np.int64)
    return ties, ranks
