"""Pages of the reference say what the code says now."""

import re
from functools import cache

import pytest
from tools.reference.__main__ import pages
from tools.reference.commands import command_tree, commands

import kreach
from tests.docs.test_docs import ROOT

REFERENCE = ROOT / "docs" / "reference"
written = cache(pages)  # not when tests are collected: every worker does that


@pytest.mark.parametrize("name", sorted(path.name for path in REFERENCE.iterdir()))
def test_no_page_is_stale(name: str) -> None:
    kept = (REFERENCE / name).read_text(encoding="utf-8")
    assert kept == written()[name], "run `python -m tools.reference`"


def test_there_is_no_page_that_nothing_makes() -> None:
    assert {path.name for path in REFERENCE.iterdir()} == set(written())


def test_every_public_name_is_there_with_an_example() -> None:
    entries = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", written()["python.md"], re.M | re.S))
    assert set(entries) == set(kreach.__all__) - {"__version__"}
    assert not [name for name, text in entries.items() if ">>>" not in text]


def test_every_command_is_there_with_all_its_options() -> None:
    for path, command in commands(command_tree()):
        section = written()["commands.md"].split(f"## {' '.join(path)}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            name = (
                parameter.opts[0]
                if parameter.param_type_name == "option"
                else (parameter.metavar or parameter.name).upper()
            )
            assert f"`{name}" in section


def test_every_call_is_there() -> None:
    for call in ("POST /v1/campaigns", "GET /v1/campaigns/{campaign}/reach", "GET /healthz"):
        assert f"## {call}\n" in written()["http.md"]


def test_the_attack_table_is_that_of_disclosure() -> None:
    def table(name: str) -> list[str]:
        lines = (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines()
        first = lines.index("| attack | open | guard | guard and noise |")
        return lines[first : lines.index("", first)]

    assert table("security.md") == table("disclosure.md")
