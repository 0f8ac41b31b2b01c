r"""WeatherGFT on a surface: blocks in which attention and steps of the equations run side by side.

The lifted history is encoded by convolutions, :math:`z`. Each hybrid block attends to it within windows of the grid,
advances the physical state by three kernels of the surface equations, and mixes both with a learned r of each channel,

.. math:: z' = z + \mathrm{MLP}\bigl((\tfrac12 + r) \circ \mathrm{attention}(z)
               + (\tfrac12 - r) \circ \mathrm{embed}(X')\bigr), \qquad
          X' = X + \gamma \circ \mathrm{Scale}(300\,\mathrm{s}\; \mathcal F(X);\, X) \quad \text{three times}

and the forecast of a lead is read from :math:`z` at the stations.

Reference: Xu et al., "Generalizing weather forecast to fine-grained temporal scales via physics-AI hybrid modeling",
NeurIPS 2024.

A surface adaptation: the original evolves global fields on 13 pressure levels, whose vertical equations a surface
network cannot step. Here the equations are those of `stationpde.physics.equations` about the climatology, on the grid
of the configuration, through its lift and readout. Two hybrid blocks make a forecast interval, of whatever length, and
all intervals share them: under range scaling the time step cancels, and the number of kernels says how far physics
moves the field.

What differs otherwise: an increment is scaled to 5 % of the range of its field, by sample, its sign and zero kept, with
a gradient (rule ``range``). The published map is affine over the whole batch and detached: a forecast then depends on
the windows beside it, and a uniform tendency gives NaN; the option ``published_range_scaling`` has it (rule
``weathergft``). The state is kept within eight spreads of the climatology. Every second block shifts its windows. Width
32 for a processor; memory follows the cells of the grid, not the number of stations. The schedule of the learning rate
is that of all peers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fields.grid import Elevation
from stationpde.baselines.inputs import StationInputs
from stationpde.baselines.per_station import AllStations, NetworkLearner
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.model import PDEBranch, Region, Sites, StateStatistics
from stationpde.physics import STATE, TIME_FEATURES, time_features, to_observed, to_state

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BASELINE", "HybridBlock", "WeatherGFT", "WindowAttention", "mixed"]

_WIDTH, _HEADS, _WINDOW, _BLOCKS, _KERNELS, _KERNEL_SECONDS = 32, 4, 8, 2, 3, 300.0
# Departures from the climatology beyond so many spreads are cut: range scaling alone may multiply a field.
_MOST_SPREADS = 8.0
# Cells × leads of the windows that pass through at once: some 300 MB of activations.
_CELLS_AT_ONCE = 65536


def mixed(ai: Tensor, pde: Tensor, r: Float[Tensor, " channel"]) -> Tensor:
    """Mix what attention and equations say: (½ + r)·AI + (½ − r)·PDE, channels last."""
    return (0.5 + r) * ai + (0.5 - r) * pde


class WindowAttention(nn.Module):
    """Attention among the cells of square windows, which begin ``offset`` cells before the grid does."""

    def __init__(self, width: int, offset: int) -> None:
        super().__init__()
        self.offset = offset
        self.norm, self.into, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, cells: Float[Tensor, "batch y x width"]) -> Float[Tensor, "batch y x width"]:
        """Return the attention of each cell to those of its window; cells beyond the grid are masked."""
        rows, columns = cells.shape[1:3]
        pad = [part for n in (columns, rows) for part in (self.offset, -(n + self.offset) % _WINDOW)]
        three = F.pad(self.into(self.norm(cells)), (0, 0, *pad))
        there = F.pad(torch.ones_like(cells[:1, :, :, :1]), (0, 0, *pad))
        query, key, value = (self._windows(part).unflatten(-1, (_HEADS, -1)) for part in three.chunk(3, dim=-1))
        mask = self._windows(there)[:, :, None, None, :, 0] > 0  # [1, window, 1, 1, cell]
        query, key, value = (part.transpose(2, 3) for part in (query, key, value))
        heard = F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(2, 3).flatten(3)
        whole = self._whole(heard, three.shape[1] // _WINDOW)
        attended: Tensor = self.out(whole[:, self.offset :, self.offset :][:, :rows, :columns])
        return attended

    @staticmethod
    def _windows(cells: Float[Tensor, "batch y x width"]) -> Float[Tensor, "batch window cell width"]:
        parts = cells.unflatten(2, (-1, _WINDOW)).unflatten(1, (-1, _WINDOW)).transpose(2, 3)
        return parts.flatten(3, 4).flatten(1, 2)

    @staticmethod
    def _whole(windows: Float[Tensor, "batch window cell width"], down: int) -> Float[Tensor, "batch y x width"]:
        parts = windows.unflatten(1, (down, -1)).unflatten(3, (_WINDOW, _WINDOW)).transpose(2, 3)
        return parts.flatten(3, 4).flatten(1, 2)


class HybridBlock(nn.Module):
    """One block: attention beside three kernels of the equations, mixed by channel, and a perceptron."""

    def __init__(self, branch: PDEBranch, width: int, offset: int) -> None:
        super().__init__()
        self.branch = [branch]  # shared by all blocks: a parameter of the network, not of each
        self.attention, self.embed = WindowAttention(width, offset), nn.Linear(len(STATE), width)
        self.r = nn.Parameter(torch.zeros(width))
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def advanced(
        self, state: Float[Tensor, "batch field y x"], base: Float[Tensor, "batch field y x"], spread: Tensor
    ) -> Float[Tensor, "batch field y x"]:
        """Advance the departures from the climatology by three kernels, SI."""
        branch = self.branch[0]
        forcing = branch.forcing(state, base, state[:, :0], nn.Identity())  # type: ignore[arg-type]
        for _ in range(_KERNELS):
            state = branch.substep(state, forcing, nn.Identity())  # type: ignore[arg-type]
        most = _MOST_SPREADS * spread
        return torch.minimum(torch.maximum(state, -most), most)

    def forward(
        self, latent: Float[Tensor, "batch y x width"], state: Tensor, base: Tensor, spread: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the latent field and the state after the block."""
        state = self.advanced(state, base, spread)
        physical = self.embed((state / spread).movedim(1, -1))
        return latent + self.mlp(mixed(self.attention(latent), physical, self.r)), state


class WeatherGFT(nn.Module):
    """Lift, encoder, hybrid blocks and readout.

    Parameters
    ----------
    config : grid and lift; the equations are those about the climatology, without closures
    source : stations, and the record whose training split gives climatology and scales
    published_range_scaling : scale increments over the batch, unguarded and detached, as published
    """

    spread: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, config: Config, source: WindowSource, published_range_scaling: bool = False) -> None:
        super().__init__()
        series, settings = source.series, _settings(config, published_range_scaling)
        self.horizon, self.step_seconds = config.data.horizon, series.step_seconds
        statistics = StateStatistics.of(series, source.windows.split, settings)
        elevation = None if settings.grid.dem is None else Elevation.open(settings.grid.dem)
        region = Region.around(series.stations, settings, elevation)
        self.shape = region.grid.shape
        self.sites = Sites(series.stations, region, statistics, settings)
        self.cells, self.places = region.cell_base(statistics, settings), region.cell_features(settings)
        inputs = StationInputs.of(source)
        spread = torch.as_tensor(statistics.anomaly_std, dtype=torch.float32)[:, None, None]
        for name, values in {"spread": spread, "mean": inputs.mean, "std": inputs.std}.items():
            self.register_buffer(name, values.clone(), persistent=False)
        self.branch = PDEBranch(settings, region.pde_grid, 0)
        fields = config.data.history * len(STATE) + self.places.position.shape[1]
        self.encoder = nn.Sequential(
            nn.Conv2d(fields, _WIDTH, 3, padding=1, padding_mode="replicate"), nn.GELU(),
            nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1, padding_mode="replicate"),
        )  # fmt: skip
        self.clock = nn.Linear(TIME_FEATURES, _WIDTH)
        self.blocks = nn.ModuleList(
            HybridBlock(self.branch, _WIDTH, (number % 2) * (_WINDOW // 2)) for number in range(_BLOCKS)
        )
        self.decoder = nn.Sequential(nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, len(STATE)))

    @property
    def windows_at_once(self) -> int:
        """Windows that pass through in one round."""
        return max(1, _CELLS_AT_ONCE // (self.shape[0] * self.shape[1] * self.horizon))

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch lead station channel"]:
        """Map normalised histories without gaps and issue times to normalised forecasts."""
        fields = self._lifted(history * self.std + self.mean, time)
        scaled = (fields / self.spread).flatten(1, 2)
        places = self.places.position.T.unflatten(1, self.shape).expand(len(history), -1, -1, -1)
        latent = self.encoder(torch.cat([scaled, places], dim=1)).movedim(1, -1)
        state, forecast = fields[:, -1], []
        for lead in range(1, self.horizon + 1):
            begin, end = time + (lead - 1) * self.step_seconds, time + lead * self.step_seconds
            base = self.cells.on_grid(begin, state.shape)
            latent = latent + self.clock(time_features(end, latent.dtype))[:, None, None]
            for block in self.blocks:
                latent, state = block(latent, state, base, self.spread)
            departure = self.sites.read(self.decoder(latent).movedim(-1, 1)) * self.sites.scale
            forecast.append(to_observed(self.sites.base(end) + departure))
        return (torch.stack(forecast, dim=1) - self.mean) / self.std

    def _lifted(self, observed: Tensor, time: Tensor) -> Float[Tensor, "batch history field y x"]:
        """Return the lifted history as departures from the climatology, SI."""
        steps = observed.shape[1]
        times = time[:, None] + torch.arange(1 - steps, 1, device=time.device) * self.step_seconds
        state = to_state(observed, self.sites.pressure) - self.sites.base(times)
        fields = self.sites.lifted(observed, state)[0]
        return fields - self.cells.on_grid(times, fields.shape) if self.sites.detrends else fields


def _settings(config: Config, published: bool) -> Config:
    """Return the configuration of the equations: about the climatology, without closures, a kernel of 300 s."""
    step = float(config.data.step_seconds)
    return config.with_overrides([
        "model.state=anomaly", "model.closure=false", "model.guide=none", "model.inputs=[]", "pde.terms=[]",
        "pde.advection=advection_upwind1",
        f"pde.rule={'weathergft' if published else 'range'}",
        f"pde.dt={_KERNEL_SECONDS if step % _KERNEL_SECONDS == 0 else step!r}",
    ])  # fmt: skip


def _make(config: Config, source: WindowSource, published_range_scaling: bool = False) -> NetworkLearner:
    network = WeatherGFT(config, source, published_range_scaling)
    rows = network.windows_at_once * len(source.series.stations)
    return NetworkLearner(
        config, source, AllStations(network, rows=rows), kind="l1", about="WeatherGFT (surface adaptation)"
    )


BASELINE = Baseline(
    name="weathergft",
    title="WeatherGFT (surface adaptation)",
    reference="Xu et al. (2024)",
    kind="trained",
    make=_make,
    rates=(5e-4, 2e-3),
    train={"batch": 8, "epochs": 10, "patience": 4, "validate_windows": 127},
    switches={"published_range_scaling": (False,)},
    reads=("grid", "lift", "pde"),
)
