"""The console as a command: settings, what it refuses, and what it does not import."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.settings import ConsoleSettings, OidcSettings
from kreach.errors import KreachError
from tests.adsystem.console.test_input_files import AUDIT, STUDY
from tests.cli.command import kreach

OIDC = OidcSettings(issuer="https://login.example", client_id="a", keys={"a": Path("key")})


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"host": "0.0.0.0"}, "names must say who serves the console"),
        ({"names": ("Console.example",)}, "names must be host names"),
        ({"names": ("console:8400",)}, "names must be host names"),
        ({"port": 70_000}, "port must lie between"),
        ({"reporting_url": "reporting:8403"}, "reporting_url must begin with http"),
        (
            {"sign_in": ("key",), "public_url": "http://console.example"},
            "public_url must begin with https:// with sign_in",
        ),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(KreachError, match=rule):
        ConsoleSettings(**settings)


def test_a_provider_beyond_this_machine_has_tls() -> None:
    more: dict[str, Any] = {"client_id": "c", "keys": {"buyers": Path("key")}}
    for issuer in ("http://login.example", "http://127.0.0.1.login.example", "http://[::2]:1"):
        with pytest.raises(KreachError, match="issuer must begin with https://"):
            OidcSettings(issuer=issuer, **more)
    for issuer in ("https://login.example", "http://localhost:1", "http://[::1]:1/realm"):
        assert OidcSettings(issuer=issuer, **more).issuer == issuer


def test_settings_that_are_good() -> None:
    assert ConsoleSettings(host="0.0.0.0", names=("console.example.com",)).port == 8400
    assert ConsoleSettings(host="::1").reporting_url == "http://127.0.0.1:8403"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT))
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "summary.json").write_text(json.dumps(STUDY))
    (tmp_path / "key").write_text("kreach_key\n")
    path = tmp_path / "kreach.toml"
    path.write_text(
        '[console]\ngroups_audit = "audit.json"\ntradeoff = "study"\nkey_file = "key"\n'
        'reporting_url = "http://127.0.0.1:9"\n'
    )
    return path


def check_config(config: Path, *more: str) -> Any:
    return kreach("serve", "console", "--config", str(config), "--check-config", *more)


def test_settings_are_checked_without_calling_reporting(config: Path) -> None:
    done = check_config(config, "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["ok"]
    assert answer["tradeoff"] == str(config.parent / "study")
    assert "kreach_key" not in done.out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("audit.json", "{}", "be what `kreach groups audit --json` prints"),
        ("audit.json", None, "groups_audit: the file does not exist yet"),
        ("study/summary.json", "[]", "tradeoff must be the summary.json"),
        ("key", "", "key_file must hold one key"),
    ],
)
def test_files_that_cannot_be_used_are_named_in_one_line(
    config: Path, name: str, content: str | None, message: str
) -> None:
    path = config.parent / name
    path.unlink() if content is None else path.write_text(content)
    done = check_config(config)
    assert done.code == 1
    assert message in done.err.replace("\n", " ")
    assert "Traceback" not in done.err


def test_a_busy_port_gets_one_clear_line(config: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = kreach("serve", "console", "--config", str(config), "--port", str(port))
    assert done.code == 1
    assert f"host and port must be free to listen on, got '127.0.0.1:{port}'" in done.err


def imported(code: str) -> list[str]:
    """The modules that Python imports for a line of code."""
    script = f"import sys; {code}; print(*sys.modules, sep=chr(10))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_nothing_of_the_console_is_imported_before_it_is_needed() -> None:
    modules = imported("import kreach, kreach.cli.app")
    assert [name for name in modules if "nicegui" in name] == []


def test_the_console_imports_the_report_types_and_no_engine() -> None:
    modules = imported("import kreach.adsystem.console.app")
    engines = {"duckdb", "ibis", "numpy", "pandas", "polars", "pyarrow", "scipy"}
    assert not engines & set(modules)
    allowed = (
        "kreach.adsystem.console",
        "kreach.adsystem.reports",
        "kreach.adsystem.reports.combined_report",
        "kreach.adsystem.reports.report",
        "kreach.adsystem.reports.tables",
        "kreach.adsystem.settings",
    )
    adsystem = [name for name in modules if name.startswith("kreach.adsystem.")]
    own = "kreach.adsystem.console."
    assert [name for name in adsystem if name not in allowed and not name.startswith(own)] == []
    others = {name.split(".")[1] for name in modules if name.startswith("kreach.")}
    assert others <= {"adsystem", "boundary", "display", "errors", "extras", "service"}


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"sign_in": ("password",)}, "sign_in must list key, oidc or both"),
        ({"sign_in": ("oidc",)}, "sign_in must list oidc exactly where"),
        ({"sign_in": ("key",), "key_file": Path("key")}, "key_file must be left out with sign_in"),
        ({"session_hours": 0.0}, "session_hours must lie between"),
        ({"sign_in": ("oidc",), "oidc": OIDC}, "public_url must be given"),
    ],
)
def test_sign_in_settings_that_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(KreachError, match=rule):
        ConsoleSettings(**settings)


def test_a_provider_needs_keys_for_its_people() -> None:
    with pytest.raises(KreachError, match="keys must map at least one value"):
        OidcSettings(issuer="https://login.example", client_id="a", keys={})
    with pytest.raises(KreachError, match="issuer must begin with http"):
        OidcSettings(issuer="login.example", client_id="a", keys={"a": Path("key")})
