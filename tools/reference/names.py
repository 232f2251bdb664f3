"""The public names of kreach, with their docstrings.

Signatures are read from the source, so that the page does not depend on the version of Python.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import kreach
from tools.reference import MADE

__all__ = ["python_page"]

_WIDTH = 88
_DIRECTIVE = re.compile(r" *# doctest: .*")


def python_page() -> str:
    """The names of `kreach.__all__`: classes with their methods, then functions."""
    names = [name for name in kreach.__all__ if name not in {"__version__", "baselines"}]
    classes = [name for name in names if inspect.isclass(getattr(kreach, name))]
    functions = [name for name in names if name not in classes]
    parts = [
        "# Python",
        MADE,
        "`import kreach as kr`; every name below is an attribute of `kr`, imported when first used."
        " Bad input raises `kr.KreachError`, a `ValueError`.",
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
        return _laid_out(f"class {name}", _class_arguments(node), "")
    return _call(node, name)


def _call(node: Any, name: str, *, bound: bool = False) -> str:
    arguments = node.args
    if bound:
        (arguments.posonlyargs or arguments.args).pop(0)
    return _laid_out(name, ast.unparse(arguments), _returns(node))


def _returns(node: Any) -> str:
    return f" -> {ast.unparse(node.returns)}".replace("'", "") if node.returns else ""


def _laid_out(name: str, arguments: str, returns: str) -> str:
    """A call on one line if it fits a page, else an argument a line."""
    line = f"{name}({arguments}){returns}"
    if len(line) <= _WIDTH:
        return line
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    inner = "".join(f"    {part.strip()},\n" for part in parts)
    return f"{name}(\n{inner}){returns}"


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
        head = f".{node.name}{_returns(node)}"
    else:
        head = _call(node, f".{node.name}", bound="staticmethod" not in decorators)
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
        return f"```pycon\n{_DIRECTIVE.sub('', block)}\n```"
    if block.startswith("    "):
        return f"```text\n{textwrap.dedent(block)}\n```"
    return block.replace("|", r"\|") if block.lstrip().startswith("|") else block
