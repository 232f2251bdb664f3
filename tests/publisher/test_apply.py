"""A user-level log made group-level: same rows, same order, and nobody's id."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.publisher.apply import Applied, apply_groups
from kreach.publisher.build import BuildOptions, build_groups
from kreach.publisher.identifying import TOGETHER
from kreach.publisher.store import read_group_lookup
from tests.publisher.populations import NOW, write_csv

PEOPLE, ROWS = 60, 1_500


def write(path: Path, query: str) -> Path:
    """A Parquet file from a query."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as engine:
        engine.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    reader = f"read_parquet('{path}/**/*.parquet')" if path.is_dir() else f"'{path}'"
    with duckdb.connect() as engine:
        return engine.execute(f"SELECT * FROM {reader}").fetchall()


def names_of(path: Path) -> list[str]:
    with duckdb.connect() as engine:
        return [row[0] for row in engine.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]


def build(folder: Path, strategy: str = "random") -> Path:
    visits = write(
        folder / "visits.parquet",
        f"""SELECT 'member-' || (i % {PEOPLE}) AS user_id,
        TIMESTAMP '2026-10-01' + to_minutes((i * 37 % 40000)::BIGINT) AS ts
        FROM range({ROWS}) t(i)""",
    )
    out = folder / "groups"
    options = BuildOptions(visits, 5, strategy, out, knowledge="none", partitions=2, seed=1)
    build_groups(options, NOW, lambda _: None)
    return out


LOG = f"""SELECT i AS impression_id, 'c' || (i % 3) AS campaign,
    CASE WHEN i % 10 = 0 THEN 'stranger-' || (i % 7) ELSE 'member-' || (hash(i) % {PEOPLE}) END
    AS user_id, TIMESTAMP '2026-11-01' + to_seconds(i * 7) AS ts, i % 4 AS device
    FROM range({ROWS}) t(i)"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log") / "log.parquet", LOG)


def check_like(built: Path, before: Path, after: Path) -> None:
    """Row by row: the group that the gateway names, and everything else as it was."""
    lookup = read_group_lookup(built)
    old, new = rows_of(before), rows_of(after)
    place = names_of(before).index("user_id")
    assert len(old) == len(new)
    for was, now in zip(old, new, strict=True):
        assert now[place] == lookup.identify(was[place]).group
        assert now[:place] + now[place + 1 :] == was[:place] + was[place + 1 :]


def test_rows_columns_and_order_are_kept(built: Path, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    applied = apply_groups(built, log, out)
    assert names_of(out) == ["impression_id", "campaign", "group", "ts", "device"]
    check_like(built, log, out)
    assert (applied.rows, applied.users) == (ROWS, PEOPLE + 7)
    assert (applied.unknown_users, applied.unknown_rows) == (7, ROWS // 10)
    assert list(tmp_path.iterdir()) == [out], "nothing else is left"


def test_overlapping_groups_are_named_as_the_gateway_names_them(log: Path, tmp_path: Path) -> None:
    built = build(tmp_path, "overlapping")
    apply_groups(built, log, tmp_path / "out.parquet")
    check_like(built, log, tmp_path / "out.parquet")


def test_no_id_is_left(built: Path, log: Path, tmp_path: Path) -> None:
    apply_groups(built, log, tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    assert "member-" not in text
    assert "stranger-" not in text
    assert text.count("\n") == ROWS + 1


def test_csv_to_csv_keeps_the_text(built: Path, tmp_path: Path) -> None:
    lines = ["007,1.50,member-1,a", "08,1e3,member-2,", '"x,y",,member-1,"say ""hi"""']
    log = write_csv(tmp_path / "log.csv", "code,amount,user_id,note", *lines)
    apply_groups(built, log, tmp_path / "out.csv")
    lookup = read_group_lookup(built)
    one, two = (lookup.identify(f"member-{n}").group for n in (1, 2))
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "code,amount,group,note",
        f"007,1.50,{one},a",
        f"08,1e3,{two},",
        f'"x,y",,{one},"say ""hi"""',
    ]


def test_csv_to_parquet_has_times(built: Path, tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv", "user_id,ts,campaign", "007,2026-11-01 00:00:00,08")
    apply_groups(built, log, tmp_path / "out.parquet")
    ((group, ts, campaign),) = rows_of(tmp_path / "out.parquet")
    assert group == read_group_lookup(built).identify("007").group
    assert (ts.year, campaign) == (2026, "08")


def test_folders_keep_their_files(built: Path, tmp_path: Path) -> None:
    """Partitions stay in the names of folders, and each file its rows."""
    folder = tmp_path / "log"
    for day in (1, 2):
        query = f"SELECT * FROM ({LOG}) WHERE impression_id % 2 = {day - 1}"
        write(folder / f"day={day}" / "rows.parquet", query)
    apply_groups(built, folder, tmp_path / "out")
    for day in (1, 2):
        file = f"day={day}/rows.parquet"
        check_like(built, folder / file, tmp_path / "out" / file)
    one = tmp_path / "one.parquet"
    apply_groups(built, folder, one)
    assert names_of(one) == ["impression_id", "campaign", "group", "ts", "device", "day"]
    assert len(rows_of(one)) == ROWS


def test_a_file_becomes_a_folder(built: Path, log: Path, tmp_path: Path) -> None:
    apply_groups(built, log, tmp_path / "out")
    check_like(built, log, tmp_path / "out" / "part-00000.parquet")


def test_order_survives_a_join_in_parallel(built: Path, tmp_path: Path) -> None:
    """Several row groups and more rows than a batch of the engine."""
    query = f"""SELECT i AS impression_id, 'member-' || (hash(i) % {PEOPLE}) AS user_id
        FROM range(400000) t(i)"""
    log = write(tmp_path / "log.parquet", query)
    apply_groups(built, log, tmp_path / "out.parquet")
    numbers = np.array([row[0] for row in rows_of(tmp_path / "out.parquet")])
    np.testing.assert_array_equal(numbers, np.arange(400_000))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("user_id AS who", "who equals the user id"),
        ("'/?u=' || user_id || '&x=1' AS page", "page holds the user id inside it"),
        ("impression_id || '-' || user_id AS impression_id", "impression_id holds the user id"),
        ("hash(user_id) AS token", "the same token are one person's in 100% of cases"),
        ("md5(user_id || hour(ts)) AS session", "the same session are one person's"),
        ("10 AS ip", "ip is the name of an identifier"),
    ],
)
def test_columns_that_identify_are_refused(
    column: str, said: str, built: Path, tmp_path: Path
) -> None:
    others = "EXCLUDE (impression_id)" if "AS impression_id" in column else ""
    log = write(tmp_path / "log.parquet", f"SELECT * {others}, {column} FROM ({LOG})")
    with pytest.raises(KreachError, match="log identifies people") as error:
        apply_groups(built, log, tmp_path / "out.parquet")
    assert said in str(error.value)
    assert "member-" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
    name = column.rsplit(" ", 1)[1]
    if name == "who":
        assert "--allow" not in str(error.value), "a copy of the id passes in no case"
        with pytest.raises(KreachError, match="equals the user id"):
            apply_groups(built, log, tmp_path / "out.parquet", allow=(name,))
    else:
        applied = apply_groups(built, log, tmp_path / "out.parquet", allow=(name,))
        assert any(said in warning and "allowed" in warning for warning in applied.warnings)


def test_a_log_with_one_row_each_and_a_column_of_names(built: Path, tmp_path: Path) -> None:
    query = f"SELECT 'member-' || i AS user_id, 1000 - i AS badge FROM range({PEOPLE}) t(i)"
    log = write(tmp_path / "log.parquet", query)
    with pytest.raises(KreachError, match="badge is different for almost every user"):
        apply_groups(built, log, tmp_path / "out.parquet")


def test_columns_that_tell_little_pass(built: Path, log: Path, tmp_path: Path) -> None:
    """Numbers that happen to equal short ids are no copies of them."""
    query = f"""SELECT (hash(i) % 9)::VARCHAR AS user_id, hash(i + 1) % 9 AS hour, hash(i) % 2 AS
        request FROM range({ROWS}) t(i)"""
    short = write(tmp_path / "short.parquet", query)
    assert apply_groups(built, short, tmp_path / "a.parquet").rows == ROWS
    applied = apply_groups(built, log, tmp_path / "b.parquet")
    assert applied.warnings == ()
    (device,) = (view for view in applied.columns if view.column == "device")
    assert device.same_person is not None
    assert abs(device.same_person - applied.same_person) < 0.1


def test_lasting_columns_are_looked_at_together(built: Path, tmp_path: Path) -> None:
    """Neither town nor device names anybody; both together do."""
    query = f"""SELECT * EXCLUDE (device), hash(user_id || 'a') % 4 AS town,
        hash(user_id || 'b') % 4 AS device FROM ({LOG})"""
    log = write(tmp_path / "log.parquet", query)
    applied = apply_groups(built, log, tmp_path / "out.parquet")
    by_name = {view.column: view.same_person or 0.0 for view in applied.columns}
    assert by_name[TOGETHER] > max(by_name["town"], by_name["device"])
    assert any("all lasting columns" in warning for warning in applied.warnings)


def test_a_request_id_is_warned_about(built: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "log.parquet", f"SELECT *, md5(ts::VARCHAR) AS request FROM ({LOG})")
    applied = apply_groups(built, log, tmp_path / "out.parquet")
    assert applied.warnings == (
        "request is different in almost every row: it joins this log with any other copy",
    )


def refused(built: Path, log: Path, out: Path, **further: Any) -> str:
    with pytest.raises(KreachError) as error:
        apply_groups(built, log, out, **further)
    return str(error.value)


def test_bad_input_says_so_and_leaves_nothing(built: Path, log: Path, tmp_path: Path) -> None:
    def of(query: str) -> Path:
        return write(tmp_path / "bad.parquet", query)

    out = tmp_path / "out.parquet"
    assert "log must have a column user_id" in refused(built, of("SELECT 1 AS x"), out)
    taken = of("SELECT 'a' AS user_id, 1 AS \"Group\"")
    assert refused(built, taken, out) == "log must have no column group yet, got 'Group'"
    missing = of("SELECT CASE WHEN i > 2 THEN 'a' || i END AS user_id FROM range(9) t(i)")
    left_out = "log.user_id must not be missing, got 3 rows without; leave them out"
    assert refused(built, missing, out) == left_out
    empty = of("SELECT '' AS user_id")
    assert "log.user_id must not be missing" in refused(built, empty, out)
    assert "log must name a file" in refused(built, tmp_path / "no.csv", out)
    (tmp_path / "bad.parquet").write_text("no Parquet")
    assert "log must be a readable" in refused(built, tmp_path / "bad.parquet", out)
    assert "folder must be a folder made by" in refused(tmp_path, log, out)
    assert "hold only users of the build, got 7 others" in refused(
        built, log, out, refuse_unknown=True
    )
    assert "allow must name further columns" in refused(built, log, out, allow=("no",))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet"]


def test_a_place_that_cannot_be_written_is_refused(built: Path, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    out.write_text("mine")
    assert "out must be a new file or folder" in refused(built, log, out)
    assert out.read_text() == "mine"
    assert "out must end in .parquet" in refused(built, log, tmp_path / "out.xlsx")
    assert "out must be in a folder" in refused(built, log, tmp_path / "no" / "out.csv")
    assert "out must not be inside the log" in refused(built, log.parent, log.parent / "out")


def test_an_empty_log_is_an_empty_log(built: Path, log: Path, tmp_path: Path) -> None:
    nothing = write(tmp_path / "log.parquet", f"SELECT * FROM ({LOG}) LIMIT 0")
    applied = apply_groups(built, nothing, tmp_path / "out.parquet")
    assert isinstance(applied, Applied)
    assert (applied.rows, applied.users, rows_of(tmp_path / "out.parquet")) == (0, 0, [])
