"""The hard cap of a family: it counts what a person saw of all its campaigns."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.errors import KreachError
from kreach.publisher.gateway import FamilyCap, HardCap
from kreach.publisher.gateway.hard_cap import HardCaps
from kreach.publisher.gateway.showings import FILE
from kreach.service.web import App
from tests.publisher.gateway.sample_gateways import (
    ManualClock,
    replies_to,
    sample_gateway,
    serve_on_socket,
    write_sample_build,
)
from tests.publisher.gateway.test_hard_cap import allow, documents, shown
from tests.publisher.gateway.test_settings import loaded

DAY = 86_400.0
SPRING = HardCap(campaign="spring", cap=1)
BRAND = FamilyCap(family="brand", campaigns=("spring", "winter", "autumn"), cap=2)
MEMBERS = ["spring", "winter", "autumn"]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample_build(tmp_path_factory.mktemp("builds") / "one")


def test_the_cap_counts_all_members_beside_their_own(build: Path, tmp_path: Path) -> None:
    app = sample_gateway(build, store=tmp_path, caps=(SPRING,), families=(BRAND,))
    answers = documents(
        replies_to(
            app,
            allow("ann", [*MEMBERS, "free"]),
            shown("ann", "spring", "i1"),
            allow("ann", MEMBERS),
            shown("ann", "winter", "i1"),
            shown("ann", "winter", "i1"),
            allow("ann", [*MEMBERS, "free"]),
            allow("bob", MEMBERS),
        )
    )
    recorded = {"capped": True, "recorded": True}
    assert answers == [
        {"allowed": [*MEMBERS, "free"]},
        recorded,
        {"allowed": ["winter", "autumn"]},
        recorded,
        {"capped": True, "recorded": False},
        {"allowed": ["free"]},
        {"allowed": MEMBERS},
    ]


def test_it_survives_a_restart_under_a_name_of_its_own(build: Path, tmp_path: Path) -> None:
    def app() -> App:
        return sample_gateway(build, store=tmp_path, families=(BRAND,))

    replies_to(app(), shown("ann", "winter", "i1"), shown("ann", "autumn", "i1"))
    (left,) = documents(replies_to(app(), allow("ann", MEMBERS)))
    assert left == {"allowed": []}
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        names = {name for (name,) in database.execute("SELECT campaign FROM showing")}
    assert names == {"family\tbrand"}


def test_a_family_that_is_off_is_neither_checked_nor_recorded(build: Path, tmp_path: Path) -> None:
    off = FamilyCap(family="brand", campaigns=("winter",), cap=1, enabled=False)
    app = sample_gateway(build, store=tmp_path, caps=(SPRING,), families=(off,))
    told, left = documents(replies_to(app, shown("ann", "winter", "i1"), allow("ann", ["winter"])))
    assert told == {"capped": False, "recorded": False}
    assert left == {"allowed": ["winter"]}


def test_a_hold_leaves_room_for_all_that_it_allows(build: Path, tmp_path: Path) -> None:
    app = sample_gateway(build, store=tmp_path, families=(BRAND,))
    answers = documents(
        replies_to(
            app,
            allow("ann", MEMBERS),
            allow("ann", MEMBERS, hold=True),  # two showings are left: the first two
            allow("ann", MEMBERS),
            shown("ann", "winter", "i1"),  # its hold becomes a showing
            allow("ann", MEMBERS),
        )
    )
    assert [answer["allowed"] for answer in answers if "allowed" in answer] == [
        MEMBERS,
        ["spring", "winter"],
        [],
        [],
    ]


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["shown", "allow", "allow"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from([*MEMBERS, "free"]),
        st.integers(0, 6),
        st.sampled_from([0.0, 1.0, 40_000.0]),
    ),
    max_size=25,
)


def test_the_caps_agree_with_counting(tmp_path: Path) -> None:
    """Any story of showings and questions, against a list of what happened."""
    daily = FamilyCap(family="daily", campaigns=("winter", "autumn"), cap=2, span_seconds=DAY)
    stores = iter(range(10_000))

    @settings(max_examples=40)
    @given(ACTS)
    def agrees(acts: list[tuple[str, str, str, int, float]]) -> None:
        asyncio.run(send_notices(acts))

    async def send_notices(acts: list[tuple[str, str, str, int, float]]) -> None:
        clock = ManualClock()
        folder = tmp_path / str(next(stores))
        caps = HardCaps(folder, (SPRING, winter), 30.0, clock, families=(daily,))
        caps.showings.start()
        happened: dict[tuple[str, str, int], float] = {}
        for act, user, campaign, impression, passed in acts:
            clock.now += passed
            if act == "shown":
                new = campaign != "free" and (user, campaign, impression) not in happened
                assert await caps.shown(user, campaign, str(impression)) == new
                if new:
                    happened[user, campaign, impression] = clock.now
                continue
            mine = [(what, at) for (who, what, _), at in happened.items() if who == user]
            own = [at for what, at in mine if what == campaign]
            family = [at for what, at in mine if what in daily.campaigns and at > clock.now - DAY]
            free = len(own) < {"spring": 1, "winter": 3}.get(campaign, 99)
            free = free and (campaign not in daily.campaigns or len(family) < 2)
            assert caps.allowed(user, [campaign]) == ([campaign] if free else [])
        caps.showings.stop()

    winter = HardCap(campaign="winter", cap=3)
    agrees()


def test_with_holds_no_interleaving_goes_over_the_cap(build: Path, tmp_path: Path) -> None:
    app = sample_gateway(build, store=tmp_path, families=(BRAND,))
    users, seen = ["ann", "bob", "cyd"], []

    def load(url: str, number: int) -> None:
        with httpx.Client(base_url=url) as client:
            for step in range(9):
                user, campaign = users[(number + step) % 3], MEMBERS[(number * step) % 3]
                _, body = allow(user, [campaign], hold=True)
                if client.post("/v1/allow", json=body).json()["allowed"]:
                    _, body = shown(user, campaign, f"{number}-{step}")
                    assert client.post("/v1/shown", json=body).json()["recorded"]
                    seen.append(user)

    with serve_on_socket(app) as url:
        threads = [threading.Thread(target=load, args=(url, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        metrics = httpx.get(f"{url}/metrics").text
    assert sorted(seen) == sorted(users * 2)
    assert 'kreach_gateway_family_capped_total{family="brand"}' in metrics


def test_memory_holds_for_families_too(tmp_path: Path) -> None:
    async def story() -> None:
        clock = ManualClock()
        caps = HardCaps(tmp_path, (), 30.0, clock, 3_600.0, (BRAND,))
        caps.showings.start()
        assert await caps.shown("ann", "winter", "1")
        assert await caps.shown("ann", "spring", "2")
        assert caps.allowed("ann", MEMBERS) == []
        clock.now += 3_600.0
        assert caps.allowed("ann", MEMBERS) == MEMBERS
        caps.showings.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("toml", "error"),
    [
        ('families = [{family = "", campaigns = ["a"], cap = 1}]', "family must be 1 to 256"),
        ('families = [{family = "f", campaigns = [], cap = 1}]', "campaigns must name at least"),
        ('families = [{family = "f", campaigns = ["a"], cap = 0}]', "cap must be a whole number"),
        (
            'families = [{family = "f", campaigns = ["a", "a"], cap = 1}]',
            "campaigns must name each campaign once, got 'a'",
        ),
        ('families = [{family = "f", campaigns = ["a\\u0009"], cap = 1}]', "campaigns must be 1"),
        (
            'families = [{family = "f", campaigns = ["a"], cap = 1},'
            ' {family = "g", campaigns = ["b", "a"], cap = 1}]',
            "families must have each campaign in one family only, got 'a'",
        ),
        (
            'families = [{family = "f", campaigns = ["a"], cap = 1},'
            ' {family = "f", campaigns = ["b"], cap = 1}]',
            "families must list each family once, got 'f'",
        ),
        (
            "memory_hours = 2\n"
            'families = [{family = "f", campaigns = ["a"], cap = 1, span_seconds = 60}]',
            "span_seconds must be left out of caps with memory_hours",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, toml: str, error: str) -> None:
    with pytest.raises(KreachError) as caught:
        loaded(tmp_path, f'[gateway]\nbuild = "b"\n{toml}')
    assert error in str(caught.value)


def test_families_in_a_file(tmp_path: Path) -> None:
    toml = """
    [gateway]
    build = "b"

    [[gateway.families]]
    family = "brand"
    campaigns = ["spring", "winter", "autumn"]
    cap = 2
    """
    settings = loaded(tmp_path, toml)
    assert settings.families == (BRAND,)
    assert settings.enabled_families == {"brand": BRAND}
    assert settings.enabled_caps == {}
