"""Marked identities are sent to traced services; their spans hold routes and times, and no mark."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.adsystem.bidserver.sample_stores import sample_store
from tests.boundary.test_canaries import HEADERS, MARK, Watched, assert_clean, play_all
from tests.publisher.gateway.sample_gateways import write_sample_build
from tests.service.collector import Collector
from tests.service.service_process import serving, until

pytestmark = pytest.mark.xdist_group("canaries")


def test_spans_of_bids_and_reports_hold_no_mark(tmp_path: Path) -> None:
    config = sample_store(tmp_path)
    trace_parent = {"traceparent": f"00-{'c4' * 16}-{'c4' * 8}-01", "baggage": f"user={MARK}"}
    with Collector() as collector:
        more = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
            "OTEL_TRACES_SAMPLER": "always_on",
        }
        with (
            serving(tmp_path, "bidder", "--config", str(config), more=more) as service,
            serving(tmp_path, "reporting", "--config", str(config), more=more) as reporting,
        ):
            play_all(Watched(service))
            headers = HEADERS | trace_parent
            window = f"start={datetime.now(UTC) - timedelta(seconds=50):%Y-%m-%dT%H:%M:%SZ}"
            paths = ("reach?cap=1", f"reach?cap=1&{window}", "series?by=day", "plan")
            for path in (*paths, f"reach?start={MARK}"):
                reporting.ask("GET", f"/v1/campaigns/spring/{path}", headers=headers)
            reporting.ask("GET", f"/v1/campaigns/{MARK}", headers=headers)
            until(lambda: Watched(service).bids())
            assert service.stop() == 0  # sends what is left
            assert reporting.stop() == 0
        for body in collector.bodies:
            assert_clean(body, "spans")
        names = {span.name for span in collector.spans("kreach-bidder")}
        assert names >= {
            "POST /openrtb2/bid",
            "GET /openrtb2/billing/*",
            "GET /openrtb2/loss/*",
            "GET other",
        }
        spans = {span.span_id: span for span in collector.spans("kreach-reporting")}
        reach = [one for one in spans.values() if one.name == "GET /v1/campaigns/{campaign}/reach"]
        reach = [one for one in reach if status(one) == 200]
        assert len(reach) == 2
        traces = {one.trace_id for one in reach}
        inside = {one.name for one in spans.values() if one.trace_id in traces}
        assert inside >= {"wait", "reports", "read new rows", "count impressions", "compute reach"}
        for _, span in collector.resources():
            assert span.trace_id != bytes.fromhex("c4" * 16)
            assert {one.key for one in span.attributes} <= {
                "http.response.status_code",
                "kreach.no_bid",
            }


def status(span: object) -> int:
    """The status of the answer."""
    values = {one.key: one.value.int_value for one in span.attributes}  # type: ignore[attr-defined]
    return int(values.get("http.response.status_code", 0))


def test_spans_of_the_gateway_hold_no_user_id(tmp_path: Path) -> None:
    write_sample_build(tmp_path / "build")
    with Collector() as collector:
        config = tmp_path / "publisher.toml"
        tracing = f'[tracing]\nendpoint = "{collector.address}"\nsample_share = 1.0\n'
        config.write_text(f'[gateway]\nbuild = "build"\nport = 0\n{tracing}')
        with serving(tmp_path, "gateway", "--config", str(config)) as gateway:
            for user in ("user-7", MARK):
                body = json.dumps({"user_id": user}).encode()
                headers = {"content-type": "application/json"}
                assert gateway.ask("POST", "/v1/identify", body, headers)[0] == 200
            assert gateway.stop() == 0
        spans = collector.spans("kreach-gateway")
        assert [span.name for span in spans] == ["POST /v1/identify"] * 2
        for body in collector.bodies:
            assert_clean(body, "spans")
            assert b"user-7" not in body
