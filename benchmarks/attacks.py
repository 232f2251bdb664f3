"""What advertisers learn about a person from reports: open, behind the guard, and with noise."""

import argparse

from simulations.attacks import ATTACKS, MODES, attack_table

__all__ = ["run"]


def run(trials: int = 60) -> None:
    """Print the advantage over guessing of each attack."""
    print(
        f"advantage over guessing (0: a coin, 1: knows), {trials} games each; refused in brackets"
    )
    print(f"{'':36}" + "".join(f"{mode:>20}" for mode in MODES))
    for attack in ATTACKS:
        cells = ""
        for one in attack_table(trials, 1, (attack,)):
            told = f"{one.advantage:+.2f} ± {one.error:.2f} ({one.refused:.0%})"
            cells += f"{told:>20}"
        print(f"{attack:<36}{cells}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=60)
    run(parser.parse_args().trials)
