"""What a study hands over: files that are complete, the same every time, and safe to open."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kreach.errors import KreachError
from kreach.lab.exhibits import Exhibit, check_folder, new_figure, write_study

NASTY = '<script>alert("x")</script> & more'


def figure() -> Any:
    drawn, axes = new_figure(3.0, 2.0)
    axes.plot([1, 2, 3], [1, 4, 9], label="line")
    axes.legend()
    return drawn


def exhibit(name: str = "one", **changed: Any) -> Exhibit:
    fields: dict[str, Any] = {
        "name": name,
        "title": "A title",
        "paper_finding": "The paper found it.",
        "our_finding": "We found it too.",
        "difference": "",
        "setting": {"groups of": 20},
        "numbers": {"uniform": 0.87654321, "other": {"not": "single"}},
        "rows": [{"a": 1, "b": 0.1 + 0.2}, {"a": 2, "c": "x,y"}],
        "paper": {"uniform": 0.8695},
    }
    return Exhibit(**(fields | changed))


def test_all_files_are_written(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "study"
    shown = [exhibit(figure=figure()), exhibit("two")]
    write_study(out, "Study", shown, {"b": 1, "a": [0.5]}, ["Do this."])
    assert {path.name for path in out.iterdir()} == {
        *("summary.json", "report.html", "one.csv", "one.png", "one.svg", "two.csv"),
    }
    assert json.loads((out / "summary.json").read_text()) == {"a": [0.5], "b": 1}
    assert (out / "one.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "one.svg").read_text()


def test_rows_come_back_to_the_last_digit(tmp_path: Path) -> None:
    write_study(tmp_path, "Study", [exhibit()], {})
    with (tmp_path / "one.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["a"] for row in rows] == ["1", "2"]
    assert float(rows[0]["b"]) == 0.1 + 0.2
    assert (rows[1]["b"], rows[1]["c"]) == ("", "x,y")


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """One file to send around: no scripts, style sheets, fonts or pictures of other places."""
    write_study(tmp_path, "Study", [exhibit(figure=figure())], {}, ["Do this."])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    references = re.findall(r"(?:src|href)\s*=\s*[\"']?([^\"'>\s]+)", page)
    assert references
    assert all(reference.startswith("data:image/png;base64,") for reference in references)
    without_pictures = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page)
    assert "://" not in without_pictures
    assert not re.search(r"<(script|link|iframe|object)\b|@import|url\(", without_pictures)
    assert page.startswith("<!doctype html>")
    assert page.count("<h2>") == 1
    for text in ("Do this.", "The paper found it.", "We found it too.", "0.8695", "0.8765"):
        assert text in page
    assert "Difference" not in page  # nothing to say there


def test_whatever_logs_hold_is_text(tmp_path: Path) -> None:
    """Column names and campaigns come from files of others."""
    nasty = exhibit(
        title=NASTY,
        paper_finding=NASTY,
        our_finding=NASTY,
        difference=NASTY,
        setting={NASTY: NASTY},
        numbers={NASTY: 1.0},
        paper={NASTY: NASTY},
        rows=[{NASTY: NASTY}],
        figure=figure(),
    )
    write_study(tmp_path, NASTY, [nasty], {NASTY: NASTY}, [NASTY])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 11
    assert '"x"' not in page
    assert json.loads((tmp_path / "summary.json").read_text()) == {NASTY: NASTY}


def test_many_rows_are_shortened_on_the_page_only(tmp_path: Path) -> None:
    rows = [{"number": at} for at in range(1_234)]
    write_study(tmp_path, "Study", [exhibit(rows=rows)], {})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the first 40 of 1,234" in page
    assert page.count("<tr>") < 60
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 1_235


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    written = []
    for name in ("first", "second"):
        write_study(tmp_path / name, "Study", [exhibit(figure=figure())], {"x": 1.0}, ["Do."])
        files = sorted((tmp_path / name).iterdir())
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] == written[1]


def test_an_exhibit_without_rows(tmp_path: Path) -> None:
    write_study(tmp_path, "Study", [exhibit(rows=[], numbers={}, paper={})], {})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<table" not in page
    assert "note" not in page.partition("<body>")[2]


def test_numbers_beside_the_papers() -> None:
    found = exhibit().summary()
    assert found["paper"] == {"uniform": 0.8695}
    assert found["ours"]["uniform"] == 0.87654321
    assert found["setting"] == {"groups of": 20}


def test_several_axes() -> None:
    _, single = new_figure()
    assert not isinstance(single, list)
    _, axes = new_figure(columns=3)
    assert len(axes) == 3


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(KreachError, match=r"^out must be a folder"):
            check_folder(out)
    assert check_folder(tmp_path / "a" / "b").is_dir()
    assert check_folder(tmp_path / "a" / "b").is_dir()
