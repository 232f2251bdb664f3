"""The calls of reporting, from the schema that it serves."""

import inspect
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.api.app import reporting_app
from kreach.adsystem.settings import AdSystemSettings, ReportingSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.service.logs import Log
from tools.reference import MADE, table_cell

__all__ = ["http_page", "openapi"]


def openapi() -> dict[str, Any]:
    """The schema that reporting serves as /openapi.json."""

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        moment = datetime(2026, 10, 1, tzinfo=UTC)
        write_catalogue(Catalogue("v1", moment, 20, ("a",), np.array([20])), folder / "v1")
        shared = AdSystemSettings(store=folder / "store", catalogues=(folder / "v1",))
        quiet = Log("reporting", write=lambda line: None)
        schema: dict[str, Any] = reporting_app(shared, ReportingSettings(), quiet).openapi()
    return schema


def http_page(schema: dict[str, Any]) -> str:
    """The calls of reporting, from its schema; where to read about the others."""
    parts = [
        "# HTTP",
        MADE,
        "The calls of [reporting](../reporting.md), from the schema that it serves as"
        " `/openapi.json`; [openapi.json](openapi.json) is a copy. The [bidder](../bidder.md)"
        " speaks OpenRTB 2.6, and the [gateway](../gateway.md) has three calls: see their pages.",
    ]
    for path, calls in schema["paths"].items():
        for method, call in calls.items():
            parts += [f"## {method.upper()} {path}", inspect.cleandoc(call["description"])]
            parts.append(_parameters(call))
            parts.append(_answers(call))
    for name, model in schema.get("components", {}).get("schemas", {}).items():
        parts += [f"## {name}", inspect.cleandoc(model.get("description", "")), _fields(model)]
    return "\n\n".join(part.rstrip() for part in parts if part.strip()) + "\n"


def _parameters(call: dict[str, Any]) -> str:
    rows = ["| parameter | in | type | |", "|---|---|---|---|"]
    for one in call.get("parameters", ()):
        text = table_cell(one.get("description", one["schema"].get("description", "")))
        needed = " (required)" if one.get("required") else ""
        kind = _type(one["schema"])
        rows.append(f"| `{one['name']}`{needed} | {one['in']} | {kind} | {text} |")
    bodies = call.get("requestBody", {}).get("content", {}).values()
    rows.extend(f"| body (required) | | {_type(body['schema'])} | |" for body in bodies)
    return "\n".join(rows) if len(rows) > 2 else ""


def _answers(call: dict[str, Any]) -> str:
    rows = ["| status | | answer |", "|---|---|---|"]
    for status, answer in sorted(call["responses"].items()):
        kinds = [_type(body.get("schema", {})) for body in answer.get("content", {}).values()]
        text = table_cell(answer.get("description", ""))
        rows.append(f"| {status} | {text} | {', '.join(kinds)} |")
    return "\n".join(rows)


def _fields(model: dict[str, Any]) -> str:
    rows = ["| field | type | |", "|---|---|---|"]
    for name, field in model.get("properties", {}).items():
        needed = " (required)" if name in model.get("required", ()) else ""
        rows.append(
            f"| `{name}`{needed} | {_type(field)} | {table_cell(field.get('description', ''))} |"
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
        fixed = schema.get("prefixItems")  # of a tuple, whose items are false
        parts = ", ".join(_type(one) for one in fixed or ())
        return f"[{parts}]" if fixed else f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
