"""Users and visits from files: kinds of file, time zones, windows, attributes, bad input."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.publisher.directory import Directory
from tests.publisher.populations import write_csv, write_parquet

VISITS = ("user_id VARCHAR", "ts TIMESTAMPTZ", "town VARCHAR")
ROWS = [
    ("ann", "2026-01-01T08:00:00Z", "Bath"),
    ("bob", "2026-01-01T09:00:00Z", "York"),
    ("ann", "2026-01-02T08:00:00Z", "Bath"),
    ("ann", "2026-01-03T08:00:00Z", "York"),
    ("cat", "2026-01-03T09:00:00Z", None),
]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def times(directory: Directory) -> list[str]:
    moments = directory.visits().at_us.tolist()
    return [datetime.fromtimestamp(us / 1e6, tz=UTC).isoformat() for us in moments]


def refused(visits: Path, users: Path | None = None) -> str:
    with pytest.raises(KreachError) as caught:
        Directory(visits, users)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def complaint(work: Callable[[], object]) -> str:
    """What is said if something is refused, or nothing."""
    try:
        work()
    except KreachError as error:
        return str(error)
    return ""


def as_parquet(folder: Path) -> Path:
    return write_parquet(folder / "visits.parquet", VISITS, ROWS)


def as_csv(folder: Path) -> Path:
    lines = [",".join(cell or "" for cell in row) for row in ROWS]
    return write_csv(folder / "visits.csv", "user_id,ts,town", *lines)


def as_folder(folder: Path) -> Path:
    write_parquet(folder / "parts" / "one.parquet", VISITS, ROWS[:2])
    write_parquet(folder / "parts" / "deeper" / "two.parquet", VISITS, ROWS[2:])
    return folder / "parts"


@pytest.mark.parametrize("kind", [as_parquet, as_csv, as_folder])
def test_every_kind_of_file_says_the_same(kind: Callable[[Path], Path], tmp_path: Path) -> None:
    directory = Directory(kind(tmp_path))
    assert directory.user_count == 3
    assert directory.user_ids() == ["ann", "bob", "cat"]
    assert directory.attribute_names == ["town"]
    people = directory.people(("town",))
    assert people.visits.tolist() == [3, 1, 1]
    assert people.attribute("town").labels == (None, "Bath", "York")
    assert people.attribute("town").codes.tolist() == [1, 2, 0]
    visits = directory.visits()
    assert len(visits) == 5
    assert visits.user.tolist() == [0, 1, 0, 0, 2]
    assert times(directory)[0] == "2026-01-01T08:00:00+00:00"
    assert (np.diff(visits.at_us) >= 0).all()


def test_users_come_from_the_users_file_if_there_is_one(tmp_path: Path) -> None:
    """Who never visits is a user too, and attributes are those of the users file."""
    users = write_csv(tmp_path / "users.csv", "user_id,age", "bob,30", "dan,", "ann,40", "cat,50")
    directory = Directory(as_parquet(tmp_path), users)
    assert directory.user_ids() == ["ann", "bob", "cat", "dan"]
    assert directory.attribute_names == ["age"]
    people = directory.people(("age",))
    assert people.visits.tolist() == [3, 1, 1, 0]
    assert people.attribute("age").labels == (None, 30, 40, 50)
    assert people.attribute("age").codes.tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize("kind", ["BIGINT", "VARCHAR"])
def test_ids_may_be_numbers_or_text(kind: str, tmp_path: Path) -> None:
    """Everybody stands in the order of ids as text."""
    rows = [(user, "2026-01-01T00:00:00Z") for user in (9, 10, 10, 100)]
    path = write_parquet(tmp_path / "v.parquet", (f"user_id {kind}", "ts TIMESTAMPTZ"), rows)
    directory = Directory(path)
    assert directory.user_ids() == ["10", "100", "9"]
    assert directory.people().visits.tolist() == [2, 1, 1]


def test_numbers_in_one_file_match_text_in_the_other(tmp_path: Path) -> None:
    rows = [(7, "2026-01-01T00:00:00Z")]
    visits = write_parquet(tmp_path / "v.parquet", ("user_id BIGINT", "ts TIMESTAMPTZ"), rows)
    users = write_parquet(tmp_path / "u.parquet", ("user_id VARCHAR",), [("7",), ("8",)])
    assert Directory(visits, users).people().visits.tolist() == [1, 0]


@pytest.mark.parametrize(
    "ids", [("007", "7"), ("1.10", "1.1"), ("1e3", "1000.0"), ("true", "TRUE"), ("5", "+5")]
)
def test_ids_in_a_csv_are_text_as_written(ids: tuple[str, str], tmp_path: Path) -> None:
    """Two ids that read as the same number are still two people."""
    lines = [f"{user},2026-01-01T00:00:00Z" for user in ids]
    path = write_csv(tmp_path / "v.csv", "user_id,ts", *lines)
    users = write_csv(tmp_path / "u.csv", "user_id,age", *(f"{user},30" for user in ids))
    assert Directory(path).user_ids() == sorted(ids)
    assert Directory(path, users).people().visits.tolist() == [1, 1]


def test_times_with_an_offset_are_that_moment(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "v.csv",
        "user_id,ts",
        "ann,2026-06-01T01:30:00+02:00",
        "bob,2026-06-01T01:30:00+00:00",
    )
    assert times(Directory(path)) == ["2026-05-31T23:30:00+00:00", "2026-06-01T01:30:00+00:00"]


def test_times_without_a_zone_are_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the machine."""
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    csv = write_csv(tmp_path / "v.csv", "user_id,ts", "ann,2026-06-01 01:30:00")
    rows = [("ann", "2026-06-01 01:30:00")]
    plain = write_parquet(tmp_path / "v.parquet", ("user_id VARCHAR", "ts TIMESTAMP"), rows)
    text = write_parquet(tmp_path / "t.parquet", ("user_id VARCHAR", "ts VARCHAR"), rows)
    for path in (csv, plain, text):
        assert times(Directory(path)) == ["2026-06-01T01:30:00+00:00"]


def test_windows_are_half_open_to_the_microsecond(tmp_path: Path) -> None:
    rows = [
        ("ann", "2026-01-01T23:59:59.999999Z"),
        ("bob", "2026-01-02T00:00:00Z"),
        ("cat", "2026-01-02T23:59:59.999999Z"),
        ("dan", "2026-01-03T00:00:00Z"),
    ]
    path = write_parquet(tmp_path / "v.parquet", ("user_id VARCHAR", "ts TIMESTAMPTZ"), rows)
    directory = Directory(path)
    start, end = at("2026-01-02T00:00:00+00:00"), at("2026-01-03T00:00:00+00:00")
    assert directory.visits(start, end).user.tolist() == [1, 2]
    assert directory.visits(start=start).user.tolist() == [1, 2, 3]
    assert directory.visits(end=start).user.tolist() == [0]
    assert directory.people(start=start, end=end).visits.tolist() == [0, 1, 1, 0]
    assert directory.people(end=end).visits.tolist() == [1, 1, 1, 0]
    elsewhere = timezone(timedelta(hours=13))
    assert directory.visits(start.astimezone(elsewhere), end).user.tolist() == [1, 2]
    tick = timedelta(microseconds=1)
    assert directory.visits(start - tick, start + tick).user.tolist() == [0, 1]


def test_naive_times_are_refused(tmp_path: Path) -> None:
    directory = Directory(as_parquet(tmp_path))
    naive = datetime(2026, 1, 1)
    with pytest.raises(
        KreachError, match=r"^start must have a time zone, got '2026-01-01T00:00:00"
    ):
        directory.visits(start=naive)
    with pytest.raises(KreachError, match=r"^end must have a time zone"):
        directory.people(end=naive)


def test_an_attribute_is_the_max_frequent_value_and_ties_go_to_the_first(tmp_path: Path) -> None:
    rows = [
        *[("ann", "2026-01-01T00:00:00Z", town) for town in ("York", "Bath", "York")],
        *[("bob", "2026-01-01T00:00:00Z", town) for town in ("York", "Bath")],
        *[("cat", "2026-01-01T00:00:00Z", town) for town in (None, "Ely")],
        *[("dan", "2026-01-01T00:00:00Z", town) for town in (None, None, "Ely")],
    ]
    forward = write_parquet(tmp_path / "f.parquet", VISITS, rows)
    backward = write_parquet(tmp_path / "b.parquet", VISITS, rows[::-1])
    for path in (forward, backward):
        town = Directory(path).people(("town",)).attribute("town")
        values = [town.labels[code] for code in town.codes.tolist()]
        assert values == ["York", "Bath", "Ely", None]


@pytest.mark.parametrize(
    "name",
    ["two words", 'a "quoted" one', "it's", "select", "id", "person", "n", "v", "at_us", "Ürümqi"],
)
def test_columns_may_have_any_name(name: str, tmp_path: Path) -> None:
    columns = ("user_id VARCHAR", "ts TIMESTAMPTZ", f"{name} VARCHAR")
    visits = write_parquet(tmp_path / "v.parquet", columns, ROWS)
    assert Directory(visits).people((name,)).attribute(name).codes.tolist() == [1, 2, 0]
    listed = [("ann", "x"), ("bob", "y"), ("cat", "x")]
    users = write_parquet(tmp_path / "u.parquet", ("user_id VARCHAR", f"{name} VARCHAR"), listed)
    plain = as_csv(tmp_path)
    assert Directory(plain, users).people((name,)).attribute(name).codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("folder", ["it's", "two words", "semi;colon --", "[1]", "star*"])
def test_paths_may_have_any_name(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()
    assert Directory(as_parquet(tmp_path / folder)).user_count == 3
    assert Directory(as_csv(tmp_path / folder)).user_count == 3
    assert Directory(as_folder(tmp_path / folder)).user_count == 3


def test_unknown_attributes_are_named(tmp_path: Path) -> None:
    directory = Directory(as_parquet(tmp_path))
    with pytest.raises(KreachError, match=r"attribute must be a column of the file \(town\).*tonw"):
        directory.people(("tonw",))
    with pytest.raises(KreachError, match=r"got 'user_id'"):
        directory.people(("user_id",))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    message = refused(tmp_path / ("a-deep-folder-" * 5) / "nowhere.parquet")
    assert message.startswith("visits must name a file that exists")
    assert "nowhere.parquet" in message
    assert refused(as_parquet(tmp_path), tmp_path / "no.csv").startswith("users must name a file")


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "v.parquet", "user_id,ts", "ann,2026-01-01")
    assert refused(path).startswith("visits must be a readable Parquet or CSV file")


def test_a_folder_without_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty").startswith("visits must hold Parquet files")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("")
    assert refused(tmp_path / "v.csv").startswith("visits must ")


@pytest.mark.parametrize(("kept", "missing"), [("user_id", "ts"), ("ts", "user_id")])
def test_a_missing_column_is_named(kept: str, missing: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "v.csv", f"{kept},town", "2026-01-01,Bath")
    assert refused(path).startswith(f"visits must have a column {missing}, got ")
    assert refused(path).endswith("; rename the column that holds it")
    path = write_csv(tmp_path / "v.csv", f"{kept},{missing.title().replace('_', ' ')}", "a,b")
    assert refused(path).endswith(f"; rename '{missing.title().replace('_', ' ')}' to {missing}")


def test_missing_ids_and_times_are_counted(tmp_path: Path) -> None:
    names = ("user_id VARCHAR", "ts TIMESTAMPTZ")
    rows = [("ann", "2026-01-01T00:00:00Z"), (None, "2026-01-01T00:00:00Z"), ("bob", None)]
    message = refused(write_parquet(tmp_path / "v.parquet", names, rows))
    assert message == "visits.user_id must not be missing, got 1 rows without; leave these rows out"
    message = refused(write_parquet(tmp_path / "v.parquet", names, [rows[0], rows[2]]))
    assert message == "visits.ts must not be missing, got 1 rows without; leave these rows out"
    users = write_csv(tmp_path / "u.csv", "user_id,age", "ann,1", ",2")
    message = refused(as_parquet(tmp_path), users)
    assert message == "users.user_id must not be missing, got 1 rows without; leave these rows out"


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01T00:00:00Z", "12"])
def test_text_that_is_no_time_is_refused(text: str, tmp_path: Path) -> None:
    rows = [("ann", "2026-01-01T00:00:00Z"), ("bob", text)]
    path = write_parquet(tmp_path / "v.parquet", ("user_id VARCHAR", "ts VARCHAR"), rows)
    assert refused(path).startswith("visits.ts must be times like 2026-11-01T12:30:00Z")


def test_a_time_beyond_all_times_is_refused(tmp_path: Path) -> None:
    rows = [("ann", "2026-01-01T00:00:00Z"), ("bob", "infinity")]
    path = write_parquet(tmp_path / "v.parquet", ("user_id VARCHAR", "ts TIMESTAMPTZ"), rows)
    assert refused(path).startswith("visits.ts must ")


def test_numbers_are_no_times(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "v.parquet", ("user_id VARCHAR", "ts BIGINT"), [("ann", 5)])
    assert refused(path).startswith("visits.ts must be times")


def test_repeated_users_are_counted(tmp_path: Path) -> None:
    users = write_csv(tmp_path / "u.csv", "user_id,age", "ann,1", "bob,2", "ann,3", "cat,4")
    message = refused(as_parquet(tmp_path), users)
    assert message == "users.user_id must be unique, got 1 duplicate rows"


def test_visits_of_strangers_are_counted(tmp_path: Path) -> None:
    users = write_csv(tmp_path / "u.csv", "user_id,age", "ann,1")
    message = refused(as_parquet(tmp_path), users)
    assert message == (
        "visits must contain only users of the users file, got 2 other users"
        "; add them to the users file, or leave their visits out"
    )


def test_a_column_that_changes_its_type_halfway_is_refused_without_showing_rows(
    tmp_path: Path,
) -> None:
    """The engine guesses types from the first rows; its complaint would print the row."""
    lines = [f"SECRET-{i},2026-01-01T00:00:00Z,{i}" for i in range(25_000)]
    lines.append("SECRET-last,2026-01-01T00:00:00Z,old")
    path = write_csv(tmp_path / "v.csv", "user_id,ts,age", *lines)
    said = complaint(lambda: Directory(path).people(("age",)))
    assert "SECRET" not in said
    assert not said or "age" in said


@pytest.mark.parametrize("bad", ["SECRET-1,2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z,SECRET-1"])
def test_refusals_do_not_show_ids(bad: str, tmp_path: Path) -> None:
    """Swapped columns, or a row too short: the id stays in the file."""
    lines = [f"SECRET-{i},2026-01-01T00:00:00Z,Bath" for i in range(3)]
    path = write_csv(tmp_path / "v.csv", "user_id,ts,town", *lines, bad + ",York")
    assert "SECRET" not in complaint(lambda: Directory(path))


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    """The footer is whole, the pages are not."""
    rows = [(f"user {i}", "2026-01-01T00:00:00Z", f"town {i}") for i in range(300)]
    path = write_parquet(tmp_path / "v.parquet", VISITS, rows)
    content = bytearray(path.read_bytes())
    content[4:1500] = bytes(1496)
    path.write_bytes(content)
    with pytest.raises(KreachError, match=r"^visits"):
        Directory(path).people(("town",))


def test_a_file_of_no_visits_is_a_directory_of_nobody(tmp_path: Path) -> None:
    directory = Directory(write_parquet(tmp_path / "v.parquet", VISITS, []))
    assert directory.user_count == 0
    assert directory.people(("town",)).count == 0
    assert len(directory.visits()) == 0
