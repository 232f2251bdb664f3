"""Reporting over HTTP: all that the console knows of campaigns comes through here."""

import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from kreach.errors import KreachError

__all__ = ["Away", "Document", "Question", "Refused", "ReportingClient", "of_campaign", "read_key"]

Document = dict[str, Any]

_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 35.0  # a series may take reporting 30
_MAX_BYTES = 64_000_000
_TRY_LATER = (408, 429, 500, 502, 503, 504)


class Question(NamedTuple):
    """A path of reporting and what goes behind its question mark."""

    path: str
    parameters: tuple[tuple[str, str], ...] = ()


def of_campaign(campaign: str, what: str = "", *parameters: tuple[str, object]) -> Question:
    """A question about a campaign: its status, or a report."""
    path = f"/v1/campaigns/{quote(campaign, safe='')}" + (f"/{what}" if what else "")
    return Question(path, tuple((name, str(value)) for name, value in parameters))


class Refused(KreachError):
    """Reporting understood and said no: field, rule and value, or why something is withheld."""

    def __init__(self, status: int, document: Document) -> None:
        super().__init__(str(document.get("error") or f"reporting answered {status}"))
        self.status = status
        self.reason: str | None = document.get("reason")
        self.allowed: dict[str, list[str]] = document.get("allowed") or {}


class Away(RuntimeError):
    """Reporting cannot be asked, or cannot answer, now. `wait_seconds`: how long to leave it."""

    def __init__(self, why: str, wait_seconds: float = 0.0) -> None:
        super().__init__(why)
        self.wait_seconds = wait_seconds


def read_key(path: Path) -> str:
    """The key in a file; the message never holds it."""
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise KreachError.rule("key_file", "be a text file that can be read", str(path)) from None
    if not re.fullmatch(r"[!-~]{1,200}", key):
        rule = "hold one key and nothing else"
        raise KreachError.rule("key_file", rule, f"{path}, with {len(key)} characters")
    return key


class ReportingClient:
    """Asks reporting. With a key file, as whoever the key in it is for.

    `transport` lets tests put an application in the place of the network.
    """

    def __init__(
        self,
        url: str,
        key_file: Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._key_file = key_file
        self._key = None if key_file is None else read_key(key_file)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(
                max_connections=20, max_keepalive_connections=8, keepalive_expiry=4
            ),
            transport=transport,
            trust_env=False,  # a proxy of the environment would see the key
        )

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.aclose()

    async def get(self, question: Question, seconds: float = _ANSWER_SECONDS) -> Document:
        """The answer to a question."""
        return await self._ask("GET", question, None, seconds)

    async def create(self, campaign: Document) -> Document:
        """Make a campaign."""
        return await self._ask("POST", Question("/v1/campaigns"), campaign, _ANSWER_SECONDS)

    async def change(self, campaign: str, changes: Document) -> Document:
        """Change a campaign."""
        return await self._ask("PATCH", of_campaign(campaign), changes, _ANSWER_SECONDS)

    async def _ask(
        self, method: str, question: Question, body: Document | None, seconds: float
    ) -> Document:
        answer = await self._send(method, question, body, seconds)
        if answer.status_code == 401 and self._renewed():
            answer = await self._send(method, question, body, seconds)
        document = _document(answer)
        status = answer.status_code
        if status in _TRY_LATER:
            said = (document or {}).get("error") or f"it answered {status}"
            raise Away(str(said), _wait_seconds(answer))
        if document is None:
            raise Away(f"it answered {status} with something that is not a JSON object")
        if status >= 400:
            raise Refused(status, document)
        return document

    async def _send(
        self, method: str, question: Question, body: Document | None, seconds: float
    ) -> httpx.Response:
        headers = {} if self._key is None else {"authorization": f"Bearer {self._key}"}
        timeout = httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        try:
            return await self._http.request(
                method,
                question.path,
                params=list(question.parameters),
                json=body,
                headers=headers,
                timeout=timeout,
            )
        except httpx.TimeoutException:
            raise Away("it does not answer in time") from None
        except (httpx.HTTPError, OSError):
            raise Away("it cannot be reached") from None

    def _renewed(self) -> bool:
        """Whether the key file holds another key now: keys are rotated while the console runs."""
        if self._key_file is None:
            return False
        before = self._key
        try:
            self._key = read_key(self._key_file)
        except KreachError:
            return False
        return self._key != before


def _document(answer: httpx.Response) -> Document | None:
    if len(answer.content) > _MAX_BYTES:
        return None
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _wait_seconds(answer: httpx.Response) -> float:
    told = answer.headers.get("retry-after", "")
    return min(float(told), 60.0) if told.isdigit() else 0.0
