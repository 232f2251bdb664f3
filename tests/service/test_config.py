"""Settings: a file, the environment on top of it, and clear words about what is wrong."""

from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.settings import (
    AdSystemSettings,
    BidderSettings,
    ConsoleSettings,
    GuardSettings,
    NoiseSettings,
    RedisSettings,
    ReportingSettings,
)
from kreach.errors import KreachError
from kreach.service.config import Settings, load_settings, read_file


class Section(Settings, frozen=True, kw_only=True):
    """One field of each kind."""

    port: int = 1
    rate: float = 0.5
    loud: bool = False
    name: str = "n"
    title: str | None = None
    folder: Path = Path("here")
    spare: Path | None = None
    folders: tuple[Path, ...] = ()
    named: dict[str, Path] = {}  # noqa: RUF012
    hours: tuple[float, ...] | None = None


def loaded(
    document: dict[str, Any] | None = None, base: Path = Path("/base"), **environment: str
) -> Section:
    variables = {f"KREACH_BIDDER_{name.upper()}": value for name, value in environment.items()}
    given = {"bidder": document or {}}
    return load_settings(Section, "bidder", given, base=base, environment=variables)


def test_defaults() -> None:
    made = loaded()
    assert (made.port, made.rate, made.name, made.title) == (1, 0.5, "n", None)
    assert made.folder == Path("/base/here")


def test_the_file_and_then_the_environment() -> None:
    document = {"port": 2, "name": "file", "hours": [1.0, 2]}
    made = loaded(document)
    assert (made.port, made.name, made.hours) == (2, "file", (1.0, 2.0))
    made = loaded(document, port="3", rate="2", loud="true", title="t", hours="[5, 6.5]")
    assert (made.port, made.name, made.rate) == (3, "file", 2.0)
    assert (made.loud, made.title, made.hours) == (True, "t", (5.0, 6.5))


def test_only_variables_of_the_section_count() -> None:
    variables = {"KREACH_REPORTING_PORT": "7", "BIDDER_PORT": "8", "kreach_bidder_port": "9"}
    made = load_settings(Section, "bidder", {}, base=Path("/b"), environment=variables)
    assert made.port == 1


@pytest.mark.parametrize(
    "text", ["plain", "8402", "1e5", "true", "[1]", '"quoted"', "2026-01-01", ""]
)
def test_text_in_the_environment_stays_as_it_is(text: str) -> None:
    made = loaded(name=text, title=text)
    assert made.name == made.title == text


def test_keys_of_digits_are_text() -> None:
    """A key in hexadecimal may happen to have digits only, or to look like 1e10."""
    for key in ("12345678901234567890123456789012", "1" * 30 + "e1"):
        variables = {"KREACH_BIDDER_TOKEN_KEY": key}
        made = load_settings(BidderSettings, "bidder", {}, environment=variables)
        assert made.token_key == key


def test_paths_count_from_the_files_folder() -> None:
    document = {
        "folder": "a",
        "spare": "/abs/b",
        "folders": ["c", "../d"],
        "named": {"x": "e"},
    }
    made = loaded(document, base=Path("/etc/kreach"))
    assert made.folder == Path("/etc/kreach/a")
    assert made.spare == Path("/abs/b")
    assert made.folders == (Path("/etc/kreach/c"), Path("/etc/kreach/../d"))
    assert made.named == {"x": Path("/etc/kreach/e")}
    made = loaded({}, base=Path("/x"), folder="f", folders='["g"]', named='{y = "h"}')
    assert (made.folder, made.folders) == (Path("/x/f"), (Path("/x/g"),))
    assert made.named == {"y": Path("/x/h")}


def test_without_a_file_paths_count_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(Section, "bidder", {}, environment={}).folder == tmp_path / "here"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"prt": 5}, "prt"),
        ({"port": "5"}, "port: Expected `int`, got `str`"),
        ({"port": 5.5}, "port: Expected `int`"),
        ({"port": True}, "port: Expected `int`"),
        ({"rate": "fast"}, "rate: Expected `float`"),
        ({"name": 5}, "name: Expected `str`"),
        ({"folder": 5}, "folder"),
        ({"folder": ""}, "folder"),
        ({"folders": "a"}, "folders: Expected `array`"),
        ({"folders": [1]}, "folders[0]"),
        ({"named": ["a"]}, "named: Expected `object`"),
        ({"hours": ["x"]}, "hours[0]"),
    ],
)
def test_what_is_wrong_is_said(document: dict[str, Any], told: str) -> None:
    with pytest.raises(KreachError) as caught:
        loaded(document)
    message = str(caught.value)
    assert message.startswith("config [bidder]: ")
    assert told.replace("`", "") in message.replace("`", "")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("kind", "section"),
    [(BidderSettings, "bidder"), (GuardSettings, "guard"), (NoiseSettings, "noise")],
)
def test_renamed_fields_are_refused_with_their_new_name(kind: type[Settings], section: str) -> None:
    assert kind.renamed
    for old, new in kind.renamed.items():
        assert new in kind.__struct_fields__
        assert old not in kind.__struct_fields__
        with pytest.raises(KreachError) as caught:
            load_settings(kind, section, {section: {old: 1}}, environment={})
        assert str(caught.value) == f"config [{section}]: {old} was renamed: use {new}"
        former, now = (f"KREACH_{section}_{name}".upper() for name in (old, new))
        with pytest.raises(KreachError) as caught:
            load_settings(kind, section, {}, environment={former: "1"})
        assert str(caught.value) == f"environment: {former} was renamed: use {now}"


def test_wrong_variables_are_said_too() -> None:
    with pytest.raises(KreachError, match=r"config \[bidder\]: port"):
        loaded(port="many")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (BidderSettings, "port", 65_536),
        (BidderSettings, "port", -1),
        (BidderSettings, "public_url", "bids.example"),
        (BidderSettings, "expiry_seconds", 0),
        (BidderSettings, "market_mu", float("nan")),
        (BidderSettings, "market_sigma", 0.0),
        (BidderSettings, "hourly", [1.0] * 23),
        (BidderSettings, "hourly", [0.0] * 24),
        (BidderSettings, "hourly", [-1.0] + [1.0] * 23),
        (BidderSettings, "token_key", "zz" * 16),
        (BidderSettings, "token_key", "ab" * 15),
        (BidderSettings, "max_body_bytes", 10),
        (BidderSettings, "pacing_seconds", 0.0),
        (ReportingSettings, "port", 100_000),
        (AdSystemSettings, "catalogues", "release"),
    ],
)
def test_values_out_of_range_are_refused(kind: type[Settings], field: str, value: Any) -> None:
    with pytest.raises(KreachError) as caught:
        load_settings(kind, "bidder", {"bidder": {field: value}}, environment={})
    assert field in str(caught.value)
    if field == "token_key":
        assert value not in str(caught.value)  # even a bad key is not shown


def test_files(tmp_path: Path) -> None:
    assert read_file(None) == {}
    good = tmp_path / "good.toml"
    good.write_text("[bidder]\nport = 5\n[gateway]\n[adsystem]\n[reporting]\n")
    assert read_file(good)["bidder"] == {"port": 5}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"port = 5", "sections"),
        (b"[biddr]\nport = 5", "sections"),
        (b"[bidder", "TOML"),
        (b"[bidder]\nport = ", "TOML"),
        (b"[bidder]\nport = 1\nport = 2", "TOML"),
        (b"\xff\xfe", "TOML"),
        (b"bidder = 5", "sections"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(KreachError, match=told):
        read_file(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(KreachError, match="be a file that can be read"):
            read_file(path)


def test_a_secret_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("redis://:word@there/0\n")
    environment = {"KREACH_REDIS_URL_FILE": str(secret), "KREACH_REDIS_BIDDERS": '["b1"]'}
    read = load_settings(RedisSettings, "redis", {}, environment=environment)
    assert read.url == "redis://:word@there/0"
    both = environment | {"KREACH_REDIS_URL": "redis://elsewhere"}
    with pytest.raises(KreachError, match="KREACH_REDIS_URL or KREACH_REDIS_URL_FILE, not both"):
        load_settings(RedisSettings, "redis", {}, environment=both)
    secret.unlink()
    with pytest.raises(KreachError, match="KREACH_REDIS_URL_FILE must name a text file") as failed:
        load_settings(RedisSettings, "redis", {}, environment=environment)
    assert "word" not in str(failed.value)


def test_a_setting_that_names_a_file_is_no_secret_in_one(tmp_path: Path) -> None:
    environment = {"KREACH_CONSOLE_KEY_FILE": str(tmp_path / "key")}
    read = load_settings(ConsoleSettings, "console", {}, environment=environment)
    assert read.key_file == tmp_path / "key"
