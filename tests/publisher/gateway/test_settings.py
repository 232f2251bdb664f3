"""The section [gateway], and the check before serving."""

import os
from pathlib import Path
from typing import Any

import pytest

from kreach.errors import KreachError
from kreach.publisher.gateway import FamilyCap, GatewaySettings, HardCap, check
from kreach.service.config import load_settings, read_file
from tests.publisher.gateway.sample_gateways import sample_gateway, write_sample_build


def loaded(folder: Path, toml: str, **environment: str) -> GatewaySettings:
    path = folder / "kreach.toml"
    path.write_text(toml, encoding="utf-8")
    return load_settings(
        GatewaySettings, "gateway", read_file(path), base=folder, environment=environment
    )


def test_a_full_section(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        """
        [gateway]
        build = "current"
        host = "::1"
        port = 9000
        store = "/var/lib/kreach"
        choice = "each_visit"
        provider = "press"
        reload_seconds = 2
        hold_seconds = 1.5

        [[gateway.caps]]
        campaign = "spring"
        cap = 3
        span_seconds = 86400

        [[gateway.caps]]
        campaign = "summer"
        cap = 1
        enabled = false
        """,
        KREACH_GATEWAY_PORT="9001",
    )
    spring = HardCap(campaign="spring", cap=3, span_seconds=86_400)
    summer = HardCap(campaign="summer", cap=1, enabled=False)
    assert settings == GatewaySettings(
        build=tmp_path / "current",
        host="::1",
        port=9001,
        store=Path("/var/lib/kreach"),
        choice="each_visit",
        provider="press",
        reload_seconds=2.0,
        hold_seconds=1.5,
        caps=(spring, summer),
    )
    assert settings.enabled_caps == {"spring": spring}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """It is the link that the publisher swaps, not the folder behind it."""
    (tmp_path / "one").mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "one")
    assert loaded(tmp_path, '[gateway]\nbuild = "current"').build == tmp_path / "current"


@pytest.mark.parametrize(
    ("toml", "error"),
    [
        ("", "Object missing required field `build`"),
        ("build = 5", "build: Expected a path"),
        ('build = "b"\nport = 70000', "port must be a whole number from 0 to 65535, got 70000"),
        ('build = "b"\nport = "x"', "port: Expected `int`, got `str`"),
        ('build = "b"\nhost = ""', "host must not be empty, got ''"),
        (
            'build = "b"\nchoice = "loudest"',
            "choice must be one of sticky, each_visit, got 'loudest'",
        ),
        ('build = "b"\nprovider = ""', "provider must be 1 to 256 printable characters, got ''"),
        ('build = "b"\nreload_seconds = 0', "reload_seconds must be from 0.01 to"),
        ('build = "b"\nreload_seconds = nan', "reload_seconds must be from 0.01 to"),
        ('build = "b"\nhold_seconds = inf', "hold_seconds must be from 0.1 to"),
        ('build = "b"\nreload = 5', "Object contains unknown field `reload`"),
        (
            'build = "b"\ncaps = [{campaign = "a", cap = 0}]',
            "caps[0]: cap must be a whole number from 1 to 1000000, got 0",
        ),
        ('build = "b"\ncaps = [{campaign = "a"}]', "missing required field `cap`"),
        (
            'build = "b"\ncaps = [{campaign = "", cap = 1}]',
            "campaign must be 1 to 256 printable characters",
        ),
        (
            'build = "b"\ncaps = [{campaign = "a", cap = 1, span_seconds = 0}]',
            "span_seconds must be from 1 to",
        ),
        (
            'build = "b"\ncaps = [{campaign = "a", cap = 1}, {campaign = "a", cap = 2}]',
            "caps must list each campaign once, got 'a'",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, toml: str, error: str) -> None:
    with pytest.raises(KreachError) as caught:
        loaded(tmp_path, f"[gateway]\n{toml}")
    assert str(caught.value).startswith("config [gateway]: ")
    assert error in str(caught.value)


def test_the_check_says_what_would_be_served_and_makes_nothing(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "build": write_sample_build(tmp_path / "build"),
        "store": tmp_path / "deep" / "store",
    }
    facts: dict[str, Any] = {
        "catalogue": "v1",
        "people": 120,
        "groups": 12,
        "hard_caps": [],
        "family_caps": [],
        "store": None,
    }
    facts["memory_hours"] = facts["panel"] = facts["browser"] = None
    assert check(GatewaySettings(**settings)) == facts
    settings["caps"] = (HardCap(campaign="a", cap=1),)
    capped = facts | {"hard_caps": ["a"], "store": str(settings["store"])}
    assert check(GatewaySettings(**settings)) == capped
    families = (FamilyCap(family="brand", campaigns=("a", "b"), cap=2),)
    with_family = capped | {"hard_caps": [], "family_caps": ["brand"]}
    assert check(GatewaySettings(**settings | {"caps": (), "families": families})) == with_family
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build"]
    sample_gateway(**settings)
    assert check(GatewaySettings(**settings)) == capped


def test_the_check_refuses_what_cannot_serve(tmp_path: Path) -> None:
    caps = (HardCap(campaign="a", cap=1),)
    with pytest.raises(KreachError, match="be a folder made by `kreach groups build`"):
        check(GatewaySettings(build=tmp_path / "nothing"))
    build = write_sample_build(tmp_path / "build")
    (tmp_path / "file").write_text("x")
    for store, rule in (
        (tmp_path / "file", "be a folder that can be written"),
        (tmp_path / "file" / "deeper", "be a folder or a path where one can be created"),
    ):
        settings = GatewaySettings(build=build, store=store, caps=caps)
        with pytest.raises(KreachError, match=rule):
            check(settings)
        with pytest.raises(KreachError, match="store must be a folder"):
            sample_gateway(build, store=store, caps=caps)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write all")
def test_the_check_refuses_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    build, store = write_sample_build(tmp_path / "build"), tmp_path / "store"
    store.mkdir(mode=0o500)
    with pytest.raises(KreachError, match="be a folder that can be written"):
        check(GatewaySettings(build=build, store=store, caps=(HardCap(campaign="a", cap=1),)))
