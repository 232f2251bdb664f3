"""An advertiser's own campaigns: names in and out, and others that might as well not exist."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.campaigns.store import CampaignExists, UnknownCampaign
from kreach.adsystem.disclosure.open import OpenPolicy
from kreach.adsystem.reports.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.reports.report import CampaignStatus
from kreach.adsystem.reports.service import ReportService
from kreach.boundary.times import Window
from kreach.errors import KreachError
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue
from tests.adsystem.report_services import PlainReports, open_reports, report_context

NEW = {
    "id": "spring",
    "budget": 5.0,
    "max_cpm": 5.0,
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-12-01T00:00:00Z",
}


@pytest.fixture
def reporting(tmp_path: Path) -> Iterator[PlainReports]:
    live = LiveStore(tmp_path, make_catalogue("disjoint", groups=6))
    live.add(make_campaign("house"))
    with open_reports(live.shared) as service:
        yield service


def questions_about(view: PlainReports, name: str) -> dict[str, Callable[[], dict[str, Any]]]:
    """Everything that can be asked of one campaign."""
    return {
        "status": lambda: view.status(name, 0.95),
        "change": lambda: view.change(name, {"budget": 6.0}),
        "reach": lambda: view.reach(name, ReachQuestion(caps=(1,))),
        "series": lambda: view.series(
            name, "day", ReachQuestion(Window.between("2026-11-01"), (1,), level=0.9)
        ),
        "pacing": lambda: view.pacing(name, Window(), 10),
        "plan": lambda: view.plan(name, PlanQuestion(50, 1, (1.0,), None, 0.95)),
    }


def test_a_campaign_is_kept_under_its_advertiser_and_shown_without(reporting: PlainReports) -> None:
    own = reporting.own("acme")
    creative = {"id": "acme.banner", "markup": "acme."}  # not a campaign's id: it stays
    created = own.create(NEW | {"creative": creative})
    assert created["id"] == "spring"
    assert created["creative"]["id"] == "acme.banner"
    assert reporting.service.store.campaigns.get("acme.spring").campaign.budget == 5.0
    for kind, ask in questions_about(own, "spring").items():
        document = ask()
        named = [document[name] for name in ("id", "campaign") if name in document]
        assert named == ["spring"], kind
    assert own.change("spring", {"state": "paused"})["state"] == "paused"
    assert reporting.status("acme.spring", 0.95)["id"] == "acme.spring"


def test_documents_that_are_kept_stay_as_they_are(reporting: PlainReports) -> None:
    own = reporting.own("acme")
    own.create(NEW)
    for _ in range(2):
        assert own.reach("spring", ReachQuestion(caps=(1,)))["campaign"] == "spring"
        assert reporting.reach("acme.spring", ReachQuestion(caps=(1,)))["campaign"] == (
            "acme.spring"
        )


def test_two_advertisers_may_use_one_name(reporting: PlainReports) -> None:
    acme, bob = reporting.own("acme"), reporting.own("bob")
    acme.create(NEW)
    bob.create(NEW | {"budget": 7.0})
    acme.create(NEW | {"id": "house"})  # a campaign of the operator's has this name too
    with pytest.raises(CampaignExists, match=r"^campaign 'spring' exists already$"):
        acme.create(NEW)
    assert acme.status("spring", 0.9)["budget"] == 5.0
    assert bob.status("spring", 0.9)["budget"] == 7.0
    assert bob.change("spring", {"budget": 8.0})["budget"] == 8.0
    assert acme.status("spring", 0.9)["budget"] == 5.0


UNKNOWN = ["nobody", "theirs", "house", "bob.theirs", "acme.spring", ".spring", "acme.bob.theirs"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_ones_own_does_not_exist(reporting: PlainReports, name: str) -> None:
    acme, bob = reporting.own("acme"), reporting.own("bob")
    acme.create(NEW)
    bob.create(NEW | {"id": "theirs"})
    for ask in questions_about(acme, name).values():
        with pytest.raises(UnknownCampaign) as caught:
            ask()
        assert str(caught.value) == f"no campaign {name!r}"
    with pytest.raises(UnknownCampaign, match=f"^no campaign {name!r}$"):
        acme.listing(name, 10)


def statements(reporting: PlainReports, ask: Callable[[], object]) -> list[str]:
    """What the campaigns' store was asked, with the values in place."""
    executed: list[str] = []
    connection = reporting.service.store.campaigns._connection
    connection.set_trace_callback(executed.append)
    try:
        with pytest.raises(UnknownCampaign):
            ask()
    finally:
        connection.set_trace_callback(None)
    return executed


def test_the_steps_are_the_same_for_anothers_campaign_and_for_none(reporting: PlainReports) -> None:
    acme, bob = reporting.own("acme"), reporting.own("bob")
    bob.create(NEW | {"id": "theirs"})
    for kind in questions_about(acme, "theirs"):
        theirs = statements(reporting, questions_about(acme, "theirs")[kind])
        nobody = statements(reporting, questions_about(acme, "nobody")[kind])
        assert theirs
        assert [one.replace("theirs", "nobody") for one in theirs] == nobody
        assert all("'acme.nobody'" in one for one in nobody if "WHERE id" in one)


def test_pages_are_as_if_there_were_no_others(reporting: PlainReports) -> None:
    acme, bob = reporting.own("acme"), reporting.own("bob")
    for number in range(7):
        acme.create(NEW | {"id": f"c{number}"})
        for each in range(3):
            bob.create(NEW | {"id": f"c{number}-{each}"})
    neighbours = ("acme-2", "acm", "acmf", "acme0", "acme")  # around "acme." in every order
    for name in neighbours[:-1]:
        reporting.own(name).create(NEW)
    seen: list[list[str]] = []
    after = None
    while True:
        page = acme.listing(after, 3)
        seen.append([one["id"] for one in page["campaigns"]])
        after = page["next"]
        if after is None:
            break
    assert seen == [["c0", "c1", "c2"], ["c3", "c4", "c5"], ["c6"]]
    assert acme.listing(None, 7)["next"] is None
    everyone = reporting.listing(None, 1_000)["campaigns"]
    assert len(everyone) == 1 + 7 + 21 + 4
    nothing: dict[str, Any] = {"currency": "USD", "campaigns": [], "next": None}
    assert reporting.own("newcomer").listing(None, 10) == nothing


@pytest.mark.parametrize("name", ["bob.spring", "acme.spring", "a b", "", ".", "x" * 65, "-a", 7])
def test_a_name_that_no_campaign_may_have(reporting: PlainReports, name: object) -> None:
    own = reporting.own("acme")
    with pytest.raises(KreachError, match=r"^id must be 1 to 64 letters.*got"):
        own.create(NEW | {"id": name})
    assert own.listing(None, 10)["campaigns"] == []
    assert own.create(NEW | {"id": "x" * 64})["id"] == "x" * 64


@pytest.mark.parametrize("name", ["", "a.b", "ACME", "acme."])
def test_an_advertiser_needs_a_name(reporting: PlainReports, name: str) -> None:
    with pytest.raises(KreachError, match="advertiser must"):
        reporting.own(name)


class _Careless(ReportService):
    """A service that answers with a campaign that was not asked for."""

    def status(self, campaign_id: str, level: float) -> CampaignStatus:
        return super().status("bob.theirs", level)


def test_anothers_campaign_is_never_shown_even_by_mistake(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("disjoint", groups=6))
    live.add(make_campaign("bob.theirs"))
    with closing(report_context(live.shared)) as store:
        careless = _Careless(store, OpenPolicy(store), lambda: 0.0)
        with pytest.raises(RuntimeError, match="another advertiser"):
            PlainReports(careless, "acme").status("spring", 0.95)
