"""How much longer something will take, in words."""

__all__ = ["time_left"]

_MIN_SHARE, _MIN_SECONDS = 0.02, 1.0


def time_left(share: float, elapsed_seconds: float) -> str:
    """An estimate from the share that is done; empty while that says too little.

    >>> time_left(0.25, 30.0), time_left(0.5, 600.0), time_left(0.001, 30.0), time_left(1.0, 5.0)
    (', about 90 s left', ', about 10 min left', '', '')
    """
    if share < _MIN_SHARE or share >= 1.0 or elapsed_seconds < _MIN_SECONDS:
        return ""
    seconds = elapsed_seconds * (1.0 - share) / share
    if seconds < 100.0:
        return f", about {max(seconds, 1.0):.0f} s left"
    return f", about {seconds / 60.0:.0f} min left"
