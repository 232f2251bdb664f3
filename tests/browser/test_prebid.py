"""The real-time-data module in Prebid.js from npm, in Chromium, against a real gateway."""

import fcntl
import json
import os
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from kreach.publisher.gateway.user_tokens import UserTokens
from kreach.publisher.store import read_build
from tests.publisher.gateway.sample_gateways import IDS, write_sample_build
from tests.service.service_process import Service, serving

FOLDER = Path(__file__).resolve().parents[2] / "integrations" / "prebid"
KEY = secrets.token_bytes(32)
ENTRY = """
import pbjs from './src/prebid.public.js';
import './public/rtdModule.js';
import './public/consentManagementTcf.js';
import './modules/kreachRtdProvider.js';
pbjs.registerBidAdapter(() => ({
  callBids(request, add, done) { window.seen = request.ortb2 || {}; done(); }
}), 'probe');
pbjs.processQueue();
"""
AUCTION = """
async ({url, timeout, consent, extra}) => {
  window.seen = undefined;
  const config = {
    realTimeData: {auctionDelay: 2000, dataProviders: [
      {name: 'kreach', waitForIt: true, params: {url, timeout}}]},
    ortb2: extra,
  };
  if (consent) {
    config.consentManagement = {gdpr: {cmpApi: 'static', defaultGdprScope: true, consentData: {
      getTCData: {tcString: 'x', gdprApplies: true, purpose: {consents: consent},
                  vendor: {consents: {}}}}}};
  }
  pbjs.setConfig(config);
  await new Promise(done => pbjs.requestBids({
    adUnits: [{code: 'top', mediaTypes: {banner: {sizes: [[300, 250]]}},
               bids: [{bidder: 'probe', params: {}}]}],
    bidsBackHandler: done,
  }));
  return window.seen;
}
"""


def npm(*arguments: str) -> None:
    """Run npm; without npm or a registry the test is skipped, but not in CI."""
    try:
        subprocess.run(
            ["npm", *arguments], cwd=FOLDER, check=True, capture_output=True, timeout=300
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"npm {arguments[0]} failed: {type(error).__name__}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def install() -> Path:
    """The packages of package-lock.json, fetched once for each version of that file."""
    packages, lock = FOLDER / "node_modules", FOLDER / "package-lock.json"
    mark = packages / ".kreach-lock"
    with (FOLDER / ".install.lock").open("w") as file:  # runs at once share the folder
        fcntl.flock(file, fcntl.LOCK_EX)
        if not mark.exists() or mark.read_bytes() != lock.read_bytes():
            npm("ci", "--ignore-scripts", "--no-audit", "--no-fund")
            mark.write_bytes(lock.read_bytes())
    return packages


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Prebid.js with our module beside its own, as a publisher builds it."""
    packages, folder = install(), tmp_path_factory.mktemp("prebid")
    for name in ("src", "public"):
        (folder / name).symlink_to(packages / "prebid.js" / "dist" / "src" / name)
    (folder / "modules").mkdir()
    shutil.copy(FOLDER / "kreachRtdProvider.js", folder / "modules")
    (folder / "entry.mjs").write_text(ENTRY)
    built = folder / "prebid.js"
    subprocess.run(
        [packages / ".bin" / "esbuild", folder / "entry.mjs", "--bundle", f"--outfile={built}"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return built.read_bytes()


@contextmanager
def page_server(script: bytes) -> Iterator[int]:
    """The publisher's page; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_script = self.path == "/prebid.js"
            body = script if is_script else b'<!doctype html><script src="/prebid.js"></script>'
            kind = "text/javascript" if is_script else "text/html"
            self.send_response(200 if is_script or self.path == "/" else 404)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


@pytest.fixture(scope="module")
def site(
    script: bytes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Service, Path]]:
    """A page, a gateway that its browsers may ask, and the gateway's build."""
    folder = tmp_path_factory.mktemp("gateway")
    build = write_sample_build(folder / "build")
    key_file = folder / "user.key"
    key_file.write_text(KEY.hex())
    key_file.chmod(0o600)
    with page_server(script) as port:
        page = f"http://127.0.0.1:{port}"
        config = folder / "publisher.toml"
        config.write_text(
            '[gateway]\nbuild = "build"\nport = 0\n[gateway.browser]\nport = 0\n'
            f'allowed_origins = ["{page}"]\nuser_key_file = "user.key"\n'
        )
        with serving(folder, "gateway", "--config", str(config)) as gateway:
            (ready,) = gateway.events("second port ready")
            yield page, f"http://127.0.0.1:{ready['port']}", gateway, build


def ortb2(
    browser: Browser, site: tuple[str, str, Service, Path], token: str | None, **options: Any
) -> Any:
    """The first-party data that a bidder gets, and what the page asked the gateway for."""
    page_url, gateway_url, *_ = site
    context = browser.new_context()
    if token is not None:
        cookie: Any = {"name": "kreach_user", "value": token, "url": page_url, "httpOnly": True}
        context.add_cookies([cookie])
    try:
        page = context.new_page()
        calls: list[str] = []
        page.on("request", lambda made: calls.append(f"{made.method} {made.url}"))
        page.goto(f"{options.pop('page', page_url)}/")
        assert page.evaluate("document.cookie") == ""  # no script can read who it is
        arguments = {"url": gateway_url, "timeout": 20_000, "consent": None, "extra": {}}
        seen = page.evaluate(AUCTION, arguments | options)
        stored = page.evaluate("[localStorage.length, sessionStorage.length]")
        assert stored == [0, 0]
        return seen, [call for call in calls if "/v1/identify" in call]
    finally:
        context.close()


def signed(user_id: str, seconds: float = 3_600.0) -> str:
    return UserTokens(KEY).sign(user_id, time.time() + seconds)


def test_the_group_of_the_visitor_is_in_bid_requests(
    browser: Browser, site: tuple[str, str, Service, Path]
) -> None:
    lookup = read_build(site[3]).group_lookup()
    extra = {"user": {"data": [{"name": "other", "segment": [{"id": "7"}]}]}, "site": {"id": "s"}}
    for user in (IDS[3], "somebody new"):
        seen, calls = ortb2(browser, site, signed(user), extra=extra)
        data = {entry["name"]: entry for entry in seen["user"]["data"]}
        assert data["kreach"] == {
            "name": "kreach",
            "segment": [{"id": lookup.identify(user).group}],
            "ext": {"catalogue": "v1", "segtax": 812, "segclass": "v1"},
        }
        assert data["other"]["segment"] == [{"id": "7"}]  # what others put there stays
        assert seen["site"]["id"] == "s"
        assert user not in json.dumps(seen)
        assert "eids" not in json.dumps(seen)
        assert calls == [f"POST {site[1]}/v1/identify"]


def test_without_a_valid_token_there_is_no_group(
    browser: Browser, site: tuple[str, str, Service, Path]
) -> None:
    other = UserTokens(secrets.token_bytes(32)).sign(IDS[3], time.time() + 3_600)
    for token in (None, signed(IDS[3], -1.0), other):
        seen, calls = ortb2(browser, site, token)
        assert "data" not in seen.get("user", {})
        assert len(calls) == 1


def test_a_page_of_another_origin_gets_nothing(
    browser: Browser, site: tuple[str, str, Service, Path]
) -> None:
    """The same machine under another name: the browser sends no cookie, the gateway refuses."""
    foreign = site[0].replace("127.0.0.1", "localhost")
    seen, _ = ortb2(browser, site, signed(IDS[3]), page=foreign)
    assert "data" not in seen.get("user", {})


def test_the_law_and_a_gateway_that_is_down(
    browser: Browser, site: tuple[str, str, Service, Path]
) -> None:
    seen, calls = ortb2(browser, site, signed(IDS[3]), consent={"2": False, "4": True})
    assert ("data" in seen.get("user", {}), calls) == (False, [])
    seen, calls = ortb2(browser, site, signed(IDS[3]), consent={"2": True})
    assert ("data" in seen["user"], len(calls)) == (True, 1)
    seen, _ = ortb2(browser, site, signed(IDS[3]), url="http://127.0.0.1:9")
    assert "data" not in seen.get("user", {})
