"""Repeating a command until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import typer

from kreach.errors import KreachError

__all__ = ["follow"]

T = TypeVar("T")
_CLEAR = "\x1b[H\x1b[2J"
_MIN_SECONDS, _MAX_SECONDS = 0.1, 86_400.0


def follow(
    measure: Callable[[], T], show: Callable[[T], None], seconds: float, *, clear: bool
) -> None:
    """Measure and show every so many seconds. Ctrl-C ends it, and that is no error.

    With `clear` each output takes the place of the one before, as soon as it is there. An error at
    first ends it; later ones (a file that was moved while it was read) are one line, and the next
    time may be better.
    """
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        rule = f"be between {_MIN_SECONDS:g} and {_MAX_SECONDS:,.0f} seconds"
        raise KreachError.rule("watch", rule, seconds)
    first = True
    try:
        while True:
            try:
                measured = measure()
                if clear and sys.stdout.isatty():
                    typer.echo(_CLEAR, nl=False)
                show(measured)
            except (KreachError, OSError) as error:
                if first:
                    raise
                typer.echo(f"kreach: not read this time: {error}", err=True)
            first = False
            if clear:
                typer.echo(f"every {seconds:g} s, {time.strftime('%H:%M:%S')}; Ctrl-C ends")
            sys.stdout.flush()
            time.sleep(seconds)
    except KeyboardInterrupt:
        typer.echo(err=True)
