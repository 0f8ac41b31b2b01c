"""Corrformer: all stations together in a tree, auto-correlation in time, cross-correlation with lags between stations.

Reference: Wu et al., "Interpretable weather forecasting for worldwide stations with a unified deep model", Nature
Machine Intelligence 5, 2023.

What differs from the original: any number of stations, in a tree whose empty places are masked, on any device (public
code needs a GPU and a product of the levels that equals the number of stations); shifts are products of Fourier
transforms; the convolution along sorted nodes has no weight normalisation; width 64 and a hidden layer of 128 (256 and
512 for GPUs), with which a hundred stations are trained on a processor in minutes; the moving average is half a window
(25 steps of 48); hour and season are sines and cosines; instance normalisation is a switch that validation decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fields.windows import Stations, day_fraction, year_fraction
from stationpde.baselines.correlation import TreeCorrelation
from stationpde.baselines.per_station import AllStations, NetworkLearner
from stationpde.baselines.registry import Baseline
from stationpde.baselines.station_tree import StationTree
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BASELINE", "Corrformer"]

_CLOCK = 4


class _Trend(nn.Module):
    """A series less its moving average, and that average; the first and last values are repeated beyond the ends."""

    matrix: Tensor

    def __init__(self, steps: int, span: int) -> None:
        super().__init__()
        matrix = torch.zeros(steps, steps)
        for step in range(steps):
            for near in range(step - span // 2, step + span // 2 + 1):
                matrix[step, min(max(near, 0), steps - 1)] += 1.0 / span
        self.register_buffer("matrix", matrix, persistent=False)

    def forward(self, series: Float[Tensor, "*rows time width"]) -> tuple[Tensor, Tensor]:
        trend = self.matrix @ series
        return series - trend, trend


class _Forward(nn.Module):
    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Tensor) -> Tensor:
        return self.dropout(self.out(self.dropout(F.gelu(self.into(values)))))


class _Seasonal(nn.Module):
    """Layer normalisation without the mean over time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, series: Float[Tensor, "*rows time width"]) -> Float[Tensor, "*rows time width"]:
        normed: Tensor = self.norm(series)
        return normed - normed.mean(dim=-2, keepdim=True)


class _Embedding(nn.Module):
    """Values with their neighbours in time, the clock, and the place."""

    def __init__(self, channels: int, width: int, dropout: float) -> None:
        super().__init__()
        self.values = nn.Conv1d(channels, width, 3, padding=1, padding_mode="circular", bias=False)
        self.clock, self.place = nn.Linear(_CLOCK, width, bias=False), nn.Linear(3, width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        series: Float[Tensor, "batch leaf time channel"],
        clock: Float[Tensor, "batch time clock"],
        places: Float[Tensor, "leaf 3"],
    ) -> Float[Tensor, "batch leaf time width"]:
        values = self.values(series.flatten(0, 1).transpose(1, 2)).transpose(1, 2).unflatten(0, series.shape[:2])
        embedded: Tensor = self.dropout(values + self.clock(clock)[:, None] + self.place(places)[:, None])
        return embedded


class Corrformer(nn.Module):
    """Two encoder layers and a decoder layer over a tree of stations.

    Parameters
    ----------
    stations : positions, from which the tree and the embedding of places follow
    tree : a tree in place of the one that `StationTree.of` builds
    """

    leaf: Tensor
    there: Tensor
    places: Tensor

    def __init__(
        self, stations: Stations, history: int, horizon: int, channels: int, step_seconds: int, *, width: int = 64,
        heads: int = 8, hidden: int = 128, layers: int = 2, dropout: float = 0.05, tree: StationTree | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        tree = tree or StationTree.of(stations)
        self.horizon, self.overlap, self.step_seconds = horizon, max(1, history // 2), step_seconds
        after, span = self.overlap + horizon, history // 2 | 1
        where = np.stack([stations.lat, stations.lon, stations.alt], axis=-1)
        where = (where - where.mean(axis=0)) / np.maximum(where.std(axis=0), 1e-6)
        at_leaf = np.where(tree.places[:, None] >= 0, where[tree.places], 0.0)
        self.register_buffer("leaf", torch.as_tensor(tree.leaf_of))
        self.register_buffer("there", torch.as_tensor(tree.places >= 0).float())
        self.register_buffer("places", torch.as_tensor(at_leaf, dtype=torch.float32))
        self.split_window = _Trend(history, span)
        self.embed_past, self.embed_season = (_Embedding(channels, width, dropout) for _ in range(2))
        sizes = (width, heads)
        self.encoder = nn.ModuleList(TreeCorrelation(*sizes, history, tree.levels, dropout) for _ in range(layers))
        self.encoder_forward = nn.ModuleList(_Forward(width, hidden, dropout) for _ in range(layers))
        self.encoder_trend, self.encoder_norm = _Trend(history, span), _Seasonal(width)
        self.hear_self, self.hear_past = (TreeCorrelation(*sizes, after, tree.levels, dropout) for _ in range(2))
        self.decoder_forward = _Forward(width, hidden, dropout)
        self.decoder_trend, self.decoder_norm = _Trend(after, span), _Seasonal(width)
        self.to_trend = nn.Conv1d(width, channels, 3, padding=1, padding_mode="circular", bias=False)
        self.to_season = nn.Linear(width, channels)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch lead station channel"]:
        """Map normalised histories and issue times to normalised forecasts."""
        series = self._on_tree(history)
        season, trend = self.split_window(series)
        ahead = series.new_zeros(*series.shape[:2], self.horizon, series.shape[3])
        start = series.shape[2] - self.overlap
        season = torch.cat([season[:, :, start:], ahead], dim=2)
        trend = torch.cat([trend[:, :, start:], ahead + series.mean(dim=2, keepdim=True)], dim=2)
        past = self._encoded(self.embed_past(series, self._clock(time, 1 - series.shape[2], 1), self.places))
        clock = self._clock(time, 1 - self.overlap, 1 + self.horizon)
        season, added = self._decoded(self.embed_season(season, clock, self.places), past)
        forecast = (season + trend + added)[:, :, self.overlap :]
        return forecast.index_select(1, self.leaf).transpose(1, 2)

    def _on_tree(self, history: Tensor) -> Float[Tensor, "batch leaf history channel"]:
        # A product with ones and zeros: deterministic on every device, and empty leaves are zero.
        leaves = torch.arange(self.there.numel(), device=history.device)
        selection = (leaves[:, None] == self.leaf[None]).to(history.dtype)
        return torch.einsum("bhsc,ls->blhc", history, selection)

    def _clock(self, time: Tensor, first: int, stop: int) -> Float[Tensor, "batch time clock"]:
        steps = torch.arange(first, stop, device=time.device) * self.step_seconds
        when = time[:, None] + steps
        angles = [2 * torch.pi * part(when) for part in (day_fraction, year_fraction)]
        waves = [wave(angle) for angle in angles for wave in (torch.sin, torch.cos)]
        return torch.stack(waves, dim=-1).to(self.places.dtype)

    def _encoded(self, series: Tensor) -> Float[Tensor, "batch leaf history width"]:
        for correlation, forward in zip(self.encoder, self.encoder_forward):
            series, _ = self.encoder_trend(series + correlation(series, series, self.there))
            series, _ = self.encoder_trend(series + forward(series))
        normed: Tensor = self.encoder_norm(series)
        return normed

    def _decoded(self, series: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Return the season and the increment of the trend."""
        series, first = self.decoder_trend(series + self.hear_self(series, series, self.there))
        series, second = self.decoder_trend(series + self.hear_past(series, past, self.there))
        series, third = self.decoder_trend(series + self.decoder_forward(series))
        rows = (first + second + third).flatten(0, 1).transpose(1, 2)
        added = self.to_trend(rows).transpose(1, 2).unflatten(0, series.shape[:2])
        return self.to_season(self.decoder_norm(series)), added


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    series = source.series
    sizes = (config.data.history, config.data.horizon, len(series.variables), series.step_seconds)
    network = AllStations(Corrformer(series.stations, *sizes), instance_norm)
    return NetworkLearner(config, source, network, about="Corrformer")


BASELINE = Baseline(
    name="corrformer",
    title="Corrformer",
    reference="Wu et al. (2023)",
    kind="trained",
    make=_make,
    rates=(3e-4, 1e-3),
    train={"batch": 4, "epochs": 2, "patience": 2, "validate_windows": 127},
    switches={"instance_norm": (False, True)},
)
