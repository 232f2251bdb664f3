"""The gateway over HTTP: which group, for whom, in which version."""

import asyncio
import json
import os
import shutil
import signal
import threading
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.errors import KreachError
from kreach.publisher.gateway import HardCap
from kreach.publisher.group_lookup import GroupLookup
from kreach.publisher.store import read_build
from kreach.service.metrics import Metrics
from tests.publisher.gateway.sample_gateways import (
    IDS,
    ask,
    gateway_process,
    replies_to,
    running_app,
    sample_gateway,
    serve_on_socket,
    swap_link,
    until,
    write_sample_build,
)

SPRING = HardCap(campaign="spring", cap=2)
IDENTIFY = "POST /v1/identify"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample_build(tmp_path_factory.mktemp("builds") / "one")


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample_build(tmp_path_factory.mktemp("builds") / "two", "v2", seed=2)


@cache
def gateway_of(build: Path) -> GroupLookup:
    return read_build(build).group_lookup()


def named(build: Path, user: str) -> dict[str, Any]:
    """The user object that the contract promises."""
    answer = gateway_of(build).identify(user)
    version = answer.catalogue
    segment, ext = (
        [{"id": answer.group}],
        {"catalogue": version, "segtax": 812, "segclass": version},
    )
    return {"data": [{"name": "kreach", "segment": segment, "ext": ext}]}


def test_a_user_gets_the_user_object_of_the_contract(build: Path) -> None:
    expected = {user: named(build, user) for user in (*IDS[:5], "a stranger", "naïve 用户")}
    with serve_on_socket(sample_gateway(build)) as url, httpx.Client(base_url=url) as client:
        for user, document in expected.items():
            reply = client.post("/v1/identify", json={"user_id": user, "unknown": [1]})
            assert (reply.status_code, reply.json()) == (200, document)
            assert reply.headers["content-type"] == "application/json"


def test_overlapping_groups_and_another_provider(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "two", layers=2)
    app = sample_gateway(build, provider='the "press"')
    for user, reply in zip(
        IDS, replies_to(app, *((IDENTIFY, {"user_id": u}) for u in IDS)), strict=True
    ):
        expected = named(build, user)
        expected["data"][0]["name"] = 'the "press"'
        assert reply.document == expected
    drawn = sample_gateway(build, choice="each_visit")
    replies = replies_to(drawn, *[(IDENTIFY, {"user_id": IDS[0]})] * 60)
    assert len({reply.body for reply in replies}) == 2


WRONG = [
    (b"", "body must be JSON in UTF-8"),
    (b"{", "body must be JSON in UTF-8"),
    (b"user_id=CANARY", "body must be JSON in UTF-8"),
    (b'{"user_id": "CANARY\xff"}', "body must be JSON in UTF-8"),
    (b'{"user_id": "CANARY\\ud800"}', "body must be JSON in UTF-8"),
    (b'{"x": ' + b"[" * 100_000, "body must be JSON in UTF-8"),
    (b"[]", "body: Expected `object`, got `array`"),
    (b"null", "body: Expected `object`, got `null`"),
    (b"{}", "user_id is required"),
    (b'{"user": "CANARY"}', "user_id is required"),
    (b'{"user_id": null}', "user_id: Expected `str`, got `null`"),
    (b'{"user_id": 17}', "user_id: Expected `str`, got `int`"),
    (b'{"user_id": ["CANARY"]}', "user_id: Expected `str`, got `array`"),
    (b'{"user_id": ""}', "user_id: Expected `str` of length >= 1"),
    (b'{"user_id": "CANARY%s"}' % (b"x" * 1_020), "user_id: Expected `str` of length <= 1024"),
    (b'{"user_id": "CANARY\\u0000"}', "user_id must not contain a NUL character"),
]


@pytest.mark.parametrize(("body", "error"), WRONG)
def test_what_is_no_visit_is_refused_without_an_echo(build: Path, body: bytes, error: str) -> None:
    lines: list[str] = []
    reply = replies_to(sample_gateway(build, lines), (IDENTIFY, body))[0]
    assert (reply.status, reply.document["error"]["message"]) == (400, error)
    assert "CANARY" not in "".join(lines)


@pytest.mark.parametrize(
    ("route", "status"),
    [("GET /v1/identify", 405), ("POST /v1/identify/x", 404), ("POST /v1/reload", 404)],
)
def test_other_routes_are_refused(build: Path, route: str, status: int) -> None:
    assert replies_to(sample_gateway(build), (route, b""))[0].status == status


def test_a_body_that_is_too_long_is_refused(build: Path) -> None:
    assert replies_to(sample_gateway(build), (IDENTIFY, b" " * 500_000))[0].status == 413


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
TEXTS = st.text(max_size=30) | st.text("\0\ud800a", max_size=4) | st.just("x" * 2_000)
FIELDS = ("user_id", "campaigns", "campaign", "impression_id", "hold")
VALUES = TEXTS | ANY_JSON | st.lists(TEXTS | st.just("spring"), max_size=5) | st.just("spring")
NEARLY = st.dictionaries(st.sampled_from(FIELDS), VALUES).map(lambda d: json.dumps(d).encode())
BODIES = st.binary(max_size=60) | ANY_JSON.map(lambda d: json.dumps(d).encode()) | NEARLY


def test_no_body_makes_the_gateway_fail(build: Path, tmp_path: Path) -> None:
    app = sample_gateway(build, store=tmp_path, caps=(SPRING,))
    with asyncio.Runner() as runner:
        context = running_app(app)
        runner.run(context.__aenter__())

        @settings(max_examples=400)
        @given(st.sampled_from(["identify", "allow", "shown"]), BODIES)
        def fuzz(route: str, body: bytes) -> None:
            reply = runner.run(ask(app, f"POST /v1/{route}", body))
            assert reply.status in {200, 400}
            assert (reply.status == 400) == ("error" in reply.document)

        try:
            fuzz()
        finally:
            runner.run(context.__aexit__(None, None, None))


def test_health_and_metrics(build: Path, tmp_path: Path) -> None:
    app = sample_gateway(build)
    visits = [(IDENTIFY, {"user_id": user}) for user in (*IDS[:7], "stranger 1", "stranger 2")]
    *_, health, metrics = replies_to(app, *visits, ("GET /healthz", b""), ("GET /metrics", b""))
    assert health[:2] == (200, {"status": "ok", "catalogue": "v1", "hard_cap": "off"})
    assert replies_to(app, ("GET /readyz", b""))[0][:2] == (200, {"status": "ready"})
    lines = metrics.body.decode().splitlines()
    assert 'kreach_gateway_identifications_total{catalogue="v1"} 9.0' in lines
    assert not any("unknown" in line for line in lines)  # it would tell whether an id is known
    assert "kreach_gateway_identify_seconds_count 9.0" in lines
    assert 'kreach_gateway_catalogue{catalogue="v1"} 1.0' in lines
    assert "kreach_gateway_people 120.0" in lines
    assert not (tmp_path / "gateway-store").exists()
    capped = sample_gateway(build, store=tmp_path / "made", caps=(SPRING,))
    assert replies_to(capped, ("GET /healthz", b""))[0].document["hard_cap"] == "on"


def test_versions_roll_over_under_load_without_a_failed_request(tmp_path: Path) -> None:
    builds = [write_sample_build(tmp_path / f"b{i}", f"v{i}", seed=i) for i in range(4)]
    valid = {
        (f"v{i}", user, named(build, user)["data"][0]["segment"][0]["id"])
        for i, build in enumerate(builds)
        for user in IDS[:20]
    }
    link = tmp_path / "current"
    link.symlink_to(builds[0])
    metrics = Metrics("gateway")
    app = sample_gateway(link, metrics=metrics, reload_seconds=0.02)
    seen: list[tuple[int, str, str, str]] = []
    done = threading.Event()

    def visit(url: str, seed: int) -> None:
        generator = np.random.default_rng(seed)
        with httpx.Client(base_url=url) as client:
            while not done.is_set():
                user = IDS[generator.integers(20)]
                reply = client.post("/v1/identify", json={"user_id": user})
                data = reply.json()["data"][0]
                version, group = data["ext"]["catalogue"], data["segment"][0]["id"]
                seen.append((reply.status_code, version, user, group))

    with serve_on_socket(app) as url:
        threads = [threading.Thread(target=visit, args=(url, seed)) for seed in range(3)]
        for thread in threads:
            thread.start()
        try:
            for build in (*builds[1:], builds[0]):
                version = f"v{build.name[1]}"
                swap_link(link, build)
                until(lambda version=version: seen and seen[-1][1] == version)  # type: ignore[misc]
        finally:
            done.set()
            for thread in threads:
                thread.join(20)
        counted = httpx.get(f"{url}/metrics").text.splitlines()
    assert {status for status, *_ in seen} == {200}
    assert {(version, user, group) for _, version, user, group in seen} <= valid
    assert 'kreach_gateway_reloads_total{result="ok"} 4.0' in counted
    for version in ("v0", "v1", "v2", "v3"):
        visits = sum(v == version for _, v, *_ in seen)
        shown = f'kreach_gateway_identifications_total{{catalogue="{version}"}} {visits}.0'
        assert visits
        assert shown in counted


def break_key(build: Path) -> None:
    (build / "publisher" / "key").write_text("no key")


def break_facts(build: Path) -> None:
    (build / "publisher" / "build.json").write_text("[]")


def break_people(build: Path) -> None:
    path = build / "publisher" / "people.parquet"
    path.write_bytes(path.read_bytes()[:-40])


def mix_halves(build: Path) -> None:
    shutil.rmtree(build / "release")
    other = write_sample_build(build.parent / "other", "v7", seed=7)
    shutil.copytree(other / "release", build / "release")


def mix_people(build: Path) -> None:
    other = write_sample_build(build.parent / "other", "v2", [f"u{i}" for i in range(100)])
    shutil.copy(other / "publisher" / "people.parquet", build / "publisher")


def same_version(build: Path) -> None:
    shutil.rmtree(build)
    write_sample_build(build, "v1", [f"u{i}" for i in range(200)], seed=9)


def remove(build: Path) -> None:
    shutil.rmtree(build)


BREAKS = {
    break_key: "be a folder made by `kreach groups build`",
    break_facts: "be a folder made by `kreach groups build`",
    break_people: "hold a readable people.parquet",
    mix_halves: "be one build",
    mix_people: "have as many people in each group as the release says",
    same_version: "have a version of its own",
    remove: "be a folder made by `kreach groups build`",
}


@pytest.mark.parametrize("damage", BREAKS, ids=lambda damage: damage.__name__)
def test_a_broken_build_is_refused_and_the_old_one_goes_on(
    build: Path, later: Path, tmp_path: Path, damage: Any
) -> None:
    old, new = build, shutil.copytree(later, tmp_path / "new")
    damage(new)
    link, lines = tmp_path / "current", list[str]()
    link.symlink_to(old)
    app = sample_gateway(link, lines, reload_seconds=0.01)

    def refused() -> list[dict[str, Any]]:
        return [event for event in map(json.loads, lines) if event["event"] == "build refused"]

    async def story() -> None:
        async with running_app(app):
            swap_link(link, new)
            await _until(refused)
            reply = await ask(app, IDENTIFY, {"user_id": IDS[0]})
            assert reply.document == named(old, IDS[0])
            assert (await ask(app, "GET /healthz")).status == 200
            metrics = (await ask(app, "GET /metrics")).body.decode()
            assert 'kreach_gateway_reloads_total{result="failed"} 1.0' in metrics
            assert "kreach_gateway_build_refused 1.0" in metrics
            await asyncio.sleep(0.1)
            assert len(refused()) == 1  # not again and again
            assert BREAKS[damage] in refused()[0]["why"]
            assert refused()[0]["serving"] == "v1"
            swap_link(link, later)
            await _until(lambda: '"catalogue": "v2"' in lines[-1])
            reply = await ask(app, IDENTIFY, {"user_id": IDS[0]})
            assert reply.document == named(later, IDS[0])
            metrics = (await ask(app, "GET /metrics")).body.decode()
            assert "kreach_gateway_build_refused 0.0" in metrics

    asyncio.run(story())


async def _until(true: Any) -> None:
    async with asyncio.timeout(120):
        while not true():
            await asyncio.sleep(0.005)


def test_a_folder_that_is_replaced_in_place_is_seen(
    build: Path, later: Path, tmp_path: Path
) -> None:
    place, lines = shutil.copytree(build, tmp_path / "build"), list[str]()
    app = sample_gateway(place, lines, reload_seconds=0.01)

    async def story() -> None:
        async with running_app(app):
            new = shutil.copytree(later, tmp_path / "new")
            place.rename(tmp_path / "old")
            await asyncio.sleep(0.03)  # nothing is there for a while
            new.rename(place)
            await _until(lambda: '"catalogue": "v2"' in lines[-1])
            assert (await ask(app, "GET /healthz")).document["catalogue"] == "v2"

    asyncio.run(story())


def test_a_gateway_does_not_start_on_a_broken_build(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "build")
    mix_people(build)
    with pytest.raises(KreachError, match=r"folder must|build must"):
        sample_gateway(build)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_a_signal_makes_it_look_at_once(tmp_path: Path) -> None:
    builds = [
        write_sample_build(tmp_path / name, name, seed=i) for i, name in enumerate(("va", "vb"))
    ]
    link = tmp_path / "current"
    link.symlink_to(builds[0])
    toml = 'build = "current"\nreload_seconds = 86400\n'
    with gateway_process(tmp_path, toml) as process:
        assert httpx.get(f"{process.url}/healthz").json()["catalogue"] == "va"
        swap_link(link, builds[1])
        os.kill(process.popen.pid, signal.SIGHUP)
        until(lambda: httpx.get(f"{process.url}/healthz").json()["catalogue"] == "vb")
        process.end(signal.SIGTERM)
        assert process.popen.returncode == 0
        assert process.events("stopped")
