"""Campaigns together: from the list, by a link, with a cap and a window, and what is refused."""

import csv
import io
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.locators import NewPage, chart_options, count, named, span, table, text, whole
from tests.browser.services import Services
from tests.browser.variants import seen_in_all

pytestmark = pytest.mark.xdist_group("browser")
BOTH = "campaign=spring&campaign=autumn"


def test_campaigns_are_chosen_in_the_list(services: Services, page: Page) -> None:
    page.goto(services.url)
    for name in ("spring", "autumn"):
        page.get_by_role("checkbox", name=f"Compare {name}").click()
    seen_in_all(page, page.get_by_role("button", name="Compare 2"))
    page.get_by_role("button", name="Compare 2").click()
    expect(page).to_have_url(f"{services.url}/compare?{BOTH}")
    document = services.api(f"/v1/reach?{BOTH}&cap=1")
    together, overlap = document["combined"]["union"], document["combined"]["overlap"]
    place = named(page, "People reached together")
    expect(place).to_contain_text(whole(together["unique_reach"]))
    assert f"{span(together['unique_reach_interval'])} (95%)" in text(place)
    tile = text(named(page, "Reached by two or more")).split("\n")
    share = 100 * overlap["unique_reach"] / together["unique_reach"]
    assert tile[1] == whole(overlap["unique_reach"])
    assert tile[3] == f"{share:.1f}% of people reached together"
    each = sum(part["reports"][0]["unique_reach"] for part in document["parts"])
    twice = f"counted twice: {count(each - together['unique_reach'])} people"
    assert text(named(page, "Sum of the campaigns")).split("\n")[1:] == [whole(each), twice]
    expect(named(page, "overlap")).to_be_hidden()


def test_a_link_shows_charts_pairs_and_a_table(services: Services, page: Page) -> None:
    names = f"{BOTH}&campaign=summer"
    page.goto(f"{services.url}/compare?{names}")
    document = services.api(f"/v1/reach?{names}&cap=1")
    combined, matrix = document["combined"], document["overlap_matrix"]
    only, several, _ = chart_options(page, "one or several")["series"]
    assert [row[1] for row in only["data"][1:]] == pytest.approx(
        [combined["only"][name]["reach"] for name in ("spring", "autumn", "summer")]
    )
    assert several["data"][0][1] == pytest.approx(combined["overlap"]["reach"])
    adds = chart_options(page, "adds")["series"][1]["data"]
    steps = combined["incremental"]
    assert [row[1] for row in adds] == pytest.approx([one["adds"]["reach"] for one in steps])
    pairs = named(page, "overlap").locator("tbody td")
    assert text(pairs.nth(0)).split("\n") == [whole(matrix[0][0]), "people"]
    shared = matrix[0][1]
    assert text(pairs.nth(1)).split("\n") == [f"{100 * shared / matrix[0][0]:.1f}%", count(shared)]
    assert text(pairs.nth(6)).startswith("—")  # of nobody
    rows = table(page, "side by side")
    assert [row[0] for row in rows] == ["spring", "autumn", "summer", "all together"]
    assert rows[0][2] == whole(matrix[0][0])
    assert rows[1][5:] == [
        count(combined["only"]["autumn"]["reach"]),
        f"+{count(steps[1]['adds']['reach'])}",
    ]
    tables = [page.locator(f'table[data-name="{one}"]') for one in ("overlap", "side by side")]
    seen_in_all(page, *tables)
    with page.expect_download() as caught:
        named(page, "png one or several").click()
    png = "kreach_one-or-several_spring_autumn_summer_to-date_2026-11-04.png"
    assert caught.value.suggested_filename == png
    with page.expect_download() as caught:
        named(page, "csv comparison").click()
    content = list(csv.DictReader(io.StringIO(caught.value.path().read_text())))
    assert float(content[3]["unique_reach"]) == pytest.approx(combined["union"]["reach"])


def test_the_address_follows_the_choice(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/compare")
    expect(page.get_by_text("Choose two campaigns or more")).to_be_visible()
    for name in ("autumn", "spring"):
        page.get_by_role("combobox", name="Campaigns").fill(name)
        page.get_by_role("option", name=name).click()
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{services.url}/compare?campaign=autumn&campaign=spring")
    page.get_by_role("combobox", name="Cap", exact=True).click()
    page.get_by_role("option", name="cap 2", exact=True).click()
    page.get_by_role("button", name="Custom").click()
    named(page, "compare end").fill("2026-11-03T12:00")
    page.get_by_role("button", name="Report this window").click()
    query = "campaign=autumn&campaign=spring&cap=2&end=2026-11-03T12:00:00Z"
    expect(page).to_have_url(f"{services.url}/compare?{query}")
    expect(named(page, "facts")).to_contain_text("up to Tue 3 Nov 2026, 12:00")
    union = services.api(f"/v1/reach?{query}")["combined"]["union"]
    expect(named(page, "Impressions within the cap")).to_contain_text(whole(union["reach"]))
    page.get_by_role("button", name="Largest first").click()
    expect(page).to_have_url(re.compile("campaign=spring&campaign=autumn&cap=2"))
    page.get_by_role("button", name="Yesterday").click()
    expect(page).to_have_url(re.compile("campaign=autumn&cap=2&range=yesterday"))
    expect(named(page, "facts")).to_contain_text("Tue 3 Nov 2026, 00:00 to Wed 4 Nov 2026, 00:00")
    seen_in_all(page, named(page, "facts"), named(page, "dates"))
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_text("Choose two campaigns or more")).to_be_visible()


def test_what_reporting_refuses_is_shown_at_the_input(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/compare?{BOTH}&start=2026-11-03&end=2026-11-01")
    end = page.locator("label", has=named(page, "compare end"))
    expect(end).to_contain_text("must be after start")
    expect(page.get_by_text("No report for this choice")).to_be_visible()
    seen_in_all(page, end)
    page.get_by_role("button", name="Flight to date").click()
    expect(named(page, "People reached together")).not_to_contain_text("…")
    page.goto(f"{services.url}/compare?{BOTH}&campaign=nobody")
    expect(page.get_by_text("No campaign 'nobody'")).to_be_visible()


def test_a_comparison_fits_a_narrow_screen(services: Services, new_page: NewPage) -> None:
    page = new_page(services.url, viewport={"width": 360, "height": 740}, has_touch=True)
    page.goto(f"{services.url}/compare?{BOTH}&campaign=summer")
    chart_options(page, "adds")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
