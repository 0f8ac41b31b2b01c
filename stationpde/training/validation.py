"""Validation scores in display units (m/s, hPa, K, %) over every observed target, beside those of persistence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fields.variables import STATE_VARIABLES, display_unit
from stationpde.data import ErrorSums

if TYPE_CHECKING:
    from fields.windows import Batch

__all__ = ["ValidationSums", "VariableScore", "total_score"]

_ROWS = (
    "squared", "absolute", "target", "target_squared", "count",
    "persistence_squared", "persistence_absolute", "persistence_count",
)  # fmt: skip


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
        """Return the score as JSON-ready values."""
        return asdict(self)


class ValidationSums(ErrorSums):
    """Sums over the targets of each station, ``sums`` ``[row, station, variable]``, that can be added up over ranks.

    Parameters
    ----------
    scored : variables that get a score
    stations : number of stations
    """

    def __init__(self, scored: Sequence[str], stations: int) -> None:
        super().__init__(STATE_VARIABLES, _ROWS)
        self.scored = tuple(name for name in self.variables if name in scored)
        self.sums = torch.zeros(len(self.rows), stations, len(self.variables), dtype=torch.float64)

    def _add_rows(self, rows: Iterator[Tensor], batch: Batch) -> None:
        self.sums += torch.stack([row.sum(dim=(0, 1)) for row in rows]).cpu()

    def scores(self) -> dict[str, VariableScore]:
        """Return the scores of the variables that are scored and were observed."""
        scores = {}
        for channel, name in enumerate(self.variables):
            sums = dict(zip(self.rows, self.sums[:, :, channel], strict=True))
            totals = dict(zip(self.rows, self.sums[:, :, channel].sum(dim=1).tolist(), strict=True))
            count, count_p = totals["count"], totals["persistence_count"]
            if name not in self.scored or count == 0:
                continue
            mse = totals["squared"] / count
            reference = totals["persistence_squared"] / count_p if count_p else float("nan")
            scores[name] = VariableScore(
                mse=mse,
                mae=totals["absolute"] / count,
                unit=display_unit(name, difference=True),
                persistence_mse=reference,
                persistence_mae=totals["persistence_absolute"] / count_p if count_p else float("nan"),
                skill=1.0 - mse / reference if reference else float("nan"),
                variance=_variance(sums["target"], sums["target_squared"], sums["count"]),
                count=int(count),
            )
        return scores


def _variance(target: Tensor, target_squared: Tensor, count: Tensor) -> float:
    """Return the mean over targets of the variance at their station: differences of altitude do not count.

    Arguments are sums ``[station]`` over the observed targets.
    """
    spread = (target_squared - target.square() / count.clamp(min=1.0)).clamp(min=0.0)
    return float(spread.sum() / count.sum())


def total_score(scores: Mapping[str, VariableScore]) -> float:
    """Return the score that selects the best epoch: the mean over variables of MSE / variance of targets in time."""
    parts = [score.mse / max(score.variance, 1e-12) for score in scores.values()]
    return sum(parts) / len(parts) if parts else float("nan")
