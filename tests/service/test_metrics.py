"""What GET /metrics shows can be read by Prometheus and adds up."""

from itertools import pairwise

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kreach.service.metrics import Metrics


def read(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples, by name and labels."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_counts() -> None:
    metrics = Metrics("bidder")
    plain = metrics.count("requests", "Requests")
    assert read(metrics) == {("kreach_bidder_requests_total", ()): 0.0}
    plain.add()
    plain.add(amount=2.5)
    by = metrics.count("bids", "Bids", "campaign")
    by.add("a")
    by.add("b", 4)
    assert by.total() == 5
    assert read(metrics) == {
        ("kreach_bidder_requests_total", ()): 3.5,
        ("kreach_bidder_bids_total", (("campaign", "a"),)): 1.0,
        ("kreach_bidder_bids_total", (("campaign", "b"),)): 4.0,
    }


@pytest.mark.parametrize("value", ['quote "', "back\\slash", "new\nline", "ü 漢", "{}=,", ""])
def test_labels_are_escaped(value: str) -> None:
    metrics = Metrics("x")
    metrics.count("n", "N", "label").add(value)
    assert read(metrics) == {("kreach_x_n_total", (("label", value),)): 1.0}


def test_gauges_are_asked_when_shown() -> None:
    metrics, now = Metrics("x"), {"a": 1.0, "b": float("inf")}
    metrics.gauge("level", "Level", lambda: now, "place")
    metrics.gauge("alone", "Alone", lambda: {"": -2.0})
    assert read(metrics)["kreach_x_level", (("place", "b"),)] == float("inf")
    now["a"] = 7.0
    samples = read(metrics)
    assert samples["kreach_x_level", (("place", "a"),)] == 7.0
    assert samples["kreach_x_alone", ()] == -2.0


def test_histograms_are_cumulative() -> None:
    metrics = Metrics("x")
    histogram = metrics.histogram("seconds", "Time", (0.1, 1.0, 10.0))
    values = [0.05, 0.1, 0.11, 1.0, 5.0, 10.0, 11.0, 1e9]
    for value in values:
        histogram.observe(value)
    samples = read(metrics)
    counts = {
        bound: samples["kreach_x_seconds_bucket", (("le", bound),)]
        for bound in ("0.1", "1.0", "10.0", "+Inf")
    }
    assert counts == {"0.1": 2, "1.0": 4, "10.0": 6, "+Inf": 8}
    assert samples["kreach_x_seconds_count", ()] == 8
    assert samples["kreach_x_seconds_sum", ()] == pytest.approx(sum(values))


def test_any_values_make_a_rising_histogram() -> None:
    metrics = Metrics("x")
    histogram = metrics.histogram("seconds", "Time")
    generator = np.random.default_rng(1)
    values = np.exp(generator.normal(-7.0, 3.0, 5_000))
    for value in values.tolist():
        histogram.observe(value)
    buckets = [
        (float(dict(labels)["le"]), count)
        for (name, labels), count in read(metrics).items()
        if name.endswith("_bucket")
    ]
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(buckets))
    for bound, count in buckets:
        assert count == np.count_nonzero(values <= bound)
