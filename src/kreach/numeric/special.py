"""Special functions that keep their accuracy where the textbook forms lose it.

Every factorial and beta function of the exposure laws reaches us as a *second difference* of
ln Γ. Evaluated term by term it loses everything: ln Γ(10⁹) is about 2·10¹⁰, so a difference of
order 1 keeps five digits. `log_gamma_cross` evaluates the second difference as a whole.
"""

from statistics import NormalDist

import numpy as np

from kreach.numeric.types import FloatArray

__all__ = ["log1pmx", "log_gamma_cross", "normal_half_width"]

_SERIES_TERMS = 24  # r² ≤ 1/9 below: 24 terms leave less than 10⁻²³
_STIRLING_FROM = 16.0
_FEW = 4_096


def normal_half_width(level: float) -> float:
    """z with P(|Z| ≤ z) = level for a standard normal Z, 0 < level < 1.

    From the tail (1 − level)/2, which is exact near 1, where ½ + level/2 rounds to 1.
    """
    return -NormalDist().inv_cdf((1.0 - level) / 2.0)


def log1pmx(x: FloatArray) -> FloatArray:
    """ln(1 + x) − x without cancellation near 0, for x > −1.

    With r = x/(2 + x): ln(1 + x) = 2 artanh r and x − 2r = x·r, so
    ln(1 + x) − x = 2r·(r²/3 + r⁴/5 + …) − x·r.
    """
    near = (x > -0.5) & (x < 1.0)
    r = np.where(near, x / (2.0 + np.where(near, x, 0.0)), 0.0)
    square = r * r
    series = np.zeros_like(r)
    for j in range(_SERIES_TERMS, 0, -1):
        series += 1.0 / (2 * j + 1)
        series *= square
    far = np.where(near, 0.0, x)
    return np.where(near, 2.0 * r * series - x * r, np.log1p(far) - far)


def _stirling_cross(base: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """δ(b+y) − δ(b) − δ(b+x+y) + δ(b+x) for b ≥ 16, with Stirling's error
    δ(z) = ln Γ(z) − (z − ½) ln z + z − ½ ln 2π = 1/(12z) − 1/(360z³) + 1/(1260z⁵) − …

    The leading term is differenced by algebra, which keeps it accurate for tiny x and y.
    """
    corners = base * (base + x) * (base + y) * (base + x + y)
    leading = -(x / corners) * y * (2.0 * base + x + y) / 12.0
    places = base + y, base, base + x + y, base + x
    if base.size <= _FEW:
        a, b, c, d = _stirling_rest(np.stack(places))
    else:
        a, b, c, d = map(_stirling_rest, places)
    result: FloatArray = leading + (a - b - c + d)
    return result


def _stirling_rest(z: FloatArray) -> FloatArray:
    """δ(z) − 1/(12z)."""
    inverse = 1.0 / z
    square = inverse * inverse
    series = 1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))
    return -inverse * square * series


def _log_ratio(b: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """ln [b(b+x+y)/((b+x)(b+y))], from whichever of the ratio and its distance to 1 is small."""
    touched = x > 0  # with x = 0 every ratio is 1, also at base 0
    whole = np.where(touched, (b + x) * (b + y), 1.0)
    lost = np.where(touched, x * y / whole, 0.0)
    rest = np.where(touched, b * (b + x + y), 1.0)
    with np.errstate(divide="ignore"):
        result: FloatArray = np.where(lost < 0.5, np.log1p(-lost), np.log(rest / whole))
    return result


def log_gamma_cross(base: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """ln [ Γ(base + x) Γ(base + y) / (Γ(base) Γ(base + x + y)) ] for base, x, y ≥ 0.

    Never positive; relative error near machine precision also where the result is tiny, as long as
    x and y are at least 1e-6 and one of them 0.1 (for smaller steps digits are lost).
    With x ≤ y and Stirling's formula for each Γ the large terms cancel algebraically:

        −(b+y−½) m(x/(b+y)) + (b−½) m(x/b) − xy/(2b(b+y)) − x ln(1 + y/(b+x)) + Δδ

    where m(t) = ln(1+t) − t. A small base is first shifted up by
    Γ(b+x)Γ(b+y)/(Γ(b)Γ(b+x+y)) = ratio(b) · (the same at b+1),
    ratio(b) = b(b+x+y)/((b+x)(b+y)) = 1 − xy/((b+x)(b+y)).
    """
    base, x, y = (np.asarray(v, dtype=np.float64) for v in np.broadcast_arrays(base, x, y))
    x, y = np.minimum(x, y), np.maximum(x, y)
    total = np.zeros_like(base)
    small = base < _STIRLING_FROM
    if small.any():
        b, xs, ys = base[small], x[small], y[small]
        steps = np.arange(_STIRLING_FROM)
        if b.size <= _FEW:  # then calls cost more than numbers
            moved = _log_ratio(b + steps[:, None], xs, ys).sum(axis=0)
        else:
            moved = np.zeros_like(b)
            for step in steps:
                moved += _log_ratio(b + step, xs, ys)
        total[small] = moved
        base = base.copy()
        base[small] = b + _STIRLING_FROM
    high = base + y
    if base.size <= _FEW:
        at_base, at_high = log1pmx(np.stack([x / base, x / high]))
    else:
        at_base, at_high = log1pmx(x / base), log1pmx(x / high)
    total += (
        (base - 0.5) * at_base
        - (high - 0.5) * at_high
        - x * (y / (2.0 * base * high))
        - x * np.log1p(y / (base + x))
    )
    total += _stirling_cross(base, x, y)
    return np.minimum(total, 0.0)
