"""`kreach demo`: the whole system in processes, on people that are made up."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.command import kreach

pytestmark = pytest.mark.xdist_group("demo")
SMALL = ("--people", "600", "--visits", "3", "--minutes", "0.15")


def demo(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KREACH_")}
    return subprocess.Popen(
        [sys.executable, "-m", "kreach", "demo", "--folder", str(folder), *SMALL, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept,
        start_new_session=True,
    )


def ended(started: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = started.communicate(timeout=300)
    return started.returncode, out, err


def await_visits(folder: Path, started: "subprocess.Popen[str]") -> None:
    """Until the demonstration has noted the first visits, however long that takes."""
    until, file = time.monotonic() + 240.0, folder / "demo.json"
    while not (file.exists() and json.loads(file.read_text())["visits"] > 0):
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def services_of(folder: Path) -> list[str]:
    """Processes that still serve this demonstration."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in command and "serve" in command:
            found.append(command)
    return found


def check_report(shown: dict[str, Any]) -> None:
    """The final report stands beside the truth, and the attack on it was refused."""
    assert shown["share_of_flight"] == 1.0
    assert [one["campaign"] for one in shown["campaigns"]] == [
        "spring-shoes",
        "city-concert",
        "acme.hiking-boots",
    ]
    assert sum(one["impressions"] for one in shown["campaigns"]) > 0
    for one in shown["campaigns"]:
        assert one["spend"] <= one["budget"]
        assert one["true_reach"] <= one["impressions"]
        spread = max(one["interval"][1] - one["interval"][0], 4.0)
        assert abs(one["reach"] - one["true_reach"]) <= 2.0 * spread  # eight sigmas
    attack = shown["attack"]
    assert attack["stopped"], attack
    assert 422 in attack["statuses"]


def test_it_can_be_interrupted_and_goes_on_from_there(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    first = demo(folder, "--headless")
    await_visits(folder, first)
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does: to all that it started, too
    code, out, err = ended(first)
    assert code == 0, err
    assert "spring-shoes" in out
    before = json.loads((folder / "demo.json").read_text())
    assert before["visits"] > 0
    assert not services_of(tmp_path)
    code, out, err = ended(demo(folder, "--json"))
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    after = json.loads((folder / "demo.json").read_text())
    assert after["visits"] >= before["visits"]
    check_report(json.loads(out))
    code, _, err = ended(demo(folder, "--headless", "--group-size", "30"))
    assert code == 1
    assert "use the same options, or --fresh to start over" in err


def test_services_end_with_a_demonstration_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    first = demo(folder, "--headless")
    await_visits(folder, first)
    assert len(services_of(tmp_path)) == 3
    first.kill()
    first.communicate(timeout=60)
    until = time.monotonic() + 120.0
    while services_of(tmp_path):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = kreach("demo", "--folder", str(tmp_path / "demo"), "--port", port)
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1
    assert "be free to listen on" in result.err
    assert not (tmp_path / "demo").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for more in ((), ("--fresh",)):
        result = kreach("demo", "--folder", str(tmp_path), "--headless", *more)
        assert result.code == 1
        assert "be empty or hold an earlier demo" in result.err
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--people", "500", "--group-size", "100"), "people must make at least ten groups"),
        (("--minutes", "0"), "minutes must be between"),
        (("--minutes", "0.1"), "minutes must be at least 0.101 for 7 days"),
        (("--days", "1000"), "days must be between"),
    ],
)
def test_bad_options(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    result = kreach("demo", "--folder", str(tmp_path / "demo"), "--headless", *arguments)
    assert (result.code, result.out) == (1, "")
    assert said in result.err
    assert not (tmp_path / "demo").exists()


def test_a_tour_tells_what_happens_with_its_numbers(tmp_path: Path) -> None:
    code, out, err = ended(demo(tmp_path / "demo", "--headless", "--tour"))
    assert code == 0, err
    assert not services_of(tmp_path)
    told = " ".join(err.split())
    for number, title in enumerate(
        (
            "The publisher puts people into groups",
            "A visit crosses the line",
            "Reach from groups alone",
            "An advertiser logs in",
            "The advertiser attacks, the guard refuses",
            "The panel checks the model",
            "The flights are over",
        ),
        1,
    ):
        assert f"{number}. {title}" in told
    assert "This catalogue may be released" in told
    assert re.search(r"its key: kreach_\w{12}_\w{43}", told)
    assert "Refused (422 and 422)" in told
    assert re.search(r"\d of 3 intervals hold the truth", told)
    assert max(map(len, out.replace(str(tmp_path), "").splitlines())) <= 80


def test_the_address_comes_at_once_and_visitors_keep_coming(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    started = demo(folder, "--port", "0")
    assert started.stdout is not None
    until = time.monotonic() + 300.0
    try:
        lines = []
        for line in started.stdout:  # no terminal: nothing is held back
            lines.append(line)
            if line.startswith("console: http://127.0.0.1:"):
                break
        assert not (folder / "demo.json").exists(), "the flights had begun"
        advertisers = started.stdout.readline()
        assert advertisers.startswith("the advertiser's: http://127.0.0.1:")
        form = {"key": (folder / "acme.key").read_text().strip()}
        with httpx.Client(base_url=advertisers.split()[2].rstrip(";"), timeout=30.0) as browser:
            assert browser.get("/").status_code == 303  # to the form
            assert browser.post("/sign-in", data={"key": "wrong"}).status_code == 401
            signed_in = browser.post("/sign-in", data=form)
            assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/")
            assert browser.get("/").status_code == 200
        key, url = (folder / "operator.key").read_text().strip(), ""
        while "flights are over" not in (line := started.stdout.readline()):
            url = line.split(";")[0].removeprefix("reporting: ") if "reporting: h" in line else url
            assert time.monotonic() < until
        before = json.loads((folder / "demo.json").read_text())["visits"]
        now = datetime.fromisoformat(
            json.loads((folder / "truth.json").read_text())["series"][-1]["ts"]
        )
        campaign = {
            "id": "late-comer",
            "budget": 5.0,
            "caps": [{"limit": 2}],
            "start": now.isoformat(),
            "end": (now + timedelta(days=30)).isoformat(),
            "expected_requests": 3_000,
            "max_cpm": 20.0,
            "creative": {"id": "c-1", "markup": "<p>hi</p>", "width": 300, "height": 250},
        }
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers, timeout=30.0) as client:
            assert client.post("/v1/campaigns", json=campaign).status_code == 201
            shown = 0
            while not shown:
                assert time.monotonic() < until
                time.sleep(0.2)
                reply = client.get("/v1/campaigns/late-comer/reach", params={"cap": 1})
                shown = reply.json()["impressions"]
        assert json.loads((folder / "demo.json").read_text())["visits"] > before
    finally:
        os.killpg(started.pid, signal.SIGINT)
        code, out, err = ended(started)
    assert code == 0, err
    assert "The demo has stopped. The next start continues it" in out
    assert not services_of(tmp_path)
