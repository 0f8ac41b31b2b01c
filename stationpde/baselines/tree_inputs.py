"""Inputs and targets of boosted trees: what `mlp_nb` sees of a station, as rows of a table.

A row is a window of one station. Its columns are the history of the station without gaps in its standard deviations,
the last state of its nearest stations, sine and cosine of the hour and the season at the time of issue, position,
altitude, means and standard deviations of the station, and the lead within its group. `mlp_nb` forecasts all leads at
once and sees hour and season of each; trees of one group of leads need those of the issue alone.

Leads are parted into at most eight groups. A horizon of eight steps has a group for each lead; of a longer one a row
has the target of one lead of each group, drawn at random, the same within all groups, so that all targets share one
table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from stationpde.baselines.inputs import StationInputs, neighbours_of, window_batches
from stationpde.baselines.station_mlp import place_features
from stationpde.physics import time_features
from stationpde.seeding import generator

if TYPE_CHECKING:
    from fields.windows import Batch, SplitName
    from stationpde.data import WindowSource

__all__ = ["LeadGroups", "TreeInputs", "TreeTable"]

Array = np.ndarray[Any, Any]

_MOST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class LeadGroups:
    """Leads of a horizon in groups of ``size`` neighbouring ones; the last group may be smaller."""

    leads: int
    size: int

    @classmethod
    def of(cls, leads: int) -> LeadGroups:
        """Divide the leads of a horizon into at most eight groups."""
        return cls(leads, -(-leads // _MOST_GROUPS))

    def __len__(self) -> int:
        return -(-self.leads // self.size)

    def place(self, lead: int) -> tuple[int, int]:
        """Return the group of a lead and its number within the group."""
        return divmod(lead, self.size)

    def drawn(self, within: Array) -> Array:
        """Return the leads ``[row, group]`` of rows that have the lead ``within`` each group, or the last one."""
        return np.minimum(np.arange(len(self)) * self.size + within[:, None], self.leads - 1)


@dataclass(frozen=True, slots=True, eq=False)
class TreeTable:
    """Rows: inputs ``[row, input]`` and targets ``[row, group, channel]``, NaN where missing; both float32."""

    inputs: Array
    targets: Array


@dataclass(frozen=True, slots=True, eq=False)
class TreeInputs:
    """Scales, neighbours and places of the stations of a record, and the groups of its leads."""

    scales: StationInputs
    near: Tensor
    places: Tensor
    groups: LeadGroups

    @classmethod
    def of(cls, source: WindowSource, neighbours: int) -> TreeInputs:
        """Build the inputs for the stations of a record, with scales of its training split."""
        scales, stations = StationInputs.of(source), source.series.stations
        return cls(
            scales,
            torch.as_tensor(neighbours_of(stations, neighbours)),
            torch.as_tensor(place_features(stations, scales), dtype=torch.float32),
            LeadGroups.of(source.windows.spec.horizon),
        )

    def rows(self, batch: Batch) -> Array:
        """Return inputs ``[window * station, input]``, float32; the last column, the lead within its group, is 0."""
        history = self.scales.scaled(self.scales.filled(batch.history, batch.issue_time)).float()
        windows, _, stations, _ = history.shape
        when = time_features(batch.issue_time)
        parts = [
            history.transpose(1, 2).flatten(2),
            history[:, -1][:, self.near].flatten(2),
            when[:, None].expand(-1, stations, -1),
            self.places.expand(windows, -1, -1),
            history.new_zeros(windows, stations, 1),
        ]
        return torch.cat(parts, dim=-1).flatten(0, 1).numpy()

    def last_column(self, channel: int, history: int) -> int:
        """Return the column of the last value of a channel at the station itself."""
        return (history - 1) * self.scales.mean.shape[1] + channel

    def table(self, source: WindowSource, part: SplitName, most_rows: int, seed: int) -> TreeTable:
        """Read the windows of a split; of more than ``most_rows`` rows a random share."""
        count = len(source.windows[part]) * len(source.series.stations)
        share = min(1.0, most_rows / max(1, count))
        blocks = list(self._blocks(source, part, share, generator(seed, "trees", part)))
        if not blocks:
            columns = self.rows(source.batch(source.windows["train"][:1])).shape[1]
            channels = self.scales.mean.shape[1]
            return TreeTable(np.zeros((0, columns), np.float32), np.zeros((0, len(self.groups), channels), np.float32))
        inputs, targets = zip(*blocks)
        return TreeTable(np.concatenate(inputs), np.concatenate(targets))

    def _blocks(
        self, source: WindowSource, part: SplitName, share: float, random: np.random.Generator
    ) -> Iterator[tuple[Array, Array]]:
        for batch in window_batches(source, part):
            inputs = self.rows(batch)
            chosen = np.flatnonzero(random.random(len(inputs)) < share) if share < 1.0 else np.arange(len(inputs))
            within = random.integers(self.groups.size, size=len(chosen))
            future = self.scales.scaled(batch.future).transpose(1, 2).flatten(0, 1).float().numpy()
            inputs = inputs[chosen]
            inputs[:, -1] = within
            yield inputs, future[chosen[:, None], self.groups.drawn(within)]
