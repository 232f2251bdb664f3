"""Files of others: read, read again when they change, refused when they are broken."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.console.input_files import (
    Audit,
    AuditPage,
    Finding,
    InputFile,
    TrueReach,
    TrueVisit,
    TruthPoint,
    read_audit,
    read_tradeoff,
    read_truth,
)
from kreach.errors import KreachError

AUDIT: dict[str, Any] = {
    "people": 4000,
    "groups": 200,
    "group_size": 20,
    "strategy": "random",
    "sizes": {"least": 20.0, "p05": 20.0, "median": 20.0, "mean": 20.0},
    "effective": None,
    "findings": [{"level": "ok", "text": "every group has at least 20 members"}],
    "linkage": [{"method": "sticky", "versions": [1, 2], "unique_share": [0.0, 0.5]}],
}
BAND = {"mean": 1.0, "low": 0.9, "high": 1.1}
STUDY: dict[str, Any] = {
    "setting": {"people": 10},
    "relative_reach": {
        "random": {"planning_visitors": {"20": BAND | {"mean": 0.8}, "1": BAND, "5": BAND}}
    },
    "measurement_error": {"random": {"dispersed": {"20": BAND}}},
    "advice": ["k = 20: lose 20%"],
}


class ManualClock:
    """A clock that a test moves."""

    seconds = 0.0

    def now(self) -> float:
        return self.seconds


def write(path: Path, document: object) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_an_audit_is_read(tmp_path: Path) -> None:
    audit = read_audit(write(tmp_path / "audit.json", AUDIT))
    assert isinstance(audit, Audit)
    assert audit.findings == [Finding("ok", "every group has at least 20 members")]
    assert (audit.groups, audit.effective) == (200, None)
    assert read_audit(write(tmp_path / "audit.html", "<p>x")) == AuditPage("<p>x")


@pytest.mark.parametrize(
    "broken", ["{", "[]", "{}", {**AUDIT, "groups": "many"}, {**AUDIT, "linkage": 3}]
)
def test_a_broken_audit_is_refused(tmp_path: Path, broken: object) -> None:
    with pytest.raises(KreachError, match="groups_audit must"):
        read_audit(write(tmp_path / "audit.json", broken))


def test_a_study_is_read_in_the_order_of_sizes(tmp_path: Path) -> None:
    study = read_tradeoff(write(tmp_path / "summary.json", STUDY))
    assert list(study.relative_reach["random"]["planning_visitors"]) == [1, 5, 20]
    assert study.advice == ["k = 20: lose 20%"]


@pytest.mark.parametrize(
    "broken", ["", "{}", {**STUDY, "relative_reach": {"random": {"x": {"k": 1}}}}]
)
def test_a_broken_study_is_refused(tmp_path: Path, broken: object) -> None:
    with pytest.raises(KreachError, match="tradeoff must"):
        read_tradeoff(write(tmp_path / "summary.json", broken))


def test_a_long_truth_is_thinned_and_its_newest_point_stays(tmp_path: Path) -> None:
    series = [{"ts": str(at), "campaigns": {"c": {"reach": [at]}}} for at in range(5_000)]
    requests = [{"user_id": "u", "user": {}, "visit": 7}]
    path = write(tmp_path / "truth.json", {"series": series, "requests": requests})
    truth = read_truth(path)
    assert 300 <= len(truth.series) <= 600
    assert truth.series[-1] == TruthPoint("4999", {"c": TrueReach([4999])})
    assert truth.requests == [TrueVisit("u", {}, 7)]
    with pytest.raises(KreachError, match="truth_file must"):
        read_truth(write(path, {"series": [3], "requests": []}))


def test_a_file_is_read_when_it_appears_changes_or_breaks(tmp_path: Path) -> None:
    clock = ManualClock()
    folder = tmp_path / "tradeoff"
    folder.mkdir()
    file = InputFile(folder, read_tradeoff, clock.now)
    clock.seconds += 1.0
    assert file.refresh().problem == "the file does not exist yet"
    summary = write(folder / "summary.json", STUDY)
    clock.seconds += 1.0
    assert file.refresh().problem is None
    assert file.content is not None
    assert file.content.setting == {"people": 10}
    version = file.version
    clock.seconds += 1.0
    assert file.refresh().version == version
    write(summary, "{}")
    clock.seconds += 1.0
    assert "tradeoff must" in (file.refresh().problem or "")
    assert file.content is not None
    assert file.content.setting == {"people": 10}  # the last that could be read
    os.unlink(summary)
    clock.seconds += 1.0
    assert file.refresh().problem == "the file does not exist yet"
    write(summary, STUDY)
    clock.seconds += 1.0
    assert file.refresh().problem is None


def test_without_a_path_there_is_nothing_to_read() -> None:
    file = InputFile(None, read_truth).refresh()
    assert (file.configured, file.content, file.problem, file.version) == (False, None, None, 0)


def test_the_truth_of_one_campaign_at_one_cap(tmp_path: Path) -> None:
    series = [
        {"ts": "2026-11-01T00:00:00Z", "campaigns": {}},
        {"ts": "2026-11-01T01:00:00Z", "campaigns": {"c": {"reach": [3, 4]}}},
        {"ts": "2026-11-01T02:00:00Z", "campaigns": {"c": {"reach": [5, 7]}, "d": {"reach": [1]}}},
    ]
    truth = read_truth(write(tmp_path / "truth.json", {"series": series, "requests": []}))
    assert [reach for _, reach in truth.over_time("c", 2)] == [4, 7]
    assert truth.over_time("d", 2) == truth.over_time("x", 1) == []
    assert (truth.latest("c"), truth.latest("x")) == ([5, 7], None)
