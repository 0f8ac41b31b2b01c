r"""Fitting the linear guide: ridge regression on the training split, its strength from blocked cross-validation.

.. math:: W = (X^T X + \lambda\,\mathrm{diag}(X^T X))^{-1} X^T Y

The training period is cut into consecutive parts. Sums :math:`X^T X` and :math:`X^T Y` are stored for each, so that
leaving one out costs a solution and no new pass; λ is chosen for each variable by the error on the part left out. The
weights of each station are fitted in the same way to the residuals of the shared ones, fitted without that part.
Targets that were not observed are left out variable by variable.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from stationpde.guide.guide import Guide
from stationpde.guide.network_fit import NetworkFitSettings, fit_network
from stationpde.guide.rows import FOLDS, GuideBatches

__all__ = ["LOCAL_GROUP", "LOCAL_SAMPLE", "POOLED_STRENGTHS", "Sums", "fit_guide", "pooled_sums"]

log = logging.getLogger(__name__)

# λ that are tried, as shares of the sums' diagonal: for shared weights, and for those of each station. A long record
# takes small ones; the largest are for a few stations over a few weeks.
POOLED_STRENGTHS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
LOCAL_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Floor of a predictor's mean square, as a share of the mean over all; at real stations that report the smallest is
# twice as large.
_LEAST_SHARE = 1e-4
# Stations whose sums are in memory at once.
LOCAL_GROUP = 256
# Stations that decide whether all stations get weights of their own, and the share of the error on blocks left out that
# these must save at least.
LOCAL_SAMPLE, _LEAST_GAIN = 128, 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums of products of predictors f and targets over the rows of each part.

    ``xx[part, ..., f, f]``, ``xy[part, ..., f, lead, channel]``, ``yy[part, ..., lead, channel]``
    """

    xx: Tensor
    xy: Tensor
    yy: Tensor

    @classmethod
    def zeros(cls, shape: tuple[int, ...], predictors: int, targets: tuple[int, ...], dtype: torch.dtype) -> Sums:
        """Return the sums of no rows."""
        xx, xy = (*shape, predictors, predictors), (*shape, predictors, *targets)
        return cls(*(torch.zeros(size, dtype=dtype) for size in (xx, xy, (*shape, *targets))))

    def solve(self, strength: float, without: int | None = None) -> Tensor:
        """Solve for weights ``[..., f, lead, channel]``, optionally without one part."""
        xx, xy = self.xx.sum(0), self.xy.sum(0)
        if without is not None:
            xx, xy = xx - self.xx[without], xy - self.xy[without]
        diagonal = xx.diagonal(dim1=-2, dim2=-1)
        mean = diagonal.mean(-1, keepdim=True)
        # A predictor that hardly changed gets next to no weight, or it would dominate once its sensor is repaired;
        # one that never changed must not make a singular system.
        penalty = strength * torch.maximum(diagonal, _LEAST_SHARE * mean) + mean * 1e-6 + 1e-12
        factor, _ = torch.linalg.cholesky_ex(xx + torch.diag_embed(penalty))
        return torch.cholesky_solve(xy.flatten(-2), factor).reshape(xy.shape)

    def errors(self, weights: Tensor, part: int) -> Tensor:
        """Return the sum of squared errors of weights on a part, ``[channel]``."""
        forecast = (self.xx[part] @ weights.flatten(-2)).reshape(weights.shape)
        fit = weights * (forecast - 2.0 * self.xy[part])
        return self.yy[part].flatten(0, -2).sum(0) + fit.flatten(0, -2).sum(0)

    def blocked_errors(self, strengths: tuple[float, ...], folds: list[Tensor] | None = None) -> Tensor:
        """Return the sum of squared errors on parts left out, ``[strength, channel]``.

        ``folds`` receives the weights without each part, of each strength.
        """
        errors = []
        for strength in strengths:
            weights: list[Tensor] = []
            each = []
            for part in range(FOLDS):
                weight = self.solve(strength, part)
                each.append(self.errors(weight, part))
                if folds is not None:
                    weights.append(weight)
            errors.append(torch.stack(each).sum(0))
            if folds is not None:
                folds.append(torch.stack(weights))
        return torch.nan_to_num(torch.stack(errors), nan=torch.inf)

    def cross_validated(self, strengths: tuple[float, ...]) -> tuple[Tensor, Tensor]:
        """Fit with the strength that is best for each channel on parts left out.

        Returns weights ``[..., f, lead × channel]`` of all parts, and those without each part.
        """
        folds: list[Tensor] = []
        best = self.blocked_errors(strengths, folds).argmin(0)
        parts = torch.stack([folds[int(best[c])][..., c] for c in range(best.numel())], dim=-1)
        return self.solved(strengths, best), parts.flatten(-2)

    def solved(self, strengths: tuple[float, ...], best: Tensor) -> Tensor:
        """Solve for weights ``[..., f, lead × channel]`` of all parts, with the strength ``best`` of each channel."""
        whole = {row: self.solve(strengths[row]) for row in best.unique().tolist()}
        return torch.stack([whole[int(best[c])][..., c] for c in range(best.numel())], dim=-1).flatten(-2)


def fit_guide(guide: Guide, batches: GuideBatches, settings: NetworkFitSettings) -> None:
    """Fit the guide, linear part and perceptrons, on rows of the training split.

    Does nothing where there are fewer windows than parts: no part could be left out. An exception that the progress
    callback of ``batches`` raises ends the fit, and the guide stays without effect.
    """
    if len(batches.starts) < FOLDS:
        return
    with torch.no_grad():
        pooled, folds = _fit_pooled(pooled_sums(batches), POOLED_STRENGTHS)
        guide.pooled.copy_(pooled)
        guide.take_local(_fit_local(guide, batches, folds))
    if guide.network is not None:
        fit_network(guide.network, batches, settings)
    guide.fitted.fill_(1.0)


def pooled_sums(batches: GuideBatches) -> list[Sums]:
    """Add up sums over windows and stations for each variable; in double, as float32 has no decimals left there."""
    sums: list[Sums] = []
    for rows in batches.rows("shared fit", stations_of=batches.pooled_stations):
        part, x, y = rows.part, rows.pooled.flatten(0, 1), batches.linear_target(rows).flatten(0, 1)
        if not sums:
            sums = [Sums.zeros((FOLDS,), x.shape[-1], (y.shape[1], 1), torch.float64) for _ in range(y.shape[-1])]
        everything = (x.T @ x).double()
        for channel, channel_sums in enumerate(sums):
            target = y[..., channel]
            there = torch.isfinite(target).all(dim=-1)
            gone, target = x[~there], torch.where(there[:, None], target, torch.zeros_like(target))
            channel_sums.xx[part] += everything - (gone.T @ gone).double()
            channel_sums.xy[part, ..., 0] += (x.T @ target).double()
            channel_sums.yy[part, ..., 0] += target.square().sum(0).double()
    return sums


def _fit_local(guide: Guide, batches: GuideBatches, folds: Tensor) -> Tensor | None:
    """Fit the weights of each station; None where a sample of stations says that they gain next to nothing.

    All stations share the strength of a sample under ``blocks``: that of a station alone is no better known, and
    trying eight at 2,000 stations takes minutes.
    """
    stations = len(batches.places)
    groups = [slice(first, first + LOCAL_GROUP) for first in range(0, stations, LOCAL_GROUP)]
    if guide.local_form == "single":
        return torch.cat([_fit_group(_local_sums(batches, folds, group)) for group in groups])
    sample = slice(0, None, -(-stations // LOCAL_SAMPLE))
    sums = _local_sums(batches, folds, sample)
    errors = sums.blocked_errors(LOCAL_STRENGTHS)
    best, without = errors.argmin(0), sums.yy.sum(0).flatten(0, -2).sum(0)
    gain = float((1.0 - errors.amin(0) / without.clamp(min=1e-12)).mean())
    log.info("weights of each station gain %.2f %% of what the shared ones leave, on blocks", 100 * gain)
    if gain < _LEAST_GAIN:
        return None
    if stations <= LOCAL_SAMPLE:
        return sums.solved(LOCAL_STRENGTHS, best)
    return torch.cat([_local_sums(batches, folds, group).solved(LOCAL_STRENGTHS, best).half() for group in groups])


def _fit_group(sums: Sums) -> Tensor:
    """Fit the stations of a group with the strength that is best for each channel on parts left out."""
    return sums.solved(LOCAL_STRENGTHS, sums.blocked_errors(LOCAL_STRENGTHS).argmin(0))


def _local_sums(batches: GuideBatches, folds: Tensor, group: slice) -> Sums:
    """Add up sums of each station of a group over windows, with residuals of the other parts' shared weights.

    The residual of a target that was not observed counts as zero.
    """
    sums: Sums | None = None
    for rows in batches.rows("fit of each station", stations_of=lambda _: group):
        part, shared, x = rows.part, rows.pooled, rows.local.movedim(1, 0)
        y = batches.linear_target(rows)
        residual = y - (shared @ folds[part].to(shared.dtype)).unflatten(-1, y.shape[-2:])
        residual = torch.nan_to_num(residual).movedim(1, 0)
        if sums is None:
            sums = Sums.zeros((FOLDS, x.shape[0]), x.shape[-1], tuple(y.shape[2:]), x.dtype)
        sums.xx[part] += x.mT @ x
        sums.xy[part] += (x.mT @ residual.flatten(-2)).unflatten(-1, y.shape[2:])
        sums.yy[part] += residual.square().sum(1)
    assert sums is not None
    return sums


def _fit_pooled(sums: list[Sums], strengths: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Fit all variables: weights ``[predictor, lead × channel]``, and those without each part."""
    fits = [channel_sums.cross_validated(strengths) for channel_sums in sums]
    whole, folds = ([fit[n] for fit in fits] for n in range(2))
    return torch.stack(whole, dim=-1).flatten(-2), torch.stack(folds, dim=-1).flatten(-2)
