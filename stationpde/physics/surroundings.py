r"""Surroundings of a station: the lifted field and its changes, at three distances in four directions.

Differences of the field at 150, 350 and 700 km, and how they changed, are gradients and tendencies at the scales on
which weather systems move; the surface wind alone carries little of that. On another network the distances can follow
from what it resolves and from how far weather comes (`ring_distances`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fields.grid import GridSpec
from fields.lift import GridReadout, GridToStation
from fields.windows import Stations

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

__all__ = [
    "COMPASS",
    "PLACES",
    "RINGS_KM",
    "Surroundings",
    "View",
    "differences_across",
    "ring",
    "ring_distances",
    "steps_back",
]

# From the breadth of a front to that of a depression.
RINGS_KM = (150.0, 350.0, 700.0)
# Eastward and northward parts of the directions, in the order of the places of a ring.
COMPASS = {"east": (1.0, 0.0), "west": (-1.0, 0.0), "north": (0.0, 1.0), "south": (0.0, -1.0)}
PLACES = len(RINGS_KM) * len(COMPASS)
_EARTH_KM = 6371.0
_CHANGES_H = (3, 12)


# Pace of weather systems at the surface, km/h (12 m/s), and the longest way that is looked upstream, hours.
_PACE_KM_H, _LONGEST_H = 43.0, 24.0


def ring_distances(spacing_km: float, extent_km: float, step_seconds: int, horizon: int) -> tuple[float, float, float]:
    r"""Choose the three distances of the surroundings, km.

    .. math:: r_3 = \min(L/2, c\,t), \quad r_1 = \min(\max(s, c\,\Delta t), r_3/2), \quad r_2 = \sqrt{r_1 r_3}

    The nearest is what the network resolves or weather comes in a step, the farthest the way of weather until the last
    lead, at most a day, within half the region: beyond its border there is nothing to see.

    Parameters
    ----------
    spacing_km : mean distance s between stations
    extent_km : length L of the side of a square as large as the region
    step_seconds, horizon : length of a step Δt, and number of steps of a forecast, which lasts t
    """
    hours = step_seconds / 3600
    far = min(0.5 * extent_km, _PACE_KM_H * min(horizon * hours, _LONGEST_H))
    near = min(max(spacing_km, _PACE_KM_H * hours), 0.5 * far)
    return near, float(np.sqrt(near * far)), far


def steps_back(hours: float, step_seconds: int, history: int) -> int:
    """Return how many steps come nearest to a span of hours, at least one and within the history."""
    return int(min(max(1, round(hours * 3600 / step_seconds)), history - 1))


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Field at the stations through the history, and differences of their surroundings from it, scaled.

    Attributes
    ----------
    centre : the field at the stations
    around : differences at the latest step, ``[batch, station, 12, channel]``: rings from near to far, in each the
        directions of `COMPASS`
    change_3h, change_12h : how ``around`` changed over the last 3 h and 12 h, or the nearest spans that the steps and
        the history allow (`steps_back`)
    """

    centre: Float[Tensor, "batch time station channel"]
    around: Float[Tensor, "batch station place channel"]
    change_3h: Float[Tensor, "batch station place channel"]
    change_12h: Float[Tensor, "batch station place channel"]

    def of(self, chosen: slice) -> View:
        """Return the view of some of the stations."""
        return View(
            self.centre[:, :, chosen], self.around[:, chosen], self.change_3h[:, chosen], self.change_12h[:, chosen]
        )  # fmt: skip


class Surroundings(nn.Module):
    """Reader of scaled fields around stations; a place beyond the grid gets the border value, as in the equations."""

    def __init__(
        self, grid: GridSpec, altitude: NDArray, stations: Stations, step_seconds: int, history: int,
        rings_km: tuple[float, float, float] = RINGS_KM,
    ) -> None:  # fmt: skip
        super().__init__()
        lat, lon = np.asarray(stations.lat, float)[:, None], np.asarray(stations.lon, float)[:, None]
        east, north = np.array([(r * x, r * y) for r in rings_km for x, y in COMPASS.values()]).T
        # Near a pole a degree of longitude is no length.
        narrow = np.maximum(np.cos(np.radians(lat)), 0.1)
        places = (lat + np.degrees(north / _EARTH_KM), lon + np.degrees(east / _EARTH_KM / narrow))
        flat = tuple(p.ravel() for p in places)
        self.readout = GridToStation(GridReadout.of(grid, altitude, (*flat, np.zeros(flat[0].size))))
        self.station_count = len(stations)
        self.back = tuple(steps_back(hours, step_seconds, history) for hours in _CHANGES_H)

    def forward(
        self,
        fields: Float[Tensor, "batch time channel y x"],
        centre: Float[Tensor, "batch time station channel"],
    ) -> View:
        """Read the surroundings of a history; ``centre`` are the fields at the stations themselves."""
        last = fields.shape[1] - 1
        steps = [last, *(last - back for back in self.back)]
        read = self.readout(torch.stack([fields[:, step] for step in steps], dim=1), complete=True)
        read = read.reshape(*read.shape[:2], self.station_count, PLACES, -1)
        away = [read[:, n] - centre[:, step].unsqueeze(-2) for n, step in enumerate(steps)]
        return View(centre, away[0], away[0] - away[1], away[0] - away[2])


def ring(number: int) -> slice:
    """Return the places of a ring, counted from the nearest."""
    return slice(number * len(COMPASS), (number + 1) * len(COMPASS))


def differences_across(
    around: Float[Tensor, "batch station place channel"], number: int
) -> tuple[Float[Tensor, "batch station channel"], Float[Tensor, "batch station channel"]]:
    """Return the differences across a ring: east minus west, and north minus south."""
    east, west, north, south = around[..., ring(number), :].unbind(-2)
    return east - west, north - south
