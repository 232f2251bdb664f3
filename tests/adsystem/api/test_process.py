"""A real process, killed under load: what it acknowledged is there when it comes back."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from kreach.boundary.files import write_catalogue
from tests.adsystem.api.live_stores import make_catalogue

BODY = {"budget": 10, "max_cpm": 5, "start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"}


@contextmanager
def process(config: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`kreach serve reporting` on a free port, and its address."""
    command = [sys.executable, "-c", "from kreach.cli import main; main()", "serve", "reporting"]
    service = subprocess.Popen(
        [*command, "--config", str(config), "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert service.stderr is not None
        for line in service.stderr:
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            if event["event"] == "ready":
                break
        else:
            raise AssertionError("the service did not start")
        yield service, f"http://127.0.0.1:{event['port']}"
    finally:
        service.kill()
        service.wait()
        service.stderr.close()  # type: ignore[union-attr]


async def post_until_it_dies(address: str, acknowledged: set[str], writer: int) -> None:
    async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
        for number in range(100_000):
            name = f"c{writer}-{len(acknowledged)}-{number}"
            try:
                answer = await client.post("/v1/campaigns", json=BODY | {"id": name})
            except httpx.HTTPError:
                return
            if answer.status_code == 201:
                acknowledged.add(name)


async def load_and_kill(service: "subprocess.Popen[str]", address: str, known: set[str]) -> None:
    writers = [asyncio.create_task(post_until_it_dies(address, known, w)) for w in range(4)]
    before = len(known)
    while len(known) < before + 25:
        await asyncio.sleep(0.02)
    service.send_signal(signal.SIGKILL)
    await asyncio.gather(*writers)


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    write_catalogue(make_catalogue("disjoint"), tmp_path / "v1")
    config = tmp_path / "kreach.toml"
    config.write_text('[adsystem]\nstore = "store"\ncatalogues = ["v1"]\n')
    known: set[str] = set()
    for _ in range(2):
        with process(config) as (service, address):
            asyncio.run(load_and_kill(service, address, known))
    with process(config) as (service, address):
        with httpx.Client(base_url=address, trust_env=False, timeout=30) as client:
            listed: set[str] = set()
            after: dict[str, str] = {}
            while True:
                page = client.get("/v1/campaigns", params={"limit": 1_000, **after}).json()
                listed |= {one["id"] for one in page["campaigns"]}
                if page["next"] is None:
                    break
                after = {"after": page["next"]}
        assert known <= listed
        assert len(known) >= 50
        service.send_signal(signal.SIGTERM)
        assert service.wait(20) == 0
