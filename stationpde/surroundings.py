r"""What a station sees around it: the lifted field and its changes, at three distances in four directions.

Weather comes from where it was. Differences of the field at 150, 350 and 700 km, and how they changed, are gradients
and tendencies at the scales on which weather systems move; the surface wind alone carries little of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fields.bilinear import GridReadout
from fields.gridspec import GridSpec
from fields.readout import GridToStation
from fields.series import Stations

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

__all__ = ["PLACES", "RINGS_KM", "Surroundings", "View", "steps_back"]

# From the breadth of a front to that of a depression.
RINGS_KM = (150.0, 350.0, 700.0)
_COMPASS = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))  # east, west, north, south
PLACES = len(RINGS_KM) * len(_COMPASS)
_EARTH_KM = 6371.0
_CHANGES_H = (3, 12)


def steps_back(hours: float, step_seconds: int, history: int) -> int:
    """Steps of the model's cadence that come nearest to a span, at least one and within the history."""
    return int(min(max(1, round(hours * 3600 / step_seconds)), history - 1))


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The field at the station through the history, and how its surroundings differ from it.

    ``around``, ``change`` (3 h) and ``drift`` (12 h) are ``[batch, station, 12, channel]``: rings from near to far, in
    each east, west, north, south.
    """

    centre: Float[Tensor, "batch time station channel"]
    around: Float[Tensor, "batch station place channel"]
    change: Float[Tensor, "batch station place channel"]
    drift: Float[Tensor, "batch station place channel"]


class Surroundings(nn.Module):
    """Reads scaled fields around stations; a place beyond the grid reads its border, as the equations do."""

    def __init__(self, grid: GridSpec, altitude: NDArray, stations: Stations, step_seconds: int, history: int) -> None:
        super().__init__()
        lat, lon = np.asarray(stations.lat, float)[:, None], np.asarray(stations.lon, float)[:, None]
        east, north = np.array([(r * x, r * y) for r in RINGS_KM for x, y in _COMPASS]).T
        # Near a pole a degree of longitude is no length.
        narrow = np.maximum(np.cos(np.radians(lat)), 0.1)
        places = (lat + np.degrees(north / _EARTH_KM), lon + np.degrees(east / _EARTH_KM / narrow))
        flat = tuple(p.ravel() for p in places)
        self.readout = GridToStation(GridReadout.of(grid, altitude, (*flat, np.zeros(flat[0].size))))
        self.stations, self.places = len(stations), PLACES
        self.back = tuple(steps_back(hours, step_seconds, history) for hours in _CHANGES_H)

    def forward(
        self,
        fields: Float[Tensor, "batch time channel y x"],
        centre: Float[Tensor, "batch time station channel"],
    ) -> View:
        """The view of a history; ``centre`` are the fields at the stations themselves."""
        last = fields.shape[1] - 1
        steps = [last, *(last - back for back in self.back)]
        read = self.readout(torch.stack([fields[:, step] for step in steps], dim=1))
        read = read.reshape(*read.shape[:2], self.stations, self.places, -1)
        away = [read[:, n] - centre[:, step].unsqueeze(-2) for n, step in enumerate(steps)]
        return View(centre, away[0], away[0] - away[1], away[0] - away[2])
