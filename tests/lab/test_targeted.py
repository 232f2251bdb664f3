"""A campaign that targets a part of a platform: who is visible in a group, and what follows."""

import numpy as np
import pytest

import kreach as kr
from kreach.lab.scenarios import APPROACHES, GROUP_SIZE, PaperCampaign
from kreach.lab.targeted import VISIBLE_APPROACHES, TargetedCampaign, target

PEOPLE = 400


def campaign() -> PaperCampaign:
    generator = np.random.default_rng(1)
    rates = generator.gamma(0.7, size=PEOPLE)
    person = generator.choice(PEOPLE, size=3_000, p=rates / rates.sum())
    history = generator.poisson(8.0 * rates)
    return PaperCampaign(np.arange(PEOPLE) // GROUP_SIZE, history, person, np.ones(3_000))


def at(share: float) -> TargetedCampaign:
    return target(campaign(), share, np.random.default_rng(2))


@pytest.mark.parametrize("share", [0.01, 0.08, 0.5, 1.0])
def test_everybody_is_in_one_group_and_no_group_is_empty_or_too_large(share: float) -> None:
    targeted = at(share)
    assert targeted.visible_counts.sum() == len(targeted.group_of) == PEOPLE
    assert 1 <= targeted.visible_counts.min() <= targeted.visible_counts.max() <= GROUP_SIZE
    groups = PEOPLE / share / GROUP_SIZE
    hit = groups * (1.0 - (1.0 - share) ** GROUP_SIZE)
    assert targeted.group_count == pytest.approx(hit, rel=0.1)
    assert all(q.sum() == pytest.approx(1.0) for q in targeted.shares)


def test_with_everybody_targeted_all_members_are_visible() -> None:
    targeted = at(1.0)
    assert set(targeted.visible_counts.tolist()) == {GROUP_SIZE}
    assert targeted.members()["visible_members"] == GROUP_SIZE


def test_fewer_targeted_are_fewer_visible_and_effective_ones_are_fewest() -> None:
    by_share = [at(share).members() for share in (0.03, 0.08, 0.3, 1.0)]
    for name in ("visible_members", "active_members", "effective_members"):
        values = [members[name] for members in by_share]
        assert values == sorted(values)
    for members in by_share:
        assert 1.0 <= members["effective_members"] <= members["active_members"]
        assert members["active_members"] <= members["visible_members"]


def test_each_approach_counts_with_its_own_audience() -> None:
    targeted = at(0.08)
    audiences = targeted.audiences
    assert set(audiences) == set(APPROACHES) | set(VISIBLE_APPROACHES)
    assert all(audience.group_count == targeted.group_count for audience in audiences.values())
    for approach in ("visible", "visible_dispersed"):
        assert audiences[approach].group_sizes.tolist() == targeted.visible_counts.tolist()
    for approach in ("uniform", "dispersed", "targeted"):
        assert set(audiences[approach].group_sizes.tolist()) == {GROUP_SIZE}
    assert audiences["targeted"].targeted_user_count == PEOPLE
    assert audiences["uniform"].targeted_user_count == GROUP_SIZE * targeted.group_count


def test_shares_of_all_members_hold_the_visible_ones_diluted() -> None:
    targeted = at(0.08)
    for visible, everybody in zip(targeted.shares, targeted.shares_of_all(), strict=True):
        assert len(everybody) == GROUP_SIZE
        assert everybody.sum() == pytest.approx(1.0)
        assert everybody[: len(visible)].sum() <= 1.0 + 1e-12


def test_a_group_with_one_visible_member_is_that_person() -> None:
    """However often its ad was seen, exactly one person was reached; C with 1/20 says more."""
    alone = kr.Audience.disjoint([1])
    assert kr.measure(alone, [7], 1).reach == 1.0
    assert kr.measure(kr.Audience.disjoint([GROUP_SIZE]), [7], 1).reach > 6.0


def test_any_members_of_a_group_share_its_dispersion() -> None:
    """Σq² of 3 of 20 with Dirichlet shares is that of 3 with the same concentration."""
    concentration = 0.6
    shares = np.random.default_rng(3).dirichlet(np.full(GROUP_SIZE, concentration), size=40_000)
    three = shares[:, :3] / shares[:, :3].sum(axis=1, keepdims=True)
    expected = (concentration + 1.0) / (3.0 * concentration + 1.0)
    met = (three**2).sum(axis=1)
    assert met.mean() == pytest.approx(expected, abs=5.0 * met.std() / len(met) ** 0.5)


def test_the_same_generator_gives_the_same_groups() -> None:
    assert at(0.08).group_of.tolist() == at(0.08).group_of.tolist()
