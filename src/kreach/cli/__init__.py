"""The command line: reads arguments, calls the library, prints. No logic of its own."""

import sys

from kreach.errors import KreachError

__all__ = ["main"]


def main() -> None:
    """Run `kreach`; bad input is one line on standard error and exit code 1."""
    from kreach.cli.app import app  # noqa: PLC0415 - keeps `import kreach.cli` cheap

    try:
        app()
    except KreachError as error:
        print(f"kreach: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        where = f" {error.filename}" if error.filename else " a file"
        print(f"kreach: cannot use{where}: {error.strerror or error}", file=sys.stderr)
        sys.exit(1)
