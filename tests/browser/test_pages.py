"""Each page shows the numbers of reporting, as they are written."""

import csv
import io
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Pages
from tests.browser.worlds import CANARY, World

pytestmark = pytest.mark.xdist_group("browser")


def named(page: Page | Locator, name: str) -> Locator:
    return page.locator(f'[data-name="{name}"]')


def text(place: Locator) -> str:
    """What is to be read there; a space is a space."""
    return place.inner_text().replace("\u00a0", " ")


def whole(value: float) -> str:
    """As pages write counts that are not small."""
    assert value >= 10.0
    return f"{value:,.0f}"


def span(ends: list[float]) -> str:
    return f"{whole(ends[0])} to {whole(ends[1])}"


def table(page: Page, name: str) -> list[list[str]]:
    rows = page.locator(f'table[data-name="{name}"] tbody tr')
    expect(rows.first).to_be_visible()
    found = [row.split("\t") for row in rows.all_inner_texts()]
    return [[cell.strip().replace("\u00a0", " ") for cell in row] for row in found]


def test_campaigns(world: World, page: Page) -> None:
    page.goto(world.url)
    for campaign in world.api("/v1/campaigns?limit=3")["campaigns"]:
        name, cap = campaign["id"], campaign["caps"][0]["limit"]
        line = named(page, f"campaign {name}")
        expect(named(line, "People reached")).not_to_contain_text("…")
        if name != "spring":
            assert text(named(line, "state")) == {"future": "scheduled", "summer": "paused"}[name]
            assert "0.00 of 50.00 USD" in text(named(line, "budget"))
            assert text(named(line, "People reached")).split("\n")[1] == "0"
            continue
        document = world.api(f"/v1/campaigns/{name}/reach?cap=1&cap={cap}")
        report = document["reports"][-1]
        people, unique = document["people"], report["unique_reach"]
        assert text(named(line, "People reached")).split("\n") == [
            "People reached",
            whole(unique),
            f"{span(report['unique_reach_interval'])} (95 %)",
            f"{100 * unique / people:.1f} % of {people}",
        ]
        reach = text(named(line, "Capped reach")).split("\n")
        assert reach[1:3] == [whole(report["reach"]), f"{span(report['interval'])} (95 %)"]
        low, high = report["average_frequency_interval"]
        often = text(named(line, "Frequency")).split("\n")
        assert often[1:3] == [f"{report['average_frequency']:.2f}", f"{low:.2f} to {high:.2f}"]
        over = text(named(line, "Over-exposed")).split("\n")
        assert over[1] == whole(report["over_exposed"])
        budget = text(named(line, "budget"))
        assert f"{campaign['status']['spend']:.2f} of 50.00 USD" in budget
        assert "10 % behind the even pace" in budget
    assert "Wed 4 Nov 2026, 00:00" in text(named(page, "clock"))
    assert "simulated, 60 times as fast" in text(named(page, "clock"))


def test_campaign(world: World, page: Page) -> None:
    page.goto(f"{world.url}/campaign/spring")
    document = world.api("/v1/campaigns/spring/reach?cap=1&cap=2&cap=3&cap=4&cap=5")
    status = world.api("/v1/campaigns/spring")["status"]
    expect(named(page, "Bids won")).to_contain_text("%")
    two = document["reports"][1]
    assert text(named(page, "People reached")).split("\n")[1] == whole(two["unique_reach"])
    assert text(named(page, "Capped reach")).split("\n")[1] == whole(two["reach"])
    assert text(named(page, "Over-exposed")).split("\n")[1] == whole(two["over_exposed"])
    won = status["pace"]
    expected = f"{100 * won['win_rate']:.1f} %\n{won['wins']} of {won['bids']} bids"
    assert expected in text(named(page, "Bids won"))
    assert table(page, "by cap") == [
        [str(one["cap"]), whole(one["reach"]), span(one["interval"]), _people(one["over_exposed"])]
        for one in document["reports"]
    ]
    first = document["reports"][0]
    rows = table(page, "at least")
    assert [row[0] for row in rows] == [f"{times}+ times" for times in range(1, 6)]
    assert rows[0][1:] == [whole(first["at_least"][0]), span(first["at_least_intervals"][0])]
    assert "beta-binomial" in text(page.locator("section", has_text="Reach by cap"))
    options = _options(page, "over time")
    names = [one["name"] for one in options["series"]]
    assert names[2:] == ["reach so far", "truth (unknown to the ad system)"]
    last = options["series"][2]["data"][-1]
    assert last[1:] == pytest.approx([two["reach"], *two["interval"]])
    assert len(options["series"][3]["data"]) == 72
    spent = _options(page, "spend")["series"][1]["data"][-1]
    assert spent[1] == pytest.approx(status["pace"]["spent_micros"] / 1e6)
    bars = _options(page, "frequency")["series"][0]["data"]
    assert bars[1]["value"] == pytest.approx(first["frequency"][1])


def _people(value: float) -> str:
    digits = 1 if value < 9.95 and abs(value - round(value)) > 0.05 else 0
    return f"{value:,.{digits}f} people"


def _options(page: Page, name: str) -> dict[str, Any]:
    """What a chart was drawn from."""
    place = page.locator(f'.nicegui-echart[data-name="{name}"]')
    expect(place.locator("canvas")).to_be_visible()
    page.wait_for_function(
        "(el) => (getElement(+el.id.slice(1)).chart?.getOption()?.series?.[1]?.data ?? "
        "getElement(+el.id.slice(1)).chart?.getOption()?.series?.[0]?.data)?.length > 0",
        arg=place.element_handle(),
    )
    found: dict[str, Any] = place.evaluate(
        "(el) => JSON.parse(JSON.stringify(getElement(+el.id.slice(1)).chart.getOption()))"
    )
    return found


def test_any_window_of_a_campaign(world: World, page: Page) -> None:
    page.goto(f"{world.url}/campaign/spring")
    expect(page.locator('.nicegui-echart[data-name="over time"] canvas')).to_be_visible()
    named(page, "window start").fill("2026-11-02T00:00")
    named(page, "window end").fill("2026-11-03T00:00")
    page.get_by_role("button", name="Report this window").click()
    asked = "start=2026-11-02T00:00:00Z&end=2026-11-03T00:00:00Z"
    document = world.api(f"/v1/campaigns/spring/reach?{asked}&cap=1&cap=2&cap=3&cap=4&cap=5")
    expect(named(page, "window title")).to_have_text(
        "Mon 2 Nov 2026, 00:00 to Tue 3 Nov 2026, 00:00"
    )
    first = document["reports"][0]
    assert text(named(page, "window facts")) == (
        f"{document['impressions']} impressions, {whole(first['unique_reach'])} people reached "
        f"({span(first['unique_reach_interval'])}), {document['spend']:.4f} USD spent."
    )
    assert [row[:3] for row in table(page, "window report")] == [
        [str(one["cap"]), whole(one["reach"]), span(one["interval"])] for one in document["reports"]
    ]
    named(page, "window end").fill("2026-11-01T00:00")
    page.get_by_role("button", name="Report this window").click()
    expect(page.get_by_text("end must be after start")).to_be_visible()


def test_a_window_is_dragged_on_the_chart(world: World, page: Page) -> None:
    page.goto(f"{world.url}/campaign/spring")
    _options(page, "over time")
    chart = page.locator('.nicegui-echart[data-name="over time"]')
    chart.scroll_into_view_if_needed()
    page.wait_for_timeout(1_200)  # until dragging is allowed
    place = chart.bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + 60, y)
    page.mouse.down()
    page.mouse.move(place["x"] + 120, y, steps=5)
    page.mouse.move(place["x"] + 300, y, steps=5)
    page.mouse.up()
    expect(named(page, "window title")).to_contain_text("Nov 2026")
    start, end = (named(page, f"window {name}").input_value() for name in ("start", "end"))
    assert "2026-11-01" <= start < end <= "2026-11-20"
    impressions = world.api(f"/v1/campaigns/spring/reach?start={start}:00Z&end={end}:00Z")
    assert text(named(page, "window facts")).startswith(f"{impressions['impressions']} impr")


def test_planner(world: World, page: Page) -> None:
    page.goto(f"{world.url}/planner")
    page.get_by_role("combobox", name="Campaign").click()
    page.get_by_role("option", name="spring").click()
    expect(page.get_by_text("Frequency cap: 2 a person")).to_be_visible()
    expect(page.get_by_text("Groups of 5 people, as released")).to_be_visible()
    page.get_by_label("Or: reach wanted").fill("1e9")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_text("reach must lie between 0 and what is possible")).to_be_visible()
    page.get_by_label("Or: reach wanted").fill("")
    page.get_by_role("button", name="Plan", exact=True).click()
    rows = page.locator('table[data-name="plan"] tbody tr')
    expect(rows.first).to_be_visible(timeout=60_000)  # the budget of the campaign comes first
    page.get_by_role("button", name="Stop").click()
    shown = next(row for row in table(page, "plan") if row[1] == "50.00 USD")
    plan = world.api("/v1/campaigns/spring/plan?cap=2&requests=600&budget=50")["plans"][0]
    assert shown[0] == "5"
    assert shown[3:] == [
        whole(plan["reach"]),
        f"{span(plan['band'])} (95 %)",
        whole(plan["impressions"]),
        f"{plan['average_frequency']:.2f}",
    ]
    page.get_by_role("slider", name="Size of groups").locator("[tabindex]").press("ArrowRight")
    expect(page.get_by_text("Groups of 10 people, beside the 5 of today")).to_be_visible()
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(rows.nth(1)).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Stop").click()
    other = next(row for row in table(page, "plan") if row[0] == "10")
    asked = "cap=2&requests=600&budget=50&group_size=10"
    plan = world.api(f"/v1/campaigns/spring/plan?{asked}")["plans"][0]
    assert other[3:5] == [whole(plan["reach"]), f"{span(plan['band'])} (95 %)"]


def test_privacy(world: World, page: Page) -> None:
    page.goto(f"{world.url}/privacy")
    release = world.api("/v1/catalogues")["catalogues"][-1]
    expect(named(page, "Groups")).to_contain_text(str(release["groups"]))
    average = f"promised: 5, on average {release['mean_group']:.1f}"
    assert text(named(page, "Least group")) == f"Least group\n5 people\n{average}"
    expect(named(page, "People")).to_contain_text(whole(release["people"]))
    assert "3.2" in text(named(page, "Least group, effective"))
    expect(named(page, "Catalogue")).to_contain_text(world.api("/healthz")["catalogues"][-1])
    audit = named(page, "audit")
    expect(audit).to_contain_text("every group has at least 5 members")
    expect(audit).to_contain_text("<img src=x onerror=alert(1)> is text")
    assert table(page, "linkage") == [["sticky", "0.00 %", "1.25 %"]]
    expect(named(page, "withheld").first).to_contain_text("Reporting runs without keys")
    assert table(page, "publisher knows") == [["4,321", CANARY]]
    assert table(page, "ad system knows") == [["4,321", "v1-g0003", "any of 5 people or more"]]
    assert text(page.locator("body")).count(CANARY) == 1


def test_cost(world: World, page: Page) -> None:
    page.goto(f"{world.url}/cost")
    expect(named(page, "advice")).to_contain_text("random groups lose 12% of reach")
    assert table(page, "tradeoff") == [
        ["reach at equal budget", "planning recency", "1", "100.0 %", "90.0 %", "110.0 %"],
        ["reach at equal budget", "planning recency", "5", "87.5 %", "90.0 %", "110.0 %"],
        ["reach at equal budget", "planning recency", "20", "81.3 %", "90.0 %", "110.0 %"],
        ["error of reach", "dispersed", "5", "1.2 %", "90.0 %", "110.0 %"],
    ]


def test_tables_leave_as_csv(world: World, page: Page) -> None:
    page.goto(world.url)
    for name in ("spring", "summer", "future"):
        place = named(page, f"campaign {name}")
        expect(named(place, "People reached")).not_to_contain_text("…")
    with page.expect_download() as caught:
        named(page, "csv campaigns").click()
    content = caught.value.path().read_text()
    rows = {row["campaign"]: row for row in csv.DictReader(io.StringIO(content))}
    report = world.api("/v1/campaigns/spring/reach?cap=2")["reports"][0]
    assert float(rows["spring"]["reach"]) == report["reach"]
    assert float(rows["spring"]["unique_reach_high"]) == report["unique_reach_interval"][1]
    assert {"spring", "summer", "future"} <= set(rows)


@pytest.mark.parametrize("path", ["/", "/campaign/spring", "/planner", "/privacy", "/cost"])
def test_narrow_screens_are_not_wider_than_they_are(world: World, pages: Pages, path: str) -> None:
    page = pages(world.url, viewport={"width": 360, "height": 740}, has_touch=True)
    page.goto(world.url + path)
    expect(page.locator("h1")).to_be_visible()
    page.wait_for_timeout(700)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.locator(".q-drawer")).not_to_be_in_viewport()
    page.get_by_role("button", name="Navigation").click()
    expect(page.get_by_role("link", name="Privacy")).to_be_in_viewport()


def test_the_theme_is_remembered(world: World, pages: Pages) -> None:
    page = pages(world.url, color_scheme="light")
    page.goto(f"{world.url}/cost")
    expect(page.locator("body")).to_have_class(re.compile("body--light"))
    named(page, "theme").click()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page.goto(world.url)
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    named(page, "theme").click()
    expect(page.locator("body")).to_have_class(re.compile("body--light"))


def test_a_page_that_is_not_there_and_a_campaign_that_is_not(world: World, pages: Pages) -> None:
    page = pages(world.url)
    page.goto(f"{world.url}/campaign/nobody")
    expect(page.get_by_text("There is no such campaign")).to_be_visible()
    expect(page.get_by_text("campaign must exist, got 'nobody'")).to_be_visible()
