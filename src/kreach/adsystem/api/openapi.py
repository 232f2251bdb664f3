"""The OpenAPI description: paths from the routes, schemas of answers from the report types."""

from typing import Any

from fastapi import FastAPI

from kreach.adsystem.reports import combined_report, report

__all__ = ["describe", "returns"]

_PREFIX = "#/components/schemas/"
_ANSWERS: tuple[type, ...] = (
    report.CampaignDefinition,
    report.CampaignList,
    report.CampaignStatus,
    report.CatalogueList,
    combined_report.CombinedDocument,
    report.CurveDocument,
    report.ErrorDocument,
    report.FamilyDefinition,
    report.FamilyList,
    report.Health,
    report.PacingDocument,
    report.PlanDocument,
    report.ReachDocument,
    report.Readiness,
    report.SeriesDocument,
    report.SuppressionList,
    report.ViewerInfo,
)


def _content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _PREFIX + kind.__name__}}}


def returns(kind: type, *failures: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """The responses of a route: a struct, or an error with one of these statuses (422 always)."""
    errors: dict[int | str, dict[str, Any]] = {
        code: {"description": "Error", "content": _content(report.ErrorDocument)}
        for code in sorted({422, *failures})
    }
    return {status: {"description": "Success", "content": _content(kind)}, **errors}


def describe(app: FastAPI) -> None:
    """Add the schemas of the report types to the description of an app."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = generate()
            schemas = description.setdefault("components", {}).setdefault("schemas", {})
            schemas |= report.schemas(_ANSWERS, _PREFIX)
            for name in ("HTTPValidationError", "ValidationError"):  # never answered
                schemas.pop(name, None)
            app.openapi_schema = description
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI documents
