"""Scores in physical units (m/s, hPa, K, %) over every observed target, beside those of persistence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fields.variables import STATE_VARIABLES, display_unit, to_display

if TYPE_CHECKING:
    from fields.torch_data import Batch

__all__ = ["ErrorSums", "VariableScore", "persistence", "total_score"]


@dataclass(frozen=True, slots=True)
class VariableScore:
    """Errors of one variable; squares are of ``unit`` squared. ``skill`` is 1 − MSE/MSE of persistence."""

    mse: float
    mae: float
    unit: str
    persistence_mse: float
    persistence_mae: float
    skill: float
    variance: float
    count: int

    def to_dict(self) -> dict[str, Any]:
        """For files and machines."""
        return asdict(self)


def persistence(history: Tensor) -> Tensor:
    """The last observed value of each station and variable, ``[batch, station, channel]``; NaN where there is none."""
    last = history[:, 0]
    for step in history.unbind(1)[1:]:
        last = torch.where(torch.isfinite(step), step, last)
    return last


class ErrorSums:
    """Sums over the targets of each station in float64, that can be added up over ranks."""

    # squared and absolute error, target, target², count; the errors of persistence and their count
    _ROWS = 8

    def __init__(self, scored: Sequence[str], stations: int, variables: Sequence[str] = STATE_VARIABLES) -> None:
        self.variables = tuple(variables)
        self.scored = tuple(name for name in variables if name in scored)
        self.sums = torch.zeros(self._ROWS, stations, len(self.variables), dtype=torch.float64)

    def add(self, forecast: Tensor, batch: Batch) -> None:
        """Take in a batch: forecast and targets ``[batch, lead, station, channel]`` in SI."""
        target, last = self._shown(batch.future), self._shown(persistence(batch.history)).unsqueeze(1)
        error = self._shown(forecast) - target
        seen = torch.isfinite(target)
        # A forecast that is not finite must show: it is not masked away.
        rows = [_total(error.square(), seen), _total(error.abs(), seen)]
        rows += [_total(target, seen), _total(target.square(), seen), seen.sum(dim=(0, 1))]
        both = seen & torch.isfinite(last)
        rows += [_total((last - target).square(), both), _total((last - target).abs(), both), both.sum(dim=(0, 1))]
        self.sums += torch.stack([row.to(torch.float64) for row in rows]).cpu()

    def _shown(self, values: Tensor) -> Tensor:
        """Values in the units people read, humidity within its bounds."""
        columns = []
        for channel, name in enumerate(self.variables):
            column = values[..., channel].to(torch.float64)
            if name == "rh":
                column = column.clamp(0.0, 1.0)
            columns.append(to_display(name, column))
        return torch.stack(columns, dim=-1)

    def scores(self) -> dict[str, VariableScore]:
        """The scores of the variables that are scored and were observed."""
        found = {}
        for channel, name in enumerate(self.variables):
            own = self.sums[:, :, channel]
            square, absolute, _, _, count, square_p, absolute_p, count_p = own.sum(dim=1).tolist()
            if name not in self.scored or count == 0:
                continue
            reference = square_p / count_p if count_p else float("nan")
            found[name] = VariableScore(
                mse=square / count,
                mae=absolute / count,
                unit=display_unit(name, difference=True),
                persistence_mse=reference,
                persistence_mae=absolute_p / count_p if count_p else float("nan"),
                skill=1.0 - square / count / reference if reference else float("nan"),
                variance=_variance(own),
                count=int(count),
            )
        return found


def _variance(sums: Tensor) -> float:
    """Mean over targets of the variance at their own station: what altitude alone explains does not count."""
    level, level2, count = sums[2], sums[3], sums[4].clamp(min=1.0)
    spread = (level2 - level.square() / count).clamp(min=0.0)
    return float(spread.sum() / sums[4].sum())


def total_score(scores: Mapping[str, VariableScore]) -> float:
    """One number to choose the best epoch by: the mean over variables of MSE over the targets' variance in time."""
    parts = [score.mse / max(score.variance, 1e-12) for score in scores.values()]
    return sum(parts) / len(parts) if parts else float("nan")


def _total(values: Tensor, seen: Tensor) -> Tensor:
    # NaN times zero is NaN: what was not observed is replaced, not multiplied away.
    return torch.where(seen, values, torch.zeros_like(values)).sum(dim=(0, 1))
