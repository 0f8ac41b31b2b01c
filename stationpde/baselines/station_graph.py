"""Neighbours of stations as a list of edges: memory grows with the number of stations, not with its square.

Every station's own edge comes first, then those from its nearest others. Values are gathered along edges and summed up
at both of their ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fields.grid import LocalMetric
from fields.windows import Stations
from stationpde.baselines.inputs import neighbours_of

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["StationGraph", "directions", "place_features"]

Array = np.ndarray[Any, Any]
_BLOCK = 256


class StationGraph(nn.Module):
    """Edges into each station, from itself and from others.

    Attributes
    ----------
    sources : the station at the other end of each edge, ``[station, edge]``; the first is the station itself
    distance : length of each edge, ``[station, edge]``; km for a graph of places, else that of the features
    """

    sources: Tensor
    distance: Tensor

    def __init__(self, sources: Array, distance: Array) -> None:
        super().__init__()
        self.register_buffer("sources", torch.as_tensor(sources, dtype=torch.long), persistent=False)
        self.register_buffer("distance", torch.as_tensor(distance, dtype=torch.float32), persistent=False)

    @classmethod
    def of_places(cls, stations: Stations, k: int) -> StationGraph:
        """Connect each station with the ``k`` nearest others, or all where there are fewer."""
        sources = _with_itself(neighbours_of(stations, k))
        east_north = (_places(stations)[sources] - _places(stations)[:, None]) / 1e3
        return cls(sources, np.hypot(east_north[..., 0], east_north[..., 1]))

    @classmethod
    def of_features(cls, features: Array, k: int) -> StationGraph:
        """Connect each station with the ``k`` others whose features ``[station, feature]`` are most like its own."""
        count = len(features)
        most = min(k, count - 1)
        others, lengths = np.zeros((count, most), np.int64), np.zeros((count, most))
        for first in range(0, count, _BLOCK):  # a block of rows at a time: no square of the number of stations
            rows = np.arange(first, min(first + _BLOCK, count))
            away = np.sqrt(((features[rows, None] - features[None]) ** 2).sum(axis=-1))
            away[np.arange(len(rows)), rows] = np.inf
            near = np.argsort(away, axis=1, kind="stable")[:, :most]
            others[rows], lengths[rows] = near, np.take_along_axis(away, near, 1)
        return cls(_with_itself(others), np.concatenate([np.zeros((count, 1)), lengths], axis=1))

    def gathered(self, values: Float[Tensor, "batch station *feature"]) -> Float[Tensor, "batch station edge *feature"]:
        """Return the values at the source of each edge."""
        return values.index_select(1, self.sources.flatten()).unflatten(1, self.sources.shape)

    def arriving_less_leaving(
        self, messages: Float[Tensor, "batch station edge feature"]
    ) -> Float[Tensor, "batch station feature"]:
        """Sum up the messages of the edges into each station, less those of the edges out of it."""
        arriving = messages.sum(dim=2)
        return arriving.index_add(1, self.sources.flatten(), messages.flatten(1, 2), alpha=-1)

    def common(self) -> Int64[Tensor, "station edge edge"]:
        """Return for the edge from j to i, and each source k of i, the number of the edge from k to j.

        Edges are numbered as those of a flattened ``[station, edge]``; one number more stands for no edge.
        """
        sources = self.sources.numpy()
        count, edges = sources.shape
        position = np.full((count, edges, edges), count * edges)
        for first in range(0, count, _BLOCK):
            mine = sources[first : first + _BLOCK]
            same = sources[mine][:, :, None, :] == mine[:, None, :, None]  # [station, edge, k of i, k of j]
            number = mine[:, :, None] * edges + same.argmax(axis=-1)
            position[first : first + _BLOCK] = np.where(same.any(axis=-1), number, count * edges)
        return torch.as_tensor(position)


def place_features(stations: Stations) -> Float[Tensor, "station 3"]:
    """Return east, north and altitude, each with mean 0 and spread 1 over the network; 0 where all are alike."""
    where = np.concatenate([_places(stations), np.asarray(stations.alt, float)[:, None]], axis=1)
    spread = where.std(axis=0)
    centred = (where - where.mean(axis=0)) / np.where(spread > 1e-6, spread, 1.0)
    return torch.as_tensor(centred, dtype=torch.float32)


def directions(stations: Stations, graph: StationGraph) -> Float[Tensor, "station edge 2"]:
    """Return unit vectors, east and north, from each station towards the source of each edge; 0 where it is there."""
    places, sources = _places(stations), graph.sources.numpy()
    away = places[sources] - places[:, None]
    length = np.hypot(away[..., 0], away[..., 1])[..., None]
    return torch.as_tensor(np.where(length > 0, away / np.where(length > 0, length, 1.0), 0.0), dtype=torch.float32)


def _places(stations: Stations) -> Array:
    return LocalMetric.around(stations.lat, stations.lon).xy(stations.lat, stations.lon)


def _with_itself(others: Array) -> Array:
    return np.concatenate([np.arange(len(others))[:, None], others], axis=1)
