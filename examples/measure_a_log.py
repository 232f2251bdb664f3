"""Measure a log of impressions: the reach of each campaign, with intervals.

    python examples/measure_a_log.py

The log and the groups are simulated here, as tables in memory. Paths of Parquet or CSV files, or a
release folder, work too.
"""

import numpy as np

import kreach as kr


def simulated_log(groups: list[str], seed: int) -> dict[str, object]:
    """Two weeks of impressions of two campaigns: campaign, group and time, no user ids."""
    generator = np.random.default_rng(seed)
    rows = 4_000
    seconds = generator.uniform(0.0, 14 * 86_400.0, rows)
    moments = np.datetime64("2026-11-01T00:00:00") + seconds.astype("timedelta64[s]")
    return {
        "impression_id": [f"i{row}" for row in range(rows)],
        "campaign": generator.choice(["spring", "winter"], rows, p=[0.7, 0.3]),
        "group": generator.choice(groups, rows),
        "ts": [f"{moment}Z" for moment in moments],
    }


def main() -> None:
    """Print a window and a series."""
    groups = [f"g{number:03}" for number in range(100)]
    table = {"group": groups, "size": [20] * 100, "dispersion": [0.8] * 100}
    with kr.EmbeddedEngine() as engine:
        log = kr.ImpressionLog.open(engine, simulated_log(groups, seed=1))
        known = kr.open_groups(engine, table)
        for campaign in ("spring", "winter"):
            report = kr.measure_window(log, known, caps=[1, 3], campaign=campaign)
            print(f"{campaign}: {report.impressions:,} impressions on {known.people:,} people")
            for cap in (1, 3):
                at_cap = report.report(cap)
                low, high = at_cap.interval(0.95)
                print(
                    f"  cap {cap}: reach {at_cap.reach:,.0f} ({low:,.0f} to {high:,.0f}),"
                    f" over-exposed {at_cap.over_exposed:,.0f}"
                )
        series = kr.measure_series(log, known, [1], by="week", campaign="spring")
        print("spring by week, each week alone and reach to date:")
        for week in series.periods:
            alone, so_far = week.alone[0].reach, week.cumulative[0].reach
            print(f"  from {week.window.start:%d %b}: {alone:,.0f}, {so_far:,.0f}")


if __name__ == "__main__":
    main()
