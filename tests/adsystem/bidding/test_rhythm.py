"""Offsets of prices by hour of the day: found where they are, and nowhere else."""

import json

import numpy as np
import numpy.typing as npt
import pytest

from kreach.adsystem.bidding.rhythm import PriceRhythm, hour_of, shrunk_offsets

FloatArray = npt.NDArray[np.float64]

HOUR, DAY = 3_600.0, 86_400.0
WAVE = np.cos(2.0 * np.pi * (np.arange(24) - 20.0) / 24.0)
SIGMA = 0.7


def rhythm_of(
    offsets: FloatArray,
    auction: str,
    auctions: int,
    days: int,
    seed: int,
    bids: tuple[float, float] = (0.3, 2.0),
) -> PriceRhythm:
    """What auctions at random times teach, of bids spread in the logarithm."""
    generator = np.random.default_rng(seed)
    rhythm = PriceRhythm(0.01, 100.0, 1.0)
    moments = generator.uniform(0.0, days * DAY, auctions)
    mean = offsets[(moments // HOUR).astype(np.int64) % 24]
    prices = np.exp(generator.normal(mean, SIGMA))
    made = np.exp(generator.uniform(np.log(bids[0]), np.log(bids[1]), auctions))
    for moment, price, bid in zip(moments.tolist(), prices.tolist(), made.tolist(), strict=True):
        won = bid >= price
        if won and auction == "second_price":
            rhythm.price(price, moment)
        else:
            rhythm.bound(bid, moment, won=won)
    return rhythm


def found(rhythm: PriceRhythm) -> FloatArray:
    offsets = rhythm.offsets()
    assert offsets is not None
    return offsets


def test_hours_are_those_of_utc() -> None:
    assert [hour_of(moment) for moment in (0.0, 3_599.9, 3_600.0, DAY - 0.1, DAY)] == [
        0,
        0,
        1,
        23,
        0,
    ]


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
@pytest.mark.parametrize("amplitude", [0.3, 0.8])
def test_offsets_converge(auction: str, amplitude: float) -> None:
    """At least 800 auctions in each hour of each kind of day. Two in five say as much as a price
    seen does, of which the standard error would be 0.7/√640 = 0.028; z-tolerance 4.5."""
    truth = amplitude * WAVE
    offsets = found(rhythm_of(truth, auction, 40_000, 4, 31))
    assert np.abs(offsets - truth).max() < 4.5 * 0.028
    assert float(np.sqrt(((offsets - truth) ** 2).mean())) < 0.05


def test_losses_count() -> None:
    """Few bids win in dear hours, and of the dear prices none is seen: whoever took the mean of the
    prices seen would find less than half of the rhythm."""
    truth, bids = 0.8 * WAVE, (0.4, 0.8)
    rhythm = rhythm_of(truth, "second_price", 40_000, 4, 32, bids)
    seen = rhythm._prices[:24] + rhythm._prices[24:]
    naive = seen[:, 1] / seen[:, 0]
    assert float(np.ptp(naive)) < 0.5 * 1.6
    assert np.abs(found(rhythm) - truth).max() < 0.25
    assert float(np.ptp(found(rhythm))) == pytest.approx(1.6, abs=0.25)


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_without_a_rhythm_there_are_no_offsets(auction: str) -> None:
    """Chance takes one of 1,800 for a rhythm; none of 20 here, seeded."""
    for seed in range(20):
        assert rhythm_of(np.zeros(24), auction, 2_000, 4, 100 + seed).offsets() is None


def test_chance_is_hardly_ever_taken_for_a_rhythm() -> None:
    """Estimates of noise alone: 0.055 % of 20,000 are 11; z-tolerance 4.5 above. Those taken for a
    rhythm have small offsets."""
    generator = np.random.default_rng(33)
    largest = []
    for _ in range(20_000):
        offsets = shrunk_offsets(generator.normal(0.0, 0.1, (2, 24)), np.full((2, 24), 0.01))
        if offsets is not None:
            largest.append(float(np.abs(offsets).max()))
    assert len(largest) < 11 + 4.5 * np.sqrt(11)
    assert max(largest, default=0.0) < 0.2


def test_on_the_first_day_an_hour_is_not_told_from_a_trend() -> None:
    rhythm = rhythm_of(0.8 * WAVE, "second_price", 5_000, 1, 34)
    assert not rhythm.repeats
    assert rhythm.offsets() is None


def test_days_that_do_not_agree_have_no_rhythm() -> None:
    """Each day has dear and cheap hours, but others than the day before."""
    generator = np.random.default_rng(35)
    days = generator.normal(0.0, 0.5, (2, 24))
    assert shrunk_offsets(days, np.full((2, 24), 1e-4)) is None
    level = np.array([[0.0], [1.0]])  # dearer throughout: no matter
    offsets = shrunk_offsets(0.5 * WAVE + level, np.full((2, 24), 1e-4))
    assert offsets == pytest.approx(0.5 * WAVE, abs=0.001)


def test_an_hour_with_few_auctions_stays_near_zero() -> None:
    estimate = np.tile(0.5 * WAVE, (2, 1))
    variance = np.full((2, 24), 1e-4)
    variance[:, 20] = 4.0
    variance[:, 8] = np.inf
    offsets = shrunk_offsets(estimate, variance)
    assert offsets is not None
    assert offsets[8] == 0.0
    assert 0.0 < offsets[20] < 0.1 * 0.5
    others = np.setdiff1d(np.arange(24), [8, 20])
    middle = float((0.5 * WAVE)[others].mean())
    assert offsets[others] == pytest.approx((0.5 * WAVE - middle)[others], abs=0.01)


def test_hours_of_one_kind_of_day_count_too() -> None:
    """Half-way through the second day: of the other hours there is one estimate."""
    variance = np.full((2, 24), 1e-3)
    variance[1, 12:] = np.inf
    offsets = shrunk_offsets(np.tile(0.5 * WAVE, (2, 1)), variance)
    assert offsets is not None
    assert offsets == pytest.approx(0.5 * WAVE, abs=0.06)
    variance[1, 5:] = np.inf
    assert shrunk_offsets(np.tile(0.5 * WAVE, (2, 1)), variance) is None


def test_a_rhythm_that_moves_is_followed() -> None:
    """28 days of one rhythm, then 28 of its opposite: two half-lives later a quarter counts."""
    rhythm = PriceRhythm(0.01, 100.0, 0.7)
    generator = np.random.default_rng(36)
    for day in range(56):
        sign = 1.0 if day < 28 else -1.0
        for hour in range(24):
            for x in generator.normal(sign * 0.5 * WAVE[hour], 0.2, 4).tolist():
                rhythm.price(float(np.exp(x)), day * DAY + (hour + 0.5) * HOUR)
    assert found(rhythm) @ WAVE / (WAVE @ WAVE) == pytest.approx(-0.5 * (0.8 - 0.2), abs=0.1)


def test_what_was_seen_survives_as_json() -> None:
    for auction in ("second_price", "first_price"):
        rhythm = rhythm_of(0.5 * WAVE, auction, 5_000, 4, 37)
        text = json.dumps(rhythm.memory())
        again = PriceRhythm(0.01, 100.0, 1.0)
        again.remember(json.loads(text))
        assert found(again) == pytest.approx(found(rhythm), abs=1e-6)
        assert len(text) < 40_000
        more = rhythm_of(0.5 * WAVE, auction, 50_000, 30, 38)
        assert len(json.dumps(more.memory())) < 2 * len(text)


def test_a_broken_memory_is_refused() -> None:
    rhythm = PriceRhythm(0.01, 100.0, 1.0)
    memory = rhythm.memory()
    with pytest.raises(ValueError, match="48 rows"):
        rhythm.remember(memory | {"days": [1, 2]})
    with pytest.raises(IndexError):
        rhythm.remember(memory | {"lost": [[99, 0, 1.0, 1.0]]})


def test_prices_beyond_the_cells_and_none_are_no_harm() -> None:
    rhythm = PriceRhythm(0.01, 100.0, 1.0)
    rhythm.price(0.0, 0.0)
    rhythm.bound(0.0, 0.0, won=False)
    assert rhythm.memory()["days"] == [-1] * 48
    for value in (1e-300, 1e300):
        rhythm.price(value, 0.0)
        rhythm.bound(value, 0.0, won=True)
        rhythm.bound(value, 0.0, won=False, count=0.5)
    assert np.isfinite(rhythm._prices).all()
