"""`python -m benchmarks.log_scale` on a few rows, its workers inside this process."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import duckdb
import pytest
from benchmarks import log_scale

ROWS = 3_000


def in_process(way: str, folder: Path) -> dict[str, Any]:
    shown = io.StringIO()
    with redirect_stdout(shown):
        log_scale.main(["--worker", way, "--folder", str(folder)])
    found: dict[str, Any] = json.loads(shown.getvalue().splitlines()[-1])
    return found


def plain_copies(folder: Path) -> int:
    """Rows of c0 in the window that are not the first of their id."""
    query = f"""SELECT count(*) - count(DISTINCT impression_id) FROM '{folder}/log/*.parquet'
        WHERE campaign = 'c0' AND ts < TIMESTAMP '2026-10-31'"""
    with duckdb.connect() as engine:
        return int(engine.execute(query).fetchall()[0][0])


def test_every_way_runs_on_every_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reports find the copies that were written, and the logs are removed."""
    found: list[int] = []

    def measured(way: str, folder: Path) -> dict[str, Any]:
        result = in_process(way, folder)
        if way == "ids":
            copies = plain_copies(folder)
            assert f"duplicates {copies:,}" in result["note"]
            found.append(copies)
        return result

    monkeypatch.setattr(log_scale, "_measured", measured)
    arguments = f"--rows {ROWS} --chunk 2000 --rounds 1 --min-free-gb 0.01"
    for logs in ("--orders hash --copies 1 0", "--orders time --copies 10"):
        log_scale.main([*arguments.split(), *logs.split(), "--folder", str(tmp_path)])
    shown = capsys.readouterr().out
    assert [copies == 0 for copies in found] == [False, True, False]
    assert "counts of every campaign, one pass" in shown
    for log in ("hash, 1 %", "hash, 0 %", "time, 10 %"):
        assert f"{ROWS:,} impressions by {log} copies" in shown
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="GB free"):
        log_scale.main(["--min-free-gb", "1e9", "--folder", str(tmp_path)])
    assert not list(tmp_path.iterdir())
