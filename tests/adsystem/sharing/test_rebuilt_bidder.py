"""What a rebuilt bidder takes over from Redis: campaigns, leases, and the rows it must have."""

import json
from pathlib import Path

import pytest
import redis

from kreach.adsystem.campaigns.campaign import campaign_from
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import open_reader
from kreach.adsystem.sharing.recovery import adopt_shared_state
from kreach.adsystem.sharing.redis_pool import BudgetStatus, RedisPool
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import journal, row, wait
from tests.adsystem.sharing.faulty_members import settings_for
from tests.adsystem.sharing.fleet_processes import document

LOG = Log("test", lambda _: None)


def rebuilt(folder: Path, grant: int) -> str:
    """A log with three rows and a grant; its id."""
    with journal(folder) as made:
        for at in range(3):
            made.submit("impression", row(at))
        made.submit("grant", (1, grant))
        assert wait(made) is None
        return made.id


def known_to_redis(url: str, log_id: str, granted: int) -> RedisPool:
    """A Redis that has set money aside for the bidder."""
    pool = RedisPool(settings_for(url, ("b1",)), "b1", log_id, 1)
    pool.find_run()
    pool.sync([BudgetStatus(1, 9_000_000, 300, granted)], joining=True)
    return pool


def publish(pool: RedisPool) -> None:
    campaign = campaign_from(document("spring", 9.0))
    pool.publish_campaigns({1: (1, json.dumps(campaign.document()))})


@pytest.mark.parametrize("granted", [400, 7_000])
def test_campaigns_and_grants_are_those_of_redis(url: str, tmp_path: Path, granted: int) -> None:
    pool = known_to_redis(url, rebuilt(tmp_path, 5_000), granted)
    publish(pool)
    assert adopt_shared_state("b1", tmp_path, settings_for(url, ("b1",)), LOG) == {1: granted}
    reader = open_reader(tmp_path)
    assert reader.execute("SELECT * FROM grants").fetchall() == [(1, granted)]
    reader.close()
    store = CampaignStore(tmp_path)
    assert [stored.campaign.id for stored in store.all()] == ["spring"]
    store.close()
    pool.close()


def test_a_log_without_its_campaigns_is_refused(url: str, tmp_path: Path) -> None:
    pool = known_to_redis(url, rebuilt(tmp_path, 5_000), 5_000)
    with pytest.raises(KreachError, match="Redis does not have the campaigns with the numbers"):
        adopt_shared_state("b1", tmp_path, settings_for(url, ("b1",)), LOG)
    pool.close()


def test_rows_that_nobody_has_are_counted(url: str, tmp_path: Path) -> None:
    pool = known_to_redis(url, rebuilt(tmp_path, 5_000), 5_000)
    publish(pool)
    with redis.Redis.from_url(url) as client:
        client.hset(pool._key("rows"), "b1", "10")
    with pytest.raises(KreachError, match="Redis counted 10 rows of bidder b1, 7 more than"):
        adopt_shared_state("b1", tmp_path, settings_for(url, ("b1",)), LOG)
    pool.close()
