"""`kreach plan`: a table or a document, budget to reach and back, one-line complaints."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.adsystem.bidding import outlook
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from tests.adsystem.visit_models import sample_model
from tests.cli.command import Result, kreach, kreach_process

pytestmark = pytest.mark.xdist_group("plans")  # what takes long is done once


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    groups = ["group,size,targeted", *(f"g{j},20,{20 if j % 3 else 15}" for j in range(12))]
    (folder / "groups.csv").write_text("\n".join(groups) + "\n")
    prices = ["market_price,count,campaign"]
    prices += [f"{0.05 * (1 + i) ** 1.5:.4f},{1 + i % 5},{'ab'[i % 2]}" for i in range(60)]
    (folder / "prices.csv").write_text("\n".join(prices) + "\n")
    return folder


def run(
    files: Path, *further: str, groups: str = "groups.csv", prices: str = "prices.csv"
) -> Result:
    return kreach(
        "plan",
        *("--groups", str(files / groups), "--prices", str(files / prices)),
        *("--requests", "1500", "--cap", "1"),
        *further,
    )


def document(result: Result) -> dict[str, Any]:
    assert (result.code, result.err) == (0, ""), result.err
    assert result.out.count("\n") == 1
    found: dict[str, Any] = json.loads(result.out)
    return found


def one_line(result: Result) -> str:
    """The complaint of a command that failed as promised."""
    assert (result.code, result.out) == (1, "")
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("kreach: ")
    return result.err[len("kreach: ") : -1]


def test_one_document(files: Path) -> None:
    found = document(run(files, "--budget", "50", "--budget", "200", "--json"))
    assert set(found) == {*("people", "groups", "visible", "cap", "requests", "model", "plans")}
    assert found["model"] is None
    assert (found["people"], found["groups"]) == (220, 12)
    assert (found["cap"], found["requests"]) == (1, 1500)
    first, second = found["plans"]
    assert set(first) == {
        *("budget", "spend", "reach", "band", "level", "impressions"),
        *("average_frequency", "multiplier"),
        *("unspent", "unspent_reason", "max_cost_per_reach", "people", "people_band"),
    }
    assert (first["budget"], second["budget"], first["level"]) == (50.0, 200.0, 0.95)
    for plan in (first, second):
        low, high = plan["band"]
        assert 0.0 < low < plan["reach"] < high <= 1.05 * 220
        assert 0.9 * plan["budget"] < plan["spend"] <= plan["budget"]
        assert plan["average_frequency"] >= 1.0
    assert first["reach"] < second["reach"]
    assert first["multiplier"] > second["multiplier"]


def test_an_ample_budget_is_not_spent(files: Path) -> None:
    wide = document(run(files, "--budget", "5000", "--json"))["plans"][0]
    narrow = run(files, "--budget", "5000", "--max-cost-per-reach", "0.8", "--json")
    limited = document(narrow)["plans"][0]
    assert limited["max_cost_per_reach"] == 0.8
    assert limited["spend"] < wide["spend"] < 5_000.0
    assert limited["unspent_reason"] == "a further reach would cost more than 0.8"
    shown = run(files, "--budget", "5000", "--max-cost-per-reach", "0.8")
    assert "stay unspent: a further reach would cost more than 0.8" in " ".join(shown.out.split())


def test_budgets_of_its_own_choice(files: Path) -> None:
    """Without a budget, eight of them from a hundredth of everything to everything."""
    plans = document(run(files, "--json"))["plans"]
    budgets = [plan["budget"] for plan in plans]
    reaches = [plan["reach"] for plan in plans]
    assert len(plans) == 8
    assert budgets == sorted(budgets)
    assert reaches == sorted(reaches)
    assert budgets[0] == pytest.approx(budgets[-1] / 100.0, rel=0.01)


def test_a_first_price_buys_less(files: Path) -> None:
    second, first = (
        document(run(files, "--budget", "80", "--auction", auction, "--json"))["plans"][0]
        for auction in ("second_price", "first_price")
    )
    assert first["reach"] < 0.97 * second["reach"]


def test_reach_inverts_budget(files: Path) -> None:
    """The way back leads within 5 % to where it came from."""
    there = document(run(files, "--budget", "80", "--json"))["plans"][0]
    back = document(run(files, "--reach", str(there["reach"]), "--json"))["plans"][0]
    assert back["budget"] == pytest.approx(80.0, rel=0.05)
    assert back["reach"] == pytest.approx(there["reach"], rel=0.03)


def test_budget_and_reach_together(files: Path) -> None:
    plans = document(run(files, "--budget", "80", "--reach", "60", "--json"))["plans"]
    assert len(plans) == 2
    assert plans[0]["budget"] == 80.0
    assert plans[1]["reach"] == pytest.approx(60.0, rel=0.05)


def test_prices_of_one_campaign_and_wider_bands(files: Path) -> None:
    a, b = (
        document(run(files, "--budget", "80", "--campaign", name, "--json"))["plans"][0]
        for name in "ab"
    )
    assert a["reach"] != b["reach"]
    narrow, wide = (
        document(run(files, "--budget", "80", "--level", level, "--json"))["plans"][0]["band"]
        for level in ("0.5", "0.99")
    )
    assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])


def test_the_seed_alone_decides(files: Path) -> None:
    outputs = [run(files, "--budget", "80", "--json", "--seed", s).out for s in ("3", "3", "4")]
    assert outputs[0] == outputs[1] != outputs[2]


def test_a_table_with_a_chart(files: Path) -> None:
    result = kreach_process(
        "plan",
        *("--groups", str(files / "groups.csv"), "--prices", str(files / "prices.csv")),
        *("--requests", "1500", "--cap", "1", "--budget", "50", "--budget", "400"),
    )
    assert (result.code, result.err) == (0, "")
    assert "220 targeted people, reach counts up to 1 per person" in result.out
    for word in ("budget", "spend", "reach", "95% band", "frequency"):
        assert word in result.out
    rows = [line for line in result.out.splitlines() if "█" in line]
    bars = [line.count("█") for line in rows]
    assert len(rows) == 2
    assert 0 < bars[0] < bars[1]
    assert " to " in rows[0]


def test_every_kind_of_group(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dispersion and visit shares enter the plan. Fewer flights than usual, to be done sooner."""
    monkeypatch.setattr(outlook, "_MAX_TRIALS", 40)
    common = "\n".join(f"g{j},3" for j in range(15))
    (tmp_path / "even.csv").write_text(f"group,size\n{common}\n")
    uneven = common.replace(",3", ",3,0.3")
    (tmp_path / "uneven.csv").write_text(f"group,size,dispersion\n{uneven}\n")
    shares = common.replace(",3", ',3,"[0.1, 0.2, 0.7]"')
    (tmp_path / "shares.csv").write_text(f"group,size,visit_shares\n{shares}\n")
    reach = {}
    for name in ("even", "uneven", "shares"):
        result = kreach(
            "plan",
            *("--groups", str(tmp_path / f"{name}.csv"), "--prices", str(files / "prices.csv")),
            *("--requests", "1500", "--cap", "1", "--budget", "60", "--json"),
        )
        reach[name] = document(result)["plans"][0]["reach"]
    assert reach["uneven"] < 0.95 * reach["even"]
    assert reach["shares"] < 0.95 * reach["even"]


def test_a_release_brings_its_visit_model(files: Path, tmp_path: Path) -> None:
    """The folder, the folder around it and the file in it; `none` and a model of a file."""
    names = tuple(f"g{j}" for j in range(12))
    catalogue = Catalogue(
        *("v1", datetime(2026, 1, 1, tzinfo=UTC), 20, names, np.full(12, 20)),
        model=sample_model(20.0),
    )
    release = tmp_path / "release"
    write_catalogue(catalogue, release)

    def planned(groups: Path, *further: str) -> dict[str, Any]:
        return document(
            kreach(
                "plan",
                *("--groups", str(groups), "--prices", str(files / "prices.csv")),
                *("--requests", "1500", "--cap", "1", "--budget", "60", "--json", *further),
            )
        )

    drawn = planned(release)
    assert drawn["model"] == {"people": 12_345, "days": 30.0}
    for groups in (tmp_path, release / "groups.parquet"):
        assert planned(groups) == drawn
    plain = planned(release, "--model", "none")
    assert plain["model"] is None
    assert drawn["plans"][0]["reach"] < 0.9 * plain["plans"][0]["reach"]
    (files / "even.csv").write_text("\n".join(["group,size", *(f"{n},20" for n in names)]) + "\n")
    assert planned(files / "even.csv") == plain
    assert planned(files / "even.csv", "--model", str(release)) == drawn
    table = kreach(
        "plan",
        *("--groups", str(release), "--prices", str(files / "prices.csv")),
        *("--requests", "1500", "--cap", "1", "--budget", "60"),
    )
    assert "visit model of the site" in table.out


def test_what_a_visit_model_does_not_fit_is_one_clear_line(files: Path, tmp_path: Path) -> None:
    said = one_line(run(files, "--budget", "5", "--model", str(tmp_path / "no")))
    assert "model must be a release that holds visit_model.json" in said
    (tmp_path / "shares.csv").write_text('group,size,visit_shares\ng0,2,"[0.5, 0.5]"\n')
    (tmp_path / "prices.csv").write_text("market_price,count\n1.0,3\n")
    sample_model().save(tmp_path)
    asked = ("--groups", str(tmp_path / "shares.csv"), "--prices", str(tmp_path / "prices.csv"))
    rest = ("--requests", "50", "--cap", "1", "--budget", "5")
    assert kreach("plan", *asked, *rest).code == 0  # shares are known, so the model is left out
    said = one_line(kreach("plan", *asked, *rest, "--model", str(tmp_path)))
    assert said.startswith("audience must have no visit shares with a visit model, got")
    (tmp_path / "catalogue.json").write_text("{}")
    (tmp_path / "classes.parquet").write_bytes(b"")
    said = one_line(kreach("plan", "--groups", str(tmp_path), *asked[2:], *rest))
    assert said.startswith("groups must be disjoint, got")


@pytest.mark.parametrize(
    ("file", "header", "said"),
    [
        ("groups", "id,size", "groups must have a column group, got "),
        ("groups", "group,members", "groups must have a column size, got "),
        ("prices", "price,count", "prices must have a column market_price, got "),
    ],
)
def test_a_missing_column_is_one_clear_line(
    file: str, header: str, said: str, files: Path, tmp_path: Path
) -> None:
    (tmp_path / "groups.csv").write_text("group,size\ng0,20\n")
    (tmp_path / "prices.csv").write_text("market_price,count\n1.0,3\n")
    (tmp_path / f"{file}.csv").write_text(f"{header}\n1,3\n")
    assert one_line(run(tmp_path, "--budget", "5")).startswith(said)


@pytest.mark.parametrize(
    ("further", "said"),
    [
        (("--budget", "0"), "budget must be a finite number > 0, got 0.0"),
        (("--budget", "-3"), "budget must be a finite number > 0, got -3.0"),
        (("--budget", "nan"), "budget must be a finite number > 0, got nan"),
        (("--reach", "100000"), "reach must lie between 0 and what is possible ("),
        (("--reach", "0"), "reach must lie between 0 and what is possible ("),
        (("--campaign", "none"), "prices must hold prices of campaign none, got 'none'"),
        (("--auction", "dutch"), "auction must be one of second_price, first_price, got 'dutch'"),
        (("--budget", "5", "--level", "1"), "level must lie between 0 and 1, both excluded"),
        (("--budget", "5", "--seed", "-1"), "seed must be a whole number from 0 to "),
        (("--cap", "0"), "cap must be a whole number from 1 to "),
        (("--requests", "0"), "requests must be a whole number from 1 to "),
        (("--json", "--budget", "0"), "budget must be a finite number > 0, got 0.0"),
    ],
)
def test_bad_input_is_one_clear_line(further: tuple[str, ...], said: str, files: Path) -> None:
    assert said in one_line(run(files, *further))


def test_missing_and_broken_files_are_one_clear_line(files: Path, tmp_path: Path) -> None:
    assert "groups must name a file that exists" in one_line(run(files, groups="no.csv"))
    assert "prices must name a file that exists" in one_line(run(files, prices="no.csv"))
    (files / "empty.csv").write_text("market_price\n")
    assert "prices must hold prices of any campaign" in one_line(run(files, prices="empty.csv"))
    (files / "twice.csv").write_text("group,size\ng1,20\ng1,20\n")
    assert "groups must name each group once" in one_line(run(files, groups="twice.csv"))
    (files / "broken.parquet").write_bytes(b"no")
    said = one_line(run(files, prices="broken.parquet"))
    assert "prices must be a readable Parquet or CSV file" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--groups", "g.csv", "--prices", "p.csv", "--cap", "1"),
        ("plan", "--groups", "g.csv", "--prices", "p.csv", "--requests", "x", "--cap", "1"),
        ("plan", "--groups", "g.csv", "--prices", "p.csv", "--requests", "9", "--cap", "1.5"),
        ("plan", "--nonsense"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = kreach(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err
    assert "--help`)" in result.err


def test_help_has_an_example_and_loads_nothing_heavy() -> None:
    check = "import sys; print('HEAVY', *(m for m in ('numpy', 'duckdb') if m in sys.modules))"
    result = kreach_process("plan", "--help", after=check)
    assert result.code == 0
    assert result.out.strip().endswith("HEAVY")
    assert "--json" in result.out
    assert "kreach plan --groups" in " ".join(result.out.split())
