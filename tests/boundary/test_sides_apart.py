"""Each side's services start and serve where the other side's code cannot be imported at all."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.adsystem.bidserver.sample_bidders import sample_request
from tests.adsystem.bidserver.sample_stores import sample_store
from tests.publisher.gateway.sample_gateways import write_sample_build
from tests.service.service_process import environment, serving, until

pytestmark = pytest.mark.xdist_group("sides apart")

_WALL = """
import sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({names!r}):
            raise ImportError("this side must do without " + name)

sys.meta_path.insert(0, Wall())
"""


def without(folder: Path, *names: str) -> dict[str, str]:
    """An environment in which no process, nor any child of it, can import these."""
    wall = folder / "wall"
    wall.mkdir()
    (wall / "sitecustomize.py").write_text(_WALL.format(names=names))
    return {"PYTHONPATH": str(wall)}


def runs(code: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(more)
    )


def test_the_wall_holds(tmp_path: Path) -> None:
    more = without(tmp_path, "kreach.publisher", "kreach.lab")
    assert runs("import kreach.adsystem.bidserver.app", more).returncode == 0
    for name in ("kreach.publisher", "kreach.publisher.gateway", "kreach.lab"):
        done = runs(f"import {name}", more)
        assert done.returncode == 1
        assert "must do without" in done.stderr


def test_the_bidder_serves_without_the_publisher(tmp_path: Path) -> None:
    more = without(tmp_path, "kreach.publisher", "kreach.lab")
    config = sample_store(tmp_path)
    body = json.dumps(sample_request()).encode()
    with serving(tmp_path, "bidder", "--config", str(config), more=more) as bidder:
        until(lambda: bidder.ask("POST", "/openrtb2/bid", body)[0] == 200)
        got = json.loads(bidder.ask("POST", "/openrtb2/bid", body)[2])
        path = got["seatbid"][0]["bid"][0]["burl"].split("/", 3)[3]
        paid = f"/{path}".replace("${AUCTION_PRICE}", "0.5")
        assert bidder.ask("GET", paid)[0] == 200
        assert bidder.ask("GET", "/metrics")[0] == 200
        assert bidder.stop() == 0
        assert b"must do without" not in bidder.output()


def test_reporting_serves_without_the_publisher(tmp_path: Path) -> None:
    more = without(tmp_path, "kreach.publisher", "kreach.lab")
    config = sample_store(tmp_path)
    with serving(tmp_path, "reporting", "--config", str(config), more=more) as reporting:
        assert reporting.ask("GET", "/v1/campaigns")[0] == 200
        assert reporting.ask("GET", "/v1/campaigns/spring/reach?cap=1")[0] == 200
        assert reporting.ask("GET", "/v1/campaigns/spring/plan")[0] < 500
        assert reporting.ask("GET", "/metrics")[0] == 200
        assert reporting.stop() == 0
        assert b"must do without" not in reporting.output()


def test_the_gateway_serves_without_the_ad_system(tmp_path: Path) -> None:
    more = without(tmp_path, "kreach.adsystem", "kreach.lab")
    write_sample_build(tmp_path / "build")
    config = tmp_path / "publisher.toml"
    config.write_text('[gateway]\nbuild = "build"\nport = 0\n')
    with serving(tmp_path, "gateway", "--config", str(config), more=more) as gateway:
        body = json.dumps({"user_id": "user-7"}).encode()
        headers = {"content-type": "application/json"}
        status, _, got = gateway.ask("POST", "/v1/identify", body, headers)
        assert status == 200
        assert json.loads(got)["data"][0]["name"] == "kreach"
        assert gateway.stop() == 0
        assert b"must do without" not in gateway.output()
