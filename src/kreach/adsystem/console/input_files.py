"""Files that others handed over: a publisher's audit, a study of the cost, a simulation's truth."""

import json
import time
from pathlib import Path
from typing import Any

from kreach.errors import KreachError

__all__ = ["NOT_YET", "Handed", "read_audit", "read_tradeoff", "read_truth"]

NOT_YET = "the file is not there yet"
_LOOK_SECONDS = 1.0
_PATIENCE = 20.0  # a file that takes long to read is read less often
_MAX_BYTES = 200_000_000
_MAX_POINTS = 600


class Handed:
    """A file that may come late, change, or be broken: the last that could be read, and why not.

    `version` changes with `found` and `trouble`.
    """

    def __init__(self, path: Path | None, read: Any) -> None:
        self._path, self._read = path, read
        self._stamp: tuple[int, int] | None = None
        self._next = 0.0
        self.found: Any = None
        self.trouble: str | None = None
        self.version = 0

    @property
    def named(self) -> bool:
        """Whether the settings name a file."""
        return self._path is not None

    def look(self) -> "Handed":
        """Read the file if it has changed. It may be slow: not for the event loop."""
        begun = time.monotonic()
        if self._path is None or begun < self._next:
            return self
        trouble = self.trouble
        try:
            path = self._path / "summary.json" if self._path.is_dir() else self._path
            state = path.stat()
            stamp = (state.st_mtime_ns, state.st_size)
            if stamp != self._stamp:
                self.found = self._read(path)
                self._stamp, trouble = stamp, None
                self.version += 1
        except FileNotFoundError:
            trouble, self._stamp = NOT_YET, None
        except OSError:
            trouble, self._stamp = "the file cannot be read", None
        except KreachError as error:
            trouble, self._stamp = str(error), stamp
        if trouble != self.trouble:
            self.trouble, self.version = trouble, self.version + 1
        took = time.monotonic() - begun
        self._next = time.monotonic() + max(_LOOK_SECONDS, _PATIENCE * took)
        return self


def _json_object(name: str, path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MAX_BYTES:
        raise KreachError.rule(name, f"have at most {_MAX_BYTES} bytes", str(path))
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise KreachError.rule(name, "be JSON", str(path)) from None
    if not isinstance(found, dict):
        raise KreachError.rule(name, "be a JSON object", str(path))
    return found


def read_audit(path: Path) -> dict[str, Any]:
    """What `kreach groups audit` wrote: its JSON document, or {"html": the page}."""
    if path.suffix.lower() in (".html", ".htm"):
        return {"html": path.read_text(encoding="utf-8", errors="replace")}
    found = _json_object("groups_audit", path)
    try:
        shown: dict[str, Any] = {
            name: int(found[name]) for name in ("people", "groups", "group_size")
        }
        shown["strategy"] = str(found["strategy"])
        for name in ("sizes", "effective"):
            spread = found[name]
            shown[name] = spread and {key: float(value) for key, value in spread.items()}
        shown["findings"] = [(str(one["level"]), str(one["text"])) for one in found["findings"]]
        shown["linkage"] = [
            {
                "method": str(one["method"]),
                "versions": [int(v) for v in one["versions"]],
                "unique_share": [float(v) for v in one["unique_share"]],
            }
            for one in found["linkage"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        rule = "be what `kreach groups audit --json` prints"
        raise KreachError.rule("groups_audit", rule, str(path)) from None
    return shown


def read_tradeoff(path: Path) -> dict[str, Any]:
    """Setting, advice and, of reach and error, {strategy: {approach: {k: (mean, low, high)}}}."""
    found = _json_object("tradeoff", path)
    try:
        shown: dict[str, Any] = {"setting": {str(k): v for k, v in found["setting"].items()}}
        shown["advice"] = [str(line) for line in found.get("advice", [])]
        for title in ("relative_reach", "measurement_error"):
            shown[title] = {
                strategy: {
                    approach: {
                        int(size): tuple(float(band[end]) for end in ("mean", "low", "high"))
                        for size, band in sorted(by_size.items(), key=lambda item: int(item[0]))
                    }
                    for approach, by_size in approaches.items()
                }
                for strategy, approaches in found[title].items()
            }
    except (KeyError, TypeError, ValueError, AttributeError):
        rule = "be the summary.json that `kreach tradeoff` writes"
        raise KreachError.rule("tradeoff", rule, str(path)) from None
    return shown


def read_truth(path: Path) -> dict[str, Any]:
    """What a simulation knows: reach over time by campaign and cap, and the last visits.

    {"series": [(ts, {campaign: [reach at cap 1, 2, ...]})], "requests": [(person, user, visit)]}.
    A long series is thinned, the newest point stays.
    """
    found = _json_object("truth_file", path)
    try:
        points = found["series"]
        step = -(-len(points) // _MAX_POINTS) or 1
        kept = points[::-1][::step][::-1]
        series = [
            (
                str(point["ts"]),
                {
                    str(name): [int(reach) for reach in one["reach"]]
                    for name, one in point["campaigns"].items()
                },
            )
            for point in kept
        ]
        requests = [
            (str(one["user_id"]), one["user"], int(one["visit"])) for one in found["requests"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        rule = "be the truth that a demonstration writes"
        raise KreachError.rule("truth_file", rule, str(path)) from None
    return {"series": series, "requests": requests}
