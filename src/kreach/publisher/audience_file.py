"""Declared audiences: the groups file of a campaign's audience, as far as the floors allow.

People are chosen by the columns of a build and by a list of user ids of the publisher's. The file
(`group`, `size`, `targeted`) is what the ad side reads under `[adsystem] audiences`. What was
declared is recorded in the publisher's half of the build, in numbers, for the audit.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.audience import REQUESTS
from kreach.boundary.duckdb import columns_of, file_reader, scratch_connection, translate_errors
from kreach.boundary.files import read_catalogue, write_groups
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray
from kreach.publisher.people import MISSING, People, label_text
from kreach.publisher.release import Floors, Release
from kreach.publisher.store import Build, read_build

__all__ = ["AudienceChoice", "chosen_people", "declared_audiences", "write_audience"]

_RECORD = Path("publisher") / "audiences.json"
_LISTED_VALUES = 20  # of a column, in an error


@dataclass(frozen=True)
class AudienceChoice:
    """Whom a campaign is to target.

    `where` holds conditions "column=value": values of one column are alternatives, columns must
    all match, and "column=" or "column=(missing)" is a missing value. `users` is a file with a
    column user_id. `active_only` leaves out people without visits in history.
    """

    where: tuple[str, ...] = ()
    users: Path | None = None
    active_only: bool = False

    def __post_init__(self) -> None:
        if not self.where and self.users is None and not self.active_only:
            rule = "give at least one condition, a file of users, or active-only"
            raise KreachError.rule("where", rule, "none")

    @property
    def text(self) -> str:
        """For people: the conditions, never an id."""
        listed = [
            f"{column}={' or '.join(values)}" for column, values in _conditions(self.where).items()
        ]
        if self.users is not None:
            listed.append("a list of users")
        if self.active_only:
            listed.append("visited in history")
        return " and ".join(listed)


def chosen_people(build: Build, choice: AudienceChoice) -> tuple[BoolArray, int]:
    """True for each person who is chosen, and how many listed users the build does not know."""
    chosen = _matching(build.people, choice.where)
    unknown = 0
    if choice.users is not None:
        listed = _user_ids(choice.users)
        known = np.fromiter((user in listed for user in build.user_ids), np.bool_, chosen.size)
        unknown = len(listed) - int(known.sum())
        chosen &= known
    if choice.active_only:
        chosen &= build.people.visits > 0
    if not chosen.any():
        raise KreachError.rule("where", "match somebody in the build", "nobody")
    return chosen, unknown


def _conditions(where: Sequence[str]) -> dict[str, list[str]]:
    """The values wanted of each column."""
    wanted: dict[str, list[str]] = {}
    for condition in where:
        column, equals, value = condition.partition("=")
        if not equals or not column.strip():
            raise KreachError.rule("where", "be like country=US", condition)
        wanted.setdefault(column.strip(), []).append(value.strip())
    return wanted


def _matching(people: People, where: Sequence[str]) -> BoolArray:
    chosen = np.ones(people.count, dtype=np.bool_)
    for column, values in _conditions(where).items():
        attribute = people.attribute(column)
        labels = [label_text(label) for label in attribute.labels]
        wanted = [MISSING if value == "" else value for value in values]
        for value in wanted:
            if value not in labels:
                rule = f"name a value that somebody has in {column}"
                more = ", ..." if len(labels) > _LISTED_VALUES else ""
                known = f"known: {', '.join(labels[:_LISTED_VALUES])}{more}"
                raise KreachError.rule("where", rule, f"{column}={value}", known)
        chosen &= np.isin(
            attribute.codes, [at for at, label in enumerate(labels) if label in wanted]
        )
    return chosen


def _user_ids(path: Path) -> set[str]:
    with scratch_connection() as engine:
        columns_of(engine, "users", path, ("user_id",))
        with translate_errors("users", "be a readable Parquet or CSV file"):
            reader = file_reader("users", path, text_columns=("user_id",))
            query = f"SELECT DISTINCT user_id::VARCHAR FROM {reader} WHERE user_id IS NOT NULL"
            return {row[0] for row in engine.execute(query).fetchall()}


def write_audience(
    folder: Path, name: str, choice: AudienceChoice, out: Path, *, below: str, requests: str
) -> dict[str, Any]:
    """Write the groups file of an audience, or refuse; facts for people and machines.

    Floors are those of the build. With `requests` "targeted" the exchange sends the campaign only
    requests of these people. Nothing in a file changes whose requests these are, so such an
    audience cannot be widened.
    """
    if requests not in REQUESTS:
        raise KreachError.rule("requests", f"be {' or '.join(REQUESTS)}", requests)
    if requests == "targeted" and below == "widen":
        rule = "not be widened: requests still come from the targeted people only"
        raise KreachError.rule("audience", rule, "--widen with --requests targeted")
    build = read_build(folder)
    released = _as_released(build)
    targeted, unknown = chosen_people(build, choice)
    final, counts = released.settle(targeted, below, ",".join(_conditions(choice.where)))
    before, after = released.visible(targeted), released.visible(final)
    if not counts.any():
        rule = "keep somebody once groups below the floors are dropped"
        raise KreachError.rule("audience", rule, f"{before.people:,} people, all dropped")
    write_groups(released.catalogue, out, counts, requests)
    facts = {
        "audience": name,
        "where": choice.text,
        "catalogue": released.catalogue.version,
        "requests": requests,
        "below": below,
        "chosen": before.people,
        "dropped": int(np.count_nonzero(targeted & ~final)),
        "added": int(np.count_nonzero(final & ~targeted)),
        "unknown_users": unknown,
        "visible": asdict(after),
        "without_floors": asdict(before),
    }
    _record(folder, facts)
    return facts


def _as_released(build: Build) -> Release:
    """The release of a build, with the floors that it was made with."""
    catalogue = read_catalogue(build.folder / "release")
    if str(build.facts["version"]) != catalogue.version:
        rule = f"be one build (publisher {build.facts['version']})"
        raise KreachError.rule("folder", rule, f"release {catalogue.version}")
    floors = Floors.of_facts(build.facts)
    return Release(catalogue, build.group_indices, floors, (), build.people.visits)


def declared_audiences(folder: Path) -> tuple[dict[str, Any], ...]:
    """What was declared on a build so far, in order."""
    path = folder / _RECORD
    if not path.exists():
        return ()
    try:
        declared = json.loads(path.read_text())
        return tuple(dict(one) for one in declared)
    except (OSError, ValueError, TypeError) as error:
        raise KreachError.rule("folder", f"hold a readable {_RECORD}", str(error)) from None


def _record(folder: Path, facts: dict[str, Any]) -> None:
    """Add an audience to the record; one of the same name takes its place."""
    others = [one for one in declared_audiences(folder) if one.get("audience") != facts["audience"]]
    path = folder / _RECORD
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps([*others, facts], indent=2) + "\n")
    os.replace(unfinished, path)
