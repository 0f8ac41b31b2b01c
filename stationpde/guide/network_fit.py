"""Training the guide's perceptrons on rows, station by station and window by window, before the field is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.guide.network import GuideNetwork
from stationpde.guide.predictors import day_waves
from stationpde.guide.rows import GuideBatches
from stationpde.seeding import seed_everything

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["NetworkFitSettings", "first_weights", "fit_network", "gather", "loss_of", "steps_of"]

# Rows of a step: a thousand of a long record, fewer of a short one, so that an epoch still has enough steps.
_LARGEST_BATCH, _SMALLEST_BATCH, _STEPS = 1024, 32, 200
_RATE, _DECAY, _WARM, _CLIP = 2e-3, 1e-2, 0.15, 1.0


@dataclass(frozen=True, slots=True)
class NetworkFitSettings:
    """Settings of the perceptrons' fit.

    Attributes
    ----------
    seed : of the run
    epochs : passes over the rows
    hidden_share : share of the stations of each window that are hidden, so that the fit also meets new stations
    """

    seed: int
    epochs: int
    hidden_share: float


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """All rows in half precision, which their noise is far above: 400,000 take a quarter of a gigabyte."""

    inputs: Float[Tensor, "row input"]
    station: Int64[Tensor, " row"]
    shown: Bool[Tensor, " row"]
    target: Float[Tensor, "row output"]

    def __len__(self) -> int:
        return len(self.inputs)


def gather(network: GuideNetwork, batches: GuideBatches, hidden_share: float) -> _Table:
    """Collect the rows in one pass over the windows."""
    inputs, stations, shown, targets = [], [], [], []
    for rows in batches.rows("gather", hidden_share, batches.pooled_stations):
        plain = rows.pooled[:, :, : network.predictors]
        hour = day_waves(rows.time, plain.dtype)[:, None].expand(-1, plain.shape[1], -1)
        parts = [plain, hour, batches.places[rows.stations].expand(plain.shape[0], -1, -1)]
        inputs.append(torch.cat(parts, dim=-1).flatten(0, 1).half())
        number = torch.arange(len(batches.places))[rows.stations]
        stations.append(number.repeat(plain.shape[0]))
        all_shown = torch.ones(rows.pooled.shape[:2], dtype=torch.bool)
        shown.append((all_shown if rows.shown is None else rows.shown).flatten())
        targets.append(rows.target.flatten(0, 1).flatten(1).half())
    return _Table(torch.cat(inputs), torch.cat(stations), torch.cat(shown), torch.cat(targets))


def steps_of(rows: int, epochs: int) -> tuple[int, int]:
    """Return the rows of a step, and the number of steps."""
    size = min(rows, _LARGEST_BATCH, max(_SMALLEST_BATCH, rows // _STEPS))
    return size, epochs * (rows // size)


def fit_network(network: GuideNetwork, batches: GuideBatches, settings: NetworkFitSettings) -> None:
    """Fit all perceptrons at once by squared errors in the scales of the loss, from the seed of the run."""
    seed_everything(settings.seed, "guide")
    with torch.no_grad():
        table = gather(network, batches, settings.hidden_share)
        _set_scales(network, table)
    weights = first_weights(network)
    groups = [
        {"params": [w for name, w in weights.items() if "bias" not in name], "weight_decay": _DECAY},
        {"params": [w for name, w in weights.items() if "bias" in name], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=_RATE)
    size, total = steps_of(len(table), settings.epochs)
    each = len(table) // size
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=total + 1, pct_start=_WARM)
    for step in range(total):
        if step % each == 0:
            order = torch.randperm(len(table))
        batches.report("perceptrons", step, total)
        loss = loss_of(network, weights, table, order[step % each * size :][:size])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), _CLIP)
        optimiser.step()
        schedule.step()
    for name, value in weights.items():
        getattr(network, name).copy_(value.detach())


def _set_scales(network: GuideNetwork, table: _Table) -> None:
    seen = table.inputs[:: max(1, len(table) // 50_000), : network.predictors].float()
    network.centre.copy_(seen.mean(dim=0))
    # A predictor that never changes, the constant among them, is not scaled.
    spread = seen.std(dim=0, unbiased=False)
    network.spread.copy_(torch.where(spread > 1e-6, spread, 1.0))


def first_weights(network: GuideNetwork) -> dict[str, Tensor]:
    """Draw weights uniformly within 1/√inputs, as torch's linear layers do; embeddings of stations are zero."""
    weights = {}
    for name in ("first", "middle", "last"):
        for kind in ("weight", "bias"):
            like = getattr(network, f"{name}_{kind}")
            bound = getattr(network, f"{name}_weight").shape[1] ** -0.5
            weights[f"{name}_{kind}"] = torch.empty_like(like).uniform_(-bound, bound).requires_grad_()
    weights["embedding"] = torch.zeros_like(network.embedding).requires_grad_()
    return weights


def loss_of(network: GuideNetwork, weights: dict[str, Tensor], table: _Table, chosen: Tensor) -> Tensor:
    """Return the mean squared error over observed targets, each output alike, summed over the perceptrons."""
    inputs, count = table.inputs[chosen].float(), network.predictors
    rows = torch.cat([network.scaled(inputs[:, :count]), inputs[:, count:]], dim=-1)
    guesses = network.guess(weights, rows, table.station[chosen], table.shown[chosen, None], training=True)
    target = table.target[chosen].float()
    there = torch.isfinite(target)
    error = torch.where(there, guesses - torch.where(there, target, 0.0), 0.0).square()
    return (error.sum(dim=1) / there.sum(dim=0).clamp(min=1)).mean(dim=-1).sum()
