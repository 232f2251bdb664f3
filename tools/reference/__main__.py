"""Write the pages, or tell which are stale."""

import argparse
import json
import sys

from tools.reference import FOLDER
from tools.reference.commands import commands_page
from tools.reference.http import http_page, openapi
from tools.reference.names import python_page

__all__ = ["pages"]


def pages() -> dict[str, str]:
    """Every page by its name."""
    schema = openapi()
    return {
        "python.md": python_page(),
        "commands.md": commands_page(),
        "http.md": http_page(schema),
        "openapi.json": json.dumps(schema, indent=1, ensure_ascii=False) + "\n",
    }


def main() -> None:
    """Write what changed; with --check change nothing, and end with 1 if something would."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if stale")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = []
    for name, text in pages().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{'stale' if check else 'written'}: {', '.join(stale)}")
    sys.exit(1 if stale and check else 0)


if __name__ == "__main__":
    main()
