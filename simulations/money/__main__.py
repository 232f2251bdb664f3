"""Run schedules: `python -m simulations.money --schedules 20000`, or one of them by its seed."""

import argparse
import sys
import time

from simulations.money.run import fast_folder, run_schedules, run_seed


def main() -> int:
    """Exit code 1 if a schedule fails."""
    parser = argparse.ArgumentParser(prog="python -m simulations.money", description=__doc__)
    parser.add_argument("--schedules", type=int, default=2_000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one and show what happens")
    given = parser.parse_args()
    begun = time.process_time()
    with fast_folder() as folder:
        if given.seed is not None:
            failure, trace = run_seed(given.seed, folder)
            print("\n".join(trace))
            print(failure or "the books are right")
            return int(failure is not None)
        seeds = range(given.first, given.first + given.schedules)
        failures = run_schedules(seeds, folder)
    for one in failures:
        print(one.text())
    seconds = time.process_time() - begun
    print(f"{given.schedules} schedules, {len(failures)} failed, {seconds:.1f} s of CPU")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
