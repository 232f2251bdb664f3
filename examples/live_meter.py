"""Live reach: a meter for the flight, one for the last hour, and the value of the next request.

python examples/live_meter.py
"""

import numpy as np

import kreach as kr

HOUR_SECONDS = 3_600.0


def main() -> None:
    """Record a day of impressions, and print reach to date every six hours."""
    audience = kr.Audience.disjoint([20] * 200, dispersion=0.8)
    whole = kr.ReachMeter(audience, caps=[1, 3])
    recent = kr.RollingReachMeter(audience, caps=[1], span=HOUR_SECONDS)
    generator = np.random.default_rng(1)
    moments = np.sort(generator.uniform(0.0, 24 * HOUR_SECONDS, 6_000))
    next_print = 6 * HOUR_SECONDS
    for moment, group in zip(moments.tolist(), generator.integers(0, 200, 6_000), strict=True):
        if moment >= next_print:
            worth = whole.reach_probability(int(group), cap=1)
            print(
                f"after {next_print / HOUR_SECONDS:.0f} h: reached {whole.reach[1]:,.0f},"
                f" with cap 3 {whole.reach[3]:,.0f}; in the last hour {recent.reach[1]:,.0f};"
                f" the next request reaches somebody new with {worth:.0%}"
            )
            next_print += 6 * HOUR_SECONDS
        whole.record(int(group))
        recent.record(int(group), moment)
    print(f"after 24 h: reached {whole.reach[1]:,.0f}, with cap 3 {whole.reach[3]:,.0f}")


if __name__ == "__main__":
    main()
