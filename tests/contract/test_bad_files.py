"""What engines cannot use: one line each, which names the argument and quotes no row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.contract.fast_spark import on_engines
from tests.contract.reference_logs import (
    START,
    Row,
    assert_one_line,
    rows_at,
    write_classes,
    write_csv,
    write_groups,
    write_log,
)

HEADER = "impression_id,campaign,group,ts"
ROWS = rows_at("secret group", START, campaign="secret campaign", ids="secret")


def without(column: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        table = pa.table({"campaign": ["secret"], "group": ["secret"], "ts": [START], "price": [1]})
        pq.write_table(table.drop_columns([column]), folder / "log.parquet")
        return str(folder / "log.parquet")

    return write


def text_as_parquet(folder: Path) -> str:
    return write_csv(folder / "log.parquet", HEADER, "secret,secret,secret,2026-11-01")


def empty_file(folder: Path) -> str:
    (folder / "log.parquet").touch()
    return str(folder / "log.parquet")


def empty_csv(folder: Path) -> str:
    (folder / "log.csv").touch()
    return str(folder / "log.csv")


def csv_that_is_parquet(folder: Path) -> str:
    Path(write_log(folder / "log.parquet", ROWS)).rename(folder / "log.csv")
    return str(folder / "log.csv")


def empty_folder(folder: Path) -> str:
    (folder / "empty").mkdir()
    return str(folder / "empty")


def other_folder(folder: Path) -> str:
    write_csv(folder / "other" / "secret.md", "secret", "secret")
    return str(folder / "other")


def missing_path(folder: Path) -> str:
    return str(folder / "no such log.parquet")


def missing_path_of_two_lines(folder: Path) -> str:
    return str(folder / "no such\nlog.parquet")


def truncated(folder: Path) -> str:
    path = Path(write_log(folder / "log.parquet", ROWS * 50))
    path.write_bytes(path.read_bytes()[:-20])
    return str(path)


def damaged(folder: Path) -> str:
    """The end is whole, so it opens; the rows are not."""
    path = Path(
        write_log(
            folder / "log.parquet",
            [Row(f"secret{n}", "secret", f"secret{n}", START) for n in range(5000)],
        )
    )
    content = bytearray(path.read_bytes())
    content[20 : len(content) // 2] = b"\xff" * (len(content) // 2 - 20)
    path.write_bytes(bytes(content))
    return str(path)


def one_bad_of_many(folder: Path) -> str:
    write_log(folder / "many" / "0.parquet", ROWS)
    write_csv(folder / "many" / "1.parquet", HEADER, "secret,secret,secret,secret")
    return str(folder / "many")


def with_column(name: str, values: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        return write_log(folder / "log.parquet", ROWS, **{name: values})

    return write


def ragged(folder: Path) -> str:
    lines = ["secret1,secret,secret,2026-11-01"] * 5
    return write_csv(folder / "log.csv", HEADER, *lines, "secret,secret,secret,2026-11-01,secret")


def missing_table(folder: Path) -> str:
    return "#no such table"


def missing_database(folder: Path) -> str:
    return str(folder / "no such base.duckdb#log")


def text_as_database(folder: Path) -> str:
    return write_csv(folder / "base.duckdb", "secret", "secret") + "#log"


BAD_LOGS: dict[str, Callable[[Path], str]] = {
    "no campaign": without("campaign"),
    "no group": without("group"),
    "no ts": without("ts"),
    "text as parquet": text_as_parquet,
    "empty file": empty_file,
    "empty csv": empty_csv,
    "parquet as csv": csv_that_is_parquet,
    "empty folder": empty_folder,
    "folder without parquet": other_folder,
    "missing path": missing_path,
    "missing path of two lines": missing_path_of_two_lines,
    "truncated": truncated,
    "damaged": damaged,
    "one bad of many": one_bad_of_many,
    "ts as whole numbers": with_column("ts", [1793491200]),
    "ts as fractions": with_column("ts", [1793491200.5]),
    "ts as truth": with_column("ts", [True]),
    "group as fractions": with_column("group", [1.5]),
    "campaign as list": with_column("campaign", pa.array([["secret"]])),
    "id as fractions": with_column("impression_id", [1.5]),
    "id as bytes": with_column("impression_id", pa.array([b"secret"], pa.binary())),
    "received as whole numbers": with_column("received", [7]),
    "catalogue as truth": with_column("catalogue", [True]),
    "ragged csv": ragged,
    "missing table": missing_table,
    "missing database": missing_database,
    "text as database": text_as_database,
}


# refused by the type of a column, before an engine is asked
BY_TYPE = {
    "ts as fractions",
    "ts as truth",
    "campaign as list",
    "id as fractions",
    "received as whole numbers",
    "catalogue as truth",
    "no group",
    "no ts",
}


@pytest.mark.parametrize(
    ("engine", "bad"), on_engines(BAD_LOGS, not_on_spark=BY_TYPE), indirect=["engine"]
)
def test_bad_logs(engine: Engine, tmp_path: Path, bad: str) -> None:
    source = BAD_LOGS[bad](tmp_path)
    with pytest.raises(kr.KreachError) as error:
        kr.ImpressionLog.open(engine, source).counts()
    message = assert_one_line(error, "impressions")
    if bad.startswith("no "):
        assert f"have a column {bad[3:]}" in message
    if bad.startswith("missing path"):
        assert "name a file that exists" in message


def test_a_csv_with_only_a_header(engine: Engine, tmp_path: Path) -> None:
    """Is a log in which nothing has happened yet."""
    log = kr.ImpressionLog.open(engine, write_csv(tmp_path / "log.csv", HEADER))
    assert log.counts() == {}
    groups = write_groups(tmp_path / "groups.parquet", group=["a"], size=[2])
    measured = kr.measure_window(log, kr.open_groups(engine, groups), [1], campaign="c")
    assert measured.document().impressions == 0


def test_csv_quirks_are_read_alike(engine: Engine, tmp_path: Path) -> None:
    """Quoted or not, empty or missing, other quotes, spaces: all is as it is written."""
    lines = [
        '"q",c,plain,2026-11-01',
        "r,c,'single',2026-11-01",
        "s,c,'single',2026-11-01",
        "t,c, spaced ,2026-11-01",
        "u,c,007,2026-11-01",
        "v,c,1e3,2026-11-01",
        "w,c,NULL,2026-11-01",
        "x,c,NA,2026-11-01",
        "y,c,true,2026-11-01",
        "z,c,,2026-11-01",
        ',c,plain,"2026-11-01"',
        ',c,plain,"2026-11-01"',
        '1,c,"two, with ""quotes""",2026-11-01',
        "2,c,#7,2026-11-01",
        "3,c,back\\slash,2026-11-01",
    ]
    log = kr.ImpressionLog.open(engine, write_csv(tmp_path / "log.csv", HEADER, *lines))
    assert log.counts("c") == {
        "plain": 3,
        "'single'": 2,
        " spaced ": 1,
        "007": 1,
        "1e3": 1,
        "NULL": 1,
        "NA": 1,
        "true": 1,
        'two, with "quotes"': 1,
        "#7": 1,
        "back\\slash": 1,
    }


def test_csv_with_windows_line_ends_and_a_mark(writer: Engine, tmp_path: Path) -> None:
    """As spreadsheets write it."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfcampaign,group,ts\r\nc,a,2026-11-01\r\nc,b,2026-11-02\r\n")
    assert kr.ImpressionLog.open(writer, str(path)).counts("c") == {"a": 1, "b": 1}


NAN, INF = float("nan"), float("inf")
GOOD: dict[str, Any] = {"group": ["a", "b"], "size": [2, 3]}
BAD_GROUPS: dict[str, dict[str, Any]] = {
    "no group column": {"size": [2]},
    "no size column": {"group": ["a"]},
    "repeated": {"group": ["secret", "secret"], "size": [2, 3]},
    "nameless": {"group": ["secret", None], "size": [2, 3]},
    "size 0": GOOD | {"size": [0, 3]},
    "size negative": GOOD | {"size": [-1, 3]},
    "size missing": GOOD | {"size": [None, 3]},
    "size a fraction": GOOD | {"size": [1.5, 3]},
    "size NaN": GOOD | {"size": [NAN, 3.0]},
    "size infinite": GOOD | {"size": [INF, 3.0]},
    "size huge": GOOD | {"size": [1e30, 3.0]},
    "size beyond what a float holds": GOOD | {"size": [2**53 + 1, 3]},
    "size text": GOOD | {"size": ["secret", "3"]},
    "targeted above size": GOOD | {"targeted": [3, 3]},
    "targeted negative": GOOD | {"targeted": [-1, 3]},
    "targeted missing": GOOD | {"targeted": [None, 3]},
    "targeted a fraction": GOOD | {"targeted": [0.5, 3]},
    "targeted text": GOOD | {"targeted": ["secret", "1"]},
    "dispersion 0": GOOD | {"dispersion": [0.0, 1.0]},
    "dispersion negative": GOOD | {"dispersion": [1.0, -0.5]},
    "dispersion minus infinity": GOOD | {"dispersion": [1.0, -INF]},
    "dispersion NaN": GOOD | {"dispersion": [NAN, 1.0]},
    "dispersion text": GOOD | {"dispersion": ["secret", "1"]},
    "dispersion text NaN": GOOD | {"dispersion": ["nan", "1"]},
    "shares too few": GOOD | {"visit_shares": [[1.0], [0.2, 0.3, 0.5]]},
    "shares too many": GOOD | {"visit_shares": [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]},
    "shares sum to less": GOOD | {"visit_shares": [[0.5, 0.4], [0.2, 0.3, 0.5]]},
    "shares negative": GOOD | {"visit_shares": [[1.5, -0.5], [0.2, 0.3, 0.5]]},
    "shares NaN": GOOD | {"visit_shares": [[0.5, NAN], [0.2, 0.3, 0.5]]},
    "shares with a gap": GOOD | {"visit_shares": [[1.0, None], [0.2, 0.3, 0.5]]},
    "shares for some": GOOD | {"visit_shares": [[0.5, 0.5], None]},
    "shares empty": GOOD | {"visit_shares": [[], [0.2, 0.3, 0.5]]},
    "shares text": GOOD | {"visit_shares": ["secret", "0.2;0.3;0.5"]},
    "shares as numbers": GOOD | {"visit_shares": [0.5, 0.5]},
    "shares where some are targeted": GOOD
    | {"targeted": [1, 3], "visit_shares": [[0.5, 0.5], [0.2, 0.3, 0.5]]},
}


# the same rule as a case that is asked, with another number
MORE_OF_A_KIND = {
    "size negative",
    "size missing",
    "size a fraction",
    "targeted negative",
    "targeted missing",
    "targeted a fraction",
    "targeted text",
    "dispersion 0",
    "dispersion minus infinity",
    "shares too few",
    "shares negative",
    "shares where some are targeted",
}


SERVERS = ("spark", "clickhouse", "postgres")


@pytest.mark.parametrize(
    ("engine", "bad"), on_engines(BAD_GROUPS, MORE_OF_A_KIND, SERVERS), indirect=["engine"]
)
def test_bad_groups(engine: Engine, tmp_path: Path, bad: str) -> None:
    """Refused when they are opened, as an audience refuses them when it is made."""
    groups = write_groups(tmp_path / "groups.parquet", **BAD_GROUPS[bad])
    with pytest.raises(kr.KreachError) as error:
        kr.open_groups(engine, groups)
    assert_one_line(error, "groups", "visit_shares")


BAD_GROUP_FILES = [
    text_as_parquet,
    empty_file,
    empty_csv,
    empty_folder,
    other_folder,
    missing_path,
    truncated,
]


@pytest.mark.parametrize("write", BAD_GROUP_FILES)
def test_bad_group_files(writer: Engine, tmp_path: Path, write: Callable[[Path], str]) -> None:
    with pytest.raises(kr.KreachError) as error:
        kr.open_groups(writer, write(tmp_path))
    assert_one_line(error, "groups")


@pytest.mark.parametrize(
    "facts", ["", "{}", "secret", '{"version": "v", "created": "yesterday"}', "[]"]
)
def test_bad_released_folders(duckdb: Engine, tmp_path: Path, facts: str) -> None:
    (tmp_path / "catalogue.json").write_text(facts)
    write_groups(tmp_path / "groups.parquet", **GOOD)
    with pytest.raises(kr.KreachError) as error:
        kr.open_groups(duckdb, str(tmp_path))
    assert_one_line(error, "groups", "created")


BAD_CLASSES: dict[str, list[tuple[list[str | None], int | None]]] = {
    "a stranger": [(["a", "secret"], 1)],
    "too many people": [(["a"], 2), (["a", "b"], 1)],
    "nobody": [(["a"], 0)],
    "fewer than nobody": [(["a"], -1)],
    "a head-count missing": [(["a"], None)],
    "a group twice": [(["a", "a"], 1)],
    "a group missing": [(["a", None], 1)],
    "no group": [([], 1), (["a"], 1)],
}


FEW_OR_NO_HEADS = {"nobody", "fewer than nobody", "a head-count missing"}


@pytest.mark.parametrize(
    ("engine", "bad"), on_engines(BAD_CLASSES, FEW_OR_NO_HEADS, SERVERS), indirect=["engine"]
)
def test_bad_classes(engine: Engine, tmp_path: Path, bad: str) -> None:
    groups = write_groups(tmp_path / "groups.parquet", **GOOD)
    classes = write_classes(tmp_path / "classes.parquet", BAD_CLASSES[bad])
    with pytest.raises(kr.KreachError) as error:
        kr.open_groups(engine, groups, classes)
    assert_one_line(error, "classes")


def test_bad_class_files(engine: Engine, tmp_path: Path) -> None:
    groups = write_groups(tmp_path / "groups.parquet", **GOOD)
    files = [
        write_groups(tmp_path / "1.parquet", groups=[["a"]]),
        write_groups(tmp_path / "2.parquet", headcount=[1]),
        write_groups(tmp_path / "3.parquet", groups=[["a"]], headcount=["secret"]),
        write_groups(tmp_path / "4.parquet", groups=[["a"]], headcount=[0.5]),
        write_groups(tmp_path / "5.parquet", groups=[7], headcount=[1]),
        write_csv(tmp_path / "6.csv", "groups,headcount", ",1"),
        missing_path(tmp_path),
    ]
    # by the names of columns, or as another: before an engine is asked
    for path in files if engine.dialect == "duckdb" else (files[2], files[4], files[5]):
        with pytest.raises(kr.KreachError) as error:
            kr.open_groups(engine, groups, path)
        assert_one_line(error, "classes")


@pytest.mark.parametrize(
    "column", [{"dispersion": [1.0, 2.0]}, {"visit_shares": [[0.5, 0.5], [0.2, 0.3, 0.5]]}], ids=str
)
def test_overlapping_groups_are_uniform(
    duckdb: Engine, tmp_path: Path, column: dict[str, Any]
) -> None:
    groups = write_groups(tmp_path / "groups.parquet", **GOOD, **column)
    classes = write_classes(tmp_path / "classes.parquet", [(["a"], 1)])
    with pytest.raises(kr.KreachError) as error:
        kr.open_groups(duckdb, groups, classes)
    assert_one_line(error, "groups")


def test_odd_group_ids(engine: Engine, tmp_path: Path) -> None:
    """Ids are opaque, in the log, in the groups and in the classes; no sign separates them."""
    odd = [
        "o'brien",
        'say "hi"',
        "a;b",
        "a",
        "b",
        "a\x1fb",
        "größe ✓ 𝄞",
        "${x}",
        "back\\slash",
        " ",
    ]
    rows = [Row(f"{at}", "c", group, START) for at, group in enumerate(odd)]
    log = kr.ImpressionLog.open(engine, write_log(tmp_path / "log.parquet", rows))
    groups = write_groups(tmp_path / "groups.parquet", group=odd, size=[4] * len(odd))
    members: list[tuple[list[str], int]] = [([group], 1) for group in odd]
    members += [(["a", "b"], 2), (["a;b", "o'brien"], 1)]
    classes = write_classes(tmp_path / "classes.parquet", members)
    plain = kr.Audience.overlapping(
        [4] * len(odd), [([odd.index(group) for group in content], n) for content, n in members]
    )
    for overlap in (classes, None)[: 2 if engine.dialect == "duckdb" else 1]:
        opened = kr.open_groups(engine, groups, overlap)
        measured = kr.measure_window(log, opened, [1], campaign="c")
        assert measured.impressions == len(odd)
        assert measured.rejected["unknown_group"] == 0
        if overlap:
            assert measured.document().people == plain.targeted_user_count
            reach = kr.measure(plain, [1] * len(odd), 1).reach
            assert measured.report(1).reach == pytest.approx(reach, rel=1e-12)


@pytest.mark.parametrize("caps", [[], [0], [1.5], ["1"], [True], [2**60], 0], ids=repr)
def test_bad_caps(duckdb: Engine, tmp_path: Path, caps: Any) -> None:
    log = kr.ImpressionLog.open(duckdb, write_log(tmp_path / "log.parquet", ROWS))
    groups = kr.open_groups(duckdb, write_groups(tmp_path / "groups.parquet", **GOOD))
    with pytest.raises(kr.KreachError) as error:
        kr.measure_window(log, groups, caps)
    assert_one_line(error, "caps")


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("start", {"start": "yesterday"}),
        ("end", {"end": 7}),
        ("end", {"start": START, "end": START}),
        ("by", {"by": "month"}),
        ("by", {"by": ["day"]}),
        ("window", {"start": "0001-01-01", "end": "9999-01-01"}),
        ("campaign", {"campaign": 7}),
    ],
    ids=repr,
)
def test_bad_questions(
    duckdb: Engine, tmp_path: Path, argument: str, options: dict[str, Any]
) -> None:
    log = kr.ImpressionLog.open(duckdb, write_log(tmp_path / "log.parquet", ROWS))
    groups = kr.open_groups(duckdb, write_groups(tmp_path / "groups.parquet", **GOOD))
    with pytest.raises(kr.KreachError) as error:
        kr.measure_series(log, groups, [1], **options)
    assert_one_line(error, argument)


@pytest.mark.parametrize("memory", ["much", ""])
def test_bad_memory(memory: str) -> None:
    with pytest.raises(kr.KreachError) as error:
        kr.EmbeddedEngine(memory=memory)
    assert_one_line(error, "memory")


@pytest.mark.parametrize("threads", [0, -1, "two", 1.5])
def test_bad_threads(threads: Any) -> None:
    with pytest.raises(kr.KreachError) as error:
        kr.EmbeddedEngine(threads=threads)
    assert_one_line(error, "threads")


def test_bad_database(tmp_path: Path) -> None:
    text = write_csv(tmp_path / "base.duckdb", "secret", "secret")
    for path in (text, tmp_path, tmp_path / "no" / "such" / "base.duckdb"):
        with pytest.raises(kr.KreachError) as error:
            kr.EmbeddedEngine(path)
        assert_one_line(error, "database")
