"""Demo only: the last visits as the publisher knows them and as the ad system sees them."""

import json

from kreach.adsystem.console.formatting import count
from kreach.adsystem.console.input_files import Audit
from kreach.adsystem.console.state import Console
from kreach.adsystem.console.widgets import Table, Text, box

__all__ = ["BoundaryView"]

_VISITS = 8


class BoundaryView:
    """Two tables side by side; hidden without a truth file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        with box("k-sides", name="sides") as self._box:
            with box("k-side k-publisher"):
                Text("What the publisher knows", "h3")
                text = "Who visited. This stays with the publisher; only the demo can show it."
                Text(text, "p", "k-sub")
                self._people = Table(["visit", "person"], numeric=(0,), name="publisher knows")
            with box("k-side k-adsystem"):
                Text("What the ad system knows", "h3")
                Text("A group of the catalogue, the same for all its members.", "p", "k-sub")
                heads = ["visit", "group", "who it could be"]
                self._groups = Table(heads, numeric=(0,), name="ad system knows")
            with box("k-side").style("grid-column: 1 / -1; border-left: 0"):
                text = "All data about the last visit that crosses, as in the bid request:"
                Text(text, "p", "k-sub")
                self._raw = Text("", "div", "k-mono", name="crosses")
        self._box.set_visibility(False)

    def show(self) -> None:
        """Show the newest visits, the last one first."""
        truth, audit = self._console.truth.content, self._console.audit.content
        visits = [] if truth is None else truth.requests[::-1][:_VISITS]
        self._box.set_visibility(bool(visits))
        if not visits:
            return
        self._people.show([(count(one.visit), one.user_id) for one in visits])
        who = "anybody in the group"
        if isinstance(audit, Audit):
            who = f"one of {audit.group_size} or more people"
        self._groups.show([(count(one.visit), one.group, who) for one in visits])
        self._raw.set_text(json.dumps(visits[0].user))
