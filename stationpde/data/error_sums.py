"""Masked sums of forecast errors: the accumulator that validation and evaluation share.

Errors are in display units (m/s, hPa, K, %), humidity within 0 to 100 %, in float64. A target that was not observed is
never counted; a forecast that is not finite at an observed target is not masked, so that it shows in the score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.variables import STATE_VARIABLES, to_display

if TYPE_CHECKING:
    from jaxtyping import Float

    from fields.windows import Batch

__all__ = ["ErrorSums", "persistence"]

_OF_PERSISTENCE = "persistence_"
# Summed quantities by name, of an error and its target.
_QUANTITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "count": lambda error, target: torch.ones_like(target),
    "squared": lambda error, target: error.square(),
    "absolute": lambda error, target: error.abs(),
    "signed": lambda error, target: error,
    "target": lambda error, target: target,
    "target_squared": lambda error, target: target.square(),
}


def persistence(history: Float[Tensor, "batch time station channel"]) -> Float[Tensor, "batch station channel"]:
    """Return the last observed value of each station and variable; NaN where the history has none."""
    last = history[:, 0]
    for step in history.unbind(1)[1:]:
        last = torch.where(torch.isfinite(step), step, last)
    return last


class ErrorSums(ABC):
    """Sums of masked errors, added batch by batch; a subclass decides over which windows, leads and stations.

    Parameters
    ----------
    variables : variables that are summed, in the order of the last axis
    rows : quantities that are summed, in the order of the first axis. ``count``, ``squared``, ``absolute`` and
        ``signed`` are of the error (forecast minus target), ``target`` and ``target_squared`` of the observed target,
        and ``persistence_count``, ``persistence_squared`` and ``persistence_absolute`` of the error of persistence.

    Attributes
    ----------
    not_finite : observed targets whose forecast is not finite
    """

    def __init__(self, variables: Sequence[str], rows: Sequence[str]) -> None:
        self.variables, self.rows = tuple(variables), tuple(rows)
        self._channels = [STATE_VARIABLES.index(name) for name in self.variables]
        self.not_finite = 0

    def add(self, forecast: Float[Tensor, "batch lead station channel"], batch: Batch) -> None:
        """Add the errors of a batch of forecasts in SI units; the targets are ``batch.future``."""
        self._add_rows(self._masked_rows(forecast, batch), batch)

    @abstractmethod
    def _add_rows(self, rows: Iterator[Tensor], batch: Batch) -> None:
        """Reduce each row ``[batch, lead, station, variable]`` to the groups of the subclass and add it."""

    def _masked_rows(self, forecast: Tensor, batch: Batch) -> Iterator[Tensor]:
        """Yield the rows one by one, zero where nothing was observed: all at once would take too much memory."""
        target = self._in_display_units(batch.future)
        error = self._in_display_units(forecast) - target
        observed = torch.isfinite(target)
        self.not_finite += int((observed & ~torch.isfinite(error)).sum())
        pairs = {"": (error, observed)}
        if any(row.startswith(_OF_PERSISTENCE) for row in self.rows):
            last = self._in_display_units(persistence(batch.history)).unsqueeze(1)
            pairs[_OF_PERSISTENCE] = (last - target, observed & torch.isfinite(last))
        for row in self.rows:
            prefix = _OF_PERSISTENCE if row.startswith(_OF_PERSISTENCE) else ""
            error, mask = pairs[prefix]
            values = _QUANTITIES[row.removeprefix(prefix)](error, target)
            # NaN times zero is NaN: values that were not observed are replaced, not multiplied by zero.
            yield torch.where(mask, values, torch.zeros_like(values))

    def _in_display_units(self, values: Tensor) -> Tensor:
        columns = []
        for name, channel in zip(self.variables, self._channels, strict=True):
            column = values[..., channel].detach().to(torch.float64)
            columns.append(to_display(name, column.clamp(0.0, 1.0) if name == "rh" else column))
        return torch.stack(columns, dim=-1)
