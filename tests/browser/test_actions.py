"""Making and changing campaigns, with the keyboard too; reporting that goes away; who is let in."""

import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.adsystem.api.stores import make_campaign
from tests.browser.conftest import Pages
from tests.browser.test_pages import named, text
from tests.browser.worlds import World, made_world
from tests.cli.command import kreach
from tests.service.service_process import Service, serving

pytestmark = pytest.mark.xdist_group("browser")


def test_a_campaign_is_made_paused_resumed_and_ended(world: World, page: Page) -> None:
    page.goto(world.url)
    page.get_by_role("button", name="New campaign").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("winter sale")
    page.keyboard.press("Enter")
    field = page.locator("label", has=named(page, "field id"))
    expect(field).to_contain_text("id: must be 1 to 64 letters, digits, - or _")
    page.get_by_label("Name", exact=True).fill("winter-sale")
    page.get_by_label("Budget", exact=True).fill("-3")
    page.get_by_label("Budget", exact=True).press("Enter")
    field = page.locator("label", has=named(page, "field budget"))
    expect(field).to_contain_text("budget: input should be greater than 0, got -3")
    page.get_by_label("Budget", exact=True).fill("12.5")
    page.get_by_label("End (UTC)").fill("2026-10-01T00:00")
    page.get_by_role("button", name="Create").click()
    field = page.locator("label", has=named(page, "field end"))
    expect(field).to_contain_text("end must come after start")
    expect(page.get_by_label("End (UTC)")).to_be_focused()
    page.get_by_label("End (UTC)").fill("2026-12-01T00:00")
    page.get_by_role("button", name="Create").click()
    line = named(page, "campaign winter-sale")
    expect(line).to_be_visible()
    made = world.api("/v1/campaigns/winter-sale")
    assert (made["budget"], made["start"]) == (12.5, "2026-11-04T00:00:00Z")
    assert made["caps"] == [{"limit": 2, "span_seconds": None}]

    page.get_by_role("button", name="Pause winter-sale").click()
    expect(named(line, "state")).to_have_text("paused")
    assert world.api("/v1/campaigns/winter-sale")["state"] == "paused"
    page.get_by_role("button", name="Resume winter-sale").click()
    expect(named(line, "state")).to_have_text("running")

    page.get_by_role("button", name="Change winter-sale").click()
    page.get_by_label("Budget", exact=True).fill("20")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(named(line, "budget")).to_contain_text("20.00")
    assert world.api("/v1/campaigns/winter-sale")["end"] == "2026-12-01T00:00:00Z"

    page.get_by_role("button", name="End winter-sale").click()
    expect(page.get_by_role("heading", name="End winter-sale?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="End winter-sale?")).to_be_hidden()
    assert world.api("/v1/campaigns/winter-sale")["state"] == "running"
    page.get_by_role("button", name="End winter-sale").click()
    page.get_by_role("button", name="End it").click()
    expect(named(line, "state")).to_have_text("ended")
    expect(page.get_by_role("button", name="Change winter-sale")).to_be_disabled()


def test_focus_can_be_seen(world: World, page: Page) -> None:
    page.goto(f"{world.url}/cost")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("Tab")
    seen = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(seen) == "solid"
    page.get_by_role("link", name="Planner").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Planner")
    expect(page).to_have_title("Planner · kreach")


def test_browsers_share_one_poller(world: World, pages: Pages) -> None:
    def kept() -> int:
        counters = httpx.get(f"{world.url}/metrics").text
        found = re.search(r"^kreach_console_kept_answers (\d+)", counters, re.MULTILINE)
        assert found is not None
        return int(found.group(1))

    first = pages(world.url)
    first.goto(f"{world.url}/campaign/summer")
    expect(named(first, "People reached")).not_to_contain_text("…")
    first.wait_for_timeout(1_500)
    alone = kept()
    other = pages(world.url)
    other.goto(f"{world.url}/campaign/summer")
    expect(named(other, "People reached")).not_to_contain_text("…")
    other.wait_for_timeout(1_000)
    assert kept() == alone


def test_reporting_goes_away_and_comes_back(world: World, page: Page) -> None:
    page.goto(world.url)
    people = named(named(page, "campaign spring"), "People reached")
    expect(people).not_to_contain_text("…")
    before = text(people)
    banner = named(page, "banner")
    expect(banner).to_be_hidden()
    port = world.reporting.port
    world.reporting.stop()
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("Reporting does not answer: it cannot be reached")
    expect(banner).to_contain_text("the last that it said")
    assert text(people) == before
    expect(page.locator(".k-page")).to_have_class(re.compile("k-stale"))
    page.get_by_role("button", name="Pause spring").click()
    expect(page.get_by_text("Nothing was changed")).to_be_visible()
    again = Service(world.folder, ["reporting", "--config", str(world.config), "--port", str(port)])
    try:
        again.wait_ready()
        expect(banner).to_be_hidden()
        expect(page.locator(".k-page")).not_to_have_class(re.compile("k-stale"))
        assert text(people) == before
    finally:
        world.reporting.end()
        world.reporting = again


def check_that_chapters_are_offered(
    page: Page, base: str, url: str, bearer: dict[str, str]
) -> None:
    """A window that cuts a chapter is refused, and one click away from one that does not."""
    page.goto(f"{base}/campaign/winter")
    named(page, "window start").fill("2026-11-01T00:00")
    named(page, "window end").fill("2026-11-02T12:34")
    named(page, "window end").press("Enter")
    expect(page.get_by_text("end must be where a chapter ends")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^from "))).to_be_hidden()  # as it is
    page.get_by_role("button", name=re.compile("^to Mon 2 Nov")).click()
    ends = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T03:00:00Z", "cap": "1"}
    asked = httpx.get(f"{url}/v1/campaigns/winter/reach", params=ends, headers=bearer)
    told = asked.json()
    assert asked.status_code == 200, told
    assert told["impressions"] >= 100
    expect(page.get_by_text(f"{told['impressions']} impressions, ")).to_be_visible()
    expect(named(page, "window end")).to_have_value("2026-11-02T03:00")
    expect(page.get_by_text("end must be where a chapter ends")).to_be_hidden()
    expect(page.get_by_role("button", name=re.compile("^to Mon 2 Nov"))).to_be_hidden()


def test_what_is_withheld_is_told_with_its_reason(pages: Pages, tmp_path: Path) -> None:
    winter = make_campaign("acme.winter", budget=50.0)
    with ThreadPoolExecutor(1) as other:  # this thread has the browser's event loop
        config = other.submit(made_world, tmp_path, (winter,)).result()
    where = ("--config", str(config))
    add = ("keys", "add", *where, "--role")
    acme = kreach(*add, "advertiser", "--advertiser", "acme").out.strip()
    operator = kreach(*add, "operator").out.strip()
    key_file = tmp_path / "key"
    key_file.write_text(acme + "\n")
    floors = ("MIN_AUDIENCE", "MIN_PEOPLE", "MIN_DIFFERENCE")  # margins are as large as that
    given = {"KREACH_REPORTING_KEYS": "true"} | {f"KREACH_GUARD_{one}": "10" for one in floors}
    with serving(tmp_path, "reporting", *where, more=given) as reporting:
        url = f"http://127.0.0.1:{reporting.port}"
        campaign = {"id": "own", "budget": 5, "start": "2026-11-01T00:00:00Z"}
        campaign["end"] = "2036-12-01T00:00:00Z"
        bearer = {"authorization": f"Bearer {acme}"}
        made = httpx.post(f"{url}/v1/campaigns", json=campaign, headers=bearer)
        assert made.status_code == 201, made.text
        given = {
            "KREACH_CONSOLE_REPORTING_URL": url,
            "KREACH_CONSOLE_KEY_FILE": str(key_file),
            "KREACH_CONSOLE_GROUPS_AUDIT": str(tmp_path / "none.json"),
        }
        with serving(tmp_path, "console", *where, more=given) as console:
            base = f"http://127.0.0.1:{console.port}"
            page = pages(base)
            check_that_chapters_are_offered(page, base, url, bearer)
            page.goto(base)
            line = named(page, "campaign own")
            expect(named(line, "People reached")).to_contain_text("not told")
            expect(named(line, "budget")).to_contain_text("spend is not told yet")
            expect(line).to_contain_text("numbers are shown by chapters of at least 100")
            page.goto(f"{base}/campaign/own")
            expect(named(page, "People reached")).to_contain_text("not told")
            expect(named(page, "Bids won")).to_contain_text("not told")
            named(page, "window start").fill("2026-11-02T00:00")
            named(page, "window end").fill("2026-11-03T00:00")
            named(page, "window end").press("Enter")
            expect(page.get_by_text("window must wait")).to_be_visible()
            page.goto(f"{base}/privacy")
            expect(page.get_by_text("the role advertiser may not do this")).to_be_visible()
            expect(page.get_by_text("The audit cannot be shown")).to_be_visible()
            key_file.write_text(operator + "\n")  # taken up when the old key is refused
            revoked = kreach("keys", "revoke", acme.split("_")[1], *where)
            assert revoked.code == 0, revoked.err
            rows = page.locator('table[data-name="withheld"] tbody tr')
            expect(rows.first).to_contain_text("too few so far")
            expect(rows.first).to_contain_text("acme.own")


def test_it_ends_in_order_with_a_browser_open(world: World, pages: Pages) -> None:
    given = {"KREACH_CONSOLE_TRUTH_FILE": str(world.folder / "none")}
    where = ("--config", str(world.config))
    with serving(world.folder, "console", *where, more=given) as console:
        base = f"http://127.0.0.1:{console.port}"
        page = pages(base, forgiving=True)  # it loses its server
        page.goto(base)
        expect(page.get_by_text("Nothing to show yet")).to_be_visible()
        begun = time.monotonic()
        assert console.stop(signal.SIGTERM) == 0
        assert time.monotonic() - begun < 15.0
        assert console.events("stopped")
