r"""DGFormer: a graph of stations learned from each window and weighted by physics, messages along it, and a recurrence.

With :math:`x_i` the window of a station and :math:`w_v` four learned weightings, the edge from j to i has

.. math:: A_{ij} = \max\Bigl(0, \tfrac14 \sum_v \cos(w_v \circ x_i, w_v \circ x_j)\Bigr)\, P_{ij}, \qquad
          \hat A = 0.8\,A_0 + 0.2\, A / \textstyle\sum_j A_{ij}

where :math:`P` is 1 for pressure, :math:`\tfrac12 e^{-d/258.3\,\mathrm{km}} + 0.4` for temperature and humidity, and
for wind :math:`\bigl|\tfrac12 s + \sqrt{1.4\, s s^\top / 20}\bigr|` with rows of norm 1,
:math:`s_{ij} = |V_i|\,|\cos(\text{bearing}_{ij} - \text{direction}_i)| / d_{ij}` likewise.

Reference: Xu et al., "DGFormer: a physics-guided station level weather forecasting model with dynamic spatial-temporal
graph neural network", GeoInformatica 2024, as described with its public code.

What differs from the original: influence falls with distance; the published sign makes it grow, and the option
``published_distance_sign`` has it. All five variables together, each over the graph of its kind (the original is
trained for one variable at a time), and the acceleration of the wind is left out. Edges from the ten nearest stations
and the station itself instead of all pairs: with N stations memory grows with 11 N, :math:`s s^\top` with 121 N, and
nothing is dense beyond eleven stations. A₀ falls off as :math:`e^{-d}` with d in mean lengths of an edge. Optimiser and
schedule are those of all peers (RMSprop 5e-4 there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fields.windows import Stations
from stationpde.baselines.gated_cell import GatedCell
from stationpde.baselines.inputs import StationInputs
from stationpde.baselines.per_station import AllStations, NetworkLearner
from stationpde.baselines.registry import Baseline
from stationpde.baselines.station_graph import StationGraph, directions, place_features
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.physics import OBSERVED, TIME_FEATURES, WIND, time_features

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["BASELINE", "DGFormer", "LearnedGraph", "heat_factor", "wind_factor"]

_NEIGHBOURS, _VIEWS = 10, 4
_REACH_KM, _EVERYWHERE = 258.3, 0.4
_HEAT_CAPACITIES, _DENSITY = 1.4, 20.0
_KEPT = 0.8  # share of the graph of distances
_SMOOTH = 0.2
_MESSAGE, _EDGE, _NODE, _WIDTH, _DROPOUT = 32, 30, 13, 64, 0.5
# The kind of graph of each variable: 0 learned alone, 1 with the factor of heat, 2 with that of wind.
_KINDS = tuple({"u": 2, "v": 2, "t": 1, "rh": 1}.get(name, 0) for name in OBSERVED)
_TINY = 1e-6


def heat_factor(distance: Tensor, published_distance_sign: bool = False) -> Tensor:
    """Compute the factor of edges for temperature and humidity from their length, km."""
    sign = 1.0 if published_distance_sign else -1.0
    return 0.5 * torch.exp(sign * distance / _REACH_KM) + _EVERYWHERE


def wind_factor(
    wind: Float[Tensor, "batch station 2"], towards: Float[Tensor, "station edge 2"], distance: Tensor, common: Tensor
) -> Float[Tensor, "batch station edge"]:
    """Compute the factor of edges for wind.

    Parameters
    ----------
    wind : m/s eastwards and northwards at each station
    towards : unit vectors along the edges, zero for a station's own edge, which gets the second term alone
    distance : km, with ``common`` as in `StationGraph`
    """
    along = torch.einsum("bnc,nec->bne", wind, towards).abs() / distance.clamp(min=_TINY)
    unit = F.normalize(along, dim=-1)
    padded = F.pad(unit.flatten(1), (0, 1))
    others = padded.index_select(1, common.flatten()).unflatten(1, common.shape)
    product = torch.einsum("bnk,bnek->bne", unit, others)
    return F.normalize((0.5 * unit + (_HEAT_CAPACITIES * product / _DENSITY).sqrt()).abs(), dim=-1)


class LearnedGraph(nn.Module):
    """Weights of the edges of each kind from the features of a window, and how unlike connected stations are."""

    towards: Tensor
    common: Tensor
    heat: Tensor
    start: Tensor

    def __init__(self, stations: Stations, graph: StationGraph, features: int, published_distance_sign: bool) -> None:
        super().__init__()
        self.graph = graph
        self.views = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, _VIEWS)))
        distance = graph.distance
        start = torch.exp(-distance / distance.mean().clamp(min=_TINY))
        for name, values in {
            "towards": directions(stations, graph),
            "common": graph.common(),
            "heat": heat_factor(distance, published_distance_sign),
            "start": start / start.sum(dim=-1, keepdim=True),
        }.items():
            self.register_buffer(name, values, persistent=False)

    def likeness(self, features: Float[Tensor, "batch station feature"]) -> Float[Tensor, "batch station edge"]:
        """Return the mean cosine over the weightings, cut at 0."""
        square = self.views.square()
        norm = (features.square() @ square + _TINY).sqrt()
        product = (features[:, :, None] * self.graph.gathered(features)) @ square
        cosine = product / (norm[:, :, None] * self.graph.gathered(norm))
        return F.relu(cosine.mean(dim=-1))

    def forward(
        self, features: Float[Tensor, "batch station feature"], wind: Float[Tensor, "batch station 2"]
    ) -> tuple[Float[Tensor, "batch station edge kind"], Float[Tensor, " batch"]]:
        """Return the weights of each kind, and the mean of A_ij‖x_i − x_j‖²/2 over stations and features."""
        alike = self.likeness(features)
        factors = [torch.ones_like(self.heat), self.heat]
        of_wind = wind_factor(wind, self.towards, self.graph.distance, self.common)
        kinds = torch.stack([*(alike * factor for factor in factors), alike * of_wind], dim=-1)
        learned = kinds / kinds.sum(dim=2, keepdim=True).clamp(min=_TINY)
        unlike = (features[:, :, None] - self.graph.gathered(features)).square().mean(dim=-1)
        roughness = 0.5 * (learned.mean(dim=-1) * unlike).sum(dim=-1).mean(dim=-1)
        return _KEPT * self.start[..., None] + (1.0 - _KEPT) * learned, roughness


class DGFormer(nn.Module):
    """Graph convolution of the histories, then a recurrence along the graph that forecasts step by step.

    Parameters
    ----------
    stations, mean, std : places, and the scales ``[station, channel]`` from which the wind is in m/s
    published_distance_sign : let the influence on temperature and humidity grow with distance, as published
    """

    places: Tensor
    wind_mean: Tensor
    wind_std: Tensor

    def __init__(
        self, stations: Stations, mean: Tensor, std: Tensor, history: int, horizon: int, step_seconds: int, *,
        published_distance_sign: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.horizon, self.step_seconds = horizon, step_seconds
        self.graph = StationGraph.of_places(stations, _NEIGHBOURS)
        places, channels = place_features(stations), len(OBSERVED)
        for name, values in {"places": places, "wind_mean": mean[:, WIND], "wind_std": std[:, WIND]}.items():
            self.register_buffer(name, values.clone(), persistent=False)
        size, seen = history * channels, channels + TIME_FEATURES + places.shape[1]
        self.learned = LearnedGraph(stations, self.graph, size + places.shape[1], published_distance_sign)
        self.convolve = nn.Linear(size, _WIDTH, bias=False)
        self.dropout = nn.Dropout(_DROPOUT)
        self.start = nn.Linear(_WIDTH, _WIDTH)
        self.arriving, self.leaving = nn.Linear(seen, _MESSAGE), nn.Linear(seen, _MESSAGE, bias=False)
        self.weighted, self.edge = nn.Linear(max(_KINDS) + 1, _MESSAGE, bias=False), nn.Linear(_MESSAGE, _EDGE)
        self.node = nn.Linear(_EDGE, _NODE)
        self.cell, self.out = GatedCell(_NODE + seen, _WIDTH), nn.Linear(_WIDTH, channels)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Int64[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch lead station channel"], Float[Tensor, " 2"]]:
        """Map normalised histories and issue times to normalised forecasts; the sums are for `penalty`."""
        batch = history.shape[0]
        series = history.permute(0, 2, 1, 3)
        places = self.places.expand(batch, -1, -1)
        wind = history[:, -1, :, WIND] * self.wind_std + self.wind_mean
        weights, roughness = self.learned(torch.cat([series.flatten(2), places], dim=-1), wind)
        around = torch.einsum("bneHc,bnec->bnHc", self.graph.gathered(series), weights[..., list(_KINDS)])
        hidden = torch.tanh(self.start(self.dropout(F.relu(self.convolve(around.flatten(2))))))
        along, values = self.weighted(weights), history[:, -1]
        forecast = []
        for lead in range(1, self.horizon + 1):
            clock = time_features(time + lead * self.step_seconds, history.dtype)[:, None].expand(*values.shape[:2], -1)
            seen = torch.cat([values, clock, places], dim=-1)
            hidden = self.cell(torch.cat([self._messages(seen, along), seen], dim=-1), hidden)
            values = self.out(hidden)
            forecast.append(values)
        return torch.stack(forecast, dim=1), torch.stack([roughness.sum(), roughness.new_tensor(float(batch))])

    def _messages(self, seen: Tensor, along: Tensor) -> Float[Tensor, "batch station node"]:
        into = self.arriving(seen)[:, :, None] + self.graph.gathered(self.leaving(seen)) + along
        messages = torch.sigmoid(self.edge(torch.sigmoid(into)))
        return torch.sigmoid(self.node(self.graph.arriving_less_leaving(messages)))

    def penalty(self, sums: Float[Tensor, " 2"]) -> Tensor:
        """Return the smoothness term: 0.2 times the mean roughness of the features over the learned graph."""
        return _SMOOTH * sums[0] / sums[1].clamp(min=1.0)


def _make(config: Config, source: WindowSource, published_distance_sign: bool = False) -> NetworkLearner:
    series, inputs = source.series, StationInputs.of(source)
    network = DGFormer(
        series.stations, inputs.mean, inputs.std, config.data.history, config.data.horizon, series.step_seconds,
        published_distance_sign=published_distance_sign,
    )  # fmt: skip
    return NetworkLearner(config, source, AllStations(network), about="DGFormer")


BASELINE = Baseline(
    name="dgformer",
    title="DGFormer",
    reference="Xu et al. (2024)",
    kind="trained",
    make=_make,
    rates=(1e-3, 3e-3),
    train={"batch": 16, "epochs": 40, "patience": 8, "validate_windows": 127},
    switches={"published_distance_sign": (False,)},
)
