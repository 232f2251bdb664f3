"""The paper's figures: its findings hold, its numbers lie in bands, and digits repeat.

Quick runs with a fixed seed. Bands are several standard errors of the quick repetitions wide.
"""

import json
import pickle
from functools import cache
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.lab.exhibits import Exhibit
from kreach.lab.figures import FIGURES, bidders, fig2, table1
from kreach.lab.figures.table1_numbers import PAPER_MEANS
from kreach.lab.reproduce import chosen_figures, comparison, reproduce
from kreach.lab.scenarios import APPROACHES, GROUP_SIZE, Run, generate_traffic
from tests.cli.command import write_visits


@cache
def quick_run() -> Run:
    return Run(seed=0, quick=True, processes=1)


@cache
def exhibit(name: str) -> Exhibit:
    """Figure 2 at fewer group sizes than a quick run has, Table 1 at fewer shares targeted."""
    with (
        patch.multiple(fig2, SOME_SIZES=(1, 2, 6, 20, 120), FEW_SIZES=(1, 20)),
        patch.object(table1, "FEW_SHARES", (table1.SHARE, 1.0)),
    ):
        return FIGURES[name](quick_run())


def test_fig1_expectation_is_theorem_1_and_the_exact_mean() -> None:
    ours = exhibit("fig1").numbers
    assert ours["exact_mean"] == pytest.approx(ours["theorem_1"], rel=1e-10)
    standard_error = (ours["exact_variance"] / 20_000) ** 0.5
    assert abs(ours["sampled_mean"] - ours["theorem_1"]) < 4.0 * standard_error
    assert ours["sampled_variance"] == pytest.approx(ours["exact_variance"], rel=0.05)


def test_fig1_variance_rises_and_falls_and_jumps_at_two() -> None:
    ours = exhibit("fig1").numbers
    by_total = list(ours["variance_by_impressions"].values())
    peak = by_total.index(max(by_total))
    assert 0 < peak < len(by_total) - 1
    assert by_total[: peak + 1] == sorted(by_total[: peak + 1])
    assert by_total[peak:] == sorted(by_total[peak:], reverse=True)
    by_size = ours["variance_by_group_size"]
    values = list(by_size.values())
    assert by_size["1"] == 0.0
    assert by_size["2"] > 10.0
    assert max(b - a for a, b in pairwise(values[1:])) < 0.3 * by_size["2"]
    assert all(b > a - 0.2 for a, b in pairwise(values))  # draws of impressions stray that much


def test_fig2_the_papers_curve_and_planning_ahead() -> None:
    """0.67 at k = 2, 0.62 in one group, a monotone fall; and more reach for tight budgets."""
    ours = exhibit("fig2").numbers
    assert ours["roas_at_k_2"] == pytest.approx(0.67, abs=0.04)
    assert ours["roas_in_one_group"] == pytest.approx(0.62, abs=0.04)
    assert set(ours["relative_roas"]) == {"cap 3, budget 430", "cap 1, budget 90"}
    for curve in ours["relative_roas"].values():
        values = list(curve.values())
        assert values[0] == 1.0
        assert curve["2"] == pytest.approx(0.67, abs=0.04)
        assert curve["120"] == pytest.approx(0.62, abs=0.04)
        assert all(b < a + 0.015 for a, b in pairwise(values))
    for gain in ours["reach_ahead_over_paper"].values():
        assert min(gain.values()) > 1.03
    assert max(row["spend"] / row["budget"] for row in exhibit("fig2").rows) <= 1.0


def test_fig5_generated_visits_are_as_uneven_as_real_ones() -> None:
    ours = exhibit("fig5").numbers
    assert ours["visits_a_head"] == pytest.approx(9.3, rel=0.1)
    assert 4.0 <= ours["median_visits"] <= 5.0
    assert ours["effective_members"] == pytest.approx(8.9, abs=0.6)
    assert ours["heaviest_share"] == pytest.approx(0.25, abs=0.03)
    rows = exhibit("fig5").rows
    assert len(rows) == 6 * GROUP_SIZE
    for group in range(6):
        shares = [row["share"] for row in rows if row["group"] == group]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1.0)


def test_fig6_who_is_too_high_too_low_and_closest() -> None:
    ours = exhibit("fig6").numbers
    assert min(ours["impressions"]["by_campaign"]) > 0.0
    assert max(ours["groups"]["by_campaign"]) < 0.0
    assert min(ours["uniform"]["by_campaign"]) > 0.0
    errors = {approach: ours[approach]["mean_absolute_error"] for approach in APPROACHES}
    assert ours["most_accurate"] == "profiled"
    assert errors["profiled"] < 0.08
    assert errors["dispersed"] < 0.10
    assert 0.2 < errors["uniform"] < errors["impressions"]
    assert all(len(ours[approach]["by_campaign"]) == 10 for approach in APPROACHES)


def test_table1_the_papers_order_and_levels_where_few_members_are_visible() -> None:
    """Ten campaigns of 600 people: means have standard errors of 2 to 3 points."""
    ours = exhibit("table1").numbers
    assert ours["order"] == exhibit("table1").paper["order"] == "D > B > C > A"
    for approach, stated in PAPER_MEANS.items():
        assert ours[f"{approach}_mean"] == pytest.approx(stated, abs=0.05)
        assert ours[f"{approach}_spent_share"] > 0.9
    assert ours["profiled_over_uniform"] > 2.0 * ours["profiled_over_uniform_error"] > 0.0
    assert 1.8 < ours["visible_members"] < 2.1
    assert 1.0 < ours["effective_members"] < ours["active_members"] < ours["visible_members"]
    assert ours["closest_share"] == ours["share_targeted"] == 0.08


def test_table1_with_everybody_targeted_the_papers_order_is_lost() -> None:
    ours = exhibit("table1").numbers
    assert list(ours["by_share"]) == ["0.08", "1"]
    everybody = ours["by_share"]["1"]
    assert 1.0 not in ours["shares_in_order"]
    assert everybody["visible_members"] == GROUP_SIZE
    assert everybody["relative_roas"]["profiled"] < everybody["relative_roas"]["uniform"] + 0.01
    assert everybody["relative_roas"]["visible"] == everybody["relative_roas"]["uniform"]
    assert everybody["distance"] > 2.0 * ours["by_share"]["0.08"]["distance"]


def test_table1_what_counting_with_visible_members_gains() -> None:
    ours = exhibit("table1").numbers
    assert ours["visible_over_uniform"] > 2.0 * ours["visible_over_uniform_error"] > 0.0
    few = ours["by_share"]["0.08"]
    error = {name: part["mean_error"] for name, part in few["measurement"].items()}
    assert error["uniform"] > 0.5
    assert 0.05 < error["visible"] < 0.2  # people visit unevenly
    assert abs(error["visible_dispersed"]) < 0.04
    assert abs(error["profiled"]) < 0.05
    assert error["targeted"] < -0.6  # Theorem 1 takes the others to be in the auctions as well
    assert error["profiled_all"] > 0.3
    assert few["relative_roas"]["targeted"] < few["relative_roas"]["uniform"] - 0.2
    ahead = ours["visible_dispersed_ahead_over_uniform_ahead"]
    assert ahead > 2.0 * ours["visible_dispersed_ahead_over_uniform_ahead_error"] > 0.0
    assert ours["alone_ahead_mean"] > ours["visible_dispersed_ahead_mean"] > 1.0


def test_fig7_rises_almost_linearly_with_coverage() -> None:
    ours = exhibit("fig7").numbers
    assert ours["min_correlation"] > 0.95
    for part in ours["settings"].values():
        roas = list(part["roas_by_coverage"].values())
        coverage = list(part["roas_by_coverage"])
        assert (coverage[0], coverage[-1]) == ("1.000", "0.083")
        assert roas == sorted(roas, reverse=True)
        prices = list(part["price_paid_by_coverage"].values())
        assert prices[0] > prices[-1]  # more requests to choose from


def test_fig7_low_coverage_costs_nothing_where_only_targeted_people_make_requests() -> None:
    curves = exhibit("fig7").numbers["roas_by_visible_members"]
    assert all(curve["12"] == 1.0 for curve in curves.values())
    assert curves["everybody"]["1"] < 0.4
    assert min(curves["targeted"].values()) > 0.95
    assert min(curves["visible"].values()) > 0.95
    assert curves["visible"]["1"] > 1.2 * curves["targeted"]["1"]


def test_table1_the_same_digits_whichever_process_runs_a_campaign() -> None:
    run = Run(seed=5, quick=True)
    task = table1._Task(3, run.campaigns[3], (table1.SHARE,), 1, (), run.seed)
    again = table1._Task(3, Run(seed=5, quick=True).campaigns[3], (table1.SHARE,), 1, (), 5)
    first = table1._campaign(task)
    assert first == table1._campaign(pickle.loads(pickle.dumps(again)))
    assert {row["approach"] for row in first} >= set(APPROACHES)


def test_the_same_digits_for_any_number_of_processes() -> None:
    wanted: dict[fig2.Key, int] = {("paper", 1, 20.0, 2): 3, ("ahead", 1, 20.0, 2): 2}
    one, two = (
        fig2._results(Run(seed=5, quick=True, processes=processes), wanted) for processes in (1, 2)
    )
    other = fig2._results(Run(seed=6, quick=True, processes=1), wanted)
    for key in wanted:
        assert one[key].tolist() == two[key].tolist() != other[key].tolist()


def test_files_and_the_shape_of_the_summary(tmp_path: Path) -> None:
    run = Run(seed=3, quick=True)
    made = reproduce(["fig6", "fig5"], tmp_path / "a", run)
    reproduce(["fig5", "fig6"], tmp_path / "b", Run(seed=3, quick=True))
    assert [e.name for e in made] == ["fig5", "fig6"]
    for name in ("summary.json", "report.html", "fig5.csv", "fig6.csv", "fig5.svg", "fig6.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert set(summary) == {"fig5", "fig6"}
    for part in summary.values():
        assert set(part) == {"paper", "ours", "setting"}
    assert summary["fig6"]["paper"]["most_accurate"] == "profiled"
    page = (tmp_path / "a" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2


def test_every_exhibit_says_what_the_paper_found_and_what_we_find() -> None:
    for name in ("fig1", "fig5", "fig6"):
        made = exhibit(name)
        assert made.name == name
        assert made.paper_finding
        assert made.our_finding
        assert made.setting
        assert made.rows
        assert "\n" not in comparison(made)
    assert comparison(exhibit("fig6")).startswith("most accurate: profiled (paper profiled)")


def test_visits_and_prices_from_files(tmp_path: Path) -> None:
    visits = write_visits(tmp_path / "visits.csv", people=120)
    prices = tmp_path / "prices.csv"
    prices.write_text("market_price,count\n20,5\n50,10\n200,3\n")
    run = Run(seed=0, quick=True, processes=1, visits=visits, prices=prices)
    assert run.traffic.people == 120
    assert np.diff(run.traffic.at).min() >= 0.0
    assert set(np.concatenate([c.price for c in run.campaigns])) == {0.4, 1.0, 4.0}
    assert all(len(c.group_of) == 120 for c in run.campaigns)
    with patch.object(bidders, "PLANS", 3):  # how well they plan is not asked here
        made = FIGURES["table1"](run)
    assert made.setting["visits"].startswith("from the file")
    assert made.setting["prices"].startswith("from the file")
    assert 0.3 < made.numbers["uniform_mean"] < 1.3


def test_generated_traffic_is_in_order_and_everybody_visits() -> None:
    traffic = generate_traffic(500, np.random.default_rng(2))
    assert np.diff(traffic.at).min() >= 0.0
    assert traffic.visits_by_person.min() >= 2  # a session has at least two pages
    assert len(traffic.visits_by_person) == 500
    late = float((traffic.at >= traffic.split).mean())
    assert late == pytest.approx(0.5, abs=0.06)


def test_names_in_the_papers_order_each_once() -> None:
    assert chosen_figures([]) == ["fig1", "fig2", "fig5", "fig6", "table1", "fig7"]
    assert chosen_figures(["fig7", "table1", "fig7"]) == ["table1", "fig7"]


@pytest.mark.parametrize(
    ("names", "run", "said"),
    [
        (["fig3"], Run(), "figure must be one of fig1, fig2, fig5, fig6, table1, fig7, got 'fig3'"),
        (["fig5"], Run(seed=-1), "seed must be a whole number from 0"),
        (["fig5"], Run(processes=0), "processes must be a whole number from 1"),
    ],
)
def test_bad_input_names_the_rule(names: list[str], run: Run, said: str, tmp_path: Path) -> None:
    with pytest.raises(KreachError, match=said):
        reproduce(names, tmp_path, run)


def test_too_few_people_or_visits_and_worthless_prices_are_refused(tmp_path: Path) -> None:
    few = write_visits(tmp_path / "few.csv", people=30)
    with pytest.raises(KreachError, match="visits must hold at least 40 people"):
        reproduce(["fig5"], tmp_path / "a", Run(visits=few))
    rare = write_visits(tmp_path / "rare.csv", people=40)
    with pytest.raises(KreachError, match="visits must hold at least 100 in each half"):
        reproduce(["fig6"], tmp_path / "b", Run(visits=rare))
    free = tmp_path / "free.csv"
    free.write_text("market_price,count\n0,9\n1,2\n")
    with pytest.raises(KreachError, match="prices must have a median above 0"):
        reproduce(["fig6"], tmp_path / "c", Run(quick=True, prices=free))
