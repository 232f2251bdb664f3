"""The study of renewal, on little: what it claims of policies holds on any site."""

import duckdb
import numpy as np
import pytest
from benchmarks.renewal_policies import POLICIES, Site
from benchmarks.renewal_year import HISTORY_WEEKS, Change, Year, resample_year
from benchmarks.study_renewal import Result, study

from kreach.publisher.grouping import AtRandom

WEEKS, PEOPLE = 9, 900


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    path = tmp_path_factory.mktemp("study") / "visits.parquet"
    duckdb.execute(
        f"""COPY (SELECT 'u' || (hash(i) % 400 * (hash(i * 3) % 400) // 400) AS user_id,
        TIMESTAMP '2026-01-01' + to_minutes((i * 7)::BIGINT) AS ts, hash(i) % 3 AS device
        FROM range(4500) t(i)) TO '{path}' (FORMAT parquet)"""
    )
    generator = np.random.default_rng(1)
    change = Change(churn=0.03, habits=0.02, moves=0.01, season=0.2)
    return resample_year(path, ("device",), PEOPLE, WEEKS, change, generator)


def run(year: Year, name: str) -> Result:
    (policy,) = (policy for policy in POLICIES if policy.name.startswith(name))
    return study(Site(year, ("device",), "device", AtRandom(), 10, 1), policy)


def test_a_year_is_what_was_asked_for(year: Year) -> None:
    assert year.weeks == HISTORY_WEEKS + WEEKS
    assert (year.visits.sum(axis=1) > 0).all(), "whoever never comes is nobody"
    assert (year.first <= year.last).all()
    here = (year.first <= 10) & (year.last >= 10)
    assert 0.7 * PEOPLE < np.count_nonzero(here) <= PEOPLE
    rows = np.arange(len(year.visits))
    assert (year.visits[rows, year.first] > 0).all()
    assert (year.visits[rows, year.last] > 0).all()


def test_the_default_singles_out_nobody_where_others_do(year: Year) -> None:
    anew, gaps, seen = (
        run(year, name)
        for name in ("anew, every 4 weeks", "gaps, every 4 weeks", "seen, every 4 w")
    )
    assert len(seen.versions) == 3
    assert anew.series[0] > gaps.series[0] > 10 * seen.series[0]
    assert seen.pairs[0] == 0.0
    assert min(seen.smallest) >= 8, "k is 10, and somebody may stop coming between versions"
    assert min(gaps.smallest) < min(seen.smallest)


def test_never_renewed_knows_ever_fewer_visitors(year: Year) -> None:
    never = run(year, "never")
    assert len(never.versions) == 1
    assert never.strangers[-1] > never.strangers[0]
    assert len(never.errors) == WEEKS
