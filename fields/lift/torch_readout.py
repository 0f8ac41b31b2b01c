"""The readout as a torch module: `GridReadout` (bilinear, hydrostatic for pressure), differentiable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fields.lift.bilinear import GridReadout
from fields.lift.detrend import detrended_means
from fields.lift.profiles import Plane
from fields.lift.torch_lift import PositionBuffers, WeightedMeans

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

__all__ = ["GridToStation"]


class GridToStation(nn.Module):
    """Readout of fields ``[..., channel, y, x]`` at places ``[..., place, channel]``.

    Parameters
    ----------
    readout : weights and positions, from `GridReadout.of`
    variables : names of the channels; without them every channel is read bilinearly
    station_pressure : whether ``p`` is pressure at the cells' altitude, to be brought to the place's
    """

    inside: Bool[Tensor, " place"]

    def __init__(
        self,
        readout: GridReadout,
        variables: Sequence[str] = (),
        *,
        station_pressure: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.variables = tuple(variables)
        self.station_pressure = station_pressure
        self.means = WeightedMeans(readout.weights, dtype)
        self.cells, self.places = PositionBuffers(readout.cells), PositionBuffers(readout.places)
        self.register_buffer("inside", torch.as_tensor(readout.inside), persistent=False)

    def forward(
        self,
        fields: Float[Tensor, "... channel y x"],
        slopes: Mapping[str, Tensor] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Tensor, "... place channel"]:
        """Read fields at the places.

        Parameters
        ----------
        fields : NaN = missing
        slopes : vertical slopes per metre of the variables that have one
        complete : no value is missing; only for a readout without ``variables``
        """
        flat = fields.flatten(-2)
        if complete and not self.variables:
            return self.means.complete(flat).movedim(-2, -1)
        if not self.variables:
            return self.means(flat)[0].movedim(-2, -1)
        named = {name: flat[..., c, :] for c, name in enumerate(self.variables)}
        planes = {}
        for name, rows in named.items():
            none = torch.zeros_like(rows[..., :1], dtype=torch.float64)
            slope = (slopes or {}).get(name)
            planes[name] = Plane.vertical(none if slope is None else none + slope[..., None])
        read = detrended_means(
            named,
            self.means,
            self.cells(),
            self.places(),
            xp=torch,
            planes=planes,
            station_pressure=self.station_pressure,
        )
        return torch.stack([read.values[name] for name in self.variables], dim=-1)
