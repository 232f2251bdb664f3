"""Times in a log that are wrong, shown and repaired; and logs of an earlier schema."""

import json
import sqlite3
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.clock_repair import clock_facts, repair_clock
from kreach.adsystem.ledger.clock_rows import passed_sql, skipped_micros
from kreach.adsystem.ledger.fold import fold_log
from kreach.adsystem.ledger.journal import FILE, open_reader
from kreach.adsystem.ledger.notice_rows import count_conflicts
from kreach.cli.app import app
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import DAY_MICROS, FIRST, journal, row, wait

QUIET = Log("test", lambda _: None)


def test_a_store_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="store must have a log"):
        clock_facts(tmp_path, time.time())


def test_what_is_in_the_future_moves_to_now_and_the_rest_stays(tmp_path: Path) -> None:
    now = FIRST / 1e6 + 1.5 * 86_400
    with journal(tmp_path) as made:
        for at, day in enumerate((0.0, 1.0, 2.0, 9.0)):
            made.submit("impression", row(at, day=day))
        made.submit("moment", (FIRST + 9 * DAY_MICROS,))
        made.submit("memory", ("requests:v1:0480300", FIRST, b"3"))
        made.submit("memory", ("requests:v1:0479990", FIRST, b"3"))
        made.run(lambda connection: connection.execute("INSERT INTO steps VALUES (1, 2)"))
        made.run(
            lambda connection: connection.execute(
                "INSERT INTO steps VALUES (1, ?)", (FIRST + 8 * DAY_MICROS,)
            )
        )
        assert wait(made) is None
        epoch = made.epoch
    facts = repair_clock(tmp_path, now, QUIET)
    assert (facts.rows_in_future, facts.micros_in_future, facts.steps) == (2, 102 + 103, 2)
    assert facts.doubt is not None
    with journal(tmp_path) as made:
        assert made.last_moment() == pytest.approx(now)
        assert made.steps == ((1, 2),)
        assert made.fenced_epoch == epoch + 1
        stamps = [ts for (ts,) in made.read("SELECT ts FROM impressions ORDER BY row")]
        assert stamps[:2] == [row(0)[4], row(1, day=1.0)[4]]
        assert stamps[2:] == [int(now * 1e6)] * 2
        hours = list(made.read("SELECT name FROM memory"))
        assert hours == [("requests:v1:0479990",)]
    assert clock_facts(tmp_path, now).rows_in_future == 0


def test_the_command_shows_and_repairs(tmp_path: Path) -> None:
    with journal(tmp_path / "store") as made:
        made.submit("moment", (int((time.time() + 3_650 * 86_400) * 1e6),))
        assert wait(made) is None
    config = tmp_path / "kreach.toml"
    config.write_text(f'[adsystem]\nstore = "{tmp_path / "store"}"\ncatalogues = ["x"]\n[bidder]\n')
    given = ["repair", "clock", "--config", str(config)]
    shown = CliRunner().invoke(app, given)
    assert shown.exit_code == 0
    assert "add --write" in shown.output
    facts = json.loads(CliRunner().invoke(app, [*given, "--json", "--write"]).output)
    assert facts["repaired"]
    assert "behind the time that has passed" in facts["doubt"]
    assert json.loads(CliRunner().invoke(app, [*given, "--json"]).output)["doubt"] is None


def test_days_leave_steps_out_in_python_and_in_sql(tmp_path: Path) -> None:
    """A step from the middle of the first day to the middle of the third."""
    steps = ((FIRST + DAY_MICROS // 2, FIRST + 5 * DAY_MICROS // 2),)
    moments = [FIRST, FIRST + DAY_MICROS // 2 - 1, *(FIRST + n * DAY_MICROS for n in (3, 4, 5))]
    for start in (FIRST, FIRST - DAY_MICROS, FIRST + DAY_MICROS, FIRST + 3 * DAY_MICROS):
        account = Account(1, None, start / 1e6, steps)
        expression = passed_sql(steps, "?1", "?2", "max")
        for moment in moments:
            if moment < start:
                continue
            with sqlite3.connect(":memory:") as connection:
                passed = connection.execute(f"SELECT {expression}", (moment, start)).fetchone()[0]
            assert passed == moment - start - skipped_micros(steps, start, moment)
            assert account.day_of(moment) == passed // DAY_MICROS
    assert [Account(1, None, FIRST / 1e6, steps).day_of(moment) for moment in moments] == [
        *(0, 0, 1, 2, 3)
    ]
    with journal(tmp_path) as made:
        made.run(lambda connection: connection.execute("INSERT INTO steps VALUES (?, ?)", steps[0]))
        made.submit("impression", row(1, day=0.1))
        made.submit("impression", row(2, day=2.6))
        made.submit("impression", row(3, day=3.1))
        assert wait(made) is None
        folded = fold_log(made, tmp_path, {1: FIRST / 1e6}, {}, 0.0)
    assert folded.spent == {1: {0: 101 + 102, 1: 103}}


def test_a_log_of_the_first_schema_is_read_and_upgraded(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        made.submit("impression", row(1))
        assert wait(made) is None
    with sqlite3.connect(tmp_path / FILE) as connection:
        for table in ("losses", "conflicts", "steps", "doubts"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    reader = open_reader(tmp_path)
    assert count_conflicts(reader, 1) == 0
    assert clock_facts(tmp_path, time.time()).doubts == 0
    reader.close()
    with journal(tmp_path) as made:
        assert [n for (n,) in made.read("SELECT count(*) FROM impressions")] == [1]
        assert list(made.read("SELECT * FROM losses")) == []
