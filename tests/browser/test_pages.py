"""Each page shows the numbers that reporting answers."""

import csv
import io
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.locators import (
    NewPage,
    chart_options,
    count,
    drag,
    named,
    span,
    table,
    text,
    whole,
)
from tests.browser.services import CANARY, Services
from tests.browser.variants import in_each, seen_in_all

pytestmark = pytest.mark.xdist_group("browser")


def test_campaigns(services: Services, page: Page) -> None:
    page.goto(services.url)
    for campaign in services.api("/v1/campaigns?limit=3")["campaigns"]:
        name, cap = campaign["id"], campaign["caps"][0]["limit"]
        line = named(page, f"campaign {name}")
        expect(named(line, "People reached")).not_to_contain_text("…")
        if name != "spring":
            assert text(named(line, "state")) == {"future": "scheduled", "summer": "paused"}[name]
            assert "0.00 of 50.00 USD" in text(named(line, "budget"))
            assert text(named(line, "People reached")).split("\n")[1] == "0"
            continue
        document = services.api(f"/v1/campaigns/{name}/reach?cap=1&cap={cap}")
        report = document["reports"][-1]
        people, unique = document["people"], report["unique_reach"]
        assert text(named(line, "People reached")).split("\n") == [
            "People reached",
            whole(unique),
            f"{span(report['unique_reach_interval'])} (95%)",
            f"{100 * unique / people:.1f}% of {people}",
        ]
        reach = text(named(line, "Impressions within the cap")).split("\n")
        assert reach[1:3] == [whole(report["reach"]), f"{span(report['interval'])} (95%)"]
        low, high = report["average_frequency_interval"]
        often = text(named(line, "Average frequency")).split("\n")
        assert often[1:3] == [f"{report['average_frequency']:.2f}", f"{low:.2f} to {high:.2f}"]
        each = campaign["status"]["spend"] / unique
        assert text(named(line, "Cost per person reached")).split("\n")[1] == f"{each:.4f} USD"
        budget = text(named(line, "budget"))
        assert f"{campaign['status']['spend']:.2f} of 50.00 USD" in budget
        assert "10% behind even pace" in budget
    assert "Wed 4 Nov 2026, 00:00" in text(named(page, "clock"))
    assert "simulated, 60x speed" in text(named(page, "clock"))
    seen_in_all(page, page.locator("h1"), named(page, "campaign spring"))


def test_campaign(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/campaign/spring")
    document = services.api("/v1/campaigns/spring/reach?cap=1&cap=2&cap=3&cap=4&cap=5")
    status = services.api("/v1/campaigns/spring")["status"]
    expect(named(page, "Win rate")).to_contain_text("%")
    two = document["reports"][1]
    assert text(named(page, "People reached")).split("\n")[1] == whole(two["unique_reach"])
    assert text(named(page, "Impressions within the cap")).split("\n")[1] == whole(two["reach"])
    assert text(named(page, "Over-exposed people")).split("\n")[1] == whole(two["over_exposed"])
    pace = status["pace"]
    expected = f"{100 * pace['win_rate']:.1f}%\n{pace['wins']} of {pace['bids']} bids"
    assert expected in text(named(page, "Win rate"))
    assert "limit" in text(named(page, "Cost of a further person"))
    assert table(page, "by cap") == [
        [str(one["cap"]), whole(one["reach"]), span(one["interval"]), count(one["over_exposed"])]
        for one in document["reports"]
    ]
    first = document["reports"][0]
    rows = table(page, "at least")
    assert [row[0] for row in rows] == [f"{times} or more" for times in range(1, 6)]
    assert rows[0][1:] == [whole(first["at_least"][0]), span(first["at_least_intervals"][0])]
    assert "beta-binomial" in text(page.locator("section", has_text="Whiskers show the interval"))
    options = chart_options(page, "over time")
    names = [one["name"] for one in options["series"]]
    assert names[2:] == ["reach to date", "actual (simulation only)"]
    last = options["series"][2]["data"][-1]
    assert last[1:] == pytest.approx([two["reach"], *two["interval"]])
    assert len(options["series"][3]["data"]) == 72
    spent = chart_options(page, "spend")["series"][1]["data"][-1]
    assert spent[1] == pytest.approx(status["pace"]["spent_micros"] / 1e6)
    bars = chart_options(page, "frequency")["series"][0]["data"]
    assert bars[1]["value"] == pytest.approx(first["frequency"][1])
    seen_in_all(page, named(page, "People reached"), page.locator('table[data-name="by cap"]'))


def test_any_window_of_a_campaign(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/campaign/spring")
    expect(page.locator('.nicegui-echart[data-name="over time"] canvas')).to_be_visible()
    named(page, "window start").fill("2026-11-02T00:00")
    named(page, "window end").fill("2026-11-03T00:00")
    page.get_by_role("button", name="Report this window").click()
    parameters = "start=2026-11-02T00:00:00Z&end=2026-11-03T00:00:00Z"
    document = services.api(
        f"/v1/campaigns/spring/reach?{parameters}&cap=1&cap=2&cap=3&cap=4&cap=5"
    )
    expect(named(page, "window title")).to_have_text(
        "Mon 2 Nov 2026, 00:00 to Tue 3 Nov 2026, 00:00"
    )
    first = document["reports"][0]
    assert text(named(page, "window facts")) == (
        f"{document['impressions']} impressions, {whole(first['unique_reach'])} people reached "
        f"({span(first['unique_reach_interval'])}), spend {document['spend']:.4f} USD."
    )
    assert [row[:3] for row in table(page, "window report")] == [
        [str(one["cap"]), whole(one["reach"]), span(one["interval"])] for one in document["reports"]
    ]
    named(page, "window end").fill("2026-11-01T00:00")
    page.get_by_role("button", name="Report this window").click()
    end = page.locator("label", has=named(page, "window end"))
    expect(end).to_contain_text("must be after start")
    seen_in_all(page, end)


def swipe(page: Page, chart: Locator, right: float, down: float) -> tuple[float, float]:
    """Move a finger across a chart; returns where on it that began and ended, in pixels."""
    place = chart.bounding_box()
    assert place is not None
    first, y = 0.25 * place["width"], place["y"] + place["height"] / 2
    session = page.context.new_cdp_session(page)
    for step in range(11):
        x = place["x"] + first + right * step / 10
        touch = {"x": x, "y": y + down * step / 10}
        kind = "touchMove" if step else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [touch]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    session.detach()
    return first, first + right


def check_window(services: Services, page: Page, chart: Locator, ends: tuple[float, ...]) -> None:
    """The report is shown of the window between two places on the chart, in pixels."""
    times = [named(page, f"window {name}").input_value() for name in ("start", "end")]
    report = services.api(f"/v1/campaigns/spring/reach?start={times[0]}:00Z&end={times[1]}:00Z")
    facts = re.compile(f"^{report['impressions']} impr")
    expect(named(page, "window facts")).to_have_text(facts)
    place_of = """(el, times) => times.map((time) => getElement(+el.id.slice(1)).chart
        .convertToPixel({xAxisIndex: 0}, Date.parse(time + "Z")))"""
    assert chart.evaluate(place_of, times) == pytest.approx(ends, abs=5.0)  # whole hours


def test_a_window_is_dragged_on_the_chart(services: Services, new_page: NewPage) -> None:
    page = new_page(services.url, has_touch=True)
    page.goto(f"{services.url}/campaign/spring")
    chart_options(page, "over time")
    chart = page.locator('.nicegui-echart[data-name="over time"]')
    for at, variant in enumerate(in_each(page), 1):
        chart.scroll_into_view_if_needed()
        before = page.url
        if variant == "phone":
            swipe(page, chart, 0.0, -120.0)
            page.wait_for_function("scrollY > 0")  # up and down scrolls
            assert page.url == before
            ends = swipe(page, chart, 120.0, 10.0)
        else:
            ends = drag(page, chart, 100.0 * at)
        expect(page).not_to_have_url(before)
        check_window(services, page, chart, ends)
    seen_in_all(page, named(page, "window facts"), page.locator('[data-name="window report"]'))


def test_figures_follow_the_dates_that_are_chosen(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/campaign/spring?range=yesterday&cap=1")
    window = "start=2026-11-03T00:00:00Z&end=2026-11-04T00:00:00Z"
    document = services.api(f"/v1/campaigns/spring/reach?{window}&cap=1&cap=2")
    people = named(page, "People reached")
    expect(people).to_contain_text(whole(document["reports"][1]["unique_reach"]))
    expect(named(page, "range")).to_have_text("Tue 3 Nov 2026, 00:00 to Wed 4 Nov 2026, 00:00 UTC")
    expect(page.get_by_role("combobox", name="Frequency cap")).to_have_value("cap 1")
    page.get_by_role("button", name="Last 7 days").click()
    expect(page).to_have_url(re.compile("range=last-7-days&cap=1$"))
    page.get_by_role("button", name="Flight to date").click()
    status = services.api("/v1/campaigns/spring")["status"]
    expect(people).to_contain_text(whole(status["reach"][1]["unique_reach"]))
    page.get_by_role("button", name="Custom").click()
    expect(named(page, "window start")).to_have_value("2026-11-01T00:00")
    seen_in_all(page, named(page, "dates"))


def test_a_flight_is_planned_without_a_campaign_and_saved(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/planner")
    page.get_by_role("button", name="Plan", exact=True).click()
    amount = page.locator("label", has=named(page, "field amount"))
    expect(amount).to_contain_text("give a budget or people")
    page.get_by_label("How much").fill("0.2")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Eligible bid requests").fill("600")
    page.get_by_label("Frequency cap").fill("2")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(named(page, "People reached")).to_contain_text("(95%)", timeout=90_000)  # it has begun
    expect(named(page, "progress")).to_have_text("", timeout=90_000)
    body = {"cap": 2, "budgets": [0.2], "requests": 600, "auction": "second_price"}
    body |= {"start": "2026-11-05T00:00:00Z", "end": "2026-11-19T00:00:00Z"}
    plan = services.post("/v1/plans", body)
    chosen = plan["plans"][0]
    people = text(named(page, "People reached")).split("\n")
    assert people[1:3] == [whole(chosen["people"]), f"{span(chosen['people_band'])} (95%)"]
    each = chosen["spend"] / chosen["people"]
    assert text(named(page, "Cost per person reached")).split("\n")[1] == f"{each:.4f} USD"
    expect(named(page, "Cost of anonymity")).to_contain_text("by the same bidder")
    budgets = [float(row[1].removesuffix(" USD")) for row in table(page, "plan")]
    assert budgets == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.3, 0.4])
    assert chart_options(page, "plan")["series"][-1]["data"][0][1] == pytest.approx(
        chosen["people"]
    )
    expect(page).to_have_url(re.compile(r"/planner\?.*amount=0\.2.*requests=600"))
    answer = (named(page, "People reached"), page.locator('table[data-name="plan"]'))
    seen_in_all(page, *answer, named(page, "basis"))
    page.get_by_role("button", name="Save as campaign").click()
    expect(page.get_by_label("Budget", exact=True)).to_have_value("0.2")
    page.get_by_label("Name", exact=True).fill("Planned & saved")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("The campaign was created.")).to_be_visible()
    saved = services.api("/v1/campaigns/planned-saved")
    assert (saved["name"], saved["expected_requests"]) == ("Planned & saved", 600)
    assert saved["start"] == "2026-11-05T00:00:00Z"
    services.patch("/v1/campaigns/planned-saved", {"state": "ended"})


def test_charts_and_pages_are_exported_with_telling_names(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/campaign/spring")
    chart_options(page, "frequency")
    with page.expect_download() as caught:
        named(page, "png frequency").click()
    assert caught.value.suggested_filename == "kreach_frequency_spring_2026-11-04.png"
    assert caught.value.path().read_bytes().startswith(b"\x89PNG")
    page.emulate_media(media="print")
    expect(page.locator("h1")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()
    expect(page.locator(".k-header")).to_be_hidden()
    assert page.pdf().startswith(b"%PDF")


def test_privacy(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/privacy")
    release = services.api("/v1/catalogues")["catalogues"][-1]
    expect(named(page, "Groups")).to_be_visible()
    expect(named(page, "Groups")).to_contain_text(str(release["groups"]))
    sizes = f"guaranteed: 5, mean: {release['mean_group']:.1f}"
    assert text(named(page, "Smallest group")) == f"Smallest group\n5 people\n{sizes}"
    expect(named(page, "People")).to_contain_text(whole(release["people"]))
    assert "3.2" in text(named(page, "Smallest group, effective"))
    expect(named(page, "Catalogue")).to_contain_text(services.api("/healthz")["catalogues"][-1])
    expect(named(page, "verdict")).to_contain_text("must not be released: 1 danger was found")
    assert table(page, "checks") == [
        ["danger", "–", "–", "–", "<img src=x onerror=alert(1)> is text"],
        ["ok", "group size", "5 people", "at least 5", "every group has at least 5 members"],
    ]
    seen = ["everyone", "192", "4", "5.5", "30%", "42%", "0"]
    assert table(page, "audited audiences") == [seen]
    assert table(page, "linkage") == [["sticky", "0.00%", "1.25%"]]
    expect(named(page, "past linkage")).to_contain_text("Over the 3 versions so far: 0 people")
    expect(named(page, "not examined")).to_contain_text("What observers know from elsewhere.")
    expect(named(page, "withheld").first).to_contain_text("Reporting runs without keys")
    assert table(page, "publisher knows") == [["4,321", CANARY]]
    assert table(page, "ad system knows") == [["4,321", "v1-g0003", "one of 5 or more people"]]
    assert text(page.locator("body")).count(CANARY) == 1
    expect(named(page, "noise budget")).to_contain_text("carry no noise")
    expect(named(page, "panel budget")).to_contain_text("nothing was spent on panels")
    places = (named(page, "overall verdict"), named(page, "noise budget"))
    seen_in_all(page, *places, page.locator('table[data-name="crossed"]'))


def test_cost(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/cost")
    expect(named(page, "advice")).to_contain_text("random groups lose 12% of reach")
    assert table(page, "tradeoff") == [
        ["reach at equal budget", "planning visitors", "1", "100.0%", "90.0%", "110.0%"],
        ["reach at equal budget", "planning visitors", "5", "87.5%", "90.0%", "110.0%"],
        ["reach at equal budget", "planning visitors", "20", "81.3%", "90.0%", "110.0%"],
        ["error of reach", "dispersed", "5", "1.2%", "90.0%", "110.0%"],
    ]
    chart_options(page, "error of reach")
    with page.expect_download() as caught:
        named(page, "png reach at equal budget").click()
    name = "kreach_reach-at-equal-budget_random_2026-11-04.png"
    assert caught.value.suggested_filename == name
    seen_in_all(page, named(page, "advice"), page.locator('table[data-name="tradeoff"]'))


def test_tables_are_downloaded_as_csv(services: Services, page: Page) -> None:
    page.goto(services.url)
    for name in ("spring", "summer", "future"):
        place = named(page, f"campaign {name}")
        expect(named(place, "People reached")).not_to_contain_text("…")
    with page.expect_download() as caught:
        named(page, "csv campaigns").click()
    content = caught.value.path().read_text()
    rows = {row["campaign"]: row for row in csv.DictReader(io.StringIO(content))}
    report = services.api("/v1/campaigns/spring/reach?cap=2")["reports"][0]
    assert float(rows["spring"]["reach"]) == report["reach"]
    assert float(rows["spring"]["unique_reach_high"]) == report["unique_reach_interval"][1]
    assert {"spring", "summer", "future"} <= set(rows)


@pytest.mark.parametrize(
    "path", ["/", "/campaign/spring", "/compare", "/planner", "/review", "/privacy", "/cost"]
)
def test_pages_fit_narrow_screens(services: Services, new_page: NewPage, path: str) -> None:
    page = new_page(services.url, viewport={"width": 360, "height": 740}, has_touch=True)
    page.goto(services.url + path)
    expect(page.locator("h1")).to_be_visible()
    page.wait_for_timeout(700)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.locator(".q-drawer")).not_to_be_in_viewport()
    page.get_by_role("button", name="Navigation").click()
    expect(page.get_by_role("link", name="Privacy")).to_be_in_viewport()


def test_the_theme_is_remembered(services: Services, new_page: NewPage) -> None:
    page = new_page(services.url, color_scheme="light")
    page.goto(f"{services.url}/cost")
    expect(page.locator("body")).to_have_class(re.compile("body--light"))
    named(page, "theme").click()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page.goto(services.url)
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    named(page, "theme").click()
    expect(page.locator("body")).to_have_class(re.compile("body--light"))


def test_an_unknown_campaign(services: Services, new_page: NewPage) -> None:
    page = new_page(services.url)
    page.goto(f"{services.url}/campaign/nobody")
    expect(page.get_by_text("Campaign not found")).to_be_visible()
    expect(page.get_by_text("No campaign 'nobody'")).to_be_visible()
