"""Three machines, of which one loses its disk; in network namespaces where that is permitted."""

from pathlib import Path

from simulations.deployment import run_deployment
from simulations.machines import can_make_namespaces


def test_sums_agree_after_kills_and_a_lost_disk(tmp_path: Path) -> None:
    found = run_deployment(tmp_path, requests=60, namespaces=can_make_namespaces())
    assert found["spend_micros"] == found["reported_micros"]
    assert found["impressions"] == found["measured_impressions"]
    assert found["acknowledged"] == found["notices"] > 300
    assert found["rebuilt_impressions"] > 50
    assert found["answers"]["503"] > 0  # while the stream was down
    for name, micros in found["spend_micros"].items():
        assert micros <= found["budgets"][name] * 1e6
    assert all(source["ready"] for source in found["sources"].values())
