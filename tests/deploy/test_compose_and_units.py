"""The compose file and the systemd units: all that they name exists, and services accept it."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.service_settings import read_settings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = DEPLOY / "compose"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def read_compose(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((COMPOSE / name).read_text())
    return document


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read_compose("compose.yml")


def with_defaults(text: str) -> str:
    """Text with `${NAME:-default}` as it is where no such variable is set."""
    return re.sub(r"\$\{[A-Z0-9_]+:-([^}]*)\}", r"\1", text)


def environment_of(service: dict[str, Any]) -> dict[str, str]:
    """What a container finds in its environment."""
    return {name: with_defaults(value) for name, value in service.get("environment", {}).items()}


@pytest.mark.parametrize("file", ["compose.yml", "machines.yml"])
def test_what_compose_services_name_is_declared(file: str) -> None:
    compose = read_compose(file)
    for name, service in compose["services"].items():
        assert set(service["networks"]) <= set(compose["networks"]), name
        assert set(service.get("secrets", ())) <= set(compose["secrets"]), name
        assert set(service.get("depends_on", ())) <= set(compose["services"]), name
        for volume in service.get("volumes", ()):
            source = with_defaults(volume).split(":")[0]
            if source.startswith("."):
                made = source.startswith(("./groups", "./backups"))  # by commands
                assert made or (COMPOSE / source).exists(), volume
            else:
                assert source in compose["volumes"], volume
    for secret in compose["secrets"].values():  # made by make-secrets
        assert f"secrets/{Path(secret['file']).name}" in (COMPOSE / "make-secrets").read_text()


def test_the_gateway_has_a_network_of_its_own(compose: dict[str, Any]) -> None:
    services = compose["services"]
    others = [set(service["networks"]) for name, service in services.items() if name != "gateway"]
    assert not set(services["gateway"]["networks"]) & set().union(*others)
    assert compose["networks"]["adsystem"]["internal"] is True
    assert services["redis"]["networks"] == ["adsystem"]


def settings_file(service: dict[str, Any], path: str) -> Path:
    """The file here that a container finds under a path."""
    (source,) = [
        str(volume).split(":")[0] for volume in service["volumes"] if f":{path}:" in volume
    ]
    return COMPOSE / source


@pytest.mark.parametrize(
    ("name", "bidders"), [("compose.yml", {"b1", "b2"}), ("machines.yml", {"b1"})]
)
def test_compose_services_accept_their_settings(
    name: str, bidders: set[str], tmp_path: Path
) -> None:
    seen = set()
    for service in read_compose(name)["services"].values():
        command = service.get("command", [""])
        if command[0] == "backup":
            mounts = tuple(with_defaults(volume).split(":")[1] for volume in service["volumes"])
            document = tomllib.loads(settings_file(service, command[2]).read_text())
            store = read_settings("backup", document, {}, tmp_path)["adsystem"].store
            assert str(store).startswith(mounts)
            assert command[command.index("--into") + 1] in mounts
        if command[0] != "serve":
            continue
        kind = command[1]
        document = tomllib.loads(settings_file(service, command[3]).read_text())
        settings = read_settings(kind, document, environment_of(service), tmp_path)
        assert service["read_only"] is True
        assert service["user"] == "65532:65532"
        assert service["ports"][0].endswith(f":{settings[kind].port}")
        assert all(with_defaults(port).startswith("127.0.0.1:") for port in service["ports"])
        paths = set(re.findall(r"/run/secrets/(\w+)", str(environment_of(service))))
        assert paths <= set(service.get("secrets", ()))
        if kind == "bidder":
            seen.add(settings["bidder"].name)
            assert settings["shipping"].enabled == (name == "machines.yml")
    assert seen == bidders


def test_prometheus_scrapes_services_of_compose_by_names_they_accept(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    scrapes = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"]
    for scrape in scrapes:
        assert scrape["job_name"].startswith("kreach-")
        for target in scrape["static_configs"][0]["targets"]:
            host, _, port = target.partition(":")
            service = compose["services"][host]
            kind = service["command"][1]
            document = tomllib.loads((COMPOSE / "kreach.toml").read_text())
            settings = read_settings(kind, document, environment_of(service), tmp_path)
            assert settings[kind].port == int(port)
            assert kind == "reporting" or host in settings[kind].names


def test_secrets_are_made_once(tmp_path: Path) -> None:
    script = shutil.copy(COMPOSE / "make-secrets", tmp_path)
    runs = []
    for _ in range(2):
        subprocess.run(["sh", script], check=True)
        runs.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert runs[0] == runs[1]
    made = runs[0]
    password = made["redis.conf"].split()[1]
    assert len(password) == 48
    assert made["redis_url"] == f"redis://:{password}@redis:6379/0\n"
    assert made["hub_redis_url"] == f"redis://:{password}@hub:6379/0\n"
    assert len(bytes.fromhex(made["token_key"])) == 32
    password = made["stream"].partition("kreach:")[2].partition("@")[0]
    assert made["nats.conf"] == f"authorization {{ user: kreach, password: {password} }}\n"
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0


def test_units_run_services_with_settings_that_they_read(tmp_path: Path) -> None:
    assert len(UNITS) == 6
    for unit in UNITS:
        text = unit.read_text()
        start = r"^ExecStart=/opt/kreach/bin/kreach (?:serve )?(\w+) --config"
        service = re.findall(start, text, re.M)
        assert len(service) == 1
        lines = re.findall(r"^#? ?Environment=(.*)$", text, re.M)
        pairs = [pair.partition("=") for line in lines for pair in line.split()]
        environment = {name: value.replace("%i", "b1") for name, _, value in pairs}
        own = re.findall(r"StateDirectory=(.*)", text)
        for folder in re.findall(r"/var/lib/([\w-]+)", text):
            assert folder in own[0].split(), unit.name
        document: dict[str, Any] = {"gateway": {"build": "groups"}}
        if "KREACH_REDIS_URL_FILE" in environment:
            document["redis"] = {"bidders": ["b1"]}
        if "KREACH_SHIPPING_STREAM_FILE" in environment:
            document["shipping"] = {"files": "s3://ads-log/kreach"}
        read_settings(service[0], document, environment, tmp_path)
        loaded = set(re.findall(r"LoadCredential=([^:]+):", text))
        assert set(re.findall(r"%d/([\w.]+)", text)) == loaded
        assert "ProtectSystem=strict" in text
        assert "NoNewPrivileges=yes" in text


def systemd_analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run systemd-analyze, which tools/find_systemd.sh installs."""
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is missing: install Debian's systemd"
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True)


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "kreach"
    for unit in UNITS:
        text = unit.read_text().replace("/opt/kreach/bin/kreach", str(program))
        (tmp_path / unit.name).write_text(text)
    shutil.copy(DEPLOY / "systemd" / "kreach-backup.timer", tmp_path)
    files = [str(tmp_path / unit.name) for unit in UNITS] + [str(tmp_path / "kreach-backup.timer")]
    checked = systemd_analyze("verify", "--man=no", *files)
    assert checked.returncode == 0, checked.stderr
    own = [line for line in checked.stderr.splitlines() if "kreach" in line]
    assert own == []


def test_units_are_as_little_exposed_as_the_docs_say() -> None:
    text = (DEPLOY.parent / "docs" / "deploy.md").read_text()
    stated = re.findall(r"systemd-analyze security --offline=true` says (\d\.\d)", text)
    assert len(stated) == 1
    for unit in UNITS:
        checked = systemd_analyze("security", "--offline=true", "--no-pager", str(unit))
        found = re.findall(r"Overall exposure level for \S+: (\d\.\d)", checked.stdout)
        assert found == stated, unit.name
