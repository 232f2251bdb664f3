"""Files of others: read, read again when they change, refused when they are broken."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
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
from kreach.adsystem.console.pages.audit_document import check_rows, visible_rows
from kreach.errors import KreachError
from kreach.publisher.audit import audit as audit_people
from kreach.publisher.grouping import AtRandom, form_groups
from kreach.publisher.lineage import Crowds
from kreach.publisher.people import Attribute, People

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


def test_what_the_audit_writes_is_read(tmp_path: Path) -> None:
    """The whole document of a publisher, through the file."""
    people = People(np.arange(200) % 7 + 1, {"town": Attribute.of(np.arange(200) % 2)})
    groups = form_groups(people, 20, AtRandom(), seed=1)
    report = audit_people(people, groups, segments=("town",), past=Crowds(2, 0, 3, 4, 20.0), seed=1)
    read = read_audit(write(tmp_path / "audit.json", report.document()))
    assert isinstance(read, Audit)
    assert read.verdict == report.verdict
    assert [one.check for one in read.findings] == [one.check for one in report.findings]
    assert [one.audience for one in read.visible] == ["everyone", "town=0", "town=1"]
    assert read.past is not None
    assert (read.past.versions, read.past.smallest) == (2, 4)
    assert read.not_examined == list(report.not_examined)
    rows = check_rows(read.findings)
    assert [row[0] for row in rows] == sorted(
        (one.level for one in report.findings), key=["danger", "warning", "ok"].index
    )
    assert visible_rows(read.visible)[0][:2] == ("everyone", "200")


def test_levels_that_nobody_knows_come_first() -> None:
    rows = check_rows([Finding("danger", "a"), Finding("catastrophe", "b")])
    assert [row[0] for row in rows] == ["catastrophe", "danger"]
    assert rows[0][1:] == ("–", "–", "–", "b")


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
