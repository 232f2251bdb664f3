"""The command itself: help, version, exit codes, and how quickly it must answer."""

import pytest

import kreach
from tests.cli.command import kreach as run
from tests.cli.command import kreach_process

HEAVY = ("numpy", "scipy", "duckdb")
CHECK = f"import sys; print('HEAVY', *(m for m in {HEAVY!r} if m in sys.modules), file=sys.stderr)"


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("groups", "build", "-h")])
def test_help_and_version_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    result = kreach_process(*arguments, after=CHECK)
    assert result.code == 0
    assert result.err.strip() == "HEAVY"


def test_that_check_sees_what_is_loaded() -> None:
    result = kreach_process("--help", before="import numpy", after=CHECK)
    assert result.err.strip() == "HEAVY numpy"


def test_the_version_is_the_packages() -> None:
    result = run("--version")
    assert (result.code, result.out, result.err) == (0, f"kreach {kreach.__version__}\n", "")


def test_help_lists_the_commands() -> None:
    result = run("--help")
    assert result.code == 0
    assert all(word in result.out for word in ("demo", "groups", "--version"))
    groups = run("groups", "--help")
    assert all(word in groups.out for word in ("build", "audit"))


@pytest.mark.parametrize("command", [("demo",), ("groups", "build"), ("groups", "audit")])
def test_every_command_has_help_an_example_and_json(command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.code == 0
    assert "--json" in result.out
    assert f"kreach {' '.join(command)}" in " ".join(result.out.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("--nonsense",),
        ("demo", "--nonsense"),
        ("demo", "--cap", "many"),
        ("demo", "--cap", "0"),
        ("groups", "nonsense"),
        ("groups", "build"),
        ("groups", "build", "--visits", "v.csv", "--group-size", "x", "--out", "o"),
        ("groups", "audit"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert "--help`)" in result.err


def test_no_command_shows_the_help() -> None:
    result = run()
    assert "Usage" in result.out + result.err
    assert "groups" in result.out + result.err
