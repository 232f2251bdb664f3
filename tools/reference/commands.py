"""Every command of `kreach`, with its help and its options."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from kreach.cli.app import app
from tools.reference import MADE, table_cell

__all__ = ["command_tree", "commands", "commands_page"]

_KINDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def command_tree() -> Any:
    """The command line as click knows it."""
    return typer.main.get_command(app)


def commands_page() -> str:
    """Every command with its help and its options."""
    parts = [
        "# Command line",
        MADE,
        "Every command takes `--help`. Exit codes: 0 done, 1 bad input (one line on standard"
        " error), 2 wrong usage.",
    ]
    for path, command in commands(command_tree()):
        kinds = _kinds(command)
        needed = [_usage(p, kinds[p.name]) for p in command.params if p.required]
        usage = " ".join([*path, *needed, "[OPTIONS]"])
        parts += [
            f"## {' '.join(path)}",
            f"```text\n{usage}\n```",
            inspect.cleandoc(command.help or ""),
        ]
        parts.append(_options(command))
    return "\n\n".join(part.rstrip() for part in parts if part.strip()) + "\n"


def commands(root: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command that does something, with the words that call it."""
    path = (*before, root.name or "kreach")
    children = getattr(root, "commands", None)
    if children is None:
        yield path, root
        return
    for name in sorted(children):
        yield from commands(children[name], *path)


def _usage(parameter: Any, kind: str) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).upper()
    return f"{parameter.opts[0]} {kind}".rstrip()


def _kinds(command: Any) -> dict[str, str]:
    """What each parameter takes, by the annotations of the function behind the command."""
    kinds = {}
    for name, hint in get_type_hints(command.callback).items():
        inner = [one for one in get_args(hint) if one is not type(None)] or [hint]
        while get_args(inner[0]):  # a list, or a list or None
            inner = list(get_args(inner[0]))
        kinds[name] = _KINDS.get(inner[0], "")
    return kinds


def _options(command: Any) -> str:
    rows = ["| option | | default |", "|---|---|---|"]
    kinds = _kinds(command)
    for parameter in command.params:
        kind = kinds.get(parameter.name, "")
        shown = f"`{', '.join([*parameter.opts, *parameter.secondary_opts])}` {kind}"
        if parameter.param_type_name == "argument":
            shown = f"`{_usage(parameter, kind)}`"
        rows.append(f"| {shown} | {table_cell(parameter.help or '')} | {_default(parameter)} |")
    return "\n".join(rows) if len(rows) > 2 else ""


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or default in ("", (), []) or callable(default):
        return ""
    return f"`{default}`"
