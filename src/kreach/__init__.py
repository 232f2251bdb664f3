"""kreach: reach measurement, reach-optimising bidding and frequency capping under k-anonymity.

    import kreach as kr

    audience = kr.Audience.disjoint([20] * 1000)
    report = kr.measure(audience, impressions_by_group, cap=3)
    report.reach, report.interval(0.95)

Names are imported when first used, so that `import kreach` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.adsystem.measurement import baselines
    from kreach.adsystem.measurement.distribution import ReachDistribution
    from kreach.adsystem.measurement.meter import ReachMeter
    from kreach.adsystem.measurement.probability import reach_probability
    from kreach.adsystem.measurement.report import ReachReport, measure
    from kreach.adsystem.measurement.rolling import RollingReachMeter
    from kreach.adsystem.measurement.sampling import sample_reach
    from kreach.boundary.audience import Audience

__version__ = "0.1.0"

__all__ = [
    "Audience",
    "KreachError",
    "ReachDistribution",
    "ReachMeter",
    "ReachReport",
    "RollingReachMeter",
    "__version__",
    "baselines",
    "measure",
    "reach_probability",
    "sample_reach",
]

_HOME = {
    "Audience": "kreach.boundary.audience",
    "ReachDistribution": "kreach.adsystem.measurement.distribution",
    "ReachMeter": "kreach.adsystem.measurement.meter",
    "ReachReport": "kreach.adsystem.measurement.report",
    "RollingReachMeter": "kreach.adsystem.measurement.rolling",
    "measure": "kreach.adsystem.measurement.report",
    "reach_probability": "kreach.adsystem.measurement.probability",
    "sample_reach": "kreach.adsystem.measurement.sampling",
}


def __getattr__(name: str) -> object:
    if name == "baselines":
        return import_module("kreach.adsystem.measurement.baselines")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kreach' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
