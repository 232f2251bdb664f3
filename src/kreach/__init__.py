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
    from kreach.adsystem.bidding.bidder import BidLimits, PaperBidder, PlanningBidder
    from kreach.adsystem.bidding.budget import Purse
    from kreach.adsystem.bidding.hindsight import hindsight_limit
    from kreach.adsystem.bidding.history import read_prices
    from kreach.adsystem.bidding.market import EmpiricalMarket, LogNormalMarket
    from kreach.adsystem.bidding.offline import offline_multiplier
    from kreach.adsystem.bidding.outlook import Outlook
    from kreach.adsystem.bidding.portfolio import Portfolio
    from kreach.adsystem.bidding.valuation import (
        CapRule,
        CapValuation,
        StackedValuation,
        VisitorValuation,
    )
    from kreach.adsystem.log.clickhouse_engine import ClickHouseEngine
    from kreach.adsystem.log.count_tables import count_sql, open_counts
    from kreach.adsystem.log.duckdb_engine import EmbeddedEngine
    from kreach.adsystem.log.group_table import open_groups
    from kreach.adsystem.log.impression_log import ImpressionLog
    from kreach.adsystem.log.postgres_engine import PostgresEngine
    from kreach.adsystem.log.prepare import prepare_log
    from kreach.adsystem.log.spark_engine import SparkEngine
    from kreach.adsystem.measurement import baselines
    from kreach.adsystem.measurement.combination import Combination, combine
    from kreach.adsystem.measurement.distribution import ReachDistribution
    from kreach.adsystem.measurement.meter import ReachMeter
    from kreach.adsystem.measurement.probability import reach_probability
    from kreach.adsystem.measurement.report import ReachReport, measure
    from kreach.adsystem.measurement.rolling import RollingReachMeter
    from kreach.adsystem.measurement.sampling import sample_reach
    from kreach.adsystem.measurement.timed_parts import combine_times
    from kreach.adsystem.measurement.times import measure_times
    from kreach.adsystem.measurement.visitor_filter import VisitorFilter
    from kreach.adsystem.reports.by_segment import BySegment, measure_segments
    from kreach.adsystem.reports.combined import CombinedReports, measure_together
    from kreach.adsystem.reports.forecast import ReachPlan, plan
    from kreach.adsystem.reports.panel_together import corrected_together
    from kreach.adsystem.reports.panel_window import corrected_series, corrected_window
    from kreach.adsystem.reports.window import (
        SeriesReport,
        WindowReport,
        measure_series,
        measure_window,
    )
    from kreach.boundary.audience import Audience
    from kreach.boundary.correction import Correction, read_corrections
    from kreach.boundary.events import Impression
    from kreach.boundary.files import read_groups
    from kreach.boundary.visit_model import VisitModel

__version__ = "0.1.0"

__all__ = [
    "Audience",
    "BidLimits",
    "BySegment",
    "CapRule",
    "CapValuation",
    "ClickHouseEngine",
    "Combination",
    "CombinedReports",
    "Correction",
    "EmbeddedEngine",
    "EmpiricalMarket",
    "Impression",
    "ImpressionLog",
    "KreachError",
    "LogNormalMarket",
    "Outlook",
    "PaperBidder",
    "PlanningBidder",
    "Portfolio",
    "PostgresEngine",
    "Purse",
    "ReachDistribution",
    "ReachMeter",
    "ReachPlan",
    "ReachReport",
    "RollingReachMeter",
    "SeriesReport",
    "SparkEngine",
    "StackedValuation",
    "VisitModel",
    "VisitorFilter",
    "VisitorValuation",
    "WindowReport",
    "__version__",
    "baselines",
    "combine",
    "combine_times",
    "corrected_series",
    "corrected_together",
    "corrected_window",
    "count_sql",
    "hindsight_limit",
    "measure",
    "measure_segments",
    "measure_series",
    "measure_times",
    "measure_together",
    "measure_window",
    "offline_multiplier",
    "open_counts",
    "open_groups",
    "plan",
    "prepare_log",
    "reach_probability",
    "read_corrections",
    "read_groups",
    "read_prices",
    "sample_reach",
]

_BIDDING = "kreach.adsystem.bidding"
_LOG = "kreach.adsystem.log"
_HOME = {
    "Audience": "kreach.boundary.audience",
    "BidLimits": f"{_BIDDING}.bidder",
    "BySegment": "kreach.adsystem.reports.by_segment",
    "CapRule": f"{_BIDDING}.valuation",
    "CapValuation": f"{_BIDDING}.valuation",
    "ClickHouseEngine": f"{_LOG}.clickhouse_engine",
    "Combination": "kreach.adsystem.measurement.combination",
    "CombinedReports": "kreach.adsystem.reports.combined",
    "Correction": "kreach.boundary.correction",
    "EmbeddedEngine": f"{_LOG}.duckdb_engine",
    "EmpiricalMarket": f"{_BIDDING}.market",
    "Impression": "kreach.boundary.events",
    "ImpressionLog": f"{_LOG}.impression_log",
    "LogNormalMarket": f"{_BIDDING}.market",
    "Outlook": f"{_BIDDING}.outlook",
    "PaperBidder": f"{_BIDDING}.bidder",
    "PlanningBidder": f"{_BIDDING}.bidder",
    "Portfolio": f"{_BIDDING}.portfolio",
    "PostgresEngine": f"{_LOG}.postgres_engine",
    "Purse": f"{_BIDDING}.budget",
    "ReachDistribution": "kreach.adsystem.measurement.distribution",
    "ReachMeter": "kreach.adsystem.measurement.meter",
    "ReachPlan": "kreach.adsystem.reports.forecast",
    "ReachReport": "kreach.adsystem.measurement.report",
    "RollingReachMeter": "kreach.adsystem.measurement.rolling",
    "SeriesReport": "kreach.adsystem.reports.window",
    "SparkEngine": f"{_LOG}.spark_engine",
    "StackedValuation": f"{_BIDDING}.valuation",
    "VisitModel": "kreach.boundary.visit_model",
    "VisitorFilter": "kreach.adsystem.measurement.visitor_filter",
    "VisitorValuation": f"{_BIDDING}.valuation",
    "WindowReport": "kreach.adsystem.reports.window",
    "combine": "kreach.adsystem.measurement.combination",
    "combine_times": "kreach.adsystem.measurement.timed_parts",
    "corrected_series": "kreach.adsystem.reports.panel_window",
    "corrected_together": "kreach.adsystem.reports.panel_together",
    "corrected_window": "kreach.adsystem.reports.panel_window",
    "count_sql": f"{_LOG}.count_tables",
    "hindsight_limit": f"{_BIDDING}.hindsight",
    "measure": "kreach.adsystem.measurement.report",
    "measure_segments": "kreach.adsystem.reports.by_segment",
    "measure_series": "kreach.adsystem.reports.window",
    "measure_times": "kreach.adsystem.measurement.times",
    "measure_together": "kreach.adsystem.reports.combined",
    "measure_window": "kreach.adsystem.reports.window",
    "offline_multiplier": f"{_BIDDING}.offline",
    "open_counts": f"{_LOG}.count_tables",
    "open_groups": f"{_LOG}.group_table",
    "plan": "kreach.adsystem.reports.forecast",
    "prepare_log": f"{_LOG}.prepare",
    "reach_probability": "kreach.adsystem.measurement.probability",
    "read_corrections": "kreach.boundary.correction",
    "read_groups": "kreach.boundary.files",
    "read_prices": f"{_BIDDING}.history",
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
