"""Quotas hold at creation and at changes, however many callers come at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.quota import Quota, QuotaExceeded
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import AdvertiserLimits
from kreach.errors import KreachError, KreachErrors

START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = START.timestamp() + 86_400.0


def campaign(name: str, budget: float = 100.0, **more: Any) -> Campaign:
    flight: dict[str, Any] = {"start": START, "end": START + timedelta(days=30), "max_cpm": 2.0}
    fields: dict[str, Any] = {"id": f"acme.{name}", "budget": budget} | flight | more
    return Campaign(**fields)


def quota(max_campaigns: int = 3, credit_limit: float = 250.0, now: float = NOW) -> Quota:
    return Quota(AdvertiserLimits(max_campaigns=max_campaigns, credit_limit=credit_limit), now)


def test_budgets_add_up_to_the_credit_limit(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path)) as store:
        store.add(campaign("a"), quota())
        store.add(Campaign(**{"id": "bob.a"} | _fields(campaign("x", 9e5))), quota(9, 1e6))
        with pytest.raises(QuotaExceeded, match="at most 150: the credit limit is 250") as caught:
            store.add(campaign("b", 150.000001), quota())
        assert (caught.value.field, caught.value.code) == ("budget", "quota")
        store.add(campaign("b", 150.0), quota())
        with pytest.raises(QuotaExceeded, match="at most 100"):
            store.change("acme.a", {"budget": 100.5}, quota())
        store.change("acme.b", {"budget": 120.0}, quota())
        store.change("acme.a", {"budget": 130.0}, quota())
        store.change("acme.a", {"state": "ended"}, quota())
        store.add(campaign("c", 130.0), quota())
        store.add(campaign("house", 1e9))  # an operator has no quota


def _fields(made: Campaign) -> dict[str, Any]:
    return {name: getattr(made, name) for name in ("budget", "start", "end", "max_cpm")}


def test_a_lowered_limit_refuses_only_what_adds(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path)) as store:
        store.add(campaign("a", 200.0), quota())
        low = quota(0, 50.0)
        store.change("acme.a", {"state": "paused"}, low)
        store.change("acme.a", {"budget": 180.0}, low)
        store.change("acme.a", {"end": "2026-12-24T00:00:00Z"}, low)
        with pytest.raises(QuotaExceeded):
            store.change("acme.a", {"budget": 181.0}, low)


def test_flights_that_are_over_do_not_count_until_they_are_extended(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path)) as store:
        for name in "abc":
            store.add(campaign(name, 80.0), quota())
        later = quota(now=NOW + 40 * 86_400.0)
        end = START + timedelta(days=90)
        store.add(campaign("d", 250.0, end=end), later)
        with pytest.raises(QuotaExceeded, match="budget must be at most 0"):
            store.change("acme.a", {"end": end.isoformat()}, later)
        with pytest.raises(KreachErrors) as caught:
            store.add(campaign("e", end=end), quota(1, 250.0, later.now))
        assert [error.field for error in caught.value.errors] == ["id", "budget"]


def test_callers_at_once_do_not_pass_together(tmp_path: Path) -> None:
    """Two stores on one file, as two processes have, and eight threads."""
    stores = [CampaignStore(tmp_path) for _ in range(2)]

    def add(at: int) -> bool:
        try:
            stores[at % 2].add(campaign(f"c{at}", 60.0), quota(100, 250.0))
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(add, range(40)))
    assert sum(added) == 4
    assert len(stores[0].all(owner="acme")) == 4
    for store in stores:
        store.close()


def test_families_have_a_limit_too(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path)) as store:
        for name in "abc":
            store.add_family(Family(id=f"acme.{name}", budget=1.0), quota())
        with pytest.raises(QuotaExceeded, match="at most 3 families"):
            store.add_family(Family(id="acme.d", budget=1.0), quota())
        store.add_family(Family(id="bob.d", budget=1.0), quota())


@pytest.mark.parametrize(
    "wrong",
    [{"max_campaigns": -1}, {"credit_limit": -1.0}, {"credit_limit": float("nan")},
     {"credit_limit": 1e12}],
)  # fmt: skip
def test_limits_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(KreachError, match=next(iter(wrong))):
        AdvertiserLimits(**wrong)
