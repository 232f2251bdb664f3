"""`kreach groups audience`: whom it targets, what it refuses, and what it writes and records."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.adsystem.catalogues import read_audience
from kreach.adsystem.settings import AdSystemSettings
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.files import read_catalogue, read_groups, write_groups
from kreach.errors import KreachError
from kreach.publisher.audience_file import AudienceChoice, chosen_people
from kreach.publisher.audit import audit
from kreach.publisher.grouping import BySegments, form_groups
from kreach.publisher.people import Attribute, People
from kreach.publisher.store import read_build
from tests.cli.command import Result, kreach
from tests.publisher.populations import write_csv


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 people in groups of 20: half in US, a third on phones, hardly anybody in Malta."""
    folder = tmp_path_factory.mktemp("audience")
    rows = ["user_id,ts,country,device"]
    for person in range(600):
        country = "US" if person % 2 else ("Malta" if person % 30 == 0 else "CA")
        device = "phone" if person % 3 == 0 else "tv"
        for visit in range(1 + person % 4):
            day = 1 + (person + 3 * visit) % 14
            rows.append(f"canary-{person},2026-10-{day:02d}T{visit:02d}:00:00Z,{country},{device}")
    visits = write_csv(folder / "visits.csv", *rows)
    out = folder / "groups"
    result = kreach(
        *("groups", "build", "--visits", str(visits), "--group-size", "20", "--out", str(out)),
        *("--segments", "country,device", "--knowledge", "dispersion", "--seed", "1"),
    )
    assert result.code == 0, result.err
    return out


def declare(built: Path, out: Path, *options: str) -> Result:
    return kreach("groups", "audience", str(built), "--out", str(out), *options)


def facts(built: Path, out: Path, *options: str) -> dict[str, Any]:
    result = declare(built, out, *options, "--json")
    assert (result.code, result.err) == (0, "")
    document: dict[str, Any] = json.loads(result.out)
    return document


def refusal(result: Result) -> str:
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1
    assert "canary" not in result.err
    return result.err


def test_a_build_says_what_campaigns_could_see(built: Path) -> None:
    stored = read_build(built).facts
    assert stored["floors"]["min_visible"] == 5
    names = [view["audience"] for view in stored["visible"]]
    assert names[:4] == ["everyone", "country=CA", "country=Malta", "country=US"]
    malta = stored["visible"][2]["seen"]
    assert malta["people_in_small_groups"] == malta["people"] == 20
    assert malta["worst_guess"] == 1.0


def test_the_file_holds_the_people_of_each_group(built: Path, tmp_path: Path) -> None:
    told = facts(built, tmp_path / "us.parquet", "--where", "country=US", "--drop")
    build = read_build(built)
    attribute = build.people.attribute("country")
    chosen = attribute.codes == attribute.labels.index("US")
    counts = np.bincount(build.group_indices[chosen, 0], minlength=30)
    ids, audience = read_groups(tmp_path / "us.parquet")
    assert isinstance(audience, DisjointAudience)
    assert tuple(ids) == read_catalogue(built / "release").groups
    np.testing.assert_array_equal(audience.targeted_counts, np.where(counts < 5, 0, counts))
    assert told["chosen"] == np.count_nonzero(chosen)
    assert told["chosen"] - told["dropped"] == audience.targeted_user_count
    assert told["visible"]["min_visible"] >= 5
    assert (told["where"], told["requests"]) == ("country=US", "everyone")


def test_one_person_per_group_is_refused_on_both_sides(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "malta.parquet"
    said = refusal(declare(built, out, "--where", "country=Malta"))
    assert "release refused: in " in said
    assert "right with 100%" in said
    assert "form groups along it (--strategy segments --segments country)" in said
    assert not out.exists()
    assert "once groups below the floors are dropped" in refusal(
        declare(built, out, "--where", "country=Malta", "--drop")
    )
    widened = facts(built, out, "--where", "country=Malta", "--widen")
    assert widened["visible"]["people"] == 20 * widened["visible"]["groups"]
    assert widened["added"] == widened["visible"]["people"] - 20
    # a file that the publisher would not write is refused by the ad side as well
    catalogue = read_catalogue(built / "release")
    write_groups(catalogue, out, np.ones(len(catalogue), dtype=np.int64))
    settings = AdSystemSettings(catalogues=(built,), audiences={"malta": out})
    with pytest.raises(KreachError, match="audience must target nobody or at least 5") as caught:
        read_audience(settings, catalogue, "malta")
    assert caught.value.field == "audience"


def test_conditions_and_lists_of_users(built: Path, tmp_path: Path) -> None:
    either = facts(
        *(built, tmp_path / "a.csv", "--widen", "--where", "country=US", "--where", "country=CA"),
        *("--where", "device=phone"),
    )
    assert either["where"] == "country=US or CA and device=phone"
    assert either["chosen"] == sum(p % 30 != 0 and p % 3 == 0 for p in range(600))
    users = write_csv(
        tmp_path / "users.csv", "user_id", *(f"canary-{p}" for p in range(300)), "canary-nobody"
    )
    listed = facts(built, tmp_path / "b.csv", "--users", str(users), "--drop")
    assert (listed["chosen"], listed["unknown_users"]) == (300, 1)
    assert listed["where"] == "a list of users"
    both = facts(
        *(built, tmp_path / "c.csv", "--users", str(users), "--where", "country=US", "--widen"),
        "--active-only",
    )
    assert both["chosen"] == 150


def test_the_record_is_audited(built: Path, tmp_path: Path) -> None:
    facts(built, tmp_path / "us-tv.csv", "--where", "country=US", "--drop", "--name", "us")
    facts(built, tmp_path / "us-tv.csv", "--where", "country=US", "--drop", "--name", "us")
    document = json.loads(kreach("groups", "audit", str(built), "--json").out)
    declared = [view for view in document["visible"] if view["audience"] == "us"]
    assert [view["kind"] for view in declared] == ["declared"]
    assert 0.0 < declared[0]["seen"]["mean_guess"] <= declared[0]["seen"]["worst_guess"] < 1.0


def test_requests_of_targeted_people_only(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "us.parquet"
    facts(built, out, "--where", "country=US", "--drop", "--requests", "targeted")
    settings = AdSystemSettings(catalogues=(built,), audiences={"us": out})
    audience = read_audience(settings, read_catalogue(built / "release"), "us")
    assert isinstance(audience, DisjointAudience)
    held = audience.targeted_counts > 0
    np.testing.assert_array_equal(audience.group_sizes[held], audience.targeted_counts[held])
    said = refusal(
        declare(built, out, "--where", "country=US", "--widen", "--requests", "targeted")
    )
    assert "audience must not be widened: requests still come from the targeted people" in said


def test_for_people(built: Path, tmp_path: Path) -> None:
    result = declare(built, tmp_path / "us.csv", "--where", "country=US", "--widen")
    assert result.code == 0
    for words in ("visible people per group: min ", "a guess who the visitor is: right with"):
        assert words in result.out


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ((), "where must give at least one condition"),
        (("--where", "country"), "where must be like country=US"),
        (("--where", "country=Atlantis"), "got 'country=Atlantis'; known: CA, Malta, US"),
        (("--where", "religion=x"), "attribute must be one of those loaded (country, device)"),
        (("--where", "country=US", "--drop", "--widen"), "dropped or widened, not both"),
        (("--where", "country=US", "--requests", "some"), "requests must be everyone or targeted"),
        (("--users", "nowhere.csv"), "users must"),
    ],
)
def test_bad_input(built: Path, tmp_path: Path, options: tuple[str, ...], rule: str) -> None:
    assert rule in refusal(declare(built, tmp_path / "x.csv", *options))


@pytest.mark.parametrize("condition", ["plan=(missing)", "plan="])
def test_people_without_a_value_are_named_and_chosen_alike(built: Path, condition: str) -> None:
    plans = Attribute.of(np.array([None, "paid"] * 300, dtype=object))
    people = People(np.full(600, 3), {"plan": plans})
    groups = form_groups(people, 20, BySegments(("plan",)), seed=7)
    views = audit(people, groups, segments=("plan",)).visible
    assert [view.audience for view in views] == ["everyone", "plan=(missing)", "plan=paid"]
    build = replace(read_build(built), people=people)
    chosen, _ = chosen_people(build, AudienceChoice((condition,)))
    np.testing.assert_array_equal(chosen, plans.codes == 0)
