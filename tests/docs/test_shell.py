"""Every shell command of the documentation exists as it is written, and the cheap ones run."""

import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tools.reference.commands import command_tree

from tests.cli.command import kreach
from tests.docs.shell import NOT_RUN, RUN, Command, reason_not_to_run, shell_commands
from tests.docs.test_docs import ROOT

COMMANDS = shell_commands()
OURS = [one for one in COMMANDS if one.words[0] in {"kreach", "venv/bin/kreach"}]
TUTORIAL = "docs/tutorial.md"  # run in its order by test_tutorial.py
CHEAP = [
    one
    for one in OURS
    if one.page != TUTORIAL and re.search(RUN, one.text) and reason_not_to_run(one.text) is None
]


def command_id(one: Command) -> str:
    return f"{one.page}: {one.text[:60]}"


def resolved(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words call, and the words that are left for it."""
    command, left = command_tree(), list(words)
    while getattr(command, "commands", None) and left and left[0] in command.commands:
        command = command.commands[left.pop(0)]
    return command, left


def test_pages_show_commands() -> None:
    assert len(OURS) > 20
    assert {one.page for one in OURS} >= {"README.md", TUTORIAL, "docs/services.md"}


@pytest.mark.parametrize("one", OURS, ids=command_id)
def test_command_and_flags_exist(one: Command) -> None:
    command, left = resolved(one.words[1:])
    if left[:1] == ["--version"]:
        return
    assert not getattr(command, "commands", None), f"no such command: {one.text}"
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    used = {word.split("=")[0].strip("[]") for word in left if re.match(r"\[?-", word)}
    assert used <= known | {"--help", "-h"}


@pytest.mark.parametrize("one", OURS, ids=command_id)
def test_arguments_are_of_the_right_kind(one: Command) -> None:
    command, left = resolved(one.words[1:])
    if "[" in one.text or left[:1] == ["--version"]:
        return  # a synopsis stands for several commands
    if ">" in left:
        left = left[: left.index(">")]
    command.make_context("kreach", left)  # parses and checks; raises what a user would see


def test_every_other_command_has_a_reason_not_to_run() -> None:
    others = [one for one in COMMANDS if one not in CHEAP and one.page != TUTORIAL]
    assert not [one.text for one in others if reason_not_to_run(one.text) is None]


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_every_reason_is_needed(pattern: str) -> None:
    assert any(re.search(pattern, one.text) for one in COMMANDS)


@pytest.mark.parametrize("reason", sorted(set(NOT_RUN.values())))
def test_tests_that_a_reason_names_exist(reason: str) -> None:
    for path in re.findall(r"tests/[\w/]+(?:\.py)?", reason):
        assert (ROOT / path).exists()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pages name: visits, prices, settings, a release, a key, a log."""
    folder = tmp_path_factory.mktemp("shell")
    shutil.copytree(ROOT / "examples", folder / "examples")
    for settings in ("kreach.toml", "publisher.toml"):
        shutil.copy(ROOT / "examples" / settings, folder)
    (folder / "prices.csv").write_text("market_price,count\n0.5,3\n1.0,5\n2.0,2\n")
    duckdb.execute(
        "select setseed(0.5); copy (select 'user-' || (i % 400) as user_id,"
        " timestamptz '2026-10-01 00:00:00+00' + to_seconds(i * 600) as ts,"
        " ['at', 'be', 'ch'][1 + i % 400 % 3] as country, ['x', 'y'][1 + i % 400 % 2] as device,"
        " ['A', 'B'][1 + i % 400 % 2] as town, i % 400 % 7 = 0 as illness"
        f" from range(3000) r(i)) to '{folder / 'visits.parquet'}' (format parquet)"
    )
    duckdb.execute(
        f"copy (select user_id, ts from '{folder / 'visits.parquet'}')"
        f" to '{folder / 'visits.csv'}' (format csv, header)"
    )
    duckdb.execute(
        "copy (select 'user-' || i as user_id, ['US', 'CA'][1 + i % 2] as country,"
        " case when i % 3 = 0 then 'paid' end as plan, 10000 + i % 5 as zip"
        f" from range(400) r(i)) to '{folder / 'users.csv'}' (format csv, header)"
    )
    built = kreach(
        *("groups", "build", "--visits", str(folder / "visits.parquet"), "--group-size", "20"),
        *("--segments", "country,device,town", "--strategy", "segments", "--sensitive", "illness"),
        *("--out", str(folder / "groups")),
    )
    assert built.code == 0, built.err
    shutil.copy(folder / "groups" / "release" / "groups.parquet", folder)
    shutil.copytree(folder / "groups", folder / "examples" / "groups")
    key = kreach("keys", "add", "--config", str(folder / "kreach.toml"), "--role", "operator")
    assert key.code == 0, key.err
    (folder / "log").mkdir()
    duckdb.execute(
        "copy (select ['spring', 'summer'][1 + i % 2] as campaign, \"group\","
        " timestamptz '2026-11-01 12:00:00+00' + to_hours(i) as ts"
        f" from '{folder / 'groups.parquet'}', range(5) r(i))"
        f" to '{folder / 'log' / 'part.parquet'}' (format parquet)"
    )
    return folder


@pytest.mark.parametrize("one", CHEAP, ids=command_id)
def test_cheap_commands_run(
    one: Command, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    words = one.words[1:]
    if ">" in words:
        words = words[: words.index(">")]
    if words[0] == "plan":  # the same plan of a shorter flight
        words[words.index("--requests") + 1] = "500"
        words += [] if "--budget" in words else ["--budget", "100"]
    if words[:2] == ["groups", "build"]:
        words[words.index("--out") + 1] = str(tmp_path / "built")
    done = kreach(*words)
    assert done.code == 0, done.err
    assert done.out
