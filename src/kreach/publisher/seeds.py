"""The seed of a build is a secret: whoever has it and the visits can form the groups again."""

import secrets

import numpy as np

from kreach.boundary.checks import LARGEST_COUNT

__all__ = ["GUESSABLE_BITS", "SEED_BITS", "draw_seed", "fitting_seed"]

SEED_BITS = 128  # of a seed that is drawn
GUESSABLE_BITS = 64  # a shorter seed can be tried out


def draw_seed() -> int:
    """A seed that nobody can guess; all its bits count, also the leading ones."""
    return secrets.randbits(SEED_BITS - 1) | 1 << (SEED_BITS - 1)


def fitting_seed(seed: int) -> int:
    """A short seed for what is fitted on the groups; it does not give the long one away."""
    if seed <= LARGEST_COUNT:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1)[0])
