"""Metrics in Prometheus' format; a counter costs one dictionary access on the hot path."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from shutil import disk_usage

__all__ = ["LATENCY_SECONDS", "Count", "Histogram", "Metrics"]

LATENCY_SECONDS = (
    *(0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002),
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)


class Count:
    """A number that only rises, by the values of one label."""

    def __init__(self) -> None:
        self.by_label: dict[str, float] = {}

    def add(self, label: str = "", amount: float = 1) -> None:
        """Raise the number of a label."""
        by_label = self.by_label
        by_label[label] = by_label.get(label, 0) + amount

    def total(self) -> float:
        """The sum over all labels."""
        return sum(self.by_label.values())


class Histogram:
    """Observations by bucket."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.cells = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.cells[bisect_left(self.bounds, value)] += 1
        self.sum += value


Gauges = Callable[[], Mapping[str, float]]
"""Label → value now."""


class Metrics:
    """The metrics of one service; `render` is what GET /metrics answers."""

    def __init__(self, service: str) -> None:
        self._prefix = f"kreach_{service}_"
        self._counters: dict[str, tuple[str, str, Gauges]] = {}
        self._gauges: dict[str, tuple[str, str, Gauges]] = {}
        self._histograms: dict[str, tuple[str, Callable[[], Histogram]]] = {}

    def count(self, name: str, what: str, label: str = "") -> Count:
        """A new counter; `label` is the label's name, if it has one."""
        count = Count()
        zero = {} if label else {"": 0.0}
        self.tally(name, what, lambda: dict(count.by_label) or zero, label)
        return count

    def tally(self, name: str, what: str, now: Gauges, label: str = "") -> None:
        """A counter whose value `now` returns when the metrics are read."""
        self._counters[self._prefix + name] = (what, label, now)

    def gauge(self, name: str, what: str, now: Gauges, label: str = "") -> None:
        """A gauge whose value `now` returns when the metrics are read."""
        self._gauges[self._prefix + name] = (what, label, now)

    def values(self, name: str) -> Mapping[str, float]:
        """What a counter says now, by label."""
        return self._counters[self._prefix + name][2]()

    def histogram(
        self, name: str, what: str, bounds: tuple[float, ...] = LATENCY_SECONDS
    ) -> Histogram:
        """A new histogram."""
        histogram = Histogram(bounds)
        self.add_histogram(name, what, lambda: histogram)
        return histogram

    def add_histogram(self, name: str, what: str, now: Callable[[], Histogram]) -> None:
        """A histogram that somebody else observes; `now` returns it when the metrics are read."""
        self._histograms[self._prefix + name] = (what, now)

    def store_gauges(self, folder: Path) -> None:
        """How much room is left where a service writes."""

        def room(part: str) -> Gauges:
            def now() -> dict[str, float]:
                try:
                    usage = disk_usage(folder)
                except OSError:  # not made yet, or gone
                    return {}
                return {"": float(getattr(usage, part))}

            return now

        self.gauge("store_free_bytes", "Free bytes on the disk of the store", room("free"))
        self.gauge("store_size_bytes", "Size of the disk of the store", room("total"))

    def render(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        registry = CollectorRegistry()
        registry.register(self)  # type: ignore[arg-type]  # only `collect` is called
        return generate_latest(registry)

    def collect(self) -> Iterable[object]:
        """The metric families, for prometheus_client."""
        from prometheus_client.core import (  # noqa: PLC0415
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        for kind, metrics in (
            (CounterMetricFamily, self._counters),
            (GaugeMetricFamily, self._gauges),
        ):
            for name, (what, label, now) in metrics.items():
                family = kind(name, what, labels=[label] if label else [])
                for value, amount in now().items():
                    family.add_metric([value] if label else [], amount)
                yield family
        for name, (what, observed) in self._histograms.items():
            histogram = observed()
            histogram_family = HistogramMetricFamily(name, what)
            running, buckets = 0, []
            for bound, cell in zip((*histogram.bounds, "+Inf"), histogram.cells, strict=True):
                running += cell
                buckets.append((str(bound), float(running)))
            histogram_family.add_metric([], buckets, histogram.sum)
            yield histogram_family
