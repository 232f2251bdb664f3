"""Every public object in a notebook: text, table, plain values, data frames, a plot."""

import inspect
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

import kreach as kr
from kreach.boundary.correction import PanelRelease
from kreach.display.objects import Displayed, Tabular
from kreach.extras import MissingExtra

DAY = datetime(2026, 11, 2, tzinfo=UTC)
_OUTLOOKS = tuple(  # tests/cli/test_plan.py makes real ones
    kr.Outlook(budget, budget - left, reach, (reach - 9.0, reach + 9.0), 0.95, 50.0, 1.2, 3.0, left)
    for budget, left, reach in ((30.0, 0.0, 40.0), (60_000.0, 123.0, 70.0))
)
GROUPS = [f"g{number}" for number in range(20)]


def _from_a_log() -> dict[str, Any]:
    generator = np.random.default_rng(1)
    moments = np.sort(generator.uniform(0.0, 3 * 86_400.0, 400)).tolist()
    rows = {
        "campaign": generator.choice(["spring", "summer"], 400).tolist(),
        "group": generator.choice(GROUPS, 400).tolist(),
        "ts": [(DAY + timedelta(seconds=each)).isoformat() for each in moments],
    }
    segments = {"group": GROUPS, "segment": ["at", "ch"] * 10}
    with kr.EmbeddedEngine() as engine:
        groups = kr.open_groups(engine, {"group": GROUPS, "size": [20] * 20})
        log = kr.ImpressionLog.open(engine, rows)
        window = kr.measure_window(log, groups, [1, 3], campaign="spring")
        series = kr.measure_series(log, groups, [1, 3], campaign="spring")
        together = kr.measure_together(log, groups, [1, 3], campaigns=["spring", "summer"])
        by_segment = kr.measure_segments(log, groups, [1], segments=segments)
        return {
            "groups": groups,
            "log": log,
            "engine": engine,
            "window": window,
            "window document": window.document(),
            "series": series,
            "series document": series.document(),
            "together": together,
            "combined document": together.document(),
            "segments": by_segment,
            "segments document": by_segment.document(),
        }


def _objects() -> dict[str, Any]:
    audience = kr.Audience.disjoint([20, 25] * 10, targeted_counts=[20, 5] * 10, dispersion=0.6)
    impressions = [12] * 20
    report = kr.measure(audience, impressions, cap=2)
    market = kr.LogNormalMarket(0.0, 0.6)
    model = kr.VisitModel.flat(group_size=20)
    meter = kr.ReachMeter(audience, caps=[1, 3])
    meter.record_many([0, 1, 1])
    rolling = kr.RollingReachMeter(audience, caps=[1], span=60.0)
    rolling.record(3, 5.0)
    visitors = kr.VisitorFilter(kr.Audience.disjoint([20]), model, caps=[1])
    visitors.request(0, 0.0)
    purse = kr.Purse(50.0, 0.0, 86_400.0)
    bidder = kr.PlanningBidder(audience, 2, purse, market)
    valuation = kr.CapValuation(audience, 2)
    portfolio = kr.Portfolio()
    portfolio.add("spring", bidder)
    releases = tuple(
        PanelRelease(DAY + timedelta(days=at), (-12.0 * at, 3.0), 4.0, (1.0, 1.0), (0.1, 0.1))
        for at in range(3)
    )
    return {
        "disjoint": audience,
        "overlapping": kr.Audience.overlapping([3, 3], [((0,), 2), ((0, 1), 1)]),
        "profiled": kr.Audience.profiled([[0.5, 0.5], [0.1, 0.2, 0.7]]),
        "sent targeted": kr.Audience.disjoint([20], [5], requests="targeted"),
        "report": report,
        "report of nothing": kr.measure(audience, [0] * 20, cap=2),
        "distribution": report.distribution(),
        "short distribution": kr.measure(kr.Audience.disjoint([3]), [2], 1).distribution(),
        "combination": kr.combine({"tv": impressions, "web": [3] * 20}, audience, cap=1),
        "meter": meter,
        "rolling": rolling,
        "visitors": visitors,
        "log-normal": market,
        "empirical": kr.EmpiricalMarket([0.5, 1.0, 2.0], [1, 2, 1], auction="first_price"),
        "plan": kr.ReachPlan(audience, market, 500, 2, None, _OUTLOOKS),
        "correction": kr.Correction("spring", "v1", "uniform", None, 20, 4, 0.1, releases),
        "model": model,
        "purse": purse,
        "planning bidder": bidder,
        "paper bidder": kr.PaperBidder(valuation, kr.Purse(5.0, 0.0, 9.0), market, 100),
        "portfolio": portfolio,
        "limits": kr.BidLimits(most=5.0),
        "valuation": valuation,
        "visitor valuation": kr.VisitorValuation(audience, 2, model),
        "stacked": kr.StackedValuation(audience, [kr.CapRule(1, 86_400.0), kr.CapRule(3)]),
        **_from_a_log(),
    }


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    return _objects()


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def test_every_object_prints_as_one_line_that_a_person_can_read(objects: dict[str, Any]) -> None:
    for name, each in objects.items():
        text = repr(each)
        assert "\n" not in text, name
        assert " object at 0x" not in text, name
        assert "array(" not in text, name
        assert len(text) < 250, (name, text)


def test_a_notebook_shows_a_table(objects: dict[str, Any]) -> None:
    shown = {name: each for name, each in objects.items() if isinstance(each, Displayed)}
    assert len(shown) > 25
    for name, each in shown.items():
        tree = ElementTree.fromstring(each._repr_html_())  # well-formed
        table = tree.find("table")
        assert table is not None, name
        heads = [cell.text or "" for cell in table.findall("thead/tr/th")]
        rows = [[cell.text for cell in row] for row in table.findall("tbody/tr")]
        assert rows, name
        assert all(len(row) == len(heads) for row in rows), name
        assert not re.search(r"\d\.\d{6}|e\+|nan", str(rows)), (name, rows)


def test_plain_values_are_json(objects: dict[str, Any]) -> None:
    for name, each in objects.items():
        if isinstance(each, Displayed):
            assert json.loads(json.dumps(each.to_dict())), name


def test_frames_agree(objects: dict[str, Any]) -> None:
    for name, each in objects.items():
        if not isinstance(each, Tabular):
            continue
        polars, arrow = each.to_polars(), each.to_arrow()
        pandas = each.to_pandas()
        assert list(pandas.columns) == polars.columns == arrow.column_names, name
        assert len(pandas) == len(polars) == arrow.num_rows > 0, name
        assert polars.to_dicts() == arrow.to_pylist(), name


def test_everything_but_money_and_rules_can_be_plotted(objects: dict[str, Any]) -> None:
    without = {"portfolio"}
    for name, each in objects.items():
        if not isinstance(each, Tabular) or name in without:
            continue
        plot: Any = each.plot  # type: ignore[attr-defined]
        ax = plot()
        assert isinstance(ax, Axes), name
        assert ax.get_ylabel(), name
        assert ax.lines or ax.patches or ax.containers, name
        ax.figure.canvas.draw()
        mine = pyplot.figure().subplots()
        assert plot(mine) is mine  # on axes of one's own
        pyplot.close("all")


def test_a_report_has_the_fields_of_the_command(objects: dict[str, Any]) -> None:
    window = objects["window"]
    rows = window.to_dict()["reports"]
    assert [row["cap"] for row in rows] == [1, 3]
    alone = json.loads(json.dumps(window.report(cap=1).to_dict()))
    assert alone == json.loads(json.dumps(rows[0]))
    frame = window.to_pandas()
    assert frame["reach"].tolist() == [report.reach for report in window.reports]
    assert (frame["interval_low"] <= frame["reach"]).all()
    assert (frame["reach"] <= frame["interval_high"]).all()


def test_a_series_frame_has_a_row_per_day_and_cap(objects: dict[str, Any]) -> None:
    series, frame = objects["series"], objects["series"].to_pandas()
    assert len(frame) == 3 * 2
    last = frame[frame["cap"] == 1].iloc[-1]
    assert last["cumulative_reach"] == series.whole.report(cap=1).reach
    assert frame["start"].iloc[0].to_pydatetime() == DAY


def test_sets_of_a_combination_add_up(objects: dict[str, Any]) -> None:
    frame = objects["combination"].to_pandas().set_index(["set", "part"])["reach"]
    parts = frame[("only", "tv")] + frame[("only", "web")] + frame[("overlap", np.nan)]
    assert parts == pytest.approx(frame[("union", np.nan)], rel=1e-9)


def test_groups_of_an_audience_can_be_read_again(objects: dict[str, Any], tmp_path: Any) -> None:
    for name in ("disjoint", "profiled", "sent targeted"):
        path = tmp_path / "groups.parquet"
        objects[name].to_polars().write_parquet(path)
        _, again = kr.read_groups(path)
        assert again.to_dict() == objects[name].to_dict()


def test_names_in_html_are_escaped() -> None:
    parts = {"<script>alert(1)</script>": [1], "b": [2]}
    shown = kr.combine(parts, kr.Audience.disjoint([5]), cap=1)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    call = {"pandas": "to_pandas", "polars": "to_polars", "pyarrow": "to_arrow"}[package]
    with pytest.raises(MissingExtra, match=f"needs {package}: pip install {package}"):
        getattr(kr.Audience.disjoint([5]), call)()


def test_a_plot_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kreach.extras.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'kreach\[lab\]'"):
        kr.Audience.disjoint([5]).plot()


def test_every_public_class_has_a_text_of_its_own() -> None:
    for name in kr.__all__:
        public = getattr(kr, name)
        if inspect.isclass(public) and not issubclass(public, Exception):
            assert public.__repr__ is not object.__repr__, name


def test_one_cap_is_cap_and_several_are_caps() -> None:
    for name in kr.__all__:
        public = getattr(kr, name)
        if not callable(public):
            continue
        parameters = inspect.signature(public).parameters
        assert not {"cap", "caps"} <= set(parameters), name
        for each in ("cap", "caps"):
            if each in parameters:
                several = not str(parameters[each].annotation).startswith("int")
                several &= "int'>" not in str(parameters[each].annotation)
                assert several == (each == "caps"), name


def test_an_audience_has_a_kind() -> None:
    with pytest.raises(kr.KreachError, match=r"create one with Audience\.disjoint"):
        kr.Audience(np.array([20]))
