"""A build as a whole: facts, folders, and the gateway and audit that start from them."""

import json
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.boundary.files import read_catalogue
from kreach.errors import KreachError
from kreach.publisher.audit import audit
from kreach.publisher.audit.page import audit_page
from kreach.publisher.audit.visit_model import model_view
from kreach.publisher.build import STRATEGIES, BuildOptions, build_groups
from kreach.publisher.crossfit import cross_fitted_dispersion
from kreach.publisher.directory import Directory
from kreach.publisher.grouping import AtRandom, ByRates, DiversityFloors, form_groups
from kreach.publisher.site_model import history_to_fit
from kreach.publisher.store import read_build
from kreach.publisher.visit_knowledge import match_dispersion
from tests.publisher.populations import NOW, write_csv


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 people whose habits last, over 20 days."""
    generator = np.random.default_rng(71)
    habits = generator.gamma(0.8, 12.0, 400)
    lines = ["user_id,ts,town,age,empty"]
    for who, habit in enumerate(habits.tolist()):
        town, age = "ABC"[who % 3], 20 + who % 50
        for hour in generator.uniform(0, 480, generator.poisson(habit) + 1).tolist():
            day, rest = divmod(hour, 24)
            lines.append(f"u{who},2026-01-{1 + int(day):02}T{int(rest):02}:00:00Z,{town},{age},")
    return write_csv(tmp_path_factory.mktemp("visits") / "visits.csv", *lines)


def build(visits: Path, out: Path, strategy: str = "random", **options: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "attributes": ("town", "age"),
        "segments": ("town",),
        "keep": ("empty",),
        "seed": 0,
        **options,
    }
    return build_groups(
        BuildOptions(visits, settings.pop("group_size", 10), strategy, out, **settings),
        NOW,
        lambda _: None,
    )


@pytest.fixture(scope="module")
def built(visits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build at random, to be looked at and copied, not changed."""
    out = tmp_path_factory.mktemp("builds") / "out"
    build(visits, out, seed=4)
    return out


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_build_can_be_read_back(strategy: str, visits: Path, tmp_path: Path) -> None:
    facts = build(visits, tmp_path / "out", strategy)
    stored = read_build(tmp_path / "out")
    catalogue = read_catalogue(tmp_path / "out" / "release")
    assert stored.facts == json.loads(json.dumps(facts))
    assert facts["strategy"] == strategy == stored.assignment.strategy
    assert facts["people"] == 400 == len(stored.user_ids) == stored.people.count
    assert facts["groups"] == len(catalogue) == stored.assignment.group_count
    assert facts["version"] == catalogue.version == "20261101T000000Z"
    assert facts["smallest_group"] >= 10
    assert facts["dispersion"] == catalogue.dispersion
    assert set(facts["coverage"]) == {"town"}
    assert set(facts["information_kept"]) == {"town", "age"}
    sizes = np.bincount(stored.group_indices.ravel(), minlength=len(catalogue))
    np.testing.assert_array_equal(sizes, catalogue.sizes)
    assert stored.people.attribute("town").labels == ("A", "B", "C")
    assert stored.people.attribute("empty").labels == (None,)
    directory = Directory(visits)
    assert stored.user_ids == directory.user_ids()
    np.testing.assert_array_equal(stored.people.visits, directory.people().visits)


@pytest.mark.parametrize("strategy", ["random", "overlapping"])
def test_the_gateway_starts_from_a_build(strategy: str, visits: Path, tmp_path: Path) -> None:
    build(visits, tmp_path / "out", strategy, partitions=12)
    stored = read_build(tmp_path / "out")
    lookup = stored.group_lookup()
    catalogue = read_catalogue(tmp_path / "out" / "release")
    for at in range(0, 400, 17):
        group = lookup.identify(stored.user_ids[at]).group
        assert catalogue.index(group) in stored.group_indices[at]
        assert lookup.identify(stored.user_ids[at]).group == group


def test_what_stays_is_closed_to_others(built: Path) -> None:
    assert stat.S_IMODE((built / "publisher").stat().st_mode) == 0o700
    for name in ("key", "build.json"):
        assert stat.S_IMODE((built / "publisher" / name).stat().st_mode) == 0o600


def test_the_seed_forms_the_same_groups_under_new_ids(
    built: Path, visits: Path, tmp_path: Path
) -> None:
    build(visits, tmp_path / "two", seed=4)
    build(visits, tmp_path / "other", seed=5)
    folders = (built, tmp_path / "two", tmp_path / "other")
    one, two, other = (read_build(folder) for folder in folders)
    np.testing.assert_array_equal(one.assignment.groups, two.assignment.groups)
    assert (one.assignment.groups != other.assignment.groups).any()
    assert one.key != two.key
    ids = [set(read_catalogue(folder / "release").groups) for folder in folders[:2]]
    assert not ids[0] & ids[1]


def test_without_a_seed_one_is_drawn_that_nobody_can_guess(visits: Path, tmp_path: Path) -> None:
    facts = [build(visits, tmp_path / name, seed=None, knowledge="none") for name in ("a", "b")]
    assert facts[0]["seed"] != facts[1]["seed"]
    assert [(f["seed"].bit_length(), f["seed_origin"]) for f in facts] == [(128, "drawn")] * 2
    one, two = (read_build(tmp_path / name).assignment.groups for name in ("a", "b"))
    assert (one != two).any()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_build_holds_diversity_floors_and_says_what_they_cost(
    strategy: str, visits: Path, tmp_path: Path
) -> None:
    """A third of 400 people in each town; at least two towns in every group, evenly."""
    facts = build(
        visits,
        tmp_path / "out",
        strategy,
        knowledge="dispersion",
        segments=("age",),
        sensitive=("town",),
        diversity=DiversityFloors(2, 1.5, 0.45),
    )
    stored = read_build(tmp_path / "out")
    report = audit(
        stored.people,
        stored.assignment,
        sensitive=("town",),
        diversity=DiversityFloors(2, 1.5, 0.45),
    )
    (town,) = [view for view in report.columns if view.name == "town"]
    assert town.groups_below_floors == 0
    diversity = facts["diversity"]
    assert diversity["columns"]["town"]["min_l"] >= 2
    assert diversity["columns"]["town"]["max_t"] <= 0.45 + 1e-9
    before, after = diversity["without_floors"], diversity["with_floors"]
    assert set(before) == set(after) >= {"rate_spread", "median_effective", "coverage"}
    assert after["groups"] == facts["groups"] <= before["groups"]
    assert before["rate_spread"] <= after["rate_spread"] + 0.05


def test_numbers_stay_numbers_in_a_build(visits: Path, tmp_path: Path) -> None:
    """Ages are compared as numbers when a build is audited: 9 comes before 10."""
    build(visits, tmp_path / "out", keep=("age",), attributes=(), knowledge="none")
    age = read_build(tmp_path / "out").people.attribute("age")
    assert age.numeric
    assert list(age.labels) == sorted(age.labels, key=float)  # type: ignore[arg-type]


def test_history_may_end_before_the_file_does(visits: Path, tmp_path: Path) -> None:
    end = datetime(2026, 1, 11, tzinfo=UTC)
    facts = build(visits, tmp_path / "out", history_end=end)
    directory = Directory(visits)
    assert facts["visits"] == directory.people(end=end).visits.sum()
    assert facts["people"] == 400, "who comes later has a group too"


@pytest.mark.parametrize("strategy", ["rates", "segments+rates"])
def test_groups_by_visits_get_a_dispersion_from_other_visits(
    strategy: str, visits: Path, tmp_path: Path
) -> None:
    """On the visits that formed them they look even; the released number does not say so."""
    facts = build(visits, tmp_path / "out", strategy)
    stored = read_build(tmp_path / "out")
    flattered = match_dispersion(stored.people.visits, stored.assignment.group_of())
    assert facts["dispersion"] is not None
    assert facts["dispersion"] < 0.5 * flattered


def test_cross_fitting_tells_what_the_next_visits_show(visits: Path) -> None:
    """Groups by the first 10 days, judged on the last 10, against the number fitted before."""
    directory = Directory(visits)
    middle = datetime(2026, 1, 11, tzinfo=UTC)
    people = directory.people(end=middle)
    groups = form_groups(people, 10, ByRates(), seed=1).group_of()
    later = match_dispersion(directory.people(start=middle).visits, groups)
    fitted = cross_fitted_dispersion(directory, people, ByRates(), 10, seed=1, end=middle)
    naive = match_dispersion(people.visits, groups)
    assert abs(np.log(fitted / later)) < np.log(2.0)
    assert naive > 3.0 * later
    plain = cross_fitted_dispersion(directory, people, AtRandom(), 10, seed=1, end=middle)
    at_random = form_groups(people, 10, AtRandom(), seed=1).group_of()
    assert plain == pytest.approx(match_dispersion(people.visits, at_random), rel=0.2)


def test_cross_fitting_needs_visits_that_span_time(tmp_path: Path) -> None:
    lines = [f"u{i},2026-01-01T00:00:00Z" for i in range(20)]
    directory = Directory(write_csv(tmp_path / "v.csv", "user_id,ts", *lines))
    with pytest.raises(KreachError, match=r"^visits must span some time to be split, got 20"):
        cross_fitted_dispersion(directory, directory.people(), ByRates(), 5, seed=1)
    never = datetime(2025, 1, 1, tzinfo=UTC)
    with pytest.raises(KreachError, match=r"^visits must span some time to be split, got 0"):
        cross_fitted_dispersion(directory, directory.people(), ByRates(), 5, seed=1, end=never)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "best"}, "strategy must be one of random, attributes, segments, rates"),
        (
            {"strategy": "attributes", "attributes": ()},
            "attributes must name at least one column to group by",
        ),
        ({"strategy": "segments", "segments": ()}, "must name at least one targeting attribute"),
        ({"keep": ("religion",)}, r"attribute must be a column of the file \(town, age, empty\)"),
        ({"group_size": 401}, r"people must be at least group_size \(401\) people, got 400"),
        ({"group_size": 0}, "group_size must be a whole number from 1"),
        ({"knowledge": "all"}, "knowledge must be one of"),
        ({"seed": -1}, "seed must be"),
        ({"partitions": 0, "strategy": "overlapping"}, "partitions must be at least 1"),
    ],
)
def test_a_build_that_fails_leaves_nothing(
    options: dict[str, Any], said: str, visits: Path, tmp_path: Path
) -> None:
    with pytest.raises(KreachError, match=said):
        build(visits, tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused(visits: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(KreachError, match=r"^out must be a new or empty folder"):
        build(visits, tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(KreachError, match=r"^out must be a new or empty folder"):
        build(visits, tmp_path / "file")


def test_an_empty_folder_is_used(visits: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    build(visits, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"publisher", "release"}


def test_the_empty_folder_one_stands_in_is_used(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    build(visits, Path("."))
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"publisher", "release"}


def test_a_build_touches_nothing_beside_its_folder(visits: Path, tmp_path: Path) -> None:
    for name in ("out.unfinished", "out.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("keep me")
    build(visits, tmp_path / "out")
    assert len(list(tmp_path.glob("*/mine.txt"))) == 2
    assert len(list(tmp_path.iterdir())) == 3


def test_writing_that_fails_leaves_nothing(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is written, then the disk is full."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kreach.publisher.store.scratch_connection", full)
    with pytest.raises(OSError, match="No space"):
        build(visits, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["build.json", "key", "people.parquet"])
@pytest.mark.parametrize("content", [None, b"", b"spoiled"])
def test_a_spoiled_build_is_refused(
    name: str, content: bytes | None, built: Path, tmp_path: Path
) -> None:
    shutil.copytree(built, tmp_path / "out")
    path = tmp_path / "out" / "publisher" / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(KreachError, match=r"^(folder|key) must ") as caught:
        read_build(tmp_path / "out").group_lookup()
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match=r"^folder must be .* `kreach groups build`"):
        read_build(tmp_path)


def test_a_build_releases_a_visit_model(visits: Path, tmp_path: Path) -> None:
    progress: list[str] = []
    options = BuildOptions(visits, 10, "random", tmp_path / "out", seed=4)
    facts = build_groups(options, NOW, progress.append)
    catalogue = read_catalogue(tmp_path / "out" / "release")
    assert catalogue.model is not None
    assert catalogue.dispersion is not None
    told = facts["visit_model"]
    assert (told["lags"], told["people"]) == (catalogue.model.lags, 400)
    assert told["min_people_behind_odds"] == 0 or told["min_people_behind_odds"] >= 20
    assert told["errors"] == catalogue.model.to_json()["errors"]
    assert told["errors"][-1]["max_hours"] is None
    assert any("fitting the visit model" in line for line in progress)
    assert any("replaying history" in line for line in progress)


@pytest.mark.parametrize("knowledge", ["none", "dispersion", "shares"])
def test_other_knowledge_releases_no_model(visits: Path, tmp_path: Path, knowledge: str) -> None:
    facts = build(visits, tmp_path / "out", knowledge=knowledge)
    assert facts["visit_model"] is None
    assert not (tmp_path / "out" / "release" / "visit_model.json").exists()


def test_too_little_history_falls_back_to_dispersion(tmp_path: Path) -> None:
    lines = [f"u{n % 50},2026-01-{1 + n % 9:02}T00:00:00Z" for n in range(0, 300, 1)]
    file = write_csv(tmp_path / "few.csv", "user_id,ts", *lines)
    options = BuildOptions(file, 10, "random", tmp_path / "out")
    facts = build_groups(options, NOW, lambda _: None)
    assert facts["visit_model"] is None
    assert facts["dispersion"] == read_catalogue(tmp_path / "out" / "release").dispersion
    assert facts["warnings"] == [
        "no visit model: 50 people made two requests or more; a visit model needs 200"
    ]


def test_groups_by_visits_get_a_model_from_other_visits(visits: Path) -> None:
    """On the visits that formed them groups look even; the model is fitted on later ones."""
    directory = Directory(visits)
    people, visited = directory.people(), directory.visits()
    assignment = form_groups(people, 10, ByRates(), 1)
    history = history_to_fit(visited, people, assignment, ByRates(), 1)
    middle = len(visited) // 2
    seen = np.isin(visited.user[middle:], visited.user[:middle])  # in groups formed by then
    assert len(history) == np.count_nonzero(seen) < len(seen)
    assert history.at_us.min() >= visited.at_us[len(visited) // 2]
    plain = history_to_fit(visited, people, assignment, AtRandom(), 1)
    assert len(plain) == len(visited)


def test_the_audit_says_what_the_model_tells(built: Path) -> None:
    stored = read_build(built)
    view = model_view(built, stored.facts)
    assert view is not None
    assert view.people == 400
    assert {table.name: table.numbers for table in view.tables}["meetings"] == 12 * 12 * 9
    report = audit(stored.people, stored.assignment, visit_model=view)
    (said,) = [f for f in report.findings if "visit model" in f.text]
    assert said.level == "ok"
    assert "none about a group" in said.text
    assert "Visit model" in audit_page(report, "Audit")
    assert report.document()["visit_model"]["people"] == 400


def test_the_audit_fails_on_what_no_model_has(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    file = copy / "release" / "visit_model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"by_group": [1, 2]}))
    stored = read_build(copy)
    view = model_view(copy, stored.facts)
    report = audit(stored.people, stored.assignment, visit_model=view)
    assert not report.safe
    stored.facts["visit_model"]["min_people_behind_odds"] = 3
    rare = audit(stored.people, stored.assignment, visit_model=model_view(built, stored.facts))
    assert not rare.safe
    file.unlink()
    assert model_view(copy, stored.facts) is None
    file.write_text("{")
    with pytest.raises(KreachError, match="hold a readable visit_model"):
        model_view(copy, stored.facts)
