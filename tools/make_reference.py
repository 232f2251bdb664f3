"""Write docs/reference/: public names, commands and the HTTP schema, from what the code says.

    python tools/make_reference.py            # write the pages
    python tools/make_reference.py --check    # end with 1 if a page is stale

Signatures are read from the source, so that pages do not depend on the version of Python.
"""

import argparse
import ast
import inspect
import json
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

import kreach

__all__ = ["main", "pages"]

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
_MADE = "<!-- Written by tools/make_reference.py: change the code, then run `make docs`. -->\n"

_KINDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def main() -> None:
    """Write the pages, or tell which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if stale")
    check = parser.parse_args().check
    stale = []
    for name, text in pages().items():
        path = FOLDER / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{'stale' if check else 'written'}: {', '.join(stale)}")
    sys.exit(1 if stale and check else 0)


def pages() -> dict[str, str]:
    """Every page by its name."""
    schema = openapi()
    return {
        "python.md": python_page(),
        "commands.md": commands_page(),
        "http.md": http_page(schema),
        "openapi.json": json.dumps(schema, indent=1, ensure_ascii=False) + "\n",
    }


# -- Python -------------------------------------------------------------------------------------


def python_page() -> str:
    """The names of `kreach.__all__`: classes with their methods, then functions."""
    names = [name for name in kreach.__all__ if name not in {"__version__", "baselines"}]
    classes = [name for name in names if inspect.isclass(getattr(kreach, name))]
    functions = [name for name in names if name not in classes]
    parts = [
        "# Python",
        _MADE,
        "`import kreach as kr`; every name below is an attribute of `kr`. Names are imported when first"
        " used, so the import itself is quick. Bad input raises `kr.KreachError`, a `ValueError`.",
        "## Functions",
        *(_entry(name) for name in functions),
        "## Classes",
        *(_entry(name) for name in classes),
        "## Modules",
        _module_entry("baselines"),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _entry(name: str) -> str:
    value = getattr(kreach, name)
    node = _node(value)
    lines = [f"### {name}", f"```text\n{_heading(node, name)}\n```"]
    lines.append(_prose(inspect.getdoc(value) or ""))
    if isinstance(node, ast.ClassDef):
        lines += _members(value)
    return "\n\n".join(lines)


def _module_entry(name: str) -> str:
    module = getattr(kreach, name)
    parts = [f"### {name}", _prose(inspect.getdoc(module) or "")]
    for member in sorted(module.__all__):
        value = getattr(module, member)
        parts += [
            f"```text\n{_heading(_node(value), member)}\n```",
            _prose(inspect.getdoc(value) or ""),
        ]
    return "\n\n".join(parts)


def _node(value: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _heading(node: Any, name: str) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {name}({_class_arguments(node)})"
    return _call(node, name)


def _call(node: Any, name: str, *, bound: bool = False) -> str:
    arguments = node.args
    if bound:
        first = arguments.posonlyargs or arguments.args
        first.pop(0)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{name}({ast.unparse(arguments)}){returns}"


def _class_arguments(node: ast.ClassDef) -> str:
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and child.name == "__init__":
            child.args.args.pop(0)
            return ast.unparse(child.args)
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        fields = [child for child in node.body if isinstance(child, ast.AnnAssign)]
        return ", ".join(ast.unparse(field) for field in fields)
    return ""


def _members(cls: type) -> list[str]:
    """Public methods and properties with a docstring, in the order of the source."""
    found: dict[str, str] = {}
    for owner in cls.__mro__:
        if not owner.__module__.startswith("kreach"):
            continue
        for child in _node(owner).body:
            if isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
                found.setdefault(child.name, _member(child))
    return [text for text in found.values() if text]


def _member(node: ast.FunctionDef) -> str:
    text = ast.get_docstring(node)
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if text is None or any(name.endswith(".setter") for name in decorators):
        return ""
    if decorators & {"property", "cached_property", "functools.cached_property"}:
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        head = f".{node.name}{returns}"
    else:
        head = "." + _call(node, node.name, bound="staticmethod" not in decorators)
    return f"```text\n{head}\n```\n\n{_prose(text)}"


def _prose(text: str) -> str:
    """A docstring as Markdown: sessions and indented blocks are fenced, the rest is prose."""
    return "\n\n".join(_fenced(block) for block in _blocks(text))


def _blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    session = False
    for line in inspect.cleandoc(text).splitlines():
        begins = line.startswith(">>>")
        if begins and not session and block:
            yield "\n".join(block)
            block = []
        session = begins or (session and bool(line))
        if line:
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []
    if block:
        yield "\n".join(block)


def _fenced(block: str) -> str:
    if block.startswith(">>>"):
        return f"```pycon\n{block}\n```"
    if block.startswith("    "):
        return f"```text\n{textwrap.dedent(block)}\n```"
    return block.replace("|", r"\|") if block.lstrip().startswith("|") else block


# -- the command line ---------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its help and its options."""
    from kreach.cli.app import app  # noqa: PLC0415 - slow

    root = typer.main.get_command(app)
    parts = [
        "# Command line",
        _MADE,
        "Every command takes `--help`. Exit codes: 0 done, 1 bad input (one line on standard error),"
        " 2 wrong usage.",
    ]
    for path, command in commands(root):
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
        rows.append(f"| {shown} | {_cell(parameter.help or '')} | {_default(parameter)} |")
    return "\n".join(rows) if len(rows) > 2 else ""


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or default in ("", (), []) or callable(default):
        return ""
    return f"`{default}`"


# -- HTTP ---------------------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """The schema that reporting serves as /openapi.json."""
    from kreach.adsystem.reporting.app import reporting_app  # noqa: PLC0415 - slow
    from kreach.adsystem.settings import AdSystemSettings, ReportingSettings  # noqa: PLC0415
    from kreach.boundary.catalogue import Catalogue  # noqa: PLC0415
    from kreach.boundary.files import write_catalogue  # noqa: PLC0415
    from kreach.service.logs import Log  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        moment = datetime(2026, 10, 1, tzinfo=UTC)
        write_catalogue(Catalogue("v1", moment, 20, ("a",), [20]), folder / "v1")
        shared = AdSystemSettings(store=folder / "store", catalogues=(folder / "v1",))
        quiet = Log("reporting", write=lambda line: None)
        schema: dict[str, Any] = reporting_app(shared, ReportingSettings(), quiet).openapi()
    return schema


def http_page(schema: dict[str, Any]) -> str:
    """The calls of reporting, from its schema; where to read about the others."""
    parts = [
        "# HTTP",
        _MADE,
        "These are the calls of [reporting](../reporting.md), from the schema that it serves as"
        " `/openapi.json`; [openapi.json](openapi.json) is a copy. The [bidder](../bidder.md) speaks"
        " OpenRTB 2.6 and the [gateway](../gateway.md) has three calls; their pages describe them.",
    ]
    for path, calls in schema["paths"].items():
        for method, call in calls.items():
            parts += [f"## {method.upper()} {path}", call.get("summary", "")]
            parts.append(inspect.cleandoc(call.get("description", "")))
            parts.append(_parameters(call))
            parts.append(_answers(call))
    for name, model in schema.get("components", {}).get("schemas", {}).items():
        parts += [f"## {name}", inspect.cleandoc(model.get("description", "")), _fields(model)]
    return "\n\n".join(part.rstrip() for part in parts if part.strip()) + "\n"


def _parameters(call: dict[str, Any]) -> str:
    rows = ["| parameter | in | type | |", "|---|---|---|---|"]
    for one in call.get("parameters", ()):
        text = one.get("description", one["schema"].get("description", ""))
        needed = " (required)" if one.get("required") else ""
        rows.append(
            f"| `{one['name']}`{needed} | {one['in']} | {_type(one['schema'])} | {_cell(text)} |"
        )
    for body in call.get("requestBody", {}).get("content", {}).values():
        rows.append(f"| body (required) | | {_type(body['schema'])} | |")
    return "\n".join(rows) if len(rows) > 2 else ""


def _answers(call: dict[str, Any]) -> str:
    rows = ["| status | | answer |", "|---|---|---|"]
    for status, answer in sorted(call["responses"].items()):
        kinds = [_type(body.get("schema", {})) for body in answer.get("content", {}).values()]
        rows.append(f"| {status} | {_cell(answer.get('description', ''))} | {', '.join(kinds)} |")
    return "\n".join(rows)


def _fields(model: dict[str, Any]) -> str:
    rows = ["| field | type | |", "|---|---|---|"]
    for name, field in model.get("properties", {}).items():
        needed = " (required)" if name in model.get("required", ()) else ""
        rows.append(
            f"| `{name}`{needed} | {_type(field)} | {_cell(field.get('description', ''))} |"
        )
    return "\n".join(rows) if len(rows) > 2 else ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    main()
