"""The command line: reads arguments, calls the library, prints. No logic of its own."""

import sys
from typing import cast

from kreach.errors import KreachError

__all__ = ["main"]


def main() -> None:
    """Run `kreach`; whatever is wrong is one line on standard error.

    Exit codes: 0 done, 1 bad input, 2 wrong usage.
    """
    import typer

    from kreach.cli.app import app

    # typer has no name for it
    wrong_usage = cast("type[Exception]", typer.BadParameter.__bases__[0])
    try:
        sys.exit(app(prog_name="kreach", standalone_mode=False))
    except wrong_usage as error:
        sys.exit(_tell_of_usage(error))
    except typer.Abort:
        sys.exit(1)
    except KreachError as error:
        print(f"kreach: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        where = f" {error.filename}" if error.filename else " a file"
        print(f"kreach: cannot use{where}: {error.strerror or error}", file=sys.stderr)
        sys.exit(1)


def _tell_of_usage(error: Exception) -> int:
    told = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    if context is not None and told == context.get_help():  # nothing was asked for
        print(told)
        return 2
    said = told[:1].lower() + told[1:].rstrip(".")
    path = "kreach" if context is None else context.command_path
    print(f"kreach: {said} (`{path} --help` tells more)", file=sys.stderr)
    return 2
