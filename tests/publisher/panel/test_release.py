"""Releases: exact without noise, drawn once, within floors and terms, with noise as stated."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from kreach.boundary.correction import Correction
from kreach.boundary.discrete_noise import opendp_draw
from kreach.errors import KreachError
from kreach.numeric.panel import root_coefficients, root_distance
from kreach.publisher.panel.differences import PanelDifferences, PanelShowings
from kreach.publisher.panel.ledger import PanelLedger, Terms
from kreach.publisher.panel.release import Floors, PanelPublisher, TooSmall
from tests.publisher.panel.worlds import DAY_US, PanelWorld, no_noise

DAYS = [day * DAY_US for day in (2, 4, 6, 8, 10)]
FLOORS = Floors(100, 20)


def publisher(folder: Path, draw: object = no_noise, floors: Floors = FLOORS) -> PanelPublisher:
    return PanelPublisher(PanelLedger(folder / "panel.sqlite3"), draw, floors)  # type: ignore[arg-type]


def released(
    folder: Path, world: PanelWorld, terms: Terms, ends: list[int], draw: object = no_noise
) -> Correction:
    panel = world.panel(terms.share)
    showings = world.showings(panel)
    return publisher(folder, draw).release("spring", world.catalogue, panel, showings, terms, ends)


def test_differences_are_truth_less_model_by_group() -> None:
    world = PanelWorld()
    panel = world.panel()
    found = PanelDifferences.counted(world.catalogue, panel, world.showings(panel), 4)
    seen = np.bincount(world.person, minlength=20 * 200).reshape(200, 20)
    for f in range(1, 5):
        np.testing.assert_array_equal(found.truth[:, f - 1], (seen >= f).sum(axis=1)[panel.groups])
    counts = seen.sum(axis=1)[panel.groups]
    uniform = 20.0 * (1.0 - (1.0 - 1 / 20) ** counts)
    np.testing.assert_allclose(found.model[:, 0], uniform, rtol=1e-12)
    np.testing.assert_allclose(found.totals(), panel.weights @ found.values, rtol=1e-12)


def test_without_noise_running_sums_come_out_as_they_are(tmp_path: Path) -> None:
    world, terms = PanelWorld(), Terms(0.1, 4, 5, None)
    found = released(tmp_path, world, terms, DAYS)
    panel = world.panel(0.1)
    for end, release in zip(DAYS, found.releases, strict=True):
        showings = world.showings(panel).before(end)
        exact = PanelDifferences.counted(world.catalogue, panel, showings, 4).totals()
        np.testing.assert_allclose(release.differences, exact, atol=0.02)  # thousandths, rounded
        assert release.noise_std == 0.0
    assert (found.groups, found.panel_groups, found.model) == (200, 20, "uniform")
    assert found.rho is None


def test_a_panel_of_everybody_is_the_truth(tmp_path: Path) -> None:
    world, terms = PanelWorld(), Terms(1.0, 4, 1, None)
    found = released(tmp_path, world, terms, [11 * DAY_US])
    panel = world.panel(1.0)
    model = PanelDifferences.counted(world.catalogue, panel, world.showings(panel), 4).model
    for cap in (1, 3):
        corrected = model[:, :cap].sum() + sum(found.releases[0].differences[:cap])
        assert corrected == pytest.approx(world.truth(cap), abs=0.01)
    assert found.releases[0].spreads == (0.0,) * 4


def test_what_was_released_is_repeated_and_not_drawn_again(tmp_path: Path) -> None:
    world, terms = PanelWorld(), Terms(0.1, 4, 5, 0.5)
    draw = opendp_draw()
    first = released(tmp_path, world, terms, DAYS[:2], draw)
    again = released(tmp_path, world, terms, DAYS[:2], draw)
    more = released(tmp_path, world, terms, DAYS, draw)
    assert again == first
    assert more.releases[:2] == first.releases
    assert len(more.releases) == 5
    other = tmp_path / "other"
    other.mkdir()
    assert released(other, world, terms, DAYS[:2], draw) != first


def test_terms_are_fixed_by_the_first_release(tmp_path: Path) -> None:
    world = PanelWorld()
    released(tmp_path, world, Terms(0.1, 4, 2, None), DAYS[:1])
    with pytest.raises(KreachError, match=r"share must stay 0\.1 for campaign spring"):
        released(tmp_path, world, Terms(0.2, 4, 2, None), DAYS[:1])
    with pytest.raises(KreachError, match="max_releases must be enough for all releases"):
        released(tmp_path, world, Terms(0.1, 4, 2, None), DAYS)


def test_nothing_is_released_below_the_floors(tmp_path: Path) -> None:
    world, terms = PanelWorld(rows=300), Terms(0.1, 4, 5, None)
    panel = world.panel(0.1)
    showings = world.showings(panel)
    with pytest.raises(TooSmall, match="400 people in 20 groups, below the floor of 500"):
        publisher(tmp_path, floors=Floors(500, 1)).release(
            "spring", world.catalogue, panel, showings, terms, DAYS
        )
    with pytest.raises(TooSmall, match="reached too few people in its panel"):
        publisher(tmp_path, floors=Floors(1, 200)).release(
            "spring", world.catalogue, panel, showings, terms, DAYS
        )
    ledger = PanelLedger(tmp_path / "panel.sqlite3")
    assert ledger.terms("spring", "v1") is None
    assert ledger.releases("spring", "v1") == []
    ledger.close()


def test_late_showings_count_in_the_next_release(tmp_path: Path) -> None:
    world, terms = PanelWorld(), Terms(0.1, 4, 5, None)
    panel = world.panel(0.1)
    everything = world.showings(panel)
    late = np.arange(len(everything)) % 7 == 0
    known = PanelShowings(*(column[~late] for column in _columns(everything)))
    first = publisher(tmp_path).release("spring", world.catalogue, panel, known, terms, [DAYS[2]])
    both = publisher(tmp_path).release(
        "spring", world.catalogue, panel, everything, terms, [DAYS[2], DAYS[4]]
    )
    assert both.releases[0] == first.releases[0]
    whole = PanelDifferences.counted(world.catalogue, panel, everything.before(DAYS[4]), 4).totals()
    np.testing.assert_allclose(both.releases[1].differences, whole, atol=0.02)


def _columns(showings: PanelShowings) -> tuple[np.ndarray, ...]:
    return showings.person, showings.place, showings.at_us


def test_noise_is_as_large_as_stated(tmp_path: Path) -> None:
    """Over 300 ledgers: mean 0, the stated standard deviation, at the first and the last release.

    With ρ = 80 % of 0.5, F = 4 and weight 5: σ = 5 · distance · √(F / 2ρ).
    """
    world, terms = PanelWorld(groups=40, rows=2_000), Terms(0.2, 4, 3, 0.5)
    draw = opendp_draw()
    panel = world.panel(0.2)
    showings = world.showings(panel)
    ends = DAYS[:3]
    exact = np.array(
        [
            PanelDifferences.counted(world.catalogue, panel, showings.before(e), 4).totals()
            for e in ends
        ]
    )
    errors = []
    for at in range(300):
        ledger = PanelLedger(tmp_path / f"{at}.sqlite3")
        found = PanelPublisher(ledger, draw, Floors(1, 1)).release(
            "spring", world.catalogue, panel, showings, terms, ends
        )
        ledger.close()
        errors.append([np.array(each.differences) for each in found.releases] - exact)
    noise = np.array(errors)  # (ledgers, releases, frequencies)
    stated = np.array([each.noise_std for each in found.releases])
    c = root_coefficients(3)
    sigma = 5.0 * root_distance(3) * np.sqrt(4.0 / (2.0 * 0.4))
    assert stated[0] == pytest.approx(sigma, rel=1e-2)
    assert stated[2] == pytest.approx(sigma * np.sqrt(c @ c), rel=1e-2)
    count = noise.shape[0] * noise.shape[2]
    for release in range(3):
        ratio = noise[:, release].std() / stated[release]
        assert abs(ratio - 1.0) < 4.0 / np.sqrt(2.0 * count)
        assert abs(noise[:, release].mean()) < 4.0 * stated[release] / np.sqrt(count)


def test_the_ledger_is_private_and_holds_what_was_said(tmp_path: Path) -> None:
    world, terms = PanelWorld(), Terms(0.1, 4, 5, None)
    found = released(tmp_path, world, terms, DAYS)
    file = tmp_path / "panel.sqlite3"
    assert file.stat().st_mode & 0o077 == 0
    database = sqlite3.connect(file)
    assert database.execute("SELECT count(*) FROM release").fetchone() == (len(found.releases),)
    database.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"share": 0.0}, "share must be above 0"),
        ({"share": 0.1, "rho": -1.0}, "rho must be from"),
        ({"share": 0.1, "max_frequency": 0}, "max_frequency must be a whole number"),
        ({"share": 0.1, "max_releases": 5_000}, "max_releases must be a whole number"),
    ],
)
def test_bad_terms_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(KreachError, match=message):
        Terms(**wrong)  # type: ignore[arg-type]
