"""What a released visit model says, and how many people are behind its rarest number."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.visit_model import FILE, VisitModel
from kreach.errors import KreachError
from kreach.publisher.audit.report import ModelTable, ModelView

__all__ = ["model_view"]

_MEANINGS = {
    "continuation_odds": "odds that a request continues a session, by gap",
    "hourly_traffic": "requests by UTC hour, mean 1",
    "requests_per_session": "share of sessions with 1, 2, ... requests",
    "meetings": "chance that two sessions are one person's, by hours and days apart",
    "errors": "how far off replays of history were, by window",
    "counted_errors": "the same with requests counted",
}


def model_view(folder: Path, facts: Mapping[str, Any]) -> ModelView | None:
    """The model in the release of a build, as it lies there; None if there is none.

    `facts` are those of build.json: they say how many people are behind the rarest cells, which
    the release itself does not.
    """
    path = folder / "release" / FILE
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise KreachError.rule("folder", f"hold a readable {FILE}", str(error)) from None
    model = VisitModel.from_json(document)
    known = {"format", *(field.name for field in fields(VisitModel))}
    fitted = facts.get("visit_model") or {}
    tables = tuple(
        ModelTable(name, meaning, _count(document.get(name, [])))
        for name, meaning in _MEANINGS.items()
    )
    numbers = sum(_count(value) for value in document.values())
    return ModelView(
        model.people,
        model.history_days,
        tables,
        numbers,
        int(fitted.get("min_people_behind_odds") or 0),
        int(fitted.get("min_people_behind_meetings") or 0),
        tuple(sorted(set(document) - known)),
    )


def _count(value: Any) -> int:
    """Numbers in a part of the document."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sum(len(entry) for entry in value)
    return int(np.size(value))
