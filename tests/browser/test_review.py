"""Creatives in review: an advertiser sees the state, an operator looks at them and decides."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from kreach.boundary.files import write_catalogue
from tests.adsystem.api.live_stores import make_catalogue
from tests.browser.locators import NewPage, named, table
from tests.browser.variants import seen_in_all
from tests.cli.command import kreach
from tests.service.service_process import serving

pytestmark = pytest.mark.xdist_group("browser")

HOSTILE = (
    "<b>Half price</b><script>top.document.title = 'owned'; fetch('https://evil.example/')</script>"
    '<img src="https://evil.example/pixel.gif" onerror="top.owned = 1">'
    '<link rel="stylesheet" href="https://evil.example/x.css">'
    '<meta http-equiv="refresh" content="0;url=https://evil.example/">'
    '<div style="background:url(https://evil.example/b.png)">now</div>'
    '<a href="https://evil.example/" target="_top">click</a>'
)
CREATIVES: list[dict[str, Any]] = [
    {"id": "hostile", "markup": HOSTILE, "width": 300, "height": 250, "domains": ["shop.example"]},
    {"id": "plain", "markup": "<i>plain</i>", "width": 320, "height": 50},
    {"id": "feed", "kind": "native", "native": {"link": "https://shop.example/", "title": "<u>"}},
]


def write_settings(folder: Path) -> Path:
    catalogue = make_catalogue("even")
    write_catalogue(catalogue, folder / "release")
    config = folder / "kreach.toml"
    config.write_text(
        '[adsystem]\nstore = "store"\ncatalogues = ["release"]\n'
        "[reporting]\nport = 0\nkeys = true\n[console]\nport = 0\n"
        "[guard]\nmin_audience = 10\nmin_people = 10\nmin_difference = 0\n"
    )
    return config


def reviews(url: str, key: str) -> dict[str, tuple[str, str | None]]:
    answer = httpx.get(
        f"{url}/v1/campaigns/acme.own", headers={"authorization": f"Bearer {key}"}, timeout=30.0
    )
    assert answer.status_code == 200, answer.text
    creatives = answer.json()["creatives"]
    return {one["key"]: (one["review"], one["review_reason"]) for one in creatives}


def check_preview(page: Page) -> None:
    """It shows the text, runs nothing and cannot be clicked; requests elsewhere fail the test."""
    card = named(page, "creative acme.own hostile")
    frame = card.locator("iframe")
    expect(frame).to_have_attribute("sandbox", "")
    shown = card.frame_locator("iframe")
    expect(shown.locator("b")).to_have_text("Half price")
    expect(shown.locator(".left-out")).to_have_text("img")
    assert shown.locator("script, img, meta[content*='url'], [href]").count() == 0
    assert page.evaluate("window.owned") is None
    expect(page).to_have_title("Creatives · kreach")
    expect(named(card, "source")).to_have_text(HOSTILE)  # as text, not as elements
    assert named(card, "source").locator("b").count() == 0
    expect(card).to_contain_text("Left out: 1 script, 1 img, 1 link, 1 meta, 1 style.")
    expect(card).to_contain_text("domains: shop.example")
    box = frame.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 20, box["y"] + 30)  # on what was a link
    native = named(page, "creative acme.own feed")
    expect(named(native, "source")).to_contain_text('"title": "<u>"')
    expect(native.locator("iframe")).to_have_count(0)


def test_an_operator_decides_and_the_advertiser_reads_it(new_page: NewPage, tmp_path: Path) -> None:
    config = write_settings(tmp_path)
    where = ("--config", str(config))
    add = ("keys", "add", *where, "--role")
    acme = kreach(*add, "advertiser", "--advertiser", "acme").out.strip()
    operator = kreach(*add, "operator").out.strip()
    key_file = tmp_path / "key"
    key_file.write_text(acme + "\n")
    with serving(tmp_path, "reporting", *where) as reporting:
        url = f"http://127.0.0.1:{reporting.port}"
        campaign = {"id": "own", "budget": 5, "max_cpm": 5, "creatives": CREATIVES}
        campaign |= {"start": "2026-11-01T00:00:00Z", "end": "2036-12-01T00:00:00Z"}
        bearer = {"authorization": f"Bearer {acme}"}
        created = httpx.post(f"{url}/v1/campaigns", json=campaign, headers=bearer, timeout=30.0)
        assert created.status_code == 201, created.text
        environment = {
            "KREACH_CONSOLE_REPORTING_URL": url,
            "KREACH_CONSOLE_KEY_FILE": str(key_file),
        }
        with serving(tmp_path, "console", *where, more=environment) as console:
            base = f"http://127.0.0.1:{console.port}"
            page = new_page(base)
            page.goto(base)
            page.get_by_role("link", name="Creatives").click()
            waiting = named(page, "creative own plain")
            expect(waiting).to_be_visible()
            expect(page.get_by_role("button", name="Approve")).to_have_count(0)
            assert [row[4] for row in table(page, "creatives")] == ["pending"] * 3

            key_file.write_text(operator + "\n")  # taken up when the old key is refused
            assert kreach("keys", "revoke", acme.split("_")[1], *where).code == 0
            approve = page.get_by_role("button", name="Approve plain of acme.own")
            expect(approve).to_be_visible()
            check_preview(page)
            seen_in_all(page, approve, named(page, "creative acme.own plain"))
            approve.click()
            expect(named(page, "creative acme.own plain")).to_have_count(0)
            assert reviews(url, operator)["plain"] == ("approved", None)

            card = named(page, "creative acme.own hostile")
            reject = page.get_by_role("button", name="Reject hostile of acme.own")
            reject.click()
            expect(card).to_contain_text("A rejection needs a reason")
            assert reviews(url, operator)["hostile"] == ("pending", None)
            page.get_by_label("Reason, for the advertiser").first.fill("it <runs> scripts")
            reject.click()
            expect(card).to_have_count(0)
            assert reviews(url, operator)["hostile"] == ("rejected", "it <runs> scripts")
            rows = {row[1]: row[4:] for row in table(page, "creatives")}
            assert rows["hostile"] == ["rejected", "it <runs> scripts"]

            page.get_by_role("button", name="Approve feed of acme.own").click()
            expect(page.get_by_text("No creative waits for review")).to_be_visible()
