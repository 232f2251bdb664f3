"""Demonstrations only: the last visits as the publisher knows them and as they cross the line."""

import json
from typing import Any

from kreach.adsystem.console.formatting import count
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.widgets import Table, Text, box

__all__ = ["Sides"]

_SHOWN = 8


class Sides:
    """Two columns; nothing without a truth file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        with box("k-sides", name="sides") as self._box:
            with box("k-side k-publisher"):
                Text("What the publisher knows", "h3")
                Text(
                    "Who came. It stays there: only a demonstration can show it.",
                    "p",
                    "k-sub",
                )
                self._people = Table(["visit", "person"], numeric=(0,), name="publisher knows")
            with box("k-side k-adsystem"):
                Text("What the ad system knows", "h3")
                Text("A group of the catalogue: the same for everybody in it.", "p", "k-sub")
                self._groups = Table(
                    ["visit", "group", "who it could be"], numeric=(0,), name="ad system knows"
                )
            with box("k-side").style("grid-column: 1 / -1; border-left: 0"):
                Text(
                    "All that crosses for the last visit, as it stands in the bid request:",
                    "p",
                    "k-sub",
                )
                self._raw = Text("", "div", "k-mono", name="crosses")
        self._box.set_visibility(False)

    def show(self) -> None:
        """The newest visits, the last one first."""
        found = self._console.truth.found
        requests = [] if found is None else found["requests"]
        self._box.set_visibility(bool(requests))
        if not requests:
            return
        newest = requests[::-1][:_SHOWN]
        self._people.tell([(count(visit), person) for person, _, visit in newest])
        least = (self._console.audit.found or {}).get("group_size")
        who = f"any of {least} people or more" if least else "anybody in the group"
        self._groups.tell([(count(visit), _group(user), who) for _, user, visit in newest])
        self._raw.tell(json.dumps(newest[0][1]))


def _group(user: Any) -> str:
    """The group in an OpenRTB user object."""
    try:
        return str(user["data"][0]["segment"][0]["id"])
    except (KeyError, IndexError, TypeError):
        return "none"
