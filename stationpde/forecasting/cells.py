"""Distributions of a forecast on the cells of a coarse grid: maps of the spread and of the chance of a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.windows import Stations
from stationpde.forecasting.uncertain import distributions_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stationpde.model import StationPDEModel
    from stationpde.uncertainty import Calibration, Distributions, Threshold

__all__ = ["CellDistributions", "distributions_on_cells"]

Array = np.ndarray[Any, Any]

# The spread varies little from cell to cell: a few hundred places tell it.
_MOST_CELLS = 500


@dataclass(frozen=True, slots=True, eq=False)
class CellDistributions:
    """Distributions at places on a grid ``[y, x]``, south to north, which come after the stations of a forecast."""

    distributions: Distributions
    shape: tuple[int, int]

    @property
    def names(self) -> tuple[str, ...]:
        """Variables that have a distribution."""
        return self.distributions.names

    def quantiles(self, name: str, levels: Sequence[float]) -> Array:
        """Return quantiles ``[lead, y, x, level]`` in display units."""
        values = self.distributions.quantiles(name, levels)[0]
        return values[:, -self.shape[0] * self.shape[1] :].reshape(len(values), *self.shape, len(levels))

    def probability(self, threshold: Threshold) -> Array:
        """Return the probability ``[lead, y, x]`` of what lies beyond a threshold."""
        below = self.distributions.probability_below(threshold.name, threshold.value)[0]
        chance = 1.0 - below if threshold.is_above else below
        return chance[:, -self.shape[0] * self.shape[1] :].reshape(len(chance), *self.shape)


@torch.inference_mode()
def distributions_on_cells(
    calibration: Calibration, model: StationPDEModel, history: Array, issue: int, horizon: int
) -> CellDistributions:
    """Compute distributions at every few cells of a model's grid, where no station stands.

    Parameters
    ----------
    model : at the stations that report
    history : ``[time, station, variable]``, SI
    """
    grid, stations = model.region.grid, model.sites.stations
    every = max(1, int(np.ceil(np.sqrt(grid.size / _MOST_CELLS))))
    rows, columns = (np.unique(np.r_[0 : size - 1 : every, size - 1]) for size in grid.shape)
    lat, lon = np.meshgrid(grid.lat[rows], grid.lon[columns], indexing="ij")
    altitude = model.region.altitude[np.ix_(rows, columns)]
    names = tuple(f"cell {number}" for number in range(lat.size))
    both = Stations(
        (*stations.id, *names), np.r_[stations.lat, lat.ravel()], np.r_[stations.lon, lon.ravel()],
        np.r_[stations.alt, altitude.ravel()],
    )  # fmt: skip
    there = model.at(both, reporters=len(stations)).eval()
    nothing = np.full((len(history), lat.size, history.shape[-1]), np.nan, history.dtype)
    whole = np.concatenate([history, nothing], axis=1)
    output = there(torch.from_numpy(whole)[None], torch.tensor([issue]), horizon)
    distributions = distributions_at(calibration, there, output, whole, issue)
    return CellDistributions(distributions, (len(rows), len(columns)))
