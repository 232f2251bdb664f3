"""Makes campaigns known to bidders that have no view of the store they are kept in."""

import json
import sqlite3
import threading
from pathlib import Path

from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.redis_pool import Away, Pool
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["CampaignFeed"]

_SECONDS = 0.5


class CampaignFeed:
    """A thread beside reporting that tells Redis of each campaign that is new or changed."""

    def __init__(self, store: Path, settings: RedisSettings, log: Log) -> None:
        self._campaigns = CampaignStore(store)
        self._pool = Pool(settings, "reporting")
        self._log = log
        self._told = 0
        self._failing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="campaigns", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End, and let go of the store."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.close()
        self._campaigns.close()

    def _run(self) -> None:
        while not self._ended.wait(_SECONDS):
            try:
                self.publish()
            except (Away, KreachError, sqlite3.Error) as error:
                if not self._failing:
                    self._log.warning("campaigns not told to bidders", reason=str(error))
                self._failing = True
            else:
                if self._failing:
                    self._log.info("campaigns told to bidders")
                self._failing = False

    def publish(self) -> None:
        """Tell what is new; everything, if Redis was started anew."""
        if self._pool.find_run():
            self._told = 0
        newer = self._campaigns.all(self._told)
        if newer:
            told = {k.number: (k.revision, json.dumps(k.campaign.document())) for k in newer}
            self._pool.publish(told)
            self._told = max(kept.revision for kept in newer)
