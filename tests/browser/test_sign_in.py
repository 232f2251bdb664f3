"""Signing in with a key or at an identity provider; what each role sees; signing out; expiry."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest
from joserfc.jwk import RSAKey
from playwright.sync_api import Page, expect

from kreach.service.run import bind
from tests.adsystem.api.live_stores import make_campaign
from tests.browser.locators import NewPage, named
from tests.browser.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider
from tests.browser.services import write_store
from tests.browser.variants import seen_in_all
from tests.cli.command import kreach
from tests.service.service_process import serving

pytestmark = pytest.mark.xdist_group("browser")
ROLES = {"acme": ("advertiser", "--advertiser", "acme"), "operator": ("operator",)}
ROLES["publisher"] = ("publisher",)


RATE = ("--rate", "60000")  # the clock of these services stands still, and rates with it


@dataclass
class SignedConsole:
    """A console with sign-in, and the keys of each role."""

    url: str
    keys: dict[str, str]
    provider: Provider


def free_port() -> int:
    with bind("127.0.0.1", 0) as listening:
        port: int = listening.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def signed(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignedConsole]:
    folder = tmp_path_factory.mktemp("signed")
    winter = make_campaign("acme.winter", budget=50.0)
    winter = msgspec.structs.replace(winter, name="Winter sale")
    campaigns = (winter, make_campaign("other.secret", budget=50.0))
    with ThreadPoolExecutor(1) as other:  # this thread has the browser's event loop
        config = other.submit(write_store, folder, campaigns).result()
    where = ("--config", str(config))
    keys = {}
    for name, role in ROLES.items():
        keys[name] = kreach("keys", "add", *where, "--role", *role, *RATE).out.strip()
        (folder / f"{name}.key").write_text(keys[name])
    (folder / "secret").write_text(CLIENT_SECRET)
    port = free_port()
    with running_provider() as provider:
        console_config = folder / "console.toml"
        console_config.write_text(
            f"""[console]
port = {port}
public_url = "http://127.0.0.1:{port}"
sign_in = ["key", "oidc"]
groups_audit = "audit.json"
[console.oidc]
issuer = "{provider.url}"
client_id = "{CLIENT_ID}"
client_secret_file = "secret"
[console.oidc.keys]
acme-buyers = "acme.key"
privacy-office = "publisher.key"
"""
        )
        with serving(folder, "reporting", *where, more={"KREACH_REPORTING_KEYS": "true"}) as api:
            more = {"KREACH_CONSOLE_REPORTING_URL": f"http://127.0.0.1:{api.port}"}
            pages = ("--config", str(console_config))
            with serving(folder, "console", *pages, more=more) as console:
                yield SignedConsole(f"http://127.0.0.1:{console.port}", keys, provider)
                assert not console.events("page failed")
                for text in (*keys.values(), CLIENT_SECRET):
                    assert text.encode() not in console.output()


def sign_in(page: Page, signed: SignedConsole, role: str) -> None:
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("API key").fill(signed.keys[role])
    page.get_by_role("button", name="Sign in").click()


def test_an_advertiser_signs_in_and_sees_its_own_campaigns(
    signed: SignedConsole, new_page: NewPage
) -> None:
    page = new_page(signed.url, ignore_messages=True)  # a refused key is a 401
    page.goto(f"{signed.url}/campaign/winter?range=today")
    page.get_by_label("API key").fill("kreach_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This key is not valid")
    seen_in_all(page, page.locator(".k-sign-in"))
    sign_in(page, signed, "acme")
    expect(page.locator("h1")).to_have_text("Winter sale")
    expect(page).to_have_url(re.compile(r"/campaign/winter\?range=today$"))
    seen_in_all(page, page.locator("h1"), named(page, "sign out"), named(page, "theme"))
    expect(named(page, "account")).to_contain_text("advertiser")
    cookies = {one["name"]: one for one in page.context.cookies()}
    assert cookies["kreach-session"]["httpOnly"]
    assert cookies["kreach-session"]["sameSite"] == "Lax"
    assert signed.keys["acme"] not in page.content()
    page.goto(signed.url)
    expect(named(page, "campaign winter")).to_be_visible()
    expect(named(page, "campaign secret")).to_be_hidden()
    page.goto(f"{signed.url}/privacy")
    expect(page.locator('table[data-name="withheld from you"]')).to_be_visible()
    expect(named(page, "crossed").first).to_be_hidden()
    expect(named(page, "budget").first).to_be_hidden()
    seen_in_all(page, page.locator('table[data-name="withheld from you"]'))
    other = page.context.new_page()
    other.goto(signed.url)
    expect(named(other, "account")).to_be_visible()
    named(page, "sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()  # all its tabs
    page.goto(signed.url)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_an_advertiser_signs_in_with_firefox(
    signed: SignedConsole, new_firefox_page: NewPage
) -> None:
    page = new_firefox_page(signed.url, ignore_messages=True)  # a refused key is a 401
    page.goto(f"{signed.url}/campaign/winter")
    page.get_by_label("API key").fill("kreach_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This key is not valid")
    sign_in(page, signed, "acme")
    expect(page.locator("h1")).to_have_text("Winter sale")
    expect(named(page, "account")).to_contain_text("advertiser")
    assert page.evaluate("document.cookie.includes('kreach-session')") is False
    page.goto(signed.url)
    expect(named(page, "campaign winter")).to_be_visible()
    expect(named(page, "campaign secret")).to_be_hidden()
    page.goto(f"{signed.url}/privacy")
    expect(page.locator('table[data-name="withheld from you"]')).to_be_visible()
    named(page, "sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()


def test_a_privacy_officer_sees_the_privacy_pages(signed: SignedConsole, new_page: NewPage) -> None:
    page = new_page(signed.url)
    page.goto(f"{signed.url}/privacy")
    sign_in(page, signed, "publisher")
    expect(named(page, "overall verdict")).to_contain_text("must not be released")
    rows = page.locator('table[data-name="crossed"] tbody tr')
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("releases of groups")
    expect(named(page, "noise budget")).to_contain_text("no budget to spend")
    seen_in_all(page, named(page, "overall verdict"), rows.first)
    expect(page.get_by_role("link", name="Privacy")).to_be_visible()
    expect(page.get_by_role("link", name="Planner")).to_be_hidden()


def follow(client: httpx.Client, response: httpx.Response) -> httpx.Response:
    """Follow redirects as a browser does, cookies per host."""
    for _ in range(6):
        if response.status_code not in (302, 303):
            return response
        response = client.get(response.next_request.url if response.next_request else "")
    raise AssertionError("too many redirects")


def test_people_sign_in_at_an_identity_provider(signed: SignedConsole) -> None:
    with httpx.Client(trust_env=False, timeout=20) as client:
        page = client.get(f"{signed.url}/sign-in?next=/planner")
        assert "Sign in with your organization</a>" in page.text
        done = follow(client, client.get(f"{signed.url}/sign-in/oidc?next=/planner"))
        assert (done.status_code, done.url.path) == (200, "/planner")
        assert client.cookies.get("kreach-session")
        assert signed.keys["acme"] not in done.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["nobody"]}, "no role here"),
        ({"aud": "another"}, "could not be verified"),
        ({"nonce": "replayed"}, "could not be verified"),
        ({"iss": "http://evil.example"}, "could not be verified"),
        ({"exp": 1}, "could not be verified"),
        ({"aud": [CLIENT_ID, "another"]}, "for another application"),
    ],
)
def test_tokens_that_are_not_for_this_sign_in_are_refused(
    signed: SignedConsole, change: dict[str, object], message: str
) -> None:
    signed.provider.change = change
    try:
        with httpx.Client(trust_env=False, timeout=20) as client:
            done = follow(client, client.get(f"{signed.url}/sign-in/oidc"))
            assert done.status_code == 403
            assert message in done.text
            assert not client.cookies.get("kreach-session")
    finally:
        signed.provider.change = {}


def test_forged_tokens_and_stolen_codes_are_refused(signed: SignedConsole) -> None:
    with httpx.Client(trust_env=False, timeout=20) as client:
        signed.provider.sign_with = RSAKey.generate_key(2048, parameters={"kid": "k1"})
        try:
            done = follow(client, client.get(f"{signed.url}/sign-in/oidc"))
            assert "could not be verified" in done.text
        finally:
            signed.provider.sign_with = signed.provider.key
        begun = client.get(f"{signed.url}/sign-in/oidc")
        answered = client.get(begun.headers["location"])
        with httpx.Client(trust_env=False, timeout=20) as stranger:  # has no cookie of this sign-in
            done = stranger.get(answered.headers["location"])
            assert done.status_code == 403
            assert "another browser" in done.text
        state = parse_qs(urlsplit(answered.headers["location"]).query)["state"][0]
        again = client.get(f"{signed.url}/sign-in/callback?state={state}&code=x")
        assert "too old or was used already" in again.text


def test_requests_of_other_sites_cannot_sign_anybody_in(signed: SignedConsole) -> None:
    headers = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    for path in ("/sign-in", "/sign-out"):
        answer = httpx.post(
            signed.url + path, data={"key": signed.keys["acme"]}, headers=headers, trust_env=False
        )
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_a_new_sign_in_ends_the_session_before_it(signed: SignedConsole) -> None:
    with httpx.Client(base_url=signed.url, trust_env=False) as client:
        client.cookies.set("kreach-session", "chosen-by-somebody-else")
        first = client.post("/sign-in", data={"key": signed.keys["operator"], "next": "//["})
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert "chosen-by-somebody-else" not in first.headers["set-cookie"]
        flags = first.headers["set-cookie"].partition("; ")[2]
        assert flags == "Path=/; Max-Age=28800; HttpOnly; SameSite=Lax"
        old = first.cookies["kreach-session"]
    own = {"cookie": f"kreach-session={old}"}
    assert httpx.get(signed.url, headers=own, trust_env=False).status_code == 200
    data = {"key": signed.keys["acme"]}
    httpx.post(f"{signed.url}/sign-in", data=data, headers=own, trust_env=False)
    assert httpx.get(signed.url, headers=own, trust_env=False).status_code == 303
