"""Reach by segment: every engine, with and without times; rows add up to the whole."""

from pathlib import Path

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.adsystem.visit_models import sample_model
from tests.cli.command import kreach
from tests.contract.test_together import GROUPS, rows

SEGMENTS = {
    "group": [f"g{at:02}" for at in range(12)],
    "segment": ["at", "ch", "de"] * 4,
}


@pytest.mark.parametrize("timed", [False, True])
def test_segments_add_up_to_the_whole(engine: Engine, timed: bool) -> None:
    log = kr.ImpressionLog.open(engine, rows(6), unique_ids=True)
    groups = kr.open_groups(engine, GROUPS)
    model = sample_model() if timed else None
    found = kr.measure_segments(
        log, groups, [1, 3], segments=SEGMENTS, campaign="spring", model=model
    )
    window = kr.measure_window(log, groups, [1, 3], campaign="spring", model=model)
    assert list(found.segments) == ["at", "ch", "de"]
    for at, cap in enumerate((1, 3)):
        whole = window.report(cap)
        mine = [reports[at] for reports in found.segments.values()]
        assert found.whole[at].reach == pytest.approx(whole.reach, rel=1e-9)
        assert sum(one.reach for one in mine) == pytest.approx(whole.reach, rel=1e-9)
        assert sum(one.over_exposed for one in mine) == pytest.approx(whole.over_exposed, rel=1e-9)
        together = sum(one.frequency(6) for one in mine)
        assert together == pytest.approx(whole.frequency(6), rel=1e-9)
        # with times, what is not known of a group's sessions is averaged group by group or by kind
        close = 0.02 if timed else 1e-9
        assert sum(one.variance for one in mine) == pytest.approx(whole.variance, rel=close)
        assert sum(one.impressions for one in mine) == whole.impressions
        assert sum(one.targeted_user_count for one in mine) == whole.targeted_user_count


def test_a_segment_is_the_report_of_its_groups(engine: Engine) -> None:
    log = kr.ImpressionLog.open(engine, rows(7), unique_ids=True)
    groups = kr.open_groups(engine, GROUPS)
    found = kr.measure_segments(log, groups, [2], segments=SEGMENTS)
    some = {name: np.array(values)[::3].tolist() for name, values in GROUPS.items()}
    wanted = kr.measure_window(log, kr.open_groups(engine, some), [2]).report(2)
    assert found.segments["at"][0].reach == pytest.approx(wanted.reach, rel=1e-9)
    assert found.segments["at"][0].std == pytest.approx(wanted.std, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"segment": [None] + ["x"] * 11}, "1 groups that mix, such as g00"),
        ({"group": ["g00", "g00", *SEGMENTS["group"][2:]]}, "groups that mix, such as g00"),
        ({"group": ["other", *SEGMENTS["group"][1:]]}, "none for 1, such as g00"),
    ],
)
def test_groups_that_mix_segments_are_refused(
    engine: Engine, change: dict[str, list[str]], words: str
) -> None:
    log = kr.ImpressionLog.open(engine, rows(8))
    with pytest.raises(kr.KreachError, match=words):
        kr.measure_segments(log, kr.open_groups(engine, GROUPS), [1], segments=SEGMENTS | change)


def test_overlapping_groups_are_refused(duckdb: Engine) -> None:
    table = {"group": ["x", "y"], "size": [3, 2]}
    groups = kr.open_groups(duckdb, table, {"groups": ["x;y"], "headcount": [2]})
    log = kr.ImpressionLog.open(duckdb, {"campaign": ["a"], "group": ["x"], "ts": ["2026-11-01"]})
    with pytest.raises(kr.KreachError, match="share no members"):
        kr.measure_segments(log, groups, [1], segments=SEGMENTS)


def test_from_the_publisher_s_build_to_a_report(tmp_path: Path) -> None:
    """Groups along a country; its segments; reach by country on a log of these groups."""
    lines = ["user_id,ts,country"]
    lines += [
        f"u{i % 240},2026-10-{1 + i // 60:02}T00:{i % 60:02}:00Z,{('at', 'ch')[i % 2]}"
        for i in range(1_200)
    ]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    built = kreach(
        *("groups", "build", "--visits", str(tmp_path / "visits.csv"), "--group-size", "20"),
        *("--strategy", "segments", "--segments", "country", "--out", str(tmp_path / "groups")),
        *("--seed", "0"),
    )
    assert built.code == 0, built.err
    out = tmp_path / "segments.csv"
    asked = ("groups", "segments", str(tmp_path / "groups"), "--attribute", "country")
    written = kreach(*asked, "--out", str(out), "--json")
    assert written.code == 0, written.err
    assert '"mixed": 0' in written.out
    names = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    log = ["campaign,group,ts"] + [f"s,{name},2026-11-01T00:00:00Z" for name in names]
    (tmp_path / "log.csv").write_text("\n".join(log) + "\n")
    measured = kreach(
        *("measure", "--groups", str(tmp_path / "groups"), "--cap", "1", "--table"),
        *("--impressions", str(tmp_path / "log.csv"), "--by", "segment", "--segments", str(out)),
    )
    assert measured.code == 0, measured.err
    assert "Reach by segment" in measured.out
    missing = kreach(
        *("measure", "--groups", str(tmp_path / "groups"), "--cap", "1", "--by", "segment"),
        *("--impressions", str(tmp_path / "log.csv")),
    )
    assert missing.code == 1
    assert "--segments" in missing.err
