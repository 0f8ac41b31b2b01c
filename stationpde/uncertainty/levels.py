"""Quantile functions as values at fixed levels: read at any level, inverted, and continued beyond the outer levels."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["LEVELS", "at_levels", "empirical", "level_of"]

Array = np.ndarray[Any, Any]

LEVELS: Array = np.array([0.005, 0.01, 0.025, *np.arange(2, 39) / 40, 0.975, 0.99, 0.995])
"""Levels at which a distribution is kept; between them its quantile function is linear."""
_LEAST = 1e-6


def at_levels(values: Array, levels: Array) -> Array:
    r"""Read quantile functions ``[..., LEVELS]`` at other levels.

    Linear between the levels kept. Beyond the outer ones an exponential tail through the last two,

    .. math:: q(\tau) = q_n + (q_n - q_{n-1}) \frac{\ln (1-\tau_n) - \ln (1-\tau)}{\ln (1-\tau_{n-1}) - \ln (1-\tau_n)}

    Parameters
    ----------
    values : increasing along the last axis
    levels : between 0 and 1

    Returns
    -------
    ``[..., level]``
    """
    requested = np.clip(np.asarray(levels, np.float64), _LEAST, 1.0 - _LEAST)
    upper = np.clip(np.searchsorted(LEVELS, requested), 1, len(LEVELS) - 1)
    share = np.clip((requested - LEVELS[upper - 1]) / (LEVELS[upper] - LEVELS[upper - 1]), 0.0, 1.0)
    inside = values[..., upper - 1] * (1.0 - share) + values[..., upper] * share
    step = np.log((1.0 - LEVELS[-2]) / (1.0 - LEVELS[-1]))
    above = np.maximum(np.log((1.0 - LEVELS[-1]) / (1.0 - requested)), 0.0) / step
    below = np.maximum(np.log(LEVELS[0] / requested), 0.0) / step
    read: Array = (
        inside + above * (values[..., -1:] - values[..., -2:-1]) - below * (values[..., 1:2] - values[..., :1])
    )
    return read


def level_of(values: Array, thresholds: Array) -> Array:
    """Return the level at which a quantile function takes a value: the inverse of `at_levels`.

    Parameters
    ----------
    values : ``[..., LEVELS]``, increasing along the last axis
    thresholds : ``[...]``

    Returns
    -------
    ``[...]``, between 0 and 1; where the function is flat, the middle of its levels
    """
    x = np.asarray(thresholds, np.float64)[..., None]
    below, at_most = (values < x).sum(axis=-1), (values <= x).sum(axis=-1)
    last = len(LEVELS) - 1
    low, high = np.clip(below - 1, 0, last), np.clip(below, 0, last)
    left, right = _pick(values, low), _pick(values, high)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.where(right > left, (x[..., 0] - left) / (right - left), 0.5)
        level = LEVELS[low] + share * (LEVELS[high] - LEVELS[low])
        step = np.log((1.0 - LEVELS[-2]) / (1.0 - LEVELS[-1]))
        above = (x[..., 0] - values[..., -1]) / np.maximum(values[..., -1] - values[..., -2], 1e-12)
        under = (values[..., 0] - x[..., 0]) / np.maximum(values[..., 1] - values[..., 0], 1e-12)
        level = np.where(below == len(LEVELS), 1.0 - (1.0 - LEVELS[-1]) * np.exp(-step * above), level)
        level = np.where(at_most == 0, LEVELS[0] * np.exp(-step * under), level)
    # A value that several levels share, such as saturated air.
    first, final = np.clip(below, 0, last), np.clip(at_most - 1, 0, last)
    level = np.where(at_most - below > 1, 0.5 * (LEVELS[first] + LEVELS[final]), level)
    return np.clip(np.where(np.isfinite(x[..., 0]), level, np.nan), 0.0, 1.0)


def empirical(sample: Array, count: float) -> Array:
    r"""Return the quantiles of a sample at `LEVELS`, outwards by what so few independent values may hide.

    Split-conformal prediction takes the level :math:`\tau (n + 1) / n` of a sample of calibration for a new value to
    lie below with probability :math:`\tau` (Vovk et al. 2005; Lei et al. 2018); here at both ends.

    Parameters
    ----------
    sample : one-dimensional, finite
    count : number of independent values among them
    """
    outwards = np.where(LEVELS > 0.5, LEVELS * (count + 1.0) / count, 1.0 - (1.0 - LEVELS) * (count + 1.0) / count)
    levels = np.clip(np.where(LEVELS == 0.5, 0.5, outwards), 0.0, 1.0)
    return np.quantile(sample, levels)


def _pick(values: Array, index: Array) -> Array:
    picked: Array = np.take_along_axis(values, index[..., None], axis=-1)[..., 0]
    return picked
