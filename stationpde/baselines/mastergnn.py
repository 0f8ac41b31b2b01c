r"""MasterGNN+: attention over two graphs of stations, recurrent networks, and three critics that train them.

A station attends to its neighbours j by distance and by likeness of environment,

.. math:: \alpha_{ij} = \operatorname{softmax}_j \mathrm{LeakyReLU}_{0.2}\bigl(
          a^\top [W x_i \,\|\, c_i \,\|\, W x_j \,\|\, c_j \,\|\, d_{ij}]\bigr), \qquad
          h_i = \sum_j \alpha_{ij} W x_j

with c its context: a learned embedding and the place. A recurrence runs over the history; another, on embeddings of
month, weekday and hour, gives the forecast. Three critics tell forecasts from what was observed: of the network as a
whole, of each station over time, and of each time over the stations. With :math:`\varphi` and :math:`\varphi'` the
means of the last layer of a critic over what was observed and over forecasts,

.. math:: L = \mathrm{MSE} + \sum_k w_k\, \mathrm{BCE}_k, \qquad
          w = \operatorname{softmax}_k \|\varphi_k - \varphi'_k\|^2

Reference: Han et al., "Kill two birds with one stone: a multi-view multi-adversarial learning approach for joint air
quality and weather prediction", IEEE Transactions on Knowledge and Data Engineering 2023, as described with its code.

What differs from the original: the gradient of the critics reaches the forecast, turned round (Ganin and Lempitsky
2015), so that one optimiser minimises for the critics and maximises for the forecast. Public code detaches the forecast
before the critics, which then train nothing but themselves; the option ``published_detached_forecast`` has it. Stations
alone, without a second network of another kind; their environment is altitude and the mean and spread of each variable
in training. The recurrence is plain: ours is a choice, where the paper's evolved one is not described. Where a target
is missing, critics see the forecast in its place. Ten neighbours in each graph: memory grows with 22 N for N stations,
and critics see at most 4,096 rows (windows × stations) of a step. The macro critic has a dense map of N × 160 numbers.
The parameters that a table counts include the critics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fields.windows import Batch, Stations, month_of
from stationpde.baselines.gated_cell import GatedCell
from stationpde.baselines.inputs import StationInputs, valid_times
from stationpde.baselines.per_station import ROWS, AllStations, NetworkLearner, NetworkLosses, masked_mean
from stationpde.baselines.registry import Baseline
from stationpde.baselines.station_graph import StationGraph, place_features
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.model import Reducer
from stationpde.training import decayed_groups

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BASELINE", "Calendar", "Critics", "MasterGNN", "MasterGNNLearner", "ViewAttention", "turned_round"]

_NEIGHBOURS, _WIDTH, _EMBEDDING, _LEAK = 10, 32, 2, 0.2
# Rate of the critics, in parts of that of the forecast: 3e-4 to 1e-4 as published.
_CRITICS_RATE = 3.0
_DAY = 86400
_CALENDAR = (12, 7, 24)
_THURSDAY = 3  # 1970-01-01, counted from Monday


class _TurnedRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def turned_round(values: Tensor) -> Tensor:
    """Return the values; their gradient has the other sign."""
    turned: Tensor = _TurnedRound.apply(values)
    return turned


class Calendar(nn.Module):
    """Embeddings of month, weekday and hour, two numbers each."""

    width = _EMBEDDING * len(_CALENDAR)

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, _EMBEDDING) for count in _CALENDAR)

    @staticmethod
    def numbers(time: Int64[Tensor, " *shape"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return month from 0, weekday from Monday and hour, UTC."""
        return month_of(time) - 1, (time // _DAY + _THURSDAY) % 7, time % _DAY // 3600

    def forward(self, time: Int64[Tensor, " *shape"]) -> Float[Tensor, "*shape 6"]:
        """Embed times, seconds since 1970."""
        return torch.cat([table(part) for table, part in zip(self.tables, self.numbers(time))], dim=-1)


class ViewAttention(nn.Module):
    """Attention of each station to its sources in one graph; the length of edges is in parts of its mean."""

    length: Tensor

    def __init__(self, graph: StationGraph, inputs: int, context: int) -> None:
        super().__init__()
        self.graph = graph
        scale = graph.distance.mean().clamp(min=1e-6)
        self.register_buffer("length", graph.distance / scale, persistent=False)
        self.into = nn.Linear(inputs, _WIDTH, bias=False)
        self.at, self.of = nn.Linear(_WIDTH + context, 1, bias=False), nn.Linear(_WIDTH + context, 1, bias=False)
        self.of_length = nn.Parameter(torch.zeros(1))

    def weights(self, projected: Tensor, context: Tensor) -> Float[Tensor, "rows station edge"]:
        """Return the attention α from Wx and c."""
        both = torch.cat([projected, context.expand(*projected.shape[:2], -1)], dim=-1)
        # aᵀ of what is joined is a sum of its parts: the part of the source is computed once for each station.
        score = self.at(both) + self.graph.gathered(self.of(both))[..., 0] + self.of_length * self.length
        return F.leaky_relu(score, _LEAK).softmax(dim=-1)

    def forward(
        self, values: Float[Tensor, "rows station input"], context: Float[Tensor, "station context"]
    ) -> Float[Tensor, "rows station width"]:
        """Return the weighted sum over the sources."""
        projected = self.into(values)
        return torch.einsum("rne,rnew->rnw", self.weights(projected, context), self.graph.gathered(projected))


class MasterGNN(nn.Module):
    """Forecasts from the histories of all stations.

    Parameters
    ----------
    stations, mean, std : places, and statistics ``[station, channel]`` of training, in which environments are compared
    """

    places: Tensor

    def __init__(
        self, stations: Stations, mean: Tensor, std: Tensor, history: int, horizon: int, step_seconds: int
    ) -> None:
        super().__init__()
        self.history, self.horizon, self.step_seconds = history, horizon, step_seconds
        channels = mean.shape[1]
        self.register_buffer("places", place_features(stations), persistent=False)
        self.station = nn.Embedding(len(stations), _EMBEDDING)
        self.calendar = Calendar()
        context, inputs = _EMBEDDING + self.places.shape[1], channels + Calendar.width
        graphs = (
            StationGraph.of_places(stations, _NEIGHBOURS),
            StationGraph.of_features(_environment(stations, mean, std), _NEIGHBOURS),
        )
        self.graphs = graphs
        self.views = nn.ModuleList(ViewAttention(graph, inputs, context) for graph in graphs)
        self.encoder = GatedCell(inputs + context + _WIDTH * len(graphs), _WIDTH)
        self.decoder = GatedCell(Calendar.width + context, _WIDTH)
        self.out = nn.Linear(_WIDTH, channels)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch lead station channel"]:
        """Map normalised histories and issue times to normalised forecasts."""
        batch, steps, stations, _ = history.shape
        context = torch.cat([self.station.weight, self.places], dim=-1)
        past = self.calendar(self._past(time))[:, :, None].expand(-1, -1, stations, -1)
        seen = torch.cat([history, past], dim=-1)
        rows = seen.flatten(0, 1)
        around = [view(rows, context).unflatten(0, (batch, steps)) for view in self.views]
        series = torch.cat([seen, *around, context.expand(batch, steps, -1, -1)], dim=-1).transpose(1, 2).flatten(0, 1)
        hidden = self.encoder.over(series, series.new_zeros(len(series), _WIDTH)).unflatten(0, (batch, stations))
        ahead = self.calendar(valid_times(time, self.horizon, self.step_seconds))
        forecast = []
        for clock in ahead.unbind(dim=1):
            seen_ahead = [clock[:, None].expand(-1, stations, -1), context.expand(batch, -1, -1)]
            hidden = self.decoder(torch.cat(seen_ahead, dim=-1), hidden)
            forecast.append(self.out(hidden))
        return torch.stack(forecast, dim=1)

    def _past(self, time: Int64[Tensor, " batch"]) -> Int64[Tensor, "batch history"]:
        back = torch.arange(1 - self.history, 1, device=time.device) * self.step_seconds
        return time[:, None] + back


class Critics(nn.Module):
    """Three critics of ``[window, lead, station, channel]``: last layers φ ``[row, width]`` and their verdicts.

    Macro: a recurrence over the leads of all stations together. Temporal: a perceptron of all leads of a station.
    Spatial: attention to neighbours at a lead, averaged over the stations.
    """

    def __init__(self, network: MasterGNN, channels: int) -> None:
        super().__init__()
        stations = len(network.places)
        self.whole, self.course = nn.Linear(stations * channels, _WIDTH), GatedCell(_WIDTH, _WIDTH)
        self.temporal = nn.Sequential(
            nn.Linear(network.horizon * channels, _WIDTH), nn.LeakyReLU(_LEAK), nn.Linear(_WIDTH, _WIDTH), nn.Tanh()
        )
        self.spatial = ViewAttention(network.graphs[0], channels, 3)
        self.verdicts = nn.ModuleList(nn.Linear(_WIDTH, 1) for _ in range(3))

    def features(self, values: Float[Tensor, "window lead station channel"], places: Tensor) -> list[Tensor]:
        """Return φ of the three critics."""
        whole = torch.tanh(self.whole(values.flatten(2)))
        return [
            self.course.over(whole, whole.new_zeros(len(whole), _WIDTH)),
            self.temporal(values.permute(0, 2, 1, 3).flatten(0, 1).flatten(1)),
            torch.tanh(self.spatial(values.flatten(0, 1), places)).mean(dim=1),
        ]

    def term(self, real: Tensor, forecast: Tensor, places: Tensor, reducer: Reducer) -> Tensor:
        """Return Σ w_k BCE_k of what was observed (1) against the forecast (0)."""
        sums, distances = [], []
        for verdict, one, other in zip(self.verdicts, self.features(real, places), self.features(forecast, places)):
            yes, no = verdict(one), verdict(other)
            entropy = F.softplus(-yes).sum() + F.softplus(no).sum()
            count = entropy.new_tensor(float(len(one)))
            sums.append(reducer.sum(torch.stack([entropy, 2.0 * count])))
            away = reducer.sum(torch.cat([(one - other).detach().sum(dim=0), count[None]]))
            distances.append((away[:-1] / away[-1]).square().sum())
        weights = torch.stack(distances).softmax(dim=0)
        return sum(weight * total / count for weight, (total, count) in zip(weights, sums))


class _Opposed(AllStations):
    """The forecast and its critics as one module, so that a checkpoint holds both."""

    network: MasterGNN

    def __init__(self, network: MasterGNN, channels: int) -> None:
        super().__init__(network)
        self.critics = Critics(network, channels)


class MasterGNNLearner(NetworkLearner):
    """Adds the term of the critics to the error while training.

    Parameters
    ----------
    published_detached_forecast : keep the gradient of the critics from the forecast, as public code does
    """

    def __init__(
        self, config: Config, source: WindowSource, network: MasterGNN, published_detached_forecast: bool = False
    ) -> None:
        self.opposed = _Opposed(network, len(source.series.variables))
        self.detached = published_detached_forecast
        super().__init__(config, source, self.opposed, about="MasterGNN+")

    def losses(self, batch: Batch, reducer: Reducer) -> NetworkLosses:
        """Compute the loss of (this rank's part of) a batch."""
        forecast, _ = self.forecast(batch)
        target = self.inputs.scaled(batch.future)
        weights = torch.tensor(self.weights, dtype=forecast.dtype, device=forecast.device)
        error = masked_mean(forecast, target, weights, self.kind, reducer)
        if not self.module.training or forecast.shape[1] < self.config.data.horizon:
            return NetworkLosses(error, error.detach(), torch.zeros_like(error))
        penalty = self.adversarial(forecast, target, reducer)
        return NetworkLosses(error + penalty, error.detach(), penalty.detach())

    def adversarial(self, forecast: Tensor, target: Tensor, reducer: Reducer) -> Tensor:
        """Return the term of the critics for a normalised forecast and its target, NaN where none was observed."""
        windows = max(1, ROWS // forecast.shape[2])
        forecast, target = forecast[:windows], target[:windows]
        real = torch.where(torch.isfinite(target), target, forecast.detach())
        opposed = forecast.detach() if self.detached else turned_round(forecast)
        return self.opposed.critics.term(real, opposed, self.opposed.network.places, reducer)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return parameter groups; critics learn three times as fast."""
        critics = decayed_groups(self.opposed.critics, weight_decay)
        return [
            *decayed_groups(self.opposed.network, weight_decay),
            *({**group, "lr_scale": _CRITICS_RATE} for group in critics),
        ]


def _environment(stations: Stations, mean: Tensor, std: Tensor) -> np.ndarray[Any, Any]:
    """Return altitude, and mean and spread of each variable, in spreads over the network."""
    features = np.concatenate([np.asarray(stations.alt, float)[:, None], mean.numpy(), std.numpy()], axis=1)
    spread = features.std(axis=0)
    return (features - features.mean(axis=0)) / np.where(spread > 1e-6, spread, 1.0)


def _make(config: Config, source: WindowSource, published_detached_forecast: bool = False) -> MasterGNNLearner:
    series, inputs = source.series, StationInputs.of(source)
    sizes = (config.data.history, config.data.horizon, series.step_seconds)
    network = MasterGNN(series.stations, inputs.mean, inputs.std, *sizes)
    return MasterGNNLearner(config, source, network, published_detached_forecast)


BASELINE = Baseline(
    name="mastergnn",
    title="MasterGNN+",
    reference="Han et al. (2023)",
    kind="trained",
    make=_make,
    rates=(1e-3, 3e-3),
    train={"batch": 32, "epochs": 40, "patience": 8, "validate_windows": 127},
    switches={"published_detached_forecast": (False,)},
)
