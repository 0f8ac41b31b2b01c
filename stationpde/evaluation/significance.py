r"""Significance of the difference of two forecasts: a block bootstrap over days, and Diebold and Mariano's test.

Errors of neighbouring hours, stations and days are correlated. All errors of the forecasts that are issued on one day
make one number, and days are drawn in blocks, so that weather which lasts some days is not counted many times over. The
test of Diebold and Mariano (1995), in the form of Hering and Genton (2011), is that of the package ``scores``, on the
same daily differences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stationpde.evaluation.error_sums import ErrorStatistics
from stationpde.seeding import generator

__all__ = ["Comparison", "compare", "compare_days", "drawn_days"]

Array = np.ndarray[Any, Any]
# Weather is correlated over about a week; 999 draws make p-values in steps of a thousandth.
BLOCK_DAYS = 7
DRAWS = 999
_LEVEL = 0.95
_FEWEST_DAYS = 10


@dataclass(frozen=True, slots=True)
class Comparison:
    """Difference of two MSEs with its significance.

    Attributes
    ----------
    gain : 1 − MSE / MSE of the other
    low, high : 95 % interval of the gain from the bootstrap
    p : two-sided p-value of the bootstrap; None where there are too few days
    p_dm : two-sided p-value of Diebold and Mariano's test
    days : days of issue
    """

    gain: float
    low: float | None
    high: float | None
    p: float | None
    p_dm: float | None
    days: int

    @property
    def is_significant(self) -> bool:
        """Whether both tests see a difference at the level of 5 %."""
        return self.p is not None and self.p < 1 - _LEVEL and (self.p_dm is None or self.p_dm < 1 - _LEVEL)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready values."""
        return {**asdict(self), "significant": self.is_significant}


def compare(mine: ErrorStatistics, other: ErrorStatistics) -> dict[str, Comparison]:
    """Compare two forecasts of the same targets over all leads and stations, for each variable."""
    return {name: compare_days(mine.day[..., c], other.day[..., c]) for c, name in enumerate(mine.variables)}


def compare_days(mine: Array, other: Array) -> Comparison:
    """Compare two forecasts by their daily sums ``[row, day]``.

    Raises
    ------
    ValueError
        If the two were not scored on the same targets.
    """
    if not np.array_equal(mine[0], other[0]):
        raise ValueError("the forecasts were scored on different targets")
    used = mine[0] > 0
    count, ours, theirs = mine[0, used], mine[1, used], other[1, used]
    gain = _gain(ours.sum(), theirs.sum())
    if len(count) < _FEWEST_DAYS or not np.isfinite(gain):
        return Comparison(gain, None, None, None, None, len(count))
    drawn = drawn_days(len(count))
    gains = _gain(ours[drawn].sum(axis=1), theirs[drawn].sum(axis=1))
    tail = 0.5 * (1 - _LEVEL)
    low, high = np.quantile(gains, [tail, 1 - tail])
    # The sample itself counts as one of the draws.
    against = min((gains <= 0).sum(), (gains >= 0).sum())
    p = min(1.0, 2.0 * (1 + against) / (DRAWS + 1))
    return Comparison(
        float(gain), float(low), float(high), float(p), _diebold_mariano((theirs - ours) / count), len(count)
    )


def _gain(mine: Any, other: Any) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.asarray(other) > 0, 1.0 - mine / other, np.nan)[()]


def drawn_days(days: int) -> Array:
    """Draw days ``[draw, day]`` in blocks that begin anywhere and wrap around from the last day to the first."""
    block = min(BLOCK_DAYS, days)
    blocks = -(-days // block)
    starts = generator(0, "bootstrap", days).integers(0, days, size=(DRAWS, blocks, 1))
    return ((starts + np.arange(block)) % days).reshape(DRAWS, -1)[:, :days]


def _diebold_mariano(difference: Array) -> float | None:
    """Compute the two-sided p-value of a series of daily score differences; None where they are all equal."""
    if np.ptp(difference) == 0:
        return None
    import xarray as xr
    from scores.stats.statistical_tests import diebold_mariano

    # Forecasts of one day are verified on the next as well: two steps ahead.
    series = xr.DataArray(difference[None], dims=("pair", "day"), coords={"pair": [0], "h": ("pair", [2])})
    test = diebold_mariano(series, "pair", "h", statistic_distribution="t")
    above = float(test["confidence_gt_0"][0])
    return float(2.0 * min(above, 1.0 - above)) if np.isfinite(above) else None
