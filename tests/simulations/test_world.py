"""A small world: what crosses and what is true belong to each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulations.world import SimulatedFlight, World, simulate_flight

import kreach as kr
from kreach.errors import KreachError


@given(
    groups=st.integers(1, 12),
    size=st.integers(1, 9),
    dispersion=st.sampled_from([0.05, 0.6, 10.0, float("inf")]),
    impressions=st.integers(0, 400),
    cap=st.integers(1, 6),
    seed=st.integers(0, 999),
)
def test_truth_and_counts_are_of_one_flight(
    groups: int, size: int, dispersion: float, impressions: int, cap: int, seed: int
) -> None:
    world = World(groups, size, dispersion)
    flight = simulate_flight(world, impressions, np.random.default_rng(seed))
    assert flight.impressions_by_person.shape == (groups, size)
    assert flight.impressions_by_group.sum() == impressions
    np.testing.assert_array_equal(
        flight.impressions_by_person.sum(axis=1), flight.impressions_by_group
    )
    frequency = flight.true_frequency(cap + 1)
    assert frequency.sum() == groups * size
    assert flight.true_reach(1) == groups * size - frequency[0]
    assert flight.true_over_exposed(cap) == frequency[cap + 1]
    assert flight.true_reach(cap) == frequency[:cap] @ np.arange(cap) + cap * frequency[cap:].sum()
    assert flight.true_reach(10_000) == impressions
    report = kr.measure(kr.Audience.disjoint([size] * groups), flight.impressions_by_group, cap)
    assert report.bounds[0] <= flight.true_reach(cap) <= report.bounds[1]


def test_truths_by_hand() -> None:
    flight = SimulatedFlight(np.array([5, 1]), np.array([[4, 1, 0], [0, 0, 1]]))
    assert [flight.true_reach(cap) for cap in (1, 2, 3, 4, 5)] == [3, 4, 5, 6, 6]
    assert [flight.true_over_exposed(cap) for cap in (1, 3, 4)] == [1, 1, 0]
    assert flight.true_frequency(2).tolist() == [3, 2, 1]
    assert flight.true_frequency(5).tolist() == [3, 2, 0, 0, 1, 0]


@pytest.mark.parametrize("dispersion", [0.3, 2.0, float("inf")])
def test_flights_follow_the_law_they_are_named_after(dispersion: float) -> None:
    """Mean true reach of 200 flights against the formula: z-tolerance 4."""
    generator = np.random.default_rng(81)
    world = World(30, 8, dispersion)
    audience = kr.Audience.disjoint([8] * 30, dispersion=dispersion)
    gaps = []
    for _ in range(200):
        flight = simulate_flight(world, 240, generator)
        gaps.append(
            flight.true_reach(2) - kr.measure(audience, flight.impressions_by_group, 2).reach
        )
    assert abs(np.mean(gaps)) < 4.0 * np.std(gaps) / np.sqrt(len(gaps))


def test_the_seed_alone_decides_a_flight() -> None:
    flights = [
        simulate_flight(World(5, 4, 0.5), 90, np.random.default_rng(seed)) for seed in (1, 1, 2)
    ]
    first, again, other = (flight.impressions_by_person.tolist() for flight in flights)
    assert first == again != other


def test_impressions_spread_evenly_over_groups() -> None:
    """χ² of 40 groups, 39 degrees of freedom: far below 39 + 5·√78."""
    by_group = simulate_flight(
        World(40, 3, 1.0), 40_000, np.random.default_rng(82)
    ).impressions_by_group
    assert ((by_group - 1_000.0) ** 2 / 1_000.0).sum() < 39 + 5.0 * np.sqrt(78)


@pytest.mark.parametrize(
    ("groups", "size", "dispersion", "name"),
    [
        (0, 5, 1.0, "group_count"),
        (5, 0, 1.0, "group_size"),
        (5, 5, 0.0, "dispersion"),
        (5, 5, float("nan"), "dispersion"),
    ],
)
def test_an_impossible_world_is_refused(
    groups: int, size: int, dispersion: float, name: str
) -> None:
    with pytest.raises(KreachError, match=rf"^{name} must be "):
        World(groups, size, dispersion)


def test_negative_impressions_are_refused() -> None:
    with pytest.raises(KreachError, match=r"^impressions must be at least 0, got -1"):
        simulate_flight(World(2, 2, 1.0), -1, np.random.default_rng(1))
