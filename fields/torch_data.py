"""Windows as tensors: batches copied out of one array in memory, and the torch faces of climatology and filling.

Batches hold NaN where nothing was observed. Workers share the array with the process that started them; nothing lazy
is opened there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from .normalize import Climatology
from .series import Stations, StationSeries
from .time_features import annual_harmonics, month_of
from .windows import WindowSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Batch", "ClimatologyTable", "StationSeries", "Stations", "WindowDataset", "fill_history", "keep"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What every model gets: SI, NaN where nothing was observed.

    ``issue_time`` is the time of the last step of the history, seconds since 1970 UTC; ``index`` the number of each
    window, which is its first step in the record. At inference ``future`` has no steps.
    """

    history: Float[Tensor, "batch history station variable"]
    future: Float[Tensor, "batch horizon station variable"]
    issue_time: Int64[Tensor, " batch"]
    step_seconds: int
    index: Int64[Tensor, " batch"]

    def __len__(self) -> int:
        return int(self.history.shape[0])

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """The batch on a device."""
        return self._each(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory, as a loader asks for it."""
        return self._each(lambda x: x.pin_memory())

    def _each(self, change: Any) -> Batch:
        tensors = {f.name: change(x) for f in fields(self) if isinstance(x := getattr(self, f.name), Tensor)}
        return replace(self, **tensors)


class WindowDataset(torch.utils.data.Dataset[Batch]):
    """Windows of a record; asked for several at once (as `DataLoader` does) it answers with one `Batch`.

    Parameters
    ----------
    series : the record
    starts : first steps of the windows, e.g. ``Windows["train"]`` or ``Windows.epoch(n)``
    spec : the window
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
        """The windows that begin at these steps of the record."""
        past, whole = self.spec.history, self.spec.length
        first = starts.tolist()
        # The steps of a window lie side by side: each slice is one copy.
        history = torch.stack([self.values[i : i + past] for i in first])
        future = torch.stack([self.values[i + past : i + whole] for i in first])
        return Batch(history, future, self.time[starts + past - 1], self.step_seconds, starts)


def keep(batch: Batch) -> Batch:
    """The ``collate_fn`` of a loader over `WindowDataset`, which makes whole batches itself."""
    return batch


class ClimatologyTable(nn.Module):
    """`Climatology` as a module: the same formula on tensors; device follows the module, nothing depends on values."""

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
        """The climatology at times (seconds since 1970, UTC)."""
        months, slots = self.table.shape[0], self.table.shape[1]
        slot = (time - self.origin) // self.slot_seconds % slots
        row = slot if months == 1 else (month_of(time) - 1) * slots + slot
        flat = self.table.flatten(0, 1)
        found = flat.index_select(0, row.reshape(-1)).reshape(*time.shape, *flat.shape[1:])
        if self.waves.shape[0] > 0:
            basis = torch.stack(annual_harmonics(time, self.annual, self.daily, torch), dim=-1)
            found = found + torch.tensordot(basis.to(found.dtype), self.waves, dims=1)
        return found

    at = forward


def fill_history(
    history: Float[Tensor, "*batch time station channel"], climatology: Float[Tensor, "*batch time station channel"]
) -> Float[Tensor, "*batch time station channel"]:
    """`fields.normalize.fill_history` on tensors: the same rule, differentiable, no data-dependent control flow."""
    steps = history.unbind(-3)
    low, since = _carried(steps)
    high, until = (x.flip(-3) for x in _carried(steps[::-1]))
    weight = since / (since + until).clamp(min=1.0)
    # NaN stands for "none yet" and is never chosen; weights carry no gradient, so that none is multiplied by it.
    inside = torch.where(torch.isnan(high), low, low + weight * (high - low))
    return torch.where(torch.isnan(low), climatology, inside)


def _carried(steps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The last observed value at every step, NaN before the first, and the steps since it was observed.

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
