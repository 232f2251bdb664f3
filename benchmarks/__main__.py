"""`python -m benchmarks [NAME ...]`: run all benchmarks, or some of them."""

import argparse
import sys
import time
from importlib import import_module

from benchmarks.timing import duration, machine_facts

__all__ = ["main"]

NAMES = (
    "measure_disjoint",
    "meter",
    "visitor_filter",
    "distribution",
    "overlap",
    "together",
    "grouping",
    "apply",
    "decision",
    "plans",
    "plan_answers",
    "log",
    "log_scale",
    "bidder",
    "bid_path",
    "consent",
    "notices",
    "restart",
    "reporting",
    "console",
    "attacks",
    "fleet",
)


def main(arguments: list[str]) -> int:
    """Run what was asked for; the result is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--list", action="store_true", help="show the names and stop")
    chosen = parser.parse_args(arguments)
    for name in chosen.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
    modules = {name: import_module(f"benchmarks.{name}") for name in chosen.names or NAMES}
    if chosen.list:
        for name, module in modules.items():
            print(f"{name:<18}{module.__doc__}")
        return 0
    print(machine_facts())
    start = time.perf_counter()
    for name, module in modules.items():
        print(f"\n== {name}")
        module.run()
    print(f"\nAll of it took {duration(time.perf_counter() - start)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
