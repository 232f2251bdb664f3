"""The HTTP client of the reporting API: all that the console knows about campaigns."""

import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.reports.report import (
    CampaignDefinition,
    CampaignList,
    CampaignStatus,
    CatalogueList,
    CurveDocument,
    ErrorDocument,
    ErrorInfo,
    FamilyList,
    PacingDocument,
    PlanDocument,
    ReachDocument,
    SuppressionList,
    ViewerInfo,
)
from kreach.errors import KreachError

__all__ = [
    "CAMPAIGNS",
    "CATALOGUES",
    "FAMILIES",
    "SUPPRESSIONS",
    "VIEWER",
    "Query",
    "ReportingClient",
    "ReportingError",
    "ReportingUnavailable",
    "RequestRefused",
    "curve_query",
    "pacing_query",
    "reach_query",
    "read_key",
    "status_query",
    "together_query",
]

T = TypeVar("T")
Parameters = tuple[tuple[str, str], ...]

_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 35.0  # a series may take reporting 30
_MAX_BYTES = 64_000_000
_MAX_CAPS = 10  # of one reach report
_PLANS = "/v1/plans"
_RETRY_LATER = (408, 429, 500, 502, 503, 504)
_UNKNOWN_FORM = (
    "reporting answered in an unknown form; run the console and reporting at the same version"
)


@dataclass(frozen=True)
class Query(Generic[T]):
    """A GET of the reporting API, and the struct that it answers."""

    path: str
    answer: type[T]
    parameters: Parameters = ()


CAMPAIGNS = Query("/v1/campaigns", CampaignList, (("limit", "1000"),))
CATALOGUES = Query("/v1/catalogues", CatalogueList)
FAMILIES = Query("/v1/families", FamilyList)
SUPPRESSIONS = Query("/v1/suppressions", SuppressionList)
VIEWER = Query("/v1/viewer", ViewerInfo)


def status_query(campaign: str) -> Query[CampaignStatus]:
    """A campaign and its delivery."""
    return Query(_path(campaign), CampaignStatus)


def reach_query(
    campaign: str, caps: Iterable[int], window: tuple[str, str] | None = None
) -> Query[ReachDocument]:
    """Reach at some caps; without a window, to date."""
    times = () if window is None else (("start", window[0]), ("end", window[1]))
    chosen = (("cap", str(cap)) for cap in sorted(set(caps))[:_MAX_CAPS])
    return Query(_path(campaign, "reach"), ReachDocument, (*times, *chosen))


def together_query(
    campaigns: Iterable[str], cap: int, start: str | None = None, end: str | None = None
) -> Query[CombinedDocument]:
    """Campaigns alone and together at one cap; each adds to those before it."""
    times = tuple((name, text) for name, text in (("start", start), ("end", end)) if text)
    names = (("campaign", campaign) for campaign in campaigns)
    return Query("/v1/reach", CombinedDocument, (*names, *times, ("cap", str(cap))))


def curve_query(campaign: str, by: str, cap: int) -> Query[CurveDocument]:
    """Reach to date at the end of each period."""
    return Query(_path(campaign, "curve"), CurveDocument, (("by", by), ("cap", str(cap))))


def pacing_query(campaign: str, points: int) -> Query[PacingDocument]:
    """Spend over time, in at most so many points."""
    return Query(_path(campaign, "pacing"), PacingDocument, (("points", str(points)),))


def _path(campaign: str, report: str = "") -> str:
    return f"/v1/campaigns/{quote(campaign, safe='')}" + (f"/{report}" if report else "")


class ReportingError(RuntimeError):
    """Reporting did not answer a request."""


class RequestRefused(ReportingError):
    """Reporting refuses the request; `error` says which fields are wrong or what is withheld."""

    def __init__(self, status: int, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.status, self.error = status, error


class ReportingUnavailable(ReportingError):
    """Reporting cannot answer now. The client should wait `wait_seconds` before it retries."""

    def __init__(self, message: str, wait_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


def read_key(path: Path) -> str:
    """The API key in a file; error messages never contain it."""
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise KreachError.rule("key_file", "be a readable text file", str(path)) from None
    if not re.fullmatch(r"[!-~]{1,200}", key):
        rule = "hold one key and nothing else"
        raise KreachError.rule("key_file", rule, f"{path}, with {len(key)} characters")
    return key


def authorities(path: Path) -> ssl.SSLContext:
    """Trust in those whose certificates are in a file, and in nobody else."""
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # ssl.SSLError is one
        rule = "be a PEM file with certificates of authorities"
        raise KreachError.rule("reporting_ca", rule, str(path)) from error


class ReportingClient:
    """Calls the reporting API, with a key, the one in `key_file`, or none.

    `transport` lets tests replace the network by an application. Reporting's certificate must be
    signed by an authority in `ca_file`; without one, by a public one.
    """

    def __init__(
        self,
        url: str,
        key_file: Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        ca_file: Path | None = None,
        key: str | None = None,
    ) -> None:
        self._key_file = key_file
        self._key = key if key_file is None else read_key(key_file)
        self._http = httpx.AsyncClient(
            base_url=url.rstrip("/"),
            limits=httpx.Limits(
                max_connections=20, max_keepalive_connections=8, keepalive_expiry=4
            ),
            transport=transport,
            verify=True if ca_file is None else authorities(ca_file),
            trust_env=False,  # a proxy of the environment would see the key
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def get(self, query: Query[T], seconds: float = _ANSWER_SECONDS) -> T:
        """The answer to a query."""
        return await self._call("GET", query, None, seconds)

    async def create(self, body: Mapping[str, object]) -> CampaignDefinition:
        """Create a campaign."""
        return await self._call("POST", Query(CAMPAIGNS.path, CampaignDefinition), body)

    async def change(self, campaign: str, body: Mapping[str, object]) -> CampaignDefinition:
        """Change a campaign."""
        return await self._call("PATCH", Query(_path(campaign), CampaignDefinition), body)

    async def review(self, campaign: str, body: Mapping[str, object]) -> CampaignDefinition:
        """Decide on a creative of a campaign."""
        return await self._call("POST", Query(_path(campaign, "review"), CampaignDefinition), body)

    async def plan(self, body: Mapping[str, object], seconds: float) -> PlanDocument:
        """Plan a flight that no campaign has yet."""
        return await self._call("POST", Query(_PLANS, PlanDocument), body, seconds)

    async def _call(
        self,
        method: str,
        query: Query[T],
        body: Mapping[str, object] | None,
        seconds: float = _ANSWER_SECONDS,
    ) -> T:
        response = await self._send(method, query, body, seconds)
        if response.status_code == 401 and self._reload_key():
            response = await self._send(method, query, body, seconds)
        if response.status_code < 400:
            return _decode(response, query.answer)
        raise _error(response)

    async def _send(
        self, method: str, query: Query[T], body: Mapping[str, object] | None, seconds: float
    ) -> httpx.Response:
        try:
            return await self._http.request(
                method,
                query.path,
                params=query.parameters,
                json=body,
                headers={} if self._key is None else {"authorization": f"Bearer {self._key}"},
                timeout=httpx.Timeout(seconds, connect=_CONNECT_SECONDS),
            )
        except httpx.TimeoutException:
            raise ReportingUnavailable("reporting does not answer in time") from None
        except (httpx.HTTPError, OSError):
            raise ReportingUnavailable("reporting cannot be reached") from None

    def _reload_key(self) -> bool:
        """Whether the key file holds another key now: keys are rotated while the console runs."""
        if self._key_file is None:
            return False
        before = self._key
        try:
            self._key = read_key(self._key_file)
        except KreachError:
            return False
        return self._key != before


def _decode(response: httpx.Response, answer: type[T]) -> T:
    if len(response.content) > _MAX_BYTES:
        raise ReportingUnavailable(f"reporting answered more than {_MAX_BYTES:,} bytes")
    try:
        return msgspec.json.decode(response.content, type=answer)
    except msgspec.MsgspecError as error:
        raise ReportingUnavailable(_UNKNOWN_FORM) from error


def _error(response: httpx.Response) -> ReportingError:
    """The exception for an error status."""
    status = response.status_code
    try:
        error = _decode(response, ErrorDocument).error
    except ReportingUnavailable as unknown:
        if status not in _RETRY_LATER:
            return unknown
        error = ErrorInfo(message=f"reporting answered {status}")
    if status not in _RETRY_LATER:
        return RequestRefused(status, error)
    seconds = response.headers.get("retry-after", "")
    wait = min(float(seconds), 60.0) if seconds.isdigit() else 0.0
    return ReportingUnavailable(error.message, wait)
