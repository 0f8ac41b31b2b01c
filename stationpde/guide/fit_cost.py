"""What fitting the guide will cost: a batch of each pass and a few stations are measured, and counted up.

Sums have their full size from the first batch on, so that one batch shows their memory; time goes with windows in the
passes, with stations in the solutions, and with steps for the perceptrons.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from stationpde.guide import fit, network_fit
from stationpde.guide.guide import Guide
from stationpde.guide.network_fit import NetworkFitSettings
from stationpde.guide.rows import FOLDS, GuideBatches

__all__ = ["FitCost", "fit_cost"]

# Stations that are solved for; and steps of the perceptrons, of which the first warms up.
_STATIONS, _STEPS = 8, 3


@dataclass(frozen=True, slots=True)
class FitCost:
    """Seconds of a fit, and bytes that it needs beyond those that measuring it took.

    Where blocks decide whether stations get weights, they are counted as if all did.
    """

    seconds: float
    further_bytes: int


def fit_cost(guide: Guide, batches: GuideBatches, settings: NetworkFitSettings) -> FitCost:
    """Measure parts of a fit and return the cost of the whole; nothing of the guide is changed."""
    windows = len(batches.starts)
    if windows < FOLDS:
        return FitCost(0.0, 0)
    first = batches.limited(1)
    share = windows / len(first.batches()[0][1])
    with torch.no_grad():
        shared, sums = _timed(lambda: fit.pooled_sums(first), warm=True)
        solving, (_, folds) = _timed(lambda: fit._fit_pooled(sums[:1], fit.POOLED_STRENGTHS))
        seconds = share * shared + len(sums) * solving
        local, further = _local_cost(guide, first, folds.repeat(1, 1, len(sums)), share)
    if guide.network is not None:
        perceptrons, table = _network_cost(guide, first, settings, share)
        local, further = local + perceptrons, max(further, table)
    return FitCost(seconds + local, further)


def _local_cost(guide: Guide, first: GuideBatches, folds: torch.Tensor, share: float) -> tuple[float, int]:
    stations, blocks = len(first.places), guide.local_form == "blocks"
    group = slice(0, min(stations, fit.LOCAL_GROUP))
    passing, sums = _timed(lambda: fit._local_sums(first, folds, group))
    few = fit.Sums(sums.xx[:, :_STATIONS], sums.xy[:, :_STATIONS], sums.yy[:, :_STATIONS])
    trying, errors = _timed(lambda: few.blocked_errors(fit.LOCAL_STRENGTHS))
    solving, _ = _timed(lambda: few.solved(fit.LOCAL_STRENGTHS, errors.argmin(0)))
    measured = min(_STATIONS, stations)
    tried = min(stations, fit.LOCAL_SAMPLE) if blocks else stations
    passes = -(-stations // fit.LOCAL_GROUP) + (1 if blocks and stations > fit.LOCAL_SAMPLE else 0)
    # A solution holds the sums of the other parts, their factor, and the weights twice.
    beside = 4 * (group.stop - measured) * (3 * sums.xx[0, 0].numel() + 3 * sums.xy[0, 0].numel())
    return share * passes * passing + (tried * trying + stations * solving) / measured, beside


def _network_cost(guide: Guide, first: GuideBatches, settings: NetworkFitSettings, share: float) -> tuple[float, int]:
    network = guide.network
    assert network is not None
    with torch.no_grad():
        gathering, table = _timed(lambda: network_fit.gather(network, first, settings.hidden_share))
    weights = network_fit.first_weights(network)
    rows = int(len(table) * share)
    size, steps = network_fit.steps_of(rows, settings.epochs)

    def take_steps() -> None:
        for _ in range(_STEPS):
            network_fit.loss_of(network, weights, table, torch.randint(len(table), (size,))).backward()

    each, _ = _timed(take_steps, warm=True)
    # The pieces and the whole table are there at once.
    further = 2 * rows * 2 * (table.inputs.shape[1] + table.target.shape[1])
    return share * gathering + steps * each / _STEPS, further


def _timed(work: Callable[[], Any], warm: bool = False) -> tuple[float, Any]:
    """Return the seconds that a function takes, and its result; ``warm`` calls it once before."""
    if warm:
        work()
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
