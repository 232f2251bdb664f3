"""Alert rules and the dashboard: promtool accepts them, and live services have what they name.

Services run behind TLS, as in deploy/kubernetes, and the console reaches reporting that way.
"""

import json
import re
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kreach.adsystem.ledger.ledger import Outcome
from tests.adsystem.bidserver.sample_stores import sample_store
from tests.publisher.gateway.sample_gateways import write_sample_build
from tests.service.certificates import Authority
from tests.service.service_process import Service, serving, until

pytestmark = pytest.mark.xdist_group("monitoring")

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "kreach.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "kreach.json"
_GATEWAY = """
[gateway]
build = "build"
port = 0
[[gateway.caps]]
campaign = "spring"
cap = 3
[gateway.panel]
share = 0.5
out = "corrections.json"
"""


def alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    """Every query of the rules and of the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", ())]
    variables = [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    return [
        *(str(rule["expr"]) for rule in alerts()),
        *(str(target["expr"]) for target in targets),
        *(str(query["query"]) for query in variables),
    ]


def promtool(*arguments: str) -> None:
    """Run promtool, which tools/find_promtool.sh installs."""
    program = shutil.which("promtool")
    assert program is not None, "promtool is missing: install Debian's prometheus"
    ended = subprocess.run(
        [program, *arguments], check=False, capture_output=True, text=True, cwd=RULES.parent
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def get(address: str, authority: Authority | None = None) -> tuple[int, bytes]:
    """The answer of a service; with an authority, over TLS."""
    trusted = None if authority is None else ssl.create_default_context(cafile=authority.ca_file)
    with urllib.request.urlopen(address, timeout=20, context=trusted) as answer:
        return answer.status, answer.read()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def services(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[dict[str, Service]]:
    folder = tmp_path_factory.mktemp("services")
    config = sample_store(folder)
    certificate, key = authority.issue()
    tls = {
        "KREACH_SERVER_TLS_CERTIFICATE": str(certificate),
        "KREACH_SERVER_TLS_KEY": str(key),
    }
    write_sample_build(folder / "build")
    (folder / "publisher.toml").write_text(_GATEWAY)
    with ExitStack() as held:

        def start(name: str, file: Path, more: dict[str, str]) -> Service:
            arguments = (name, "--config", str(file), "--port", "0")
            return held.enter_context(serving(folder, *arguments, more=tls | more))

        started = {name: start(name, config, {}) for name in ("bidder", "reporting")}
        started["gateway"] = start("gateway", folder / "publisher.toml", {})
        address = f"https://127.0.0.1:{started['reporting'].port}"
        trust = {"KREACH_CONSOLE_REPORTING_CA": str(authority.ca_file)}
        more = trust | {"KREACH_CONSOLE_REPORTING_URL": address}
        started["console"] = start("console", config, more)
        yield started


@pytest.fixture(scope="module")
def scraped(services: dict[str, Service], authority: Authority) -> dict[str, str]:
    """The type of each metric that live services have."""
    found: dict[str, str] = {}
    for service in services.values():
        status, text = get(f"https://127.0.0.1:{service.port}/metrics", authority)
        assert status == 200
        found |= dict(re.findall(r"^# TYPE (\S+) (\S+)$", text.decode(), re.M))
    return found


def test_promtool_accepts_the_rules_and_their_unit_tests() -> None:
    promtool("check", "rules", "kreach.rules.yml")
    promtool("test", "rules", "kreach.rules.test.yml")


def test_every_alert_has_a_unit_test_in_which_it_fires() -> None:
    document = yaml.safe_load(RULES.with_name("kreach.rules.test.yml").read_text())
    fired = {
        case["alertname"]
        for test in document["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in alerts()}


def test_every_alert_has_a_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.M)
    anchors = {f"docs/runbooks.md#{heading.lower()}": heading for heading in headings}
    assert len(anchors) == len(headings)
    for rule in alerts():
        assert anchors.pop(rule["annotations"]["runbook"]) == rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket", "info"}
    assert not anchors  # no runbook without its alert


def test_live_services_have_every_metric(scraped: dict[str, str]) -> None:
    names = {name for text in expressions() for name in re.findall(r"kreach_\w+", text)}
    assert len(names) > 30
    for name in names:
        family = re.sub(r"_bucket$", "", name)
        assert family in scraped, f"no service has {name}"
        kind = scraped[family]
        assert (kind == "histogram") == (family != name)
        assert (kind == "counter") == name.endswith("_total")
    assert "kreach_bidder_redy" not in scraped


def test_rules_name_outcomes_of_notices_that_there_are() -> None:
    outcomes = {outcome.value for outcome in Outcome} | {"tampered", "not written"}
    notices = {f"{kind} {outcome}" for kind in ("billing", "loss", "win") for outcome in outcomes}
    patterns = [p for text in expressions() for p in re.findall(r'notice=~"([^"]+)"', text)]
    assert len(patterns) == 3
    for pattern in patterns:
        assert any(re.fullmatch(pattern, notice) for notice in notices)
        for choice in re.findall(r"\(([^)]+)\)", pattern):
            assert set(choice.split("|")) <= outcomes


def test_values_that_must_be_there_are(services: dict[str, Service], authority: Authority) -> None:
    bidder = f"https://127.0.0.1:{services['bidder'].port}"

    def shows(line: str) -> bool:
        return line in get(f"{bidder}/metrics", authority)[1].decode()

    until(lambda: shows("kreach_bidder_ready 1.0"))
    until(lambda: shows('kreach_bidder_overspent_micros{campaign="spring"} 0.0'))
    text = get(f"{bidder}/metrics", authority)[1].decode()
    counted = re.search(r"^kreach_bidder_log_commit_seconds_count (\S+)$", text, re.M)
    assert counted is not None
    assert float(counted[1]) > 0
    assert re.search(r"^kreach_bidder_store_free_bytes [1-9]", text, re.M)


def test_services_answer_over_tls_only(services: dict[str, Service], authority: Authority) -> None:
    for name, service in services.items():
        address = f"https://127.0.0.1:{service.port}"
        assert get(f"{address}/healthz", authority)[0] == 200
        with pytest.raises(OSError, match=r"."):
            get(f"{address}/healthz")  # the authority is not a public one
        with pytest.raises((OSError, ValueError), match=r"."):
            service.ask("GET", "/healthz")
        if name == "console":  # it trusts reporting's authority
            assert get(f"{address}/readyz", authority)[0] == 200


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert (x, y) not in taken
                taken.add((x, y))
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["datasource"]["uid"] == "${datasource}"
