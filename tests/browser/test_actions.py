"""Creating and editing campaigns; reporting that goes down; withheld figures; shutdown."""

import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.adsystem.api.live_stores import make_campaign
from tests.browser.accessibility import violations
from tests.browser.locators import NewPage, named, text
from tests.browser.services import Services, write_store
from tests.browser.variants import in_each, seen_in_all
from tests.cli.command import kreach
from tests.service.service_process import Service, serving, until

pytestmark = pytest.mark.xdist_group("browser")
START = "2026-11-04T00:00:00Z"  # of a campaign that is created now


def edit(page: Page, line: Locator) -> None:
    """Give the campaign another budget and a creative, which it needs to bid."""
    page.get_by_role("button", name="Edit Winter sale").click()
    page.get_by_label("Ad markup").fill("<b>ad</b>")
    page.get_by_label("Ad width (pixels)").fill("300")
    page.get_by_label("Ad height (pixels)").fill("250")
    page.get_by_label("Budget", exact=True).fill("20")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(named(line, "budget")).to_contain_text("20.00")
    expect(named(line, "state")).to_have_text("running")


def test_a_campaign_is_created_paused_resumed_edited_and_ended(
    services: Services, page: Page
) -> None:
    page.goto(services.url)
    page.get_by_role("button", name="New campaign").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    body = {"id": "winter-sale", "budget": -3, "start": START, "end": "2026-12-01T00:00:00Z"}
    wrong = services.field_errors(body)
    for name in ("name", "budget", "max_cpm"):  # all at once
        field = page.locator("label", has=named(page, f"field {name}"))
        expect(field).to_contain_text("is required")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()  # nobody who types is moved
    page.get_by_label("Name", exact=True).fill("Winter sale")
    page.get_by_label("Budget", exact=True).fill("-3")
    page.get_by_label("Budget", exact=True).press("Enter")
    field = page.locator("label", has=named(page, "field budget"))
    expect(field).to_contain_text(wrong["budget"].removeprefix("budget "))
    seen_in_all(page, field, page.get_by_role("button", name="Create"))
    page.get_by_label("Budget", exact=True).fill("12.5")
    page.get_by_label("Max CPM bid").fill("7.5")
    page.get_by_label("End (UTC)").fill("2026-10-01T00:00")
    page.get_by_role("button", name="Create").click()
    field = page.locator("label", has=named(page, "field end"))
    body |= {"id": "winter-sale", "budget": 12.5, "max_cpm": 7.5, "end": "2026-10-01T00:00:00Z"}
    expect(field).to_contain_text(services.field_errors(body)["end"].removeprefix("end "))
    expect(page.get_by_label("End (UTC)")).to_be_focused()
    page.get_by_label("End (UTC)").fill("2026-12-01T00:00")
    page.get_by_role("button", name="Create").click()
    line = named(page, "campaign winter-sale")
    expect(line).to_be_visible()
    campaign = services.api("/v1/campaigns/winter-sale")
    assert (campaign["budget"], campaign["start"]) == (12.5, START)
    assert campaign["name"] == "Winter sale"
    assert campaign["caps"] == [{"limit": 2, "span_seconds": None}]

    seen_in_all(page, line)
    page.get_by_role("button", name="Pause Winter sale").click()
    expect(named(line, "state")).to_have_text("paused")
    assert services.api("/v1/campaigns/winter-sale")["state"] == "paused"
    page.get_by_role("button", name="Resume Winter sale").click()
    expect(named(line, "state")).to_have_text("no creative")

    edit(page, line)
    assert services.api("/v1/campaigns/winter-sale")["end"] == "2026-12-01T00:00:00Z"

    page.get_by_role("button", name="End Winter sale", exact=True).click()
    expect(page.get_by_role("heading", name="End Winter sale?")).to_be_visible()
    seen_in_all(page, page.get_by_role("dialog"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="End Winter sale?")).to_be_hidden()
    assert services.api("/v1/campaigns/winter-sale")["state"] == "running"
    end_and_undo(services, page, line)
    services.patch("/v1/campaigns/winter-sale", {"state": "ended"})
    expect(named(line, "state")).to_have_text("ended")
    expect(page.get_by_role("button", name="Edit Winter sale")).to_be_disabled()


def end_and_undo(services: Services, page: Page, line: Locator) -> None:
    """Ending pauses at once; undo puts it back."""
    page.get_by_role("button", name="End Winter sale", exact=True).click()
    page.get_by_role("button", name="End campaign").click()
    expect(named(line, "state")).to_have_text("ending")
    assert services.api("/v1/campaigns/winter-sale")["state"] == "paused"
    page.get_by_role("button", name="Undo ending Winter sale").click()
    expect(named(line, "state")).to_have_text("running")
    assert services.api("/v1/campaigns/winter-sale")["state"] == "running"


def test_focus_can_be_seen(services: Services, page: Page) -> None:
    page.goto(services.url)
    expect(named(page, "campaign spring")).to_be_visible()
    seen = """() => {
      const el = document.activeElement, field = el.closest(".q-field");
      const mark = field ? field.classList.contains("q-field--focused") : null;
      return [el.tagName, mark ?? getComputedStyle(el).outlineStyle === "solid"];
    }"""
    focused = []
    for _ in range(20):
        page.keyboard.press("Tab")
        focused.append(page.evaluate(seen))
    assert {tag for tag, _ in focused} >= {"A", "BUTTON", "INPUT", "DIV"}  # also a checkbox
    assert all(marked for _, marked in focused), focused
    page.get_by_role("link", name="Planner").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Planner")
    expect(page).to_have_title("Planner · kreach")


def test_browsers_share_one_poller(services: Services, new_page: NewPage) -> None:
    def cached() -> int:
        counters = httpx.get(f"{services.url}/metrics").text
        match = re.search(r"^kreach_console_cached_answers (\d+)", counters, re.MULTILINE)
        assert match is not None
        return int(match.group(1))

    first = new_page(services.url)
    first.goto(f"{services.url}/campaign/summer")
    expect(named(first, "People reached")).not_to_contain_text("…")
    first.wait_for_timeout(1_500)
    alone = cached()
    other = new_page(services.url)
    other.goto(f"{services.url}/campaign/summer")
    expect(named(other, "People reached")).not_to_contain_text("…")
    other.wait_for_timeout(1_000)
    assert cached() == alone


def test_reporting_is_asked_before_a_browser_has_its_scripts(services: Services) -> None:
    address = f"{services.url}/campaign/future"
    until(lambda: "21 Nov to 1 Dec 2026" in httpx.get(address).text)


def test_reporting_goes_down_and_comes_back(services: Services, page: Page) -> None:
    page.goto(services.url)
    people = named(named(page, "campaign spring"), "People reached")
    expect(people).not_to_contain_text("…")
    before = text(people)
    banner = named(page, "banner")
    expect(banner).to_be_hidden()
    port = services.reporting.port
    services.reporting.stop()
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("Reporting cannot be reached")
    expect(banner).to_contain_text("The page shows the last numbers received")
    seen_in_all(page, banner, people)
    for variant in in_each(page):
        assert text(people) == before
        if variant in ("light", "phone"):  # of both themes
            assert not violations(page), variant
        page.get_by_role("button", name="Pause spring").click()
        expect(page.get_by_text("The state may not have changed").last).to_be_visible()
    expect(page.locator(".k-page")).to_have_class(re.compile("k-stale"))
    again = Service(
        services.folder, ["reporting", "--config", str(services.config), "--port", str(port)]
    )
    try:
        again.wait_ready()
        expect(banner).to_be_hidden()
        expect(page.locator(".k-page")).not_to_have_class(re.compile("k-stale"))
        seen_in_all(page, people)
        assert text(people) == before
    finally:
        services.reporting.end()
        services.reporting = again


def test_figures_of_frozen_reporting_are_marked_as_old(services: Services, page: Page) -> None:
    page.goto(services.url)
    expect(named(named(page, "campaign spring"), "People reached")).not_to_contain_text("…")
    expect(named(page, "freshness")).to_contain_text("data: ")
    services.reporting.send_signal(signal.SIGSTOP)
    try:
        banner = named(page, "banner")
        expect(banner).to_contain_text("Reporting is slow to answer. The page shows figures of")
        expect(named(page, "freshness")).to_contain_text("s old")
        expect(page.locator(".k-page")).to_have_class(re.compile("k-stale"))
        seen_in_all(page, banner, named(page, "freshness"))
    finally:
        services.reporting.send_signal(signal.SIGCONT)
    expect(banner).to_be_hidden()
    expect(named(page, "freshness")).to_have_text("data: now")


class OtherVersion(BaseHTTPRequestHandler):
    """A reporting service whose answers have another form."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"campaigns": [{"id": "spring"}]}')

    def log_message(self, *_: object) -> None:
        pass


def test_answers_of_another_version_are_a_banner(services: Services, new_page: NewPage) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherVersion) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        where = ("--config", str(services.config))
        environment = {"KREACH_CONSOLE_REPORTING_URL": url}
        with serving(services.folder, "console", *where, more=environment) as console:
            base = f"http://127.0.0.1:{console.port}"
            page = new_page(base)
            for path in ("/", "/campaign/spring", "/planner", "/privacy"):
                page.goto(base + path)
                banner = named(page, "banner")
                expect(banner).to_contain_text("Reporting answered in an unknown form")
            assert not console.events("page failed")
        server.shutdown()


def check_that_allowed_windows_are_offered(
    page: Page, base: str, url: str, bearer: dict[str, str]
) -> None:
    """A window that cuts a chapter is refused, and one click away from one that does not."""
    page.goto(f"{base}/campaign/winter")
    named(page, "window start").fill("2026-11-01T00:00")
    named(page, "window end").fill("2026-11-02T12:34")
    named(page, "window end").press("Enter")
    cut = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T12:34:00Z", "cap": "1"}
    answer = httpx.get(f"{url}/v1/campaigns/winter/reach", params=cut, headers=bearer)
    message = answer.json()["error"]["message"]
    refusal = page.get_by_text(re.compile(re.escape(message), re.IGNORECASE))
    expect(refusal).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^from "))).to_be_hidden()  # as it is
    page.get_by_role("button", name=re.compile("^to Mon 2 Nov")).click()
    ends = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T03:00:00Z", "cap": "1"}
    answer = httpx.get(f"{url}/v1/campaigns/winter/reach", params=ends, headers=bearer)
    report = answer.json()
    assert answer.status_code == 200, report
    assert report["impressions"] >= 100
    expect(page.get_by_text(f"{report['impressions']} impressions, ")).to_be_visible()
    expect(named(page, "window end")).to_have_value("2026-11-02T03:00")
    expect(refusal).to_be_hidden()
    expect(page.get_by_role("button", name=re.compile("^to Mon 2 Nov"))).to_be_hidden()


def test_withheld_figures_are_shown_with_their_reason(new_page: NewPage, tmp_path: Path) -> None:
    winter = make_campaign("acme.winter", budget=50.0)
    with ThreadPoolExecutor(1) as other:  # this thread has the browser's event loop
        config = other.submit(write_store, tmp_path, (winter,)).result()
    where = ("--config", str(config))
    add = ("keys", "add", *where, "--role")
    acme = kreach(*add, "advertiser", "--advertiser", "acme").out.strip()
    operator = kreach(*add, "operator").out.strip()
    key_file = tmp_path / "key"
    key_file.write_text(acme + "\n")
    floors = ("MIN_AUDIENCE", "MIN_PEOPLE", "MIN_DIFFERENCE")  # margins are as large as that
    environment = {"KREACH_REPORTING_KEYS": "true"} | {
        f"KREACH_GUARD_{one}": "10" for one in floors
    }
    with serving(tmp_path, "reporting", *where, more=environment) as reporting:
        url = f"http://127.0.0.1:{reporting.port}"
        campaign = {"id": "own", "budget": 5, "max_cpm": 5, "start": "2026-11-01T00:00:00Z"}
        campaign["end"] = "2036-12-01T00:00:00Z"
        bearer = {"authorization": f"Bearer {acme}"}
        created = httpx.post(f"{url}/v1/campaigns", json=campaign, headers=bearer)
        assert created.status_code == 201, created.text
        environment = {
            "KREACH_CONSOLE_REPORTING_URL": url,
            "KREACH_CONSOLE_KEY_FILE": str(key_file),
            "KREACH_CONSOLE_GROUPS_AUDIT": str(tmp_path / "none.json"),
        }
        with serving(tmp_path, "console", *where, more=environment) as console:
            base = f"http://127.0.0.1:{console.port}"
            page = new_page(base)
            check_that_allowed_windows_are_offered(page, base, url, bearer)
            page.goto(base)
            line = named(page, "campaign own")
            expect(named(line, "People reached")).to_contain_text("withheld")
            expect(named(line, "budget")).to_contain_text("spend is withheld")
            expect(line).to_contain_text("figures appear in batches of at least 100 impressions")
            page.goto(f"{base}/campaign/own")
            expect(named(page, "People reached")).to_contain_text("withheld")
            expect(named(page, "Win rate")).to_contain_text("withheld")
            named(page, "window start").fill("2026-11-02T00:00")
            named(page, "window end").fill("2026-11-03T00:00")
            named(page, "window end").press("Enter")
            ends = {"start": "2026-11-02T00:00:00Z", "end": "2026-11-03T00:00:00Z"}
            answer = httpx.get(f"{url}/v1/campaigns/own/reach", params=ends, headers=bearer)
            message = answer.json()["error"]["message"]
            expect(page.get_by_text(re.compile(re.escape(message), re.IGNORECASE))).to_be_visible()
            page.goto(f"{base}/privacy")
            own = page.locator('table[data-name="withheld from you"] tbody tr')
            expect(own.first).to_contain_text("batches of at least 100 impressions")
            expect(page.get_by_text("The audit cannot be shown")).to_be_visible()
            key_file.write_text(operator + "\n")  # taken up when the old key is refused
            revoked = kreach("keys", "revoke", acme.split("_")[1], *where)
            assert revoked.code == 0, revoked.err
            page.reload()  # another role has other pages
            rows = page.locator('table[data-name="withheld"] tbody tr')
            too_few = rows.filter(has_text="too few so far")  # pages left before still ask a while
            expect(too_few.first).to_contain_text("acme.own")


def test_the_console_stops_cleanly_with_a_browser_open(
    services: Services, new_page: NewPage
) -> None:
    environment = {"KREACH_CONSOLE_TRUTH_FILE": str(services.folder / "none")}
    where = ("--config", str(services.config))
    with serving(services.folder, "console", *where, more=environment) as console:
        base = f"http://127.0.0.1:{console.port}"
        page = new_page(base, ignore_messages=True)  # it loses its server
        page.goto(base)
        expect(page.get_by_text("No data yet")).to_be_visible()
        started = time.monotonic()
        assert console.stop(signal.SIGTERM) == 0
        assert time.monotonic() - started < 15.0
        assert console.events("stopped")
