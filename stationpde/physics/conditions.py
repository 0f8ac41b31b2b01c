r"""Conditions of the networks beside the state: place, time, lead, and height of the sun.

Time features are computed from whole seconds since 1970 (UTC). The sun follows a declination and an equation of time
good to half a degree (Spencer 1971 as quoted by Iqbal 1983, Sect. 1.2 and 1.3):

.. math:: \cos z = \sin\varphi\sin\delta + \cos\varphi\cos\delta\cos h
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fields.grid import GridSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from numpy.typing import NDArray

__all__ = [
    "DAY", "POSITION_FEATURES", "SUN_CHANNEL", "TIME_CHANNELS", "TIME_FEATURES", "Conditions", "PlaceFeatures",
    "cos_zenith", "time_features",
]  # fmt: skip

DAY, YEAR = 86400.0, 365.2425 * 86400.0
TIME_FEATURES = 4
POSITION_FEATURES = 3
# Channels of B_t counted from the last: cosine of the solar zenith angle (if used), time, lead.
LEAD_CHANNEL = -1
TIME_CHANNELS = slice(LEAD_CHANNEL - TIME_FEATURES, LEAD_CHANNEL)
SUN_CHANNEL = LEAD_CHANNEL - TIME_FEATURES - 1


def time_features(time: Int64[Tensor, " *shape"], dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape 4"]:
    """Return sine and cosine of the hour of the day (UTC) and of the time of the year."""
    # Remainders of whole numbers first: seconds since 1970 exceed what float32 holds.
    day = torch.remainder(time, int(DAY)).to(dtype) * (2.0 * math.pi / DAY)
    year = torch.remainder(time, int(YEAR)).to(dtype) * (2.0 * math.pi / YEAR)
    return torch.stack([day.sin(), day.cos(), year.sin(), year.cos()], dim=-1)


def cos_zenith(time: Int64[Tensor, " batch"], lat: Tensor, lon: Tensor) -> Tensor:
    """Return the cosine of the solar zenith angle ``[batch, *place]``: 1 overhead, negative at night.

    Parameters
    ----------
    time : seconds since 1970, UTC
    lat, lon : radians
    """
    dtype = lat.dtype
    shape = (-1, *([1] * lat.ndim))
    year = (torch.remainder(time, int(YEAR)).to(dtype) * (2.0 * math.pi / YEAR)).reshape(shape)
    day = (torch.remainder(time, int(DAY)).to(dtype) * (2.0 * math.pi / DAY)).reshape(shape)
    declination = (
        0.006918 - 0.399912 * year.cos() + 0.070257 * year.sin()
        - 0.006758 * (2 * year).cos() + 0.000907 * (2 * year).sin()
    )  # fmt: skip
    equation = (
        0.000075 + 0.001868 * year.cos() - 0.032077 * year.sin()
        - 0.014615 * (2 * year).cos() - 0.040849 * (2 * year).sin()
    )  # fmt: skip
    hour = day - math.pi + lon + equation
    return lat.sin() * declination.sin() + lat.cos() * declination.cos() * hour.cos()


class PlaceFeatures(nn.Module):
    """Features of fixed places ``[place, feature]``: position in the region, altitude, optionally terrain slope.

    Parameters
    ----------
    lat, lon : degrees
    alt : m
    slope : of the terrain, ``[place, 2]`` m/m eastwards and northwards; not a feature where None
    solar : add the cosine of the solar zenith angle as the last feature
    """

    fixed: Tensor
    lat: Tensor
    lon: Tensor

    def __init__(
        self,
        grid: GridSpec,
        lat: NDArray,
        lon: NDArray,
        alt: NDArray,
        slope: NDArray | None,
        solar: bool,
    ) -> None:
        super().__init__()
        row, column = grid.position(lat, lon)
        columns = [2.0 * row / (grid.height - 1) - 1.0, 2.0 * column / (grid.width - 1) - 1.0, alt / 1000.0]
        if slope is not None:
            # A rise of 1 % over a cell is already a mountain front.
            columns += [100.0 * slope[:, 0], 100.0 * slope[:, 1]]
        fixed = torch.stack([torch.as_tensor(c, dtype=torch.float32) for c in columns], dim=-1)
        self.register_buffer("fixed", fixed, persistent=False)
        self.register_buffer("lat", torch.as_tensor(lat, dtype=torch.float32).deg2rad(), persistent=False)
        self.register_buffer("lon", torch.as_tensor(lon, dtype=torch.float32).deg2rad(), persistent=False)
        self.solar = solar
        self.count = fixed.shape[-1] + int(solar)

    @property
    def position(self) -> Float[Tensor, "place 3"]:
        """Row and column in the region, -1 to 1, and altitude in km."""
        return self.fixed[:, :POSITION_FEATURES]

    def forward(self, time: Int64[Tensor, " *batch"]) -> Float[Tensor, "*batch place feature"]:
        """Return the features at times, the cosine of the solar zenith angle last."""
        fixed = self.fixed.expand(*time.shape, *self.fixed.shape)
        if not self.solar:
            return fixed
        sun = cos_zenith(time.reshape(-1), self.lat, self.lon).reshape(*time.shape, -1, 1)
        return torch.cat([fixed, sun], dim=-1)


class Conditions(nn.Module):
    """Condition fields on the grid: U_t at the issue time, B_t at the valid time with the lead."""

    def __init__(self, cells: PlaceFeatures, shape: tuple[int, int], horizon: int) -> None:
        super().__init__()
        self.cells = cells
        self.shape, self.horizon = shape, horizon
        self.history_count = cells.count + TIME_FEATURES
        self.step_count = self.history_count + 1

    def history(self, time: Int64[Tensor, " batch"]) -> Float[Tensor, "batch feature y x"]:
        """Return U_t: features of the cells, and the time of issue."""
        return self._joined(self._of(time))

    def step(self, valid_time: Int64[Tensor, " batch"], lead: int | Tensor) -> Float[Tensor, "batch feature y x"]:
        """Return B_t: features of the cells, the valid time, and the lead divided by the horizon."""
        parts = self._of(valid_time)
        ahead = (lead.to(parts[0].dtype) if isinstance(lead, Tensor) else lead) / self.horizon
        # A product, not a fill: in an exported program the lead is a tensor.
        return self._joined([*parts, torch.ones_like(parts[0][:, :1]) * ahead])

    def _of(self, time: Tensor) -> list[Float[Tensor, "batch feature cell"]]:
        cells = self.cells
        parts = [cells.fixed.T.expand(time.shape[0], -1, -1)]
        if cells.solar:
            parts.append(cos_zenith(time, cells.lat, cells.lon)[:, None])
        return [*parts, time_features(time, cells.fixed.dtype)[..., None].expand(-1, -1, len(cells.fixed))]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, dim=1).unflatten(-1, self.shape)
