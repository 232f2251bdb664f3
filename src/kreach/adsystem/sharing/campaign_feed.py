"""Publishes campaigns and families to bidders that cannot read the campaign store."""

import json
import sqlite3
import threading
from pathlib import Path

from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.redis_client import RedisUnavailable
from kreach.adsystem.sharing.redis_pool import RedisPool
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["CampaignFeed"]

_SECONDS = 0.5


class CampaignFeed:
    """A thread of reporting that publishes new and changed campaigns in Redis."""

    def __init__(self, store: Path, settings: RedisSettings, log: Log) -> None:
        self._campaigns = CampaignStore(store)
        self._pool = RedisPool(settings, "reporting")
        self._log = log
        self._published = self._published_families = 0  # the newest revisions
        self._failing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="campaigns", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and close the store."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.close()
        self._campaigns.close()

    def _run(self) -> None:
        while not self._ended.wait(_SECONDS):
            try:
                self.publish()
            except (RedisUnavailable, KreachError, sqlite3.Error) as error:
                if not self._failing:
                    self._log.warning("campaigns not published to bidders", reason=str(error))
                self._failing = True
            else:
                if self._failing:
                    self._log.info("campaigns published to bidders")
                self._failing = False

    def publish(self) -> None:
        """Publish what is new; everything, if Redis was restarted."""
        if self._pool.find_run():
            self._published = self._published_families = 0
        new = self._campaigns.all(self._published)
        families = self._campaigns.families(self._published_families)  # all of theirs are there
        if families:
            self._pool.publish_families(
                {
                    stored.number: (stored.revision, json.dumps(stored.family.document()))
                    for stored in families
                }
            )
            self._published_families = max(stored.revision for stored in families)
        if new:
            documents = {
                stored.number: (stored.revision, json.dumps(stored.campaign.document()))
                for stored in new
            }
            self._pool.publish_campaigns(documents)
            self._published = max(stored.revision for stored in new)
