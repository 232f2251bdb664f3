"""Questions to the log for noisy answers: impressions by group of a stretch, prices cut off."""

from datetime import UTC, datetime, timedelta

import numpy as np

from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.log.totals import Place
from kreach.boundary.times import Window
from kreach.numeric.types import IntArray

__all__ = ["counted"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counted(
    now: Snapshot, place: Place, groups: int, start: int, end: int, max_price_micros: int
) -> tuple[IntArray, int]:
    """Impressions by group in [start, end), in seconds since 1970, and what they cost.

    A price above the limit counts as the limit: one row cannot change the sum by more.
    """
    window = Window(_EPOCH + timedelta(seconds=start), _EPOCH + timedelta(seconds=end))
    campaign, catalogue = place
    found = now.ask(
        f"""SELECT group_number AS g, count(*) AS n,
        sum(least(price_micros, {max_price_micros}))::BIGINT AS micros FROM {now.rows(window)}
        WHERE campaign_number = {campaign} AND catalogue_number = {catalogue}
        AND ts >= make_timestamptz({start * 1_000_000}::BIGINT)
        AND ts < make_timestamptz({end * 1_000_000}::BIGINT)
        AND group_number BETWEEN 0 AND {groups - 1} GROUP BY ALL"""
    )
    counts = np.zeros(groups, dtype=np.int64)
    counts[found["g"]] = found["n"]
    return counts, int(found["micros"].sum())
