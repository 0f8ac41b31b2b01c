r"""Fitting the linear guide: ridge regression on the training split, its strength from blocked cross-validation.

.. math:: W = (X^T X + \lambda\,\mathrm{diag}(X^T X))^{-1} X^T Y

The training period is cut into consecutive parts. Sums :math:`X^T X` and :math:`X^T Y` are kept for each, so that
leaving one out costs a solution and no new pass; λ is chosen for each variable by the error on the part left out. The
station's own weights are fitted in the same way on what the shared ones, fitted without that part, leave over. Targets
that were not observed are left out variable by variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.series import StationSeries
from fields.windows import Split
from stationpde.guide_network_fit import fit_network
from stationpde.guide_rows import FOLDS, GuideBatches, Report

if TYPE_CHECKING:
    from stationpde.model import StationPDEModel

__all__ = ["POOLED_STRENGTHS", "Sums", "fit_guide", "pooled_sums"]

# λ that are tried, as shares of the sums' diagonal: shared weights, and a station's own. A long record takes small
# ones; the largest are for a few stations over a few weeks.
POOLED_STRENGTHS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
LOCAL_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Less of the mean square of all predictors is none; the least at a real station that reports has twice as much.
_LEAST_OF_USUAL = 1e-4
# Stations whose sums are in memory at once.
_GROUP = 256


def _silent(what: str, done: int, total: int) -> None:
    """Nobody asked how far it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums: ``xx[part, ..., f, f]``, ``xy[part, ..., f, lead, channel]``, ``yy[part, ..., lead, channel]``."""

    xx: Tensor
    xy: Tensor
    yy: Tensor

    @classmethod
    def none(cls, shape: tuple[int, ...], predictors: int, targets: tuple[int, ...], kind: torch.dtype) -> Sums:
        """No rows yet."""
        xx, xy = (*shape, predictors, predictors), (*shape, predictors, *targets)
        return cls(*(torch.zeros(size, dtype=kind) for size in (xx, xy, (*shape, *targets))))

    def solve(self, strength: float, without: int | None = None) -> Tensor:
        """Weights ``[..., f, lead, channel]``, fitted without one part if asked."""
        xx, xy = self.xx.sum(0), self.xy.sum(0)
        if without is not None:
            xx, xy = xx - self.xx[without], xy - self.xy[without]
        diagonal = xx.diagonal(dim1=-2, dim2=-1)
        usual = diagonal.mean(-1, keepdim=True)
        # A predictor that hardly moved gets next to no weight, or it would rule on the day when its sensor is mended;
        # one that never did must not make a singular system.
        penalty = strength * torch.maximum(diagonal, _LEAST_OF_USUAL * usual) + usual * 1e-6 + 1e-12
        factor, _ = torch.linalg.cholesky_ex(xx + torch.diag_embed(penalty))
        return torch.cholesky_solve(xy.flatten(-2), factor).reshape(xy.shape)

    def errors(self, weights: Tensor, part: int) -> Tensor:
        """Sum of squared errors of weights on a part, ``[channel]``."""
        forecast = (self.xx[part] @ weights.flatten(-2)).reshape(weights.shape)
        fit = weights * (forecast - 2.0 * self.xy[part])
        return self.yy[part].flatten(0, -2).sum(0) + fit.flatten(0, -2).sum(0)

    def fitted(self, strengths: tuple[float, ...]) -> tuple[Tensor, Tensor]:
        """Weights ``[..., f, lead × channel]`` with a channel's best strength on parts left out, and without each."""
        errors, folds = [], []
        for strength in strengths:
            weights = [self.solve(strength, part) for part in range(FOLDS)]
            errors.append(torch.stack([self.errors(w, part) for part, w in enumerate(weights)]).sum(0))
            folds.append(torch.stack(weights))
        best = torch.nan_to_num(torch.stack(errors), nan=torch.inf).argmin(0)
        channels = range(best.numel())
        whole = {row: self.solve(strengths[row]) for row in best.unique().tolist()}
        chosen = torch.stack([whole[int(best[c])][..., c] for c in channels], dim=-1)
        parts = torch.stack([folds[int(best[c])][..., c] for c in channels], dim=-1)
        return chosen.flatten(-2), parts.flatten(-2)


def fit_guide(model: StationPDEModel, series: StationSeries, split: Split, report: Report = _silent) -> None:
    """Fit a model's guide on the training split of a record, and nothing else.

    Parameters
    ----------
    report : told how far it is; what it raises ends the fit, and the guide says nothing
    """
    guide = model.guide
    if guide is None:
        return
    batches = GuideBatches(model, series, split, report)
    if len(batches.starts) < FOLDS:
        return  # nothing that could be left out: the field stays alone
    was_training = model.training
    model.eval()
    with torch.no_grad():
        pooled, folds = _of_all(pooled_sums(batches), POOLED_STRENGTHS)
        groups = [slice(first, first + _GROUP) for first in range(0, len(model.statistics.stations), _GROUP)]
        guide.pooled.copy_(pooled)
        guide.local.copy_(torch.cat([_local_sums(batches, folds, g).fitted(LOCAL_STRENGTHS)[0] for g in groups]))
    if guide.network is not None:
        fit_network(guide.network, batches, model.config)
    guide.fitted.fill_(1.0)
    model.train(was_training)


def pooled_sums(batches: GuideBatches) -> list[Sums]:
    """Sums over windows and stations, one for each variable; in double, as float32 has no decimals left there."""
    sums: list[Sums] = []
    for rows in batches.passed("shared fit"):
        part, some = rows.part, batches.some(rows.number)
        x, y = rows.pooled[:, some].flatten(0, 1), rows.target[:, some].flatten(0, 1)
        if not sums:
            sums = [Sums.none((FOLDS,), x.shape[-1], (y.shape[1], 1), torch.float64) for _ in range(y.shape[-1])]
        everything = (x.T @ x).double()
        for channel, own in enumerate(sums):
            target = y[..., channel]
            there = torch.isfinite(target).all(dim=-1)
            gone, target = x[~there], torch.where(there[:, None], target, torch.zeros_like(target))
            own.xx[part] += everything - (gone.T @ gone).double()
            own.xy[part, ..., 0] += (x.T @ target).double()
            own.yy[part, ..., 0] += target.square().sum(0).double()
    return sums


def _local_sums(batches: GuideBatches, folds: Tensor, group: slice) -> Sums:
    """Sums of each station of a group over windows, of what the shared weights of the other parts leave over.

    A target that was not observed counts as one that needs no correction.
    """
    sums: Sums | None = None
    for rows in batches.passed("fit of each station"):
        part, shared, x, y = rows.part, rows.pooled[:, group], rows.local[:, group].movedim(1, 0), rows.target[:, group]
        rest = y - (shared @ folds[part].to(shared.dtype)).unflatten(-1, y.shape[-2:])
        rest = torch.nan_to_num(rest).movedim(1, 0)
        if sums is None:
            sums = Sums.none((FOLDS, x.shape[0]), x.shape[-1], tuple(y.shape[2:]), x.dtype)
        sums.xx[part] += x.mT @ x
        sums.xy[part] += (x.mT @ rest.flatten(-2)).unflatten(-1, y.shape[2:])
        sums.yy[part] += rest.square().sum(1)
    assert sums is not None
    return sums


def _of_all(sums: list[Sums], strengths: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Weights of all variables ``[predictor, lead × channel]``, and those without each part."""
    found = [own.fitted(strengths) for own in sums]
    whole, folds = ([weights[n] for weights in found] for n in range(2))
    return torch.stack(whole, dim=-1).flatten(-2), torch.stack(folds, dim=-1).flatten(-2)
