r"""Attention by correlation: of a series with itself over lags, and of stations with their group over lags.

Correlations and shifts are products of Fourier transforms in time,

.. math:: \mathrm{corr}(\tau) = \sum_t q(t + \tau)\,k(t), \qquad \sum_\tau w(\tau)\,v(t + \tau),

without gathering by index, so that results are deterministic on any device.
"""

from __future__ import annotations

from math import log, prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["AutoCorrelation", "CrossCorrelation", "TreeCorrelation"]


def _correlated(query: Float[Tensor, "... time"], key: Float[Tensor, "... time"]) -> Float[Tensor, "... lag"]:
    return torch.fft.irfft(torch.fft.rfft(query) * torch.fft.rfft(key).conj(), n=query.shape[-1])


def _shifted(
    values: Float[Tensor, "... part time"], weights: Float[Tensor, "... lag"], *, later: bool
) -> Float[Tensor, "... part time"]:
    """Shift values by the weighted lags: ``v(t − τ)`` if ``later``, else ``v(t + τ)``."""
    spectrum = torch.fft.rfft(weights).unsqueeze(-2)
    return torch.fft.irfft(torch.fft.rfft(values) * (spectrum if later else spectrum.conj()), n=values.shape[-1])


def _one_hot(index: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return (index.unsqueeze(-1) == torch.arange(count, device=index.device)).to(dtype)


def _fit_length(values: Float[Tensor, "rows other_time width"], steps: int) -> Float[Tensor, "rows time width"]:
    """Return the first ``steps`` of a series, with zeros where it is shorter."""
    return F.pad(values[:, :steps], (0, 0, 0, max(0, steps - values.shape[1])))


class _Projections(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def split(self, values: Float[Tensor, "rows time width"]) -> Float[Tensor, "rows head part time"]:
        return values.unflatten(-1, (self.heads, -1)).permute(0, 2, 3, 1)

    def joined(self, values: Float[Tensor, "rows head part time"]) -> Float[Tensor, "rows time width"]:
        projected: Tensor = self.out(values.permute(0, 3, 1, 2).flatten(2))
        return projected


class AutoCorrelation(_Projections):
    """Attention of a series to itself, or to another of the same station, at the lags of highest correlation."""

    def forward(
        self, series: Float[Tensor, "rows time width"], other: Float[Tensor, "rows other_time width"]
    ) -> Float[Tensor, "rows time width"]:
        """Combine ln(steps) lags of highest correlation, weighted by a softmax."""
        steps = series.shape[1]
        other = _fit_length(other, steps)
        query, key, value = self.split(self.query(series)), self.split(self.key(other)), self.split(self.value(other))
        likeness = _correlated(query, key).mean(dim=2)
        best = likeness.detach().topk(max(1, int(log(steps))), dim=-1).indices
        chosen = _one_hot(best, steps, torch.bool).any(dim=-2)
        weights = likeness.masked_fill(~chosen, -torch.inf).softmax(dim=-1)
        return self.joined(_shifted(value, weights, later=False))


class _Causal(nn.Module):
    """Two causal convolutions along nodes in the order of their lags: a node depends on those before it."""

    def __init__(self, channels: int, dropout: float, reach: int = 3) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv1d(channels, channels, reach) for _ in range(2))
        self.dropout, self.reach = nn.Dropout(dropout), reach
        for layer in (self.first, self.second):
            nn.init.normal_(layer.weight, std=0.01)

    def forward(self, nodes: Float[Tensor, "rows channel node"]) -> Float[Tensor, "rows channel node"]:
        hidden = nodes
        for layer in (self.first, self.second):
            hidden = self.dropout(F.relu(layer(F.pad(hidden, (self.reach - 1, 0)))))
        return F.relu(hidden + nodes)


class CrossCorrelation(_Projections):
    """Nodes of one group: aligned by their lag behind the group's mean, mixed in the order of lags, moved back."""

    def __init__(self, width: int, heads: int, steps: int, dropout: float) -> None:
        super().__init__(width, heads)
        self.mix = _Causal(width // heads * steps, dropout)

    def forward(
        self,
        nodes: Float[Tensor, "group node time width"],
        other: Float[Tensor, "group node other_time width"],
        there: Float[Tensor, "group node"],
    ) -> Float[Tensor, "group node time width"]:
        """Mix the nodes of each group; ``there`` is 1 for a node and 0 for an empty place, which is masked."""
        groups, count, steps, _ = nodes.shape
        near, far = nodes.flatten(0, 1), _fit_length(other.flatten(0, 1), steps)
        query, key, value = (
            self.split(part).unflatten(0, (groups, count))
            for part in (self.query(near), self.key(far), self.value(far))
        )
        share = there[:, :, None, None, None]
        pivot = (query * share).sum(dim=1, keepdim=True) / share.sum(dim=1, keepdim=True).clamp(min=1.0)
        likeness = _correlated(pivot.expand_as(key), key).mean(dim=3)
        best = likeness.detach().argmax(dim=-1)
        lag = _one_hot(best, steps, likeness.dtype)
        weight = torch.sigmoid((likeness * lag).sum(dim=-1)) * there[:, :, None]
        aligned = _shifted(value, lag, later=True) * weight[..., None, None]
        mixed = self._in_order(aligned, best, there)
        return self.joined(_shifted(mixed, lag, later=False).flatten(0, 1)).unflatten(0, (groups, count))

    def _in_order(
        self, values: Float[Tensor, "group node head part time"], lag: Tensor, there: Tensor
    ) -> Float[Tensor, "group node head part time"]:
        """Apply the causal mixture to nodes sorted by lag, empty places last."""
        count, steps = values.shape[1], values.shape[-1]
        key = lag.transpose(1, 2) + (steps * (1 - there)).to(lag.dtype)[:, None]
        order = key.sort(dim=-1, stable=True).indices
        moved = _one_hot(order, count, values.dtype)
        rows = values.transpose(1, 2).flatten(3)
        mixed = self.mix((moved @ rows).flatten(0, 1).transpose(1, 2)).transpose(1, 2).unflatten(0, order.shape[:2])
        return (moved.transpose(-1, -2) @ mixed).unflatten(-1, values.shape[-2:]).transpose(1, 2)


class TreeCorrelation(nn.Module):
    """Every station with itself, and at each level of the tree every node with the others of its group.

    Parameters
    ----------
    levels : number of branches at each level of the tree, from the root down
    steps : steps of the series
    """

    def __init__(self, width: int, heads: int, steps: int, levels: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.levels = levels
        self.own = AutoCorrelation(width, heads)
        self.others = CrossCorrelation(width, heads, steps, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        series: Float[Tensor, "batch leaf time width"],
        other: Float[Tensor, "batch leaf other_time width"],
        there: Float[Tensor, " leaf"],
    ) -> Float[Tensor, "batch leaf time width"]:
        """Return attention of each station to itself plus the mean over levels of attention to the others."""
        batch = series.shape[0]
        from_itself = self.own(series.flatten(0, 1), other.flatten(0, 1)).unflatten(0, (batch, -1))
        from_others = torch.zeros_like(from_itself)
        for depth, count in enumerate(self.levels):
            below = prod(self.levels[depth + 1 :])
            stations_below = there.unflatten(0, (-1, below)).sum(dim=1)
            nodes, others = (_means(part, there, below) for part in (series, other))
            seen = (stations_below > 0).to(series.dtype).unflatten(0, (-1, count)).repeat(batch, 1)
            groups = (part.flatten(0, 1).unflatten(0, (-1, count)) for part in (nodes, others))
            correlated = self.others(*groups, seen).flatten(0, 1).unflatten(0, (batch, -1))
            from_others = from_others + correlated.repeat_interleave(below, dim=1)
        return self.dropout(from_itself) + self.dropout(from_others / len(self.levels))


def _means(series: Float[Tensor, "batch leaf time width"], there: Tensor, below: int) -> Tensor:
    """Average over the stations below each node."""
    share = there.unflatten(0, (-1, below))
    share = share / share.sum(dim=1, keepdim=True).clamp(min=1.0)
    return torch.einsum("bnstw,ns->bntw", series.unflatten(1, (-1, below)), share)
