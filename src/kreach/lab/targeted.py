"""A campaign that targets a part of a platform, as its auctions see the platform's groups.

Groups are formed over everybody. A campaign's auctions come only from the people it targets, so a
group of 20 holds few members whom the campaign can see: its *visible* members. The others never
make a request of this campaign: they visit as targeted people do, but elsewhere.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import kreach as kr
from kreach.lab.scenarios import GROUP_SIZE, PaperCampaign
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["VISIBLE_APPROACHES", "TargetedCampaign", "target"]

VISIBLE_APPROACHES = {
    "visible": "C on visible members",
    "visible_dispersed": "one dispersion, visible",
    "targeted": "C, targeted counts of 20",
    "profiled_all": "D, shares of all 20",
}


@dataclass(frozen=True, eq=False)
class TargetedCampaign:
    """A campaign's people in the groups that hold any of them, and the requests of its flight."""

    group_of: IntArray  # of each targeted person
    flight: IntArray  # requests of each targeted person
    others: IntArray  # visits of 20 further people for each group, not in the auctions
    dispersion: float  # of the platform's groups, from history

    @property
    def group_count(self) -> int:
        """Groups with at least one targeted person."""
        return len(self.visible_counts)

    @cached_property
    def visible_counts(self) -> IntArray:
        """Targeted members of each group."""
        return np.bincount(self.group_of)

    @cached_property
    def visits(self) -> list[IntArray]:
        """The requests of each group's visible members."""
        order = np.argsort(self.group_of, kind="stable")
        return np.split(self.flight[order], np.cumsum(self.visible_counts)[:-1])

    @cached_property
    def shares(self) -> list[FloatArray]:
        """The visit shares of each group's visible members; equal ones where nobody came."""
        return [_shares(visits) for visits in self.visits]

    def shares_of_all(self) -> list[FloatArray]:
        """The visit shares of all 20 members of each group, in the auctions or not."""
        return [
            _shares(np.concatenate([visits, others[len(visits) :]]))
            for visits, others in zip(self.visits, self.others, strict=True)
        ]

    def members(self) -> dict[str, float]:
        """Visible members per group: all, those who came, and effective ones (1/Σq²).

        Of who came and of effective ones it is the mean over groups from which anybody came.
        """
        came = np.bincount(self.group_of, weights=self.flight > 0)
        effective = np.array([1.0 / float(q @ q) for q in self.shares])
        return {
            "visible_members": float(self.visible_counts.mean()),
            "active_members": float(came[came > 0].mean()),
            "effective_members": float(effective[came > 0].mean()),
        }

    @cached_property
    def audiences(self) -> dict[str, kr.Audience]:
        """The audience under each approach.

        The paper's C and one dispersion take all 20 members for the audience. Requests come from
        visible members only, so the right size of a group in such a stream is its visible count;
        the dispersion is the same, because any members of a group with Dirichlet shares have
        Dirichlet shares of the same concentration among themselves. `targeted` is Theorems 1
        and 4 with U_j and 1/20, and `profiled_all` is D with the shares of all 20: right where
        all 20 make requests, wrong here.
        """
        groups, visible = self.group_count, self.visible_counts
        sizes = np.full(groups, GROUP_SIZE)
        return {
            "impressions": kr.baselines.every_impression(groups),
            "groups": kr.baselines.every_group(groups),
            "uniform": kr.Audience.disjoint(sizes),
            "profiled": kr.Audience.profiled(self.shares),
            "dispersed": kr.Audience.disjoint(sizes, dispersion=self.dispersion),
            "visible": kr.Audience.disjoint(visible),
            "visible_dispersed": kr.Audience.disjoint(visible, dispersion=self.dispersion),
            "targeted": kr.Audience.disjoint(sizes, targeted_counts=visible),
            "profiled_all": kr.Audience.profiled(self.shares_of_all()),
        }


def target(
    campaign: PaperCampaign, share: float, generator: np.random.Generator
) -> TargetedCampaign:
    """Place a campaign's people at random in the groups of a platform 1/`share` as large."""
    people = len(campaign.group_of)
    groups = max(round(people / share / GROUP_SIZE), campaign.group_count)
    place = generator.choice(groups * GROUP_SIZE, size=people, replace=False) // GROUP_SIZE
    held, group_of = np.unique(place, return_inverse=True)
    others = generator.choice(campaign.flight, size=(len(held), GROUP_SIZE))
    return TargetedCampaign(group_of, campaign.flight, others, campaign.dispersion)


def _shares(visits: IntArray) -> FloatArray:
    total = float(visits.sum())
    return visits / total if total > 0.0 else np.full(len(visits), 1.0 / len(visits))
