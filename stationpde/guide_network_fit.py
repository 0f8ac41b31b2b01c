"""Training the guide's perceptrons on rows, station by station and window by window, before the field is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.guide_network import GuideNetwork
from stationpde.guide_rows import GuideBatches
from stationpde.predictors import day_waves
from stationpde.training.seeding import seed_everything

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["fit_network"]

# Rows of a step: a long record gives a thousand, a short one fewer, so that an epoch still has steps enough.
_LARGEST_BATCH, _SMALLEST_BATCH, _STEPS = 1024, 32, 200
_RATE, _DECAY, _WARM, _CLIP = 2e-3, 1e-2, 0.15, 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """All rows in half precision, which their noise is far above: 400,000 take a quarter of a gigabyte."""

    inputs: Tensor
    station: Tensor
    known: Tensor
    target: Tensor

    @classmethod
    def gathered(cls, network: GuideNetwork, batches: GuideBatches, hidden: float) -> _Table:
        """One pass over the windows; also sets the network's scales."""
        place = batches.model.sites.features.fixed[:, :3]
        inputs, stations, known, targets = [], [], [], []
        for rows in batches.passed("gather", hidden):
            some = batches.some(rows.number)
            plain = rows.pooled[:, some, : network.predictors]
            hour = day_waves(rows.time, plain.dtype)[:, None].expand(-1, plain.shape[1], -1)
            parts = [plain, hour, place[some].expand(plain.shape[0], -1, -1)]
            inputs.append(torch.cat(parts, dim=-1).flatten(0, 1).half())
            number = torch.arange(rows.pooled.shape[1])[some]
            stations.append(number.repeat(plain.shape[0]))
            shown = torch.ones(rows.pooled.shape[:2], dtype=torch.bool) if rows.shown is None else rows.shown
            known.append(shown[:, some].flatten())
            targets.append(rows.target[:, some].flatten(0, 1).flatten(1).half())
        return cls(torch.cat(inputs), torch.cat(stations), torch.cat(known), torch.cat(targets))

    def __len__(self) -> int:
        return len(self.inputs)


def fit_network(network: GuideNetwork, batches: GuideBatches, config: Config) -> None:
    """Fit the perceptrons, one beside the other, by squared errors in the scales of the loss; from the run's seed."""
    seed_everything(config.train.seed, "guide")
    with torch.no_grad():
        table = _Table.gathered(network, batches, config.train.station_dropout)
        _set_scales(network, table)
    weights = _first_weights(network)
    groups = [
        {"params": [w for name, w in weights.items() if "bias" not in name], "weight_decay": _DECAY},
        {"params": [w for name, w in weights.items() if "bias" in name], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=_RATE)
    size = min(len(table), _LARGEST_BATCH, max(_SMALLEST_BATCH, len(table) // _STEPS))
    each = len(table) // size
    total = config.model.guide_epochs * each
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=total + 1, pct_start=_WARM)
    for step in range(total):
        if step % each == 0:
            order = torch.randperm(len(table))
        batches.report("perceptrons", step, total)
        loss = _loss(network, weights, table, order[step % each * size :][:size])
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
    # A predictor that never moves, the constant among them, stays what it is.
    spread = seen.std(dim=0, unbiased=False)
    network.spread.copy_(torch.where(spread > 1e-6, spread, 1.0))


def _first_weights(network: GuideNetwork) -> dict[str, Tensor]:
    """Uniform within 1/√inputs, as torch's linear layers begin; a station's own numbers at zero."""
    made = {}
    for name in ("first", "middle", "last"):
        for kind in ("weight", "bias"):
            like = getattr(network, f"{name}_{kind}")
            bound = getattr(network, f"{name}_weight").shape[1] ** -0.5
            made[f"{name}_{kind}"] = torch.empty_like(like).uniform_(-bound, bound).requires_grad_()
    made["embedding"] = torch.zeros_like(network.embedding).requires_grad_()
    return made


def _loss(network: GuideNetwork, weights: dict[str, Tensor], table: _Table, chosen: Tensor) -> Tensor:
    """Mean squared error over what was observed, each output alike, summed over the perceptrons."""
    inputs, count = table.inputs[chosen].float(), network.predictors
    rows = torch.cat([network.scaled(inputs[:, :count]), inputs[:, count:]], dim=-1)
    known = table.known[chosen, None]
    found = network.guess(weights, rows, table.station[chosen], known, training=True)
    target = table.target[chosen].float()
    there = torch.isfinite(target)
    error = torch.where(there, found - torch.where(there, target, 0.0), 0.0).square()
    return (error.sum(dim=1) / there.sum(dim=0).clamp(min=1)).mean(dim=-1).sum()
