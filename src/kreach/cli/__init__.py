"""The command line: reads arguments, calls the library, prints. No logic of its own."""

import sys
from typing import cast

from kreach.errors import KreachError

__all__ = ["main"]


def main() -> None:
    """Run `kreach`. An error is one line on standard error.

    Exit codes: 0 done, 1 bad input, 2 wrong usage.
    """
    import typer

    from kreach.cli.app import app

    # typer does not export the base class of its usage errors
    usage_error = cast("type[Exception]", typer.BadParameter.__bases__[0])
    try:
        sys.exit(app(prog_name="kreach", standalone_mode=False))
    except usage_error as error:
        sys.exit(_report_usage_error(error))
    except typer.Abort:
        sys.exit(1)
    except KreachError as error:
        line = str(error)
    except OSError as error:
        file = error.filename or "a file"
        line = f"cannot use {file}: {error.strerror or error}"
    named = line.startswith("kreach ")  # the error names the command
    print(line if named else f"kreach: {line}", file=sys.stderr)
    sys.exit(1)


def _report_usage_error(error: Exception) -> int:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    if context is not None and message == context.get_help():  # no command was given
        print(message)
        return 2
    message = message[:1].lower() + message[1:].rstrip(".")
    path = "kreach" if context is None else context.command_path
    print(f"kreach: {message} (see `{path} --help`)", file=sys.stderr)
    return 2
