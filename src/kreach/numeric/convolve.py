"""The distribution of a sum of many independent whole numbers, exact up to rounding."""

from collections.abc import Sequence

import numpy as np

from kreach.numeric.types import ComplexArray, FloatArray

__all__ = ["sum_distribution"]

_LOG_OUTSIDE = float(np.log(2e20))  # the window leaves out less than 1e-20 of the probability
_BATCH_CELLS = 1 << 21


def sum_distribution(pmfs: Sequence[FloatArray], counts: FloatArray) -> tuple[int, FloatArray]:
    """First value and probabilities of Σ of `counts[i]` independent draws from each `pmfs[i]`.

    `pmfs[i][r]` = P(value = r). Convolution by FFT on a window only as long as the sum can stray:
    by Bernstein's inequality for terms bounded by b around their means and total variance V,
    P(|S − E S| ≥ t) ≤ 2 exp(−t²/(2(V + bt/3))). What falls outside wraps around harmlessly.
    """
    mean, variance, widest, least, most = 0.0, 0.0, 0, 0, 0
    for pmf, count in zip(pmfs, counts, strict=True):
        values = np.flatnonzero(pmf > 0.0)
        low, high = int(values[0]), int(values[-1])
        own_mean = float(pmf @ np.arange(len(pmf)))
        mean += count * own_mean
        variance += count * float(pmf @ (np.arange(len(pmf)) - own_mean) ** 2)
        widest = max(widest, high - low)
        least, most = least + int(count) * low, most + int(count) * high
    slack = widest * _LOG_OUTSIDE / 3.0
    stray = slack + np.sqrt(slack**2 + 2.0 * variance * _LOG_OUTSIDE)
    low = max(least, int(np.floor(mean - stray)) - 1)
    high = min(most, int(np.ceil(mean + stray)) + 1)
    length = 1 << max(0, (high - low).bit_length())
    transform = _product_of_transforms(pmfs, counts, length)
    folded = np.fft.irfft(transform, length) if length > 1 else np.ones(1)
    window = folded[np.arange(low, high + 1) % length]
    window = np.maximum(window, 0.0)
    result: FloatArray = window / window.sum()
    return low, result


def _product_of_transforms(
    pmfs: Sequence[FloatArray], counts: FloatArray, length: int
) -> ComplexArray:
    log_total = np.zeros(length // 2 + 1, dtype=np.complex128)
    step = max(1, _BATCH_CELLS // length)
    for start in range(0, len(pmfs), step):
        batch = pmfs[start : start + step]
        folded = np.zeros((len(batch), length))
        for row, pmf in zip(folded, batch, strict=True):
            row[:] = np.bincount(np.arange(len(pmf)) % length, weights=pmf, minlength=length)
        transform = np.fft.rfft(folded, axis=1) if length > 1 else folded.astype(np.complex128)
        nothing = np.abs(transform) < 1e-300
        logs = np.log(np.where(nothing, 1e-300, transform))
        log_total += counts[start : start + step] @ logs
    result: ComplexArray = np.exp(log_total)
    return result
