"""Batches of windows as tensors, the climatology as a torch module, and the filling of gaps in a history.

Batches are copied out of one array in memory and hold NaN where nothing was observed. Worker processes share that array
with the process that started them and open no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.windows.climatology import Climatology
from fields.windows.series import StationSeries
from fields.windows.time_features import annual_harmonics, month_of
from fields.windows.windows import WindowSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Batch", "ClimatologyTable", "StationSeries", "WindowDataset", "fill_history", "keep"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Input of every model, SI, NaN where nothing was observed.

    Parameters
    ----------
    history, future : observations before and after the issue time; at inference ``future`` has no steps
    issue_time : time of the last step of the history, seconds since 1970 UTC
    step_seconds : the cadence
    index : number of each window, which is its first step in the record
    """

    history: Float[Tensor, "batch history station variable"]
    future: Float[Tensor, "batch horizon station variable"]
    issue_time: Int64[Tensor, " batch"]
    step_seconds: int
    index: Int64[Tensor, " batch"]

    def __len__(self) -> int:
        return int(self.history.shape[0])

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """Copy the batch to a device."""
        return self._each(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Copy the batch to page-locked memory; called by `DataLoader`."""
        return self._each(lambda x: x.pin_memory())

    def _each(self, change: Any) -> Batch:
        tensors = {f.name: change(x) for f in fields(self) if isinstance(x := getattr(self, f.name), Tensor)}
        return replace(self, **tensors)


class WindowDataset(torch.utils.data.Dataset[Batch]):
    """Windows of a record; several numbers at once (as `DataLoader` passes them) give one `Batch`.

    Parameters
    ----------
    series : the record
    starts : first steps of the windows, e.g. ``Windows["train"]`` or ``Windows.epoch(n)``
    spec : length of history and horizon
    """

    def __init__(self, series: StationSeries, starts: np.ndarray[Any, Any], spec: WindowSpec) -> None:
        self.spec = spec
        self.step_seconds = series.step_seconds
        self.starts = torch.as_tensor(np.asarray(starts, np.int64))
        self.values = torch.from_numpy(series.values)
        self.time = torch.from_numpy(series.time)

    def __len__(self) -> int:
        return int(self.starts.numel())

    def __getitem__(self, number: int) -> Batch:
        return self.__getitems__([number])

    def __getitems__(self, numbers: Sequence[int] | Tensor) -> Batch:
        return self.at(self.starts[torch.as_tensor(numbers, dtype=torch.int64)])

    def at(self, starts: Int64[Tensor, " batch"]) -> Batch:
        """Return the windows that begin at these steps of the record."""
        past, whole = self.spec.history, self.spec.length
        first = starts.tolist()
        # The steps of a window lie side by side: each slice is one copy.
        history = torch.stack([self.values[i : i + past] for i in first])
        future = torch.stack([self.values[i + past : i + whole] for i in first])
        return Batch(history, future, self.time[starts + past - 1], self.step_seconds, starts)


def keep(batch: Batch) -> Batch:
    """Return the batch unchanged: the ``collate_fn`` of a loader, because `WindowDataset` returns whole batches."""
    return batch


class ClimatologyTable(nn.Module):
    """`Climatology` as a module: the same formula on tensors, without control flow that depends on values.

    Parameters
    ----------
    climatology : its tables and harmonics
    dtype : type of the tables
    persistent : whether the tables are saved with the weights
    """

    table: Tensor
    waves: Tensor

    def __init__(self, climatology: Climatology, dtype: torch.dtype = torch.float32, persistent: bool = True) -> None:
        super().__init__()
        self.slot_seconds, self.origin = climatology.slot_seconds, climatology.origin
        self.annual, self.daily = climatology.annual, climatology.daily
        for name in ("table", "waves"):
            array = torch.tensor(getattr(climatology, name), dtype=dtype)
            self.register_buffer(name, array, persistent=persistent)

    def forward(self, time: Int64[Tensor, " *shape"]) -> Float[Tensor, "*shape station channel"]:
        """Evaluate the climatology at times (seconds since 1970 UTC)."""
        months, slots = self.table.shape[0], self.table.shape[1]
        slot = (time - self.origin) // self.slot_seconds % slots
        row = slot if months == 1 else (month_of(time) - 1) * slots + slot
        flat = self.table.flatten(0, 1)
        values = flat.index_select(0, row.reshape(-1)).reshape(*time.shape, *flat.shape[1:])
        if self.waves.shape[0] > 0:
            basis = torch.stack(annual_harmonics(time, self.annual, self.daily, torch), dim=-1)
            values = values + torch.tensordot(basis.to(values.dtype), self.waves, dims=1)
        return values

    at = forward


def fill_history(
    history: Float[Tensor, "*batch time station channel"], climatology: Float[Tensor, "*batch time station channel"]
) -> Float[Tensor, "*batch time station channel"]:
    """Fill the gaps of histories from within the window; differentiable, no data-dependent control flow.

    Linear in time between two observed values; the last observed value after it; the climatology before the first.

    Parameters
    ----------
    history : observations, NaN where missing
    climatology : values of the same shape, finite

    Returns
    -------
    The histories without gaps; observed values are unchanged
    """
    steps = history.unbind(-3)
    low, since = _carried(steps)
    high, until = (x.flip(-3) for x in _carried(steps[::-1]))
    weight = since / (since + until).clamp(min=1.0)
    # NaN stands for "none yet" and is never chosen; weights carry no gradient, so that none is multiplied by it.
    inside = torch.where(torch.isnan(high), low, low + weight * (high - low))
    return torch.where(torch.isnan(low), climatology, inside)


def _carried(steps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Carry the last observed value forward: its value at every step, NaN before the first, and its age in steps.

    A loop over the few steps of a history: on whole arrays, gathering by index takes ten times as long.
    """
    value, age = torch.full_like(steps[0], torch.nan), torch.zeros_like(steps[0])
    values, ages = [], []
    for step in steps:
        there = torch.isfinite(step)
        value = torch.where(there, step, value)
        age = torch.where(there, 0.0, age + 1.0)
        values.append(value)
        ages.append(age)
    return torch.stack(values, dim=-3), torch.stack(ages, dim=-3)
