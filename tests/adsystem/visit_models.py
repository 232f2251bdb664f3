"""A visit model made by hand: sessions, hours and regulars, for tests of what uses one."""

import numpy as np

from kreach.boundary.visit_model import ModelError, VisitModel
from kreach.numeric.meetings import DAY_EDGES, PARTS

__all__ = ["sample_model"]


def sample_model(group_size: float = 6.0, lags: int = 3) -> VisitModel:
    """People who come in sessions, keep to their hours, and are of two kinds."""
    near = np.array([40.0, 12.0, 2.0, 0.3])
    odds = np.array([near / 2.0**lag for lag in range(lags)])
    hours = 1.0 + 0.6 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    parts = np.arange(PARTS)
    apart = np.abs(parts[:, None] - parts[None, :])
    same_hours = 0.3 - 0.1 * np.minimum(apart, PARTS - apart) / (PARTS / 2)
    by_days = 1.0 - 0.05 * np.arange(len(DAY_EDGES) + 1)
    return VisitModel(
        group_size=group_size,
        gap_edges_seconds=(60.0, 600.0, 1800.0, 7200.0),
        continuation_odds=odds,
        hourly_traffic=hours / hours.mean(),
        requests_per_session=np.array([0.5, 0.25, 0.15, 0.1]),
        meetings=same_hours[:, :, None] * by_days[None, None, :],
        regulars=0.3,
        lasting=0.5,
        errors=(
            ModelError(6.0, 0.01, 0.02, -0.01, 0.03),
            ModelError(float("inf"), -0.02, 0.03, 0.02, 0.04),
        ),
        people=12_345,
        history_days=30.0,
    )
