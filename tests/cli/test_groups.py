"""`kreach groups`: documents, exit codes, one-line errors, and nothing half-written."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Result, kreach, kreach_process, write_visits


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_visits(tmp_path_factory.mktemp("visits") / "visits.csv")


@pytest.fixture(scope="module")
def built(visits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("builds") / "out"
    result = build(visits, out, "--strategy", "segments", "--segments", "town", "--keep", "device")
    assert result.code == 0, result.err
    return out


def build(visits: Path, out: Path, *further: str, k: int = 20) -> Result:
    arguments = ("groups", "build", "--visits", str(visits), "--group-size", str(k))
    return kreach(*arguments, "--out", str(out), *further)


def one_line(result: Result) -> str:
    """The complaint of a command that failed as promised."""
    assert result.code == 1
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("kreach: ")
    return result.err[len("kreach: ") : -1]


def test_build_prints_one_document(visits: Path, tmp_path: Path) -> None:
    result = build(visits, tmp_path / "out", "--segments", "town", "--json", "--seed", "3")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    facts: dict[str, Any] = json.loads(result.out)
    assert set(facts) >= {
        *("version", "strategy", "group_size", "people", "visits", "groups", "smallest_group"),
        *("largest_group", "seed", "buyer", "knowledge", "dispersion", "coverage", "warnings"),
    }
    assert (facts["people"], facts["groups"], facts["group_size"]) == (200, 10, 20)
    assert (facts["strategy"], facts["seed"]) == ("random", 3)
    stored = json.loads((tmp_path / "out" / "publisher" / "build.json").read_text())
    assert stored == facts


def test_build_for_people_names_both_halves(visits: Path, tmp_path: Path) -> None:
    result = build(visits, tmp_path / "out", "--segments", "town")
    assert (result.code, result.err) == (0, "")
    assert "10 groups of 20 to 20 people (200 in all, random)" in result.out
    assert str(tmp_path / "out" / "release") in result.out
    assert "coverage (town)" in result.out


def test_k_1_is_warned_about(visits: Path, tmp_path: Path) -> None:
    shown = build(visits, tmp_path / "one", k=1)
    assert shown.code == 0
    assert "THIS IS NO ANONYMITY" in shown.out
    document = json.loads(build(visits, tmp_path / "two", "--json", k=1).out)
    assert any("NO ANONYMITY" in warning for warning in document["warnings"])
    examined = kreach("groups", "audit", str(tmp_path / "one"))
    assert examined.code == 1
    assert "this is no anonymity" in examined.out


def test_audit_prints_one_document(built: Path) -> None:
    result = kreach(
        "groups", "audit", str(built), "--segments", "town", "--sensitive", "device", "--json"
    )
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    document: dict[str, Any] = json.loads(result.out)
    assert set(document) == {
        *("verdict", "safe", "people", "groups", "group_size", "strategy", "sizes", "effective"),
        *("groups_below_effective_floor", "columns", "segments", "linkage", "intersection"),
        *("findings", "visit_model", "seed", "subject", "diversity_floors", "not_examined"),
        *("assumptions", "visible", "past"),
    }
    assert document["safe"] is True
    assert document["verdict"].startswith("This catalogue may be released")
    assert [view["segment"] for view in document["segments"]] == ["town=A", "town=B", "town=C"]
    assert [link["method"] for link in document["linkage"]] == [
        "formed anew each version",
        "sticky, newcomers fill gaps",
        "sticky",
    ]
    assert {finding["level"] for finding in document["findings"]} <= {"ok", "warning"}


def test_audit_for_people_shows_the_findings_and_tables(built: Path) -> None:
    result = kreach("groups", "audit", str(built), "--segments", "town", "--sensitive", "device")
    assert (result.code, result.err) == (0, "")
    for words in ("200 people in", "singled out by linking versions", "town=A", "device", "ok"):
        assert words in result.out


def test_audit_writes_a_page(built: Path, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    assert kreach("groups", "audit", str(built), "--html", str(page)).code == 0
    version = json.loads((built / "publisher" / "build.json").read_text())["version"]
    assert f"<h1>Audit of catalogue {version}</h1>" in page.read_text()


@pytest.mark.parametrize("as_json", [False, True])
def test_unsafe_groups_are_exit_code_1_and_still_shown(
    as_json: bool, visits: Path, tmp_path: Path
) -> None:
    build(visits, tmp_path / "out", k=1)
    page = tmp_path / "audit.html"
    further = ("--json",) if as_json else ()
    result = kreach("groups", "audit", str(tmp_path / "out"), "--html", str(page), *further)
    assert (result.code, result.err) == (1, "")
    assert page.exists()
    if as_json:
        levels = [finding["level"] for finding in json.loads(result.out)["findings"]]
        assert "danger" in levels


@pytest.mark.parametrize(
    ("further", "said"),
    [
        (("--strategy", "best"), "strategy must be one of random, attributes, segments"),
        (("--strategy", "attributes"), "attributes must name at least one column to group by"),
        (("--strategy", "segments"), "must name at least one targeting attribute"),
        (("--segments", "religion"), "attribute must be a column of the file (town, device)"),
        (("--history-end", "soon"), "history-end must be a time such as 2026-11-01T00:00:00Z"),
        (("--knowledge", "all"), "knowledge must be one of none, dispersion, model, shares"),
        (("--seed", "-1"), "seed must be a whole number from 0"),
        (("--effective-floor", "0"), "effective_anonymity must be a number ≥ 1"),
        (("--effective-floor", "25"), "release refused: 10 groups are worth fewer than 25"),
        (("--class-floor", "0"), "membership_class must be a whole number from 1"),
        (("--strategy", "overlapping", "--knowledge", "shares"), "knowledge must not be shares"),
        (("--strategy", "overlapping", "--partitions", "0"), "partitions must be at least 1"),
        (("--users", "no-such-file.csv"), "users must name a file that exists"),
        (("--group-size", "0"), "group_size must be a whole number from 1"),
        (("--group-size", "201"), "people must be at least group_size (201) people, got 200"),
        (("--history-end", "2020-01-01", "--strategy", "rates"), "visits must span some time"),
    ],
)
def test_a_build_that_is_refused_says_why_in_one_line_and_leaves_nothing(
    further: tuple[str, ...], said: str, visits: Path, tmp_path: Path
) -> None:
    assert said in one_line(build(visits, tmp_path / "out", *further))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_visits_file_is_one_line(tmp_path: Path) -> None:
    assert "visits must name a file" in one_line(build(tmp_path / "no.csv", tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused(visits: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep me")
    assert "out must be a new or empty folder" in one_line(build(visits, tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize("place", ["file/out", "file/deeper/out"])
def test_a_place_that_cannot_be_written_is_one_line(
    place: str, visits: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert "out" in one_line(build(visits, tmp_path / place))


def test_the_folder_one_stands_in_can_be_used(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result = build(visits, Path("."))
    assert (result.code, result.err) == (0, "")
    assert (tmp_path / "here" / "release" / "groups.parquet").exists()


def test_a_refused_build_leaves_no_folder_above_it(visits: Path, tmp_path: Path) -> None:
    one_line(build(visits, tmp_path / "new" / "deeper" / "out", "--knowledge", "all"))
    assert list(tmp_path.iterdir()) == []


def test_an_audit_of_something_else_is_one_line(built: Path, tmp_path: Path) -> None:
    complaint = one_line(kreach("groups", "audit", str(tmp_path)))
    assert "folder must be a folder made by `kreach groups build`" in complaint
    unknown = kreach("groups", "audit", str(built), "--segments", "religion")
    assert "attribute must be one of those loaded (device, town)" in one_line(unknown)
    much = kreach("groups", "audit", str(built), "--churn", "1.5")
    assert "churn must lie between 0 and 1" in one_line(much)


def test_a_page_that_cannot_be_written_is_one_line(built: Path, tmp_path: Path) -> None:
    result = kreach("groups", "audit", str(built), "--html", str(tmp_path / "no" / "page.html"))
    assert "html" in one_line(result)


def test_a_full_disk_is_one_line_and_leaves_nothing(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kreach.publisher.store._write_people", full)
    said = one_line(build(visits, tmp_path / "out"))
    assert "No space left on device" in said
    assert "None" not in said
    assert list(tmp_path.iterdir()) == []


def test_the_process_itself_keeps_the_promises(visits: Path, tmp_path: Path) -> None:
    """The same as above through the interpreter: streams, exit code, no traceback."""
    arguments = ("groups", "build", "--visits", str(visits), "--out", str(tmp_path / "out"))
    refused = kreach_process(*arguments, "--group-size", "201")
    assert refused.code == 1
    assert refused.out == ""
    assert refused.err == "kreach: people must be at least group_size (201) people, got 200\n"
    made = kreach_process(*arguments, "--group-size", "20", "--json")
    assert (made.code, made.err) == (0, "")
    assert json.loads(made.out)["groups"] == 10
