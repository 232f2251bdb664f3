"""Files that others hand over: read, read again when they change, refused when they are broken."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.console.input_files import Handed, read_audit, read_tradeoff, read_truth
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
        "random": {"planning_recency": {"20": BAND | {"mean": 0.8}, "1": BAND, "5": BAND}}
    },
    "measurement_error": {"random": {"dispersed": {"20": BAND}}},
    "advice": ["k = 20: lose 20%"],
}


def written(path: Path, document: object) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_an_audit_is_read(tmp_path: Path) -> None:
    found = read_audit(written(tmp_path / "audit.json", AUDIT))
    assert found["findings"] == [("ok", "every group has at least 20 members")]
    assert (found["groups"], found["effective"]) == (200, None)
    assert read_audit(written(tmp_path / "audit.html", "<p>x"))["html"] == "<p>x"


@pytest.mark.parametrize(
    "broken", ["{", "[]", "{}", {**AUDIT, "groups": "many"}, {**AUDIT, "linkage": 3}]
)
def test_a_broken_audit_is_refused(tmp_path: Path, broken: object) -> None:
    with pytest.raises(KreachError, match="groups_audit must"):
        read_audit(written(tmp_path / "audit.json", broken))


def test_a_study_is_read_in_the_order_of_sizes(tmp_path: Path) -> None:
    found = read_tradeoff(written(tmp_path / "summary.json", STUDY))
    assert list(found["relative_reach"]["random"]["planning_recency"]) == [1, 5, 20]
    assert found["advice"] == ["k = 20: lose 20%"]


@pytest.mark.parametrize(
    "broken", ["", "{}", {**STUDY, "relative_reach": {"random": {"x": {"k": 1}}}}]
)
def test_a_broken_study_is_refused(tmp_path: Path, broken: object) -> None:
    with pytest.raises(KreachError, match="tradeoff must"):
        read_tradeoff(written(tmp_path / "summary.json", broken))


def test_a_long_truth_is_thinned_and_its_newest_point_stays(tmp_path: Path) -> None:
    series = [{"ts": str(at), "campaigns": {"c": {"reach": [at]}}} for at in range(5_000)]
    requests = [{"user_id": "u", "user": {}, "visit": 7}]
    path = written(tmp_path / "truth.json", {"series": series, "requests": requests})
    found = read_truth(path)
    assert 300 <= len(found["series"]) <= 600
    assert found["series"][-1] == ("4999", {"c": [4999]})
    assert found["requests"] == [("u", {}, 7)]
    with pytest.raises(KreachError, match="truth_file must"):
        read_truth(written(path, {"series": [3], "requests": []}))


def test_a_file_is_read_when_it_comes_changes_or_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kreach.adsystem.console.input_files._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("kreach.adsystem.console.input_files._PATIENCE", 0.0)
    folder = tmp_path / "tradeoff"
    folder.mkdir()
    handed = Handed(folder, read_tradeoff)
    assert handed.look().trouble == "the file is not there yet"
    summary = written(folder / "summary.json", STUDY)
    assert handed.look().trouble is None
    assert handed.found["setting"] == {"people": 10}
    version = handed.version
    assert handed.look().version == version
    written(summary, "{}")
    assert "tradeoff must" in (handed.look().trouble or "")
    assert handed.found["setting"] == {"people": 10}  # the last that could be read
    os.unlink(summary)
    assert handed.look().trouble == "the file is not there yet"
    written(summary, STUDY)
    assert handed.look().trouble is None


def test_without_a_name_there_is_nothing_to_read() -> None:
    handed = Handed(None, read_truth).look()
    assert (handed.named, handed.found, handed.trouble, handed.version) == (False, None, None, 0)
