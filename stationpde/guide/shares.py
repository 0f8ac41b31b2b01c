r"""Shares of several forecasts in their mean: least squares on windows that none of them was fitted on.

.. math:: \min_w\ w^T E\,w, \qquad w \ge 0,\ \textstyle\sum_i w_i = 1, \qquad
          E_{ij} = \sum (\hat y_i - y)(\hat y_j - y)

for each lead and variable. Errors that are not alike cancel in the mean; a forecast whose errors another one has too
gets no share.

By days (`shares_by_days`), the sums of a lead and variable count as many times as there are days of validation, and
those of the variable, of all variables and a prior as so many further days:

.. math:: \min_w\ n\,\hat E_{lc} + n_1\,\hat E_c + n_2\,\hat E + n_3\,\lVert w - w_0 \rVert^2

Stations and windows of a day err alike, so that days count and not windows. Each :math:`\hat E_{lc}` is divided by the
least error in it: late leads do not decide for early ones, and the prior gives nothing to a member that is far behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from stationpde.physics import DAY

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Evidence", "ShareSums", "best_shares", "fitted_shares", "prior_shares", "shares_by_days"]

# Weight of the sums over all leads of a variable in the fit of each lead's share.
_SHRINK = 1.0
# Days that the sums of the variable and those of all variables count for, beside the days of validation; and the prior,
# in a record of weeks. With more days of validation it counts for less: half at thirty of them.
_VARIABLE_DAYS, _ALL_DAYS, _PRIOR_DAYS, _FREE_DAYS = 5.0, 2.0, 20.0, 30.0
# Share of guesses and field together in the prior; the rest is that of the simple forecasts.
_PRIOR_LEARNED = 0.8
# Least error of a member, as a share of the mean over members: one that happens to be perfect must not divide by zero.
_LEAST_OF_MEAN = 1e-3
# Issue days are counted in a table of so many, over which they wrap: 22 years.
_DAY_TABLE = 8192
# Two forecasts that differ by less in all windows, in standard deviations squared, are the same.
_TINY = 1e-9


class Evidence(NamedTuple):
    """What shares rest on: windows, days of issue, and the part of the prior in what decided them."""

    windows: float
    days: float
    prior: float


class ShareSums:
    """Sums over windows and stations of the products of errors, for the shares of ``members`` forecasts."""

    def __init__(self, members: int, leads: int, channels: int) -> None:
        self.sums = torch.zeros(leads, channels, members, members, dtype=torch.float64)
        self.windows_of_day = torch.zeros(_DAY_TABLE, dtype=torch.float64)

    def count_days(self, issue_time: Int64[Tensor, " batch"]) -> None:
        """Count the windows of each day of issue."""
        days = torch.remainder(torch.div(issue_time.cpu(), int(DAY), rounding_mode="floor"), _DAY_TABLE)
        self.windows_of_day.index_add_(0, days, torch.ones(len(days), dtype=torch.float64))

    @property
    def evidence(self) -> Evidence:
        """Windows and days that were counted; no part of the prior."""
        return Evidence(float(self.windows_of_day.sum()), float((self.windows_of_day > 0).sum()), 0.0)

    def add(self, forecasts: Sequence[Tensor], target: Tensor, scale: Tensor) -> None:
        """Add a batch ``[batch, lead, station, channel]``; errors are divided by ``scale`` (station, channel)."""
        seen = torch.isfinite(target)
        errors = [torch.where(seen, ((forecast - target) / scale).double(), 0.0) for forecast in forecasts]
        rows = [torch.stack([(one * other).sum(dim=(0, 2)) for other in errors], dim=-1) for one in errors]
        self.sums += torch.stack(rows, dim=-2).cpu()

    def shares(self) -> Float[Tensor, "member lead channel"]:
        """Return the shares of the forecasts; they add up to one."""
        return fitted_shares(self.sums)


def fitted_shares(products: Float[Tensor, "lead channel member member"]) -> Float[Tensor, "member lead channel"]:
    """Return the shares with the least error, each lead's drawn half-way to those of its variable over all leads.

    Parameters
    ----------
    products : sums of products of the members' errors; members that are the same get the same share
    """
    return best_shares(products + _SHRINK * products.mean(dim=0, keepdim=True))


def prior_shares(learned: int, simple: int, field: bool = True) -> Float[Tensor, " member"]:
    """Return shares without evidence: equal ones of guesses and field, a fifth for the simple forecasts together.

    Parameters
    ----------
    learned : number of guesses, the first members
    simple : number of simple forecasts, which follow
    field : whether the forecast of the field is the last member
    """
    whole = learned + int(field)
    share = torch.full((whole + simple,), (_PRIOR_LEARNED if simple else 1.0) / whole, dtype=torch.float64)
    share[learned : learned + simple] = (1.0 - _PRIOR_LEARNED) / max(1, simple)
    return share


def shares_by_days(
    products: Float[Tensor, "lead channel member member"], days: float, prior: Float[Tensor, " member"]
) -> tuple[Float[Tensor, "member lead channel"], float]:
    """Return the shares that so many days of validation support, and the part of the prior in them.

    Parameters
    ----------
    products : sums of products of the members' errors; a variable without any gets the shares of the others
    days : days of issue in the sums
    prior : shares without evidence, ``[member]``; they add up to one
    """
    each_error = products.diagonal(dim1=-2, dim2=-1)
    mean = each_error.mean(dim=-1)[..., None, None]
    size = torch.maximum(each_error.amin(dim=-1)[..., None, None], _LEAST_OF_MEAN * mean)
    seen = size > 0.0
    each = torch.where(seen, products / torch.where(seen, size, 1.0), 0.0)
    of_variable = each.sum(dim=0, keepdim=True) / seen.sum(dim=0, keepdim=True).clamp(min=1)
    of_all = each.sum(dim=(0, 1), keepdim=True) / seen.sum(dim=(0, 1), keepdim=True).clamp(min=1)
    count = products.shape[-1]
    # w adds up to one, hence w - w₀ = (I - w₀ 1ᵀ) w: a quadratic form in w as the errors are.
    away = torch.eye(count, dtype=products.dtype) - prior.to(products.dtype)[:, None]
    distance = away.T @ away
    prior_days = _PRIOR_DAYS * _FREE_DAYS / (days + _FREE_DAYS)
    form = days * each + _VARIABLE_DAYS * of_variable + _ALL_DAYS * of_all + prior_days * distance
    weight = prior_days / (days + _VARIABLE_DAYS + _ALL_DAYS + prior_days)
    return best_shares(form), weight


def best_shares(form: Float[Tensor, "lead channel member member"]) -> Float[Tensor, "member lead channel"]:
    """Return the shares w ≥ 0 that minimise the quadratic form wᵀ F w; they add up to one.

    The best mean of every set of members is known in closed form; the best set without a negative share is taken.
    """
    count = form.shape[-1]
    magnitude = form.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    steady = form + _TINY * (1.0 + magnitude) * torch.eye(count, dtype=form.dtype)
    best = torch.zeros(form.shape[:-1], dtype=form.dtype)
    least = torch.full(form.shape[:2], torch.inf, dtype=form.dtype)
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            rows = torch.tensor(chosen)
            block = steady[..., rows[:, None], rows]
            answer, failed = torch.linalg.solve_ex(block, torch.ones(*block.shape[:-1], 1, dtype=block.dtype))
            weights = answer[..., 0] / answer.sum(dim=(-2, -1))[..., None]
            error = torch.einsum("...i,...ij,...j->...", weights, block, weights)
            good = (failed == 0) & (weights >= 0.0).all(dim=-1) & (error < least)
            shares = torch.zeros_like(best).index_copy_(-1, rows, weights)
            best, least = torch.where(good[..., None], shares, best), torch.where(good, error, least)
    return best.movedim(-1, 0)
