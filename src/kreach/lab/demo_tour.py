"""`kreach demo --tour`: what happens in a demo, step by step, with its own numbers."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from textwrap import fill
from typing import Any

from kreach.lab.demo import Demo
from kreach.lab.demo_advertiser import ADVERTISER

__all__ = ["Tour"]

_POLL_SECONDS = 0.2
_WIDTH = 78
_LOOK: Any = {
    "initial_indent": "   ",
    "subsequent_indent": "   ",
    "break_on_hyphens": False,
    "break_long_words": False,
}


class Tour:
    """Tells the story of a running demo; each step waits until there is something to tell."""

    def __init__(self, demo: Demo, say: Callable[[str], None]) -> None:
        self._demo, self._print = demo, say
        self._number = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Tell all steps, until the flights end or `stop` is set."""
        steps: tuple[tuple[float, Callable[[], Awaitable[None]]], ...] = (
            (0.0, self._groups),
            (0.02, self._visit),
            (0.2, self._reach),
            (0.4, self._advertiser),
            (0.5, self._attack),
            (0.7, self._panel),
            (1.0, self._end),
        )
        for share, tell in steps:
            while self._demo.progress()[0] < share:
                if stop.is_set():
                    return
                await asyncio.sleep(_POLL_SECONDS)
            await tell()

    def _step(self, title: str, text: str, *look: str) -> None:
        self._number += 1
        self._print(f"\n{self._number}. {title}")
        self._print(fill(text, _WIDTH, **_LOOK))
        for line in look:
            self._print(f"   > {line}")

    def _page(self, path: str, what: str, console_name: str = "console") -> list[str]:
        console = self._demo.addresses.get(console_name)
        return [] if console is None else [f"{what}: {console}{path}"]

    async def _groups(self) -> None:
        options = self._demo.options
        audit = json.loads((options.folder / "audit.json").read_text())
        facts = json.loads((options.folder / "groups/release/catalogue.json").read_text())
        self._step(
            "The publisher puts people into groups",
            f"{options.people:,} people visit the site. The publisher puts those it knows into "
            f"{facts['groups']:,} groups of at least {facts['group_size']}. It releases group ids, "
            "group sizes and a model of how people visit the whole site, and nobody's name. Before "
            f"that it attacks its own release: {audit['verdict']}",
            f"the release: {options.folder / 'groups/release'}",
            *self._page("/privacy", "the audit"),
        )

    async def _visit(self) -> None:
        recent = self._demo.recent_requests()
        while not recent:
            await asyncio.sleep(_POLL_SECONDS)
            recent = self._demo.recent_requests()
        visit = recent[-1]
        group = visit["user"]["data"][0]["segment"][0]["id"]
        self._step(
            "A visit crosses the line",
            f"{visit['user_id']} opens a page. The publisher's gateway looks up the group; the bid "
            f"request carries {group!r} and nothing else about the person. The bidder values it by "
            "how likely it reaches somebody who is still under the cap.",
            *self._page("/", "campaigns, live"),
        )

    async def _reach(self) -> None:
        rows = await self._demo.results()
        row = max(rows, key=lambda one: one.impressions)
        low, high = row.interval
        inside = "inside" if low <= row.true_reach <= high else "outside"
        self._step(
            "Reach from groups alone",
            f"{row.campaign} has {row.impressions:,} impressions for ${row.spend:,.2f}. From "
            f"groups alone kreach reports a reach of {row.reach:,.0f} at cap {row.cap} "
            f"({low:,.0f} to {high:,.0f}). The simulation knows the truth, {row.true_reach:,}: "
            f"{inside} the interval. Without ids a cap is a target: {row.over_exposed:,.0f} people "
            f"are over it by the report, {row.true_over_exposed:,} in truth.",
            *self._page(f"/campaign/{row.campaign}", "the campaign, truth as a dashed line"),
        )

    async def _advertiser(self) -> None:
        client = self._demo.reporting(as_advertiser=True)
        try:
            seen = (await client.ask("GET", "/v1/campaigns")).document["campaigns"]
        finally:
            await client.close()
        own = seen[0]
        status: dict[str, Any] = own["status"]
        shown = "nothing yet: too few impressions to hide anybody among"
        if status["impressions"] is not None:
            shown = f"{status['impressions']:,} impressions, in whole chapters of 100 or more"
        self._step(
            "An advertiser logs in",
            f"{ADVERTISER} has a key of its own. With it, it sees one campaign, {own['id']!r}, and "
            f"of that {shown}. It cannot name the campaigns of others.",
            *self._page("/sign-in", "sign in with the key", "advertiser_console"),
            f"its key: {self._demo.keys.advertiser}",
            f"curl -H 'Authorization: Bearer KEY' {self._demo.addresses['reporting']}/v1/campaigns",
        )

    async def _attack(self) -> None:
        found = await self._demo.attack()
        outcome = (
            "It got both answers: this must not happen."
            if not found.stopped
            else (
                f"Refused ({found.statuses[0]} and {found.statuses[1]}): \u201c{found.answer}\u201d"
            )
        )
        self._step(
            "The advertiser attacks, the guard refuses",
            f"It asks for reach up to {found.first_end} and up to {found.second_end}: the "
            f"difference would be {found.impressions_between} of its impressions, in one minute. "
            f"{outcome}",
        )

    async def _panel(self) -> None:
        if not self._demo.has_panel:
            text = "Not shown: it needs the extra dp (pip install 'kreach[dp]')."
            self._step("The panel checks the model", text)
            return
        corrections = self._demo.corrections()
        known = [each for each in corrections if each.releases and "+" not in each.campaign]
        if not known:
            self._step("The panel checks the model", "No release yet: too few people saw the ads.")
            return
        one = max(known, key=lambda each: abs(each.releases[-1].differences[0]))
        last = one.releases[-1]
        self._step(
            "The panel checks the model",
            f"In {one.panel_groups} of {one.groups} groups, drawn in secret, the publisher counts "
            f"who really saw the ads. For {one.campaign} it released, with noise, that the model "
            f"is off by {last.differences[0]:+,.0f} people (noise ±{last.noise_std:,.0f}). Reports "
            "and intervals now use it.",
            f"the release: {self._demo.options.folder / 'corrections.json'}",
        )

    async def _end(self) -> None:
        rows = await self._demo.results()
        held = sum(one.interval[0] <= one.true_reach <= one.interval[1] for one in rows)
        self._step(
            "The flights are over",
            f"{held} of {len(rows)} intervals hold the truth. Spend: "
            + ", ".join(f"{one.campaign} ${one.spend:,.2f} of ${one.budget:,.2f}" for one in rows)
            + ".",
            *self._page("/planner", "plan the next one"),
        )
