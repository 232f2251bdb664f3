"""Many windows at once are each window alone."""

import numpy as np
import pytest

from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.draw_law import DrawLaw
from kreach.boundary.visit_model import VisitModel
from kreach.publisher.draw_laws import DrawLaws
from kreach.publisher.visit_history import VisitHistory
from kreach.publisher.visitor_fit import audience_of
from tests.adsystem.visit_models import sample_model
from tests.publisher.visit_worlds import START_US, visit_world

DAY_US = 86_400_000_000
CAPS = (1, 3)


def law_of(history: VisitHistory, model: VisitModel, traffic: float = 1.0) -> DrawLaw:
    window = draws_in_order(
        audience_of(history), history.group, history.at_us, model, traffic, hours=24.0
    )
    return DrawLaw(window, model, traffic)


@pytest.mark.parametrize("alone", [0, 40])
def test_figures_are_those_of_each_law(alone: int) -> None:
    """In windows with many and few impressions, at other traffic, and with groups of one."""
    world = visit_world(people=600, days=4.0, seed=5)
    group_of = np.array(world.group_of)
    group_of[:alone] = group_of.max() + 1 + np.arange(alone)
    history = VisitHistory.of(world.person, group_of, world.at_us)
    model, chance = sample_model(), np.random.default_rng(6)
    laws = []
    for share in (1.0, 0.3, 0.02):
        for day in range(3):
            inside = history.between(START_US + day * DAY_US, START_US + (day + 1.5) * DAY_US)
            won = inside.where(chance.random(len(inside)) < share)
            laws.append(law_of(won, model))
            laws.append(law_of(won, model.at_traffic(1.7)))
            laws.append(law_of(won, model, 1.15))
    together = DrawLaws(laws, CAPS)
    reach, variance = together.reach(), together.variance()
    for at, law in enumerate(laws):
        assert reach[at] == pytest.approx([law.reach(cap) for cap in CAPS], rel=1e-12)
        assert variance[at] == pytest.approx(
            [law.variance(cap) for cap in CAPS], rel=1e-9, abs=1e-9
        )
    assert (reach > 0.0).all()
    assert (variance[:, 0] > 0.0).all()
