"""The sign-in routes and the way back from an identity provider, with hostile requests."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from kreach.adsystem.console.oidc import OidcFailure, OidcSignIn
from kreach.adsystem.console.sessions import Sessions
from kreach.adsystem.console.sign_in import SignIn, local_target
from kreach.adsystem.settings import ConsoleSettings, OidcSettings
from kreach.service.logs import Log
from tests.browser.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider


@pytest.mark.parametrize(
    "target",
    [
        *("//evil.example", "/\\evil.example", "https://evil.example/", "javascript:alert(1)"),
        *("//[", "http://[", "/\t/evil.example", "/\n//evil.example", "evil.example", "\\\\evil"),
        *("/sign-out", "/sign-in?next=/", "", None),
    ],
)
def test_only_pages_of_the_console_follow_a_sign_in(target: str | None) -> None:
    assert local_target(target) == "/"


def _routes() -> httpx.AsyncClient:
    app = FastAPI()
    settings = ConsoleSettings(sign_in=("key",), reporting_url="http://127.0.0.1:9")
    sessions = Sessions(lambda _: pytest.fail("nobody signed in"), 60.0)
    SignIn(settings, sessions, Log("test", lambda _: None)).add_routes(app)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"key=", 422),
        (b"next=//%5B&key=", 422),
        (b"key=%00", 401),
        (b"key=a%0d%0ax-header:%20b", 401),
        (b"key=" + b"a" * 201, 401),
        (b"key=\xff\xfe", 401),
        (b"key=" + b"a" * 4_000, 413),
        (b"key=kreach_x", 503),  # reporting does not answer
    ],
)
def test_forms_that_sign_nobody_in(body: bytes, status: int) -> None:
    async def run() -> None:
        async with _routes() as client:
            answer = await client.post("/sign-in", content=body)
            assert answer.status_code == status
            assert 'role="alert"' in answer.text
            assert "set-cookie" not in answer.headers
            shown = await client.get("/sign-in", params={"next": "//[", "why": "<b>"})
            assert shown.status_code == 200
            assert 'value="/"' in shown.text
            assert "<b>" not in shown.text

    asyncio.run(run())


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running


def _finish(
    provider: Provider, folder: Path, claims: dict[str, Any], binding: str | None = None
) -> tuple[str, str]:
    """Name and key of who comes back with such claims."""
    (folder / "secret").write_text(CLIENT_SECRET)
    settings = OidcSettings(
        issuer=provider.url,
        client_id=CLIENT_ID,
        client_secret_file=folder / "secret",
        keys={"buyers": folder / "key"},
    )

    async def run() -> tuple[str, str]:
        flow = OidcSignIn(settings, "http://127.0.0.1:1")
        address, given = await flow.begin("/")
        provider.change = claims
        async with httpx.AsyncClient(trust_env=False) as client:
            back = await client.get(address)
        parameters = dict(httpx.URL(back.headers["location"]).params)
        person, _ = await flow.finish(parameters, given if binding is None else binding)
        return person.name, person.key

    return asyncio.run(run())


@pytest.mark.parametrize(
    "groups", [None, 7, True, 1.5, {}, {"buyers": 1}, [], [None, 7, {"a": 1}, ["buyers"]], ""]
)
def test_claims_of_another_kind_give_no_role(
    provider: Provider, tmp_path: Path, groups: Any
) -> None:
    (tmp_path / "key").write_text("kreach_key")
    with pytest.raises(OidcFailure, match="has no role here"):
        _finish(provider, tmp_path, {"groups": groups})


def test_a_role_may_be_one_text_or_one_of_many(provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("kreach_key")
    for groups in ("buyers", [{"a": 1}, "buyers"]):
        assert _finish(provider, tmp_path, {"groups": groups}) == ("Ada", "kreach_key")


def test_a_browser_or_a_key_that_does_not_fit_is_refused(
    provider: Provider, tmp_path: Path
) -> None:
    for binding in ("", "é", "other"):
        with pytest.raises(OidcFailure, match="begun in another browser"):
            _finish(provider, tmp_path, {"groups": "buyers"}, binding)
    with pytest.raises(OidcFailure, match="key for your role cannot be read"):
        _finish(provider, tmp_path, {"groups": "buyers"})


@pytest.mark.parametrize("token_endpoint", ["http://[", "", 7, None])
def test_a_provider_with_a_broken_address_signs_nobody_in(
    provider: Provider, tmp_path: Path, token_endpoint: Any
) -> None:
    settings = OidcSettings(issuer=provider.url, client_id=CLIENT_ID, keys={"a": tmp_path})

    async def run() -> None:
        flow = OidcSignIn(settings, "http://127.0.0.1:1")
        address, binding = await flow.begin("/")
        (await flow._provider())["token_endpoint"] = token_endpoint
        state = httpx.URL(address).params["state"]
        await flow.finish({"state": state, "code": "x"}, binding)

    with pytest.raises(OidcFailure, match="did not confirm"):
        asyncio.run(run())
