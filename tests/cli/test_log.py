"""`kreach log prepare`: a copy that holds shares of draws, and the same reports from it."""

import json
from pathlib import Path

import pytest

from kreach.adsystem.log.stored_shares import FILE
from tests.adsystem.visit_models import sample_model
from tests.cli.command import Result, kreach

LOG = """impression_id,campaign,group,ts
1,spring,a,2026-11-01T00:00:00Z
2,spring,a,2026-11-01T00:01:00Z
3,spring,a,2026-11-01T00:20:00Z
3,spring,a,2026-11-02T00:20:00Z
4,spring,b,2026-11-02T10:00:00Z
5,spring,b,2026-11-02T10:00:30Z
6,spring,b,2026-11-04
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "groups.csv").write_text("group,size\na,6\nb,6\n")
    sample_model().save(tmp_path)
    return tmp_path


def _prepare(files: Path, *more: str) -> Result:
    groups, log = str(files / "groups.csv"), str(files / "log.csv")
    return kreach("log", "prepare", "--groups", groups, "--impressions", log, *more)


def _measured(files: Path, log: Path, *more: str) -> str:
    groups = str(files / "groups.csv")
    done = kreach("measure", "--groups", groups, "--impressions", str(log), "--cap", "1", *more)
    assert done.code == 0, done.err
    return done.out


def test_a_copy_gives_the_same_report(files: Path) -> None:
    done = _prepare(files, "--out", str(files / "copy"), "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "folder": str(files / "copy"),
        "rows": 7,
        "copies": 1,
        "files": 1,
    }
    asked = ("--campaign", "spring", "--start", "2026-11-01T00:00:30Z")
    for more in ((), ("--traffic", "1.2"), ("--model", "none")):
        ours = _measured(files, files / "copy", *asked, *more)
        assert ours == _measured(files, files / "log.csv", *asked, *more)


def test_it_says_what_it_wrote(files: Path) -> None:
    done = _prepare(files, "--out", str(files / "copy"))
    assert done.out.splitlines() == [
        f"7 rows, files: 1, in {files / 'copy'}",
        "of these without a share, as duplicates of an impression id: 1",
    ]
    assert (files / "copy" / FILE).is_file()


def test_it_refuses_what_cannot_be_prepared(files: Path) -> None:
    for more, message in (
        (("--out", str(files)), "out must be a new folder"),
        (("--out", str(files / "copy"), "--model", "none"), "groups must have a visit model"),
        (("--out", str(files / "copy"), "--traffic", "-1"), "traffic must be a positive number"),
        (("--out", str(files / "copy"), "--engine", "x"), "engine must be duckdb or spark"),
    ):
        done = _prepare(files, *more)
        assert done.code != 0
        assert message in done.err
        assert len(done.err.splitlines()) == 1
    assert not (files / "copy").exists()
