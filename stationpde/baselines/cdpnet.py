r"""CDPNet: stations lifted to a field that a learned motion carries on, one variable at a time.

With :math:`x` the stations' values on the grid (inverse distance), :math:`\tilde x` the same by a learned dense map,
and :math:`h'` the field of the step before,

.. math:: c = \tanh(w_x \tilde x + w_h h' + b), \quad h = \mathrm{LN}\bigl(x + K (c - x)\bigr), \quad
          h'_{+} = h + \alpha\,(W_D h + I - h)

where the gate :math:`K` and the motion :math:`|D| \le 1` cell are convolutions, :math:`W_D` is a bilinear warp,
:math:`I` a learned intensity and :math:`\alpha` follows what the direct forecast says of the next step. A learned
dense map reads the stations. The direct forecast, a small network of each station's own history, is trained alone in
the first epoch.

Reference: Xu et al., "CDPNet" (2025), as described with its public code.

What differs from the original: any grid shape (public code exchanges height and width); a station on a grid point has
a finite weight; the direct forecast sees hour and season of the issue once instead of at every step; the first epoch
is at most a quarter of the training, and the count of steps is part of a checkpoint; histories are without gaps and the
loss leaves out what was not observed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.windows import Batch, Stations, day_fraction, year_fraction
from stationpde.baselines.per_station import NetworkLearner, NetworkLosses, masked_mean
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.model import Reducer, warp_field
from stationpde.training import Plan

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BASELINE", "CDPNet", "inverse_distance"]

_NEIGHBOURS, _FEATURES, _BLOCKS, _DROPOUT = 10, 32, 3, 0.15
# Degrees: nearer than a metre is the same place.
_NEAREST = 1e-5
# Degrees on each side of a network without extent.
_LEAST_SIDE = 0.5
_CLOCK = 4


def inverse_distance(stations: Stations, shape: tuple[int, int]) -> Float[Tensor, "cell station"]:
    """Compute weights 1/d, d in degrees, of the nearest stations at each point of a grid; rows add up to 1."""
    axes = [_axis(place, count) for place, count in zip((stations.lat, stations.lon), shape)]
    lat, lon = (part.reshape(-1, 1) for part in np.meshgrid(*axes, indexing="ij"))
    distance = np.hypot(lat - stations.lat, lon - stations.lon)
    near = np.argsort(distance, axis=1, kind="stable")[:, :_NEIGHBOURS]
    weights = np.zeros_like(distance)
    np.put_along_axis(weights, near, 1.0 / np.maximum(np.take_along_axis(distance, near, 1), _NEAREST), 1)
    return torch.as_tensor(weights / weights.sum(axis=1, keepdims=True), dtype=torch.float32)


def _axis(place: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    low, high = place.min(), place.max()
    widen = _LEAST_SIDE if high - low < _NEAREST else 0.0
    return np.linspace(low - widen, high + widen, count)


class _Direct(nn.Module):
    """Network that forecasts a station from its history, the hour, the season and the place."""

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__()
        self.embed = nn.Linear(history + _CLOCK + 3, _FEATURES)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(_FEATURES, _FEATURES), nn.ReLU(), nn.Dropout(_DROPOUT), nn.Linear(_FEATURES, _FEATURES)
            )
            for _ in range(_BLOCKS)
        )
        self.out = nn.Linear(_FEATURES, horizon)

    def forward(
        self, series: Float[Tensor, "rows history station"], clock: Float[Tensor, "rows clock"], places: Tensor
    ) -> Float[Tensor, "rows lead station"]:
        rows, _, stations = series.shape
        parts = [series.transpose(1, 2), clock[:, None].expand(rows, stations, -1), places.expand(rows, -1, -1)]
        hidden = self.embed(torch.cat(parts, dim=-1))
        for block in self.blocks:
            hidden = hidden + block(hidden)
        forecast: Tensor = self.out(hidden).transpose(1, 2)
        return forecast


class CDPNet(nn.Module):
    """The direct forecast and the evolution of the field.

    Parameters
    ----------
    shape : rows and columns of the grid
    """

    weights: Tensor
    places: Tensor

    def __init__(self, stations: Stations, history: int, horizon: int, shape: tuple[int, int]) -> None:
        super().__init__()
        self.shape, self.history, self.horizon = shape, history, horizon
        cells = shape[0] * shape[1]
        scales = np.array([90.0, 180.0, max(float(stations.alt.std()), 1.0)])
        where = np.stack([stations.lat, stations.lon, stations.alt - stations.alt.mean()], axis=-1) / scales
        self.register_buffer("weights", inverse_distance(stations, shape))
        self.register_buffer("places", torch.as_tensor(where, dtype=torch.float32))
        self.direct = _Direct(history, horizon)
        self.to_grid, self.to_stations = nn.Linear(len(stations), cells), nn.Linear(cells, len(stations))
        self.from_values, self.from_field, self.bias = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape))) for _ in range(3)
        )
        self.gate = nn.Conv2d(2, 1, 3, padding=1)
        self.norm = nn.LayerNorm(shape)
        self.motion = nn.Conv2d(1, 2, 5, padding=2)
        self.intensity = nn.Parameter(torch.ones(shape))
        self.increment = nn.Conv2d(1, 1, 1, bias=False)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Int64[Tensor, " batch"], direct_only: bool
    ) -> Float[Tensor, "batch step station channel"]:
        """Map normalised histories and issue times to the direct forecast, or to all steps but the first."""
        batch, _, _, channels = history.shape
        series = history.permute(0, 3, 1, 2).flatten(0, 1)
        clock = self._clock(time).repeat_interleave(channels, dim=0).to(series.dtype)
        direct = self.direct(series, clock, self.places)
        forecast = direct if direct_only else self._evolved(series, direct)
        return forecast.unflatten(0, (batch, channels)).permute(0, 2, 3, 1)

    def _evolved(self, series: Tensor, direct: Tensor) -> Float[Tensor, "rows step station"]:
        guided = self.to_grid(torch.cat([series, direct], dim=1)).unflatten(-1, self.shape)
        field = guided[:, :1]
        readings: list[Tensor] = []
        for step in range(1, self.history + self.horizon):
            # Within the history the stations are observed; beyond it, they are the last readings of the field.
            values = series[:, step - 1] if step <= self.history else readings[-1]
            field = self._step(values, guided[:, step - 1 : step], guided[:, step : step + 1], field)
            readings.append(self.to_stations(field.flatten(1)))
        return torch.stack(readings, dim=1)

    def _step(self, values: Tensor, here: Tensor, ahead: Tensor, field: Tensor) -> Float[Tensor, "rows 1 y x"]:
        lifted = (values @ self.weights.T).unflatten(-1, self.shape).unsqueeze(1)
        candidate = torch.tanh(self.from_values * here + self.from_field * field + self.bias)
        gate = torch.sigmoid(self.gate(torch.cat([lifted, candidate], dim=1)))
        now = self.norm(lifted + gate * (candidate - lifted))
        moved = warp_field(now, torch.tanh(self.motion(now))) + self.intensity
        return now + self.increment(ahead - now) * (moved - now)

    @staticmethod
    def _clock(time: Int64[Tensor, " batch"]) -> Float[Tensor, "batch clock"]:
        angles = [2 * torch.pi * part(time) for part in (day_fraction, year_fraction)]
        return torch.stack([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], dim=-1)


class _Counted(nn.Module):
    """The network and its count of training steps, so that a checkpoint tells whether the first epoch is over."""

    steps: Tensor

    def __init__(self, network: CDPNet) -> None:
        super().__init__()
        self.cdpnet = network
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))


class CDPNetLearner(NetworkLearner):
    """Trains the direct forecast alone at first, then the whole network on every step, by the absolute error."""

    def __init__(self, config: Config, source: WindowSource, network: CDPNet) -> None:
        self.counted = _Counted(network)
        super().__init__(config, source, self.counted, kind="l1", about="CDPNet")
        plan = Plan.of(source, config.train)
        self.first = min(plan.end_of(0), plan.total // 4)

    @property
    def is_direct_only(self) -> bool:
        """Whether only the direct forecast is trained and used so far."""
        return int(self.counted.steps) <= self.first

    def to_last_stage(self) -> None:
        """Skip to the stage after the direct forecast is trained."""
        self.counted.steps.fill_(self.first + 1)

    def forecast(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the normalised forecast."""
        leads = self.leads(batch)
        steps = self.counted.cdpnet(self.history(batch), batch.issue_time, self.is_direct_only)
        return steps[:, steps.shape[1] - self.config.data.horizon :][:, :leads], None

    def losses(self, batch: Batch, reducer: Reducer) -> NetworkLosses:
        """Compute the loss of (this rank's part of) a batch; count the step when training."""
        if self.counted.training:
            self.counted.steps += 1
        if self.is_direct_only:
            return super().losses(batch, reducer)
        forecast = self.counted.cdpnet(self.history(batch), batch.issue_time, False)
        target = self.inputs.scaled(torch.cat([batch.history[:, 1:], batch.future], dim=1))
        forecast = forecast[:, : target.shape[1]]
        weights = torch.tensor(self.weights, dtype=forecast.dtype, device=forecast.device)
        error = masked_mean(forecast, target, weights, self.kind, reducer)
        return NetworkLosses(error, error.detach(), torch.zeros_like(error))


def _make(config: Config, source: WindowSource) -> CDPNetLearner:
    grid = config.grid
    shape = (grid.height, grid.width if isinstance(grid.width, int) else grid.height)
    return CDPNetLearner(
        config, source, CDPNet(source.series.stations, config.data.history, config.data.horizon, shape)
    )


BASELINE = Baseline(
    name="cdpnet",
    title="CDPNet",
    reference="Xu et al. (2025)",
    kind="trained",
    make=_make,
    rates=(1e-3, 3e-3),
    train={"batch": 32, "epochs": 40, "patience": 8},
)
