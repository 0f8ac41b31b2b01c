"""Regressions with few parameters, drawn to zero as by days without an effect: errors of one day are one."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["PRIOR_DAYS", "linear", "log_scale", "shrunk_effects"]

Array = np.ndarray[Any, Any]

PRIOR_DAYS = 2.0
"""Strength of the prior that a coefficient is zero, in days of the sample."""
PRIOR_SEASON = 60.0
"""The same for the season: a year has one winter, whatever its number of days."""
_STEPS = 40
_LARGEST_STEP = 1.0
# Errors of neighbouring days are correlated: the variance of a mean over days is larger by about this factor.
_DEPENDENCE = 1.5


def linear(columns: Array, errors: Array, days: int) -> Array:
    """Fit errors by least squares; the first column has no prior."""
    return np.linalg.solve(_normal(columns, days), columns.T @ errors)


def log_scale(columns: Array, sizes: Array, days: int, season: slice | None = None) -> Array:
    r"""Fit the logarithm of the mean size of errors, by Fisher's scoring of an exponential likelihood.

    .. math:: \min_\beta \sum_i \left( x_i^\top \beta + |e_i| e^{-x_i^\top \beta} \right) + \tfrac12 \beta^\top P \beta

    The objective is convex; the sizes enter once, not squared, so that single gross errors have no great weight.

    Parameters
    ----------
    columns : ``[row, column]``, of which the first is 1 and has no prior
    sizes : absolute errors, positive in the mean
    season : columns of the season, whose prior is of `PRIOR_SEASON` days
    """
    matrix = _normal(columns, days, season)
    prior = matrix - columns.T @ columns
    beta = np.zeros(columns.shape[1])
    beta[0] = np.log(sizes.mean())
    for _ in range(_STEPS):
        ratio = sizes * np.exp(-(columns @ beta))
        step = np.linalg.solve(matrix, columns.T @ (ratio - 1.0) - prior @ beta)
        beta = beta + step * min(1.0, _LARGEST_STEP / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-6:
            break
    return beta


def shrunk_effects(daily: Array) -> Array:
    r"""Estimate the effect of each station from daily means, shrunk to zero by how well it is known.

    .. math:: \hat a_s = \frac{\tau^2}{\tau^2 + \sigma_s^2} \bar d_s, \qquad
              \tau^2 = \max(0, \operatorname{mean}(\bar d_s^2) - \operatorname{mean}(\sigma_s^2))

    Parameters
    ----------
    daily : mean of each day and station ``[day, station]``, NaN without targets

    Returns
    -------
    Effects ``[station]``; zero at a station without targets
    """
    observed = np.isfinite(daily)
    count = observed.sum(axis=0)
    values = np.where(observed, daily, 0.0)
    mean = values.sum(axis=0) / np.maximum(count, 1)
    square = np.where(observed, (daily - mean) ** 2, 0.0).sum(axis=0)
    several = count > 1
    if not several.any():
        return np.zeros(daily.shape[1])
    # The variance of days is that of the whole network: one of few days tells little of itself.
    variance = square[several].sum() / (count[several] - 1).sum()
    error = _DEPENDENCE * variance / np.maximum(count, 1)
    between = max(0.0, float((mean[several] ** 2).mean() - error[several].mean()))
    if between == 0.0:
        return np.zeros(daily.shape[1])
    return np.where(count > 0, mean * between / (between + error), 0.0)


def _normal(columns: Array, days: int, season: slice | None = None) -> Array:
    """Return the matrix of the normal equations with the prior of `PRIOR_DAYS` days."""
    prior = np.full(columns.shape[1], PRIOR_DAYS * len(columns) / max(days, 1))
    if season is not None:
        prior[season] *= PRIOR_SEASON / PRIOR_DAYS
    prior[0] = 1e-9 * len(columns)
    matrix: Array = columns.T @ columns + np.diag(prior)
    return matrix
