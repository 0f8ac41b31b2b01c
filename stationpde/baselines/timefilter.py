r"""TimeFilter: a graph of all patches of all variables, whose edges are filtered by kind for each node.

Patches are nodes; learned similarity gives the edges, of which the weakest share :math:`\alpha` is cut. A gate chooses
for every node which kinds of edge are kept: to other variables at the same time, to other times of the same variable,
or to both other; the most probable kinds that together pass ``top_p``.

Reference: Hu et al., "TimeFilter: Patch-Specific Spatial-Temporal Graph Filtration for Time Series Forecasting",
ICML 2025.

What differs from the original: called per station with weights that all stations share; patches of a quarter or of half
of the window, which validation decides (half as many nodes take half of the time, so that a capped training sees twice
as many windows); width 128 and 256 in between; the mixture-of-experts loss is kept, with which alone the gate has a
gradient (public code drops it), and its balance is that of the kinds of edge rather than of their ranks; edges that are
cut get no weight at all, where public code sets their similarity to zero before the softmax; instance normalisation is
a switch that validation decides.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stationpde.baselines.per_station import SHORT_EPOCHS, NetworkLearner, per_station
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

__all__ = ["BASELINE", "TimeFilter", "edge_kinds", "patch_of"]

# Patches of a window that are tried.
_PATCHES = (4, 2)
_KINDS = 3
# Weights of the balance of kinds and, within it, of the gates' entropy: small beside an error of order 1.
_BALANCE, _ENTROPY = 0.05, 0.1
_LEAST_NOISE = 1e-2


def patch_of(history: int, patches: int = _PATCHES[0]) -> int:
    """Return the steps of a patch: the divisor of the window that is nearest to its length by ``patches``."""
    return min((n for n in range(1, history + 1) if history % n == 0), key=lambda n: (abs(n - history / patches), n))


def edge_kinds(variables: int, patches: int) -> Bool[Tensor, "kind node node"]:
    """Return masks of edges between variables, between times, and between both; without loops."""
    variable = torch.arange(variables).repeat_interleave(patches)
    time = torch.arange(patches).repeat(variables)
    same_variable = variable[:, None] == variable[None]
    same_time = time[:, None] == time[None]
    return torch.stack([same_time & ~same_variable, same_variable & ~same_time, ~same_time & ~same_variable])


class _Gate(nn.Module):
    """Gate that selects the kinds of edge of a node; noisy in training."""

    def __init__(self, nodes: int, top_p: float) -> None:
        super().__init__()
        self.logits, self.noise, self.top_p = nn.Linear(nodes, _KINDS, False), nn.Linear(nodes, _KINDS, False), top_p

    def forward(
        self, edges: Float[Tensor, "rows head node node"]
    ) -> tuple[Float[Tensor, "rows head node kind"], Float[Tensor, " sums"]]:
        """Return 1 for each selected kind, and the sums that `TimeFilter.penalty` needs."""
        logits = self.logits(edges)
        if self.training:
            spread = F.softplus(self.noise(edges)) + _LEAST_NOISE
            logits = logits + torch.randn_like(logits) * spread
        shares = logits.softmax(dim=-1)
        ordered, kinds = shares.sort(dim=-1, descending=True, stable=True)
        # A kind is kept while those before it have not passed the threshold.
        selected = (ordered.cumsum(dim=-1) - ordered <= self.top_p).to(shares.dtype)
        selected = torch.zeros_like(shares).scatter(-1, kinds, selected)
        importance = (shares * selected).sum(dim=(0, 1, 2))
        entropy = -(shares * (shares + 1e-10).log()).sum()
        count = torch.full_like(entropy, shares.numel() / _KINDS)
        return selected, torch.cat([importance, entropy[None], count[None]])


class _Block(nn.Module):
    """One round of filtering and passing messages, and a feed-forward layer."""

    def __init__(self, width: int, heads: int, hidden: int, nodes: int, top_p: float, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        part = width // heads
        self.source, self.target = nn.Linear(part, part), nn.Linear(part, part)
        self.gate = _Gate(nodes, top_p)
        self.message = nn.Linear(width, width)
        self.before_graph, self.before_layer = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layer = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, nodes: Float[Tensor, "rows node width"], kinds: Float[Tensor, "kind node node"], cut: int
    ) -> tuple[Tensor, Tensor]:
        """Return the nodes after the round, and the sums of the gate."""
        normed = self.before_graph(nodes)
        split = normed.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        edges = F.gelu(self.source(split) @ self.target(split).transpose(-1, -2))
        strong = torch.ones_like(edges)
        if cut:
            strong = strong.scatter(-1, edges.detach().topk(cut, dim=-1, largest=False).indices, 0.0)
        selected, sums = self.gate(edges * strong)
        loops = torch.eye(edges.shape[-1], dtype=edges.dtype, device=edges.device)
        # Each node has an edge to itself, so that no row of the softmax is empty.
        there = torch.einsum("rhnk,knm->rhnm", selected, kinds) * strong + loops > 0
        weights = self.dropout(edges.masked_fill(~there, -torch.inf).softmax(dim=-1))
        messages = weights @ self.message(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        nodes = nodes + messages.transpose(1, 2).flatten(2)
        return nodes + self.layer(self.before_layer(nodes)), sums


class TimeFilter(nn.Module):
    """The network of one station; returns its forecast and the sums of the gates."""

    kinds: Tensor
    places: Tensor

    def __init__(
        self, history: int, horizon: int, channels: int, *, width: int = 128, heads: int = 4, hidden: int = 256,
        blocks: int = 2, alpha: float = 0.1, top_p: float = 0.5, dropout: float = 0.1, patches: int = _PATCHES[0],
    ) -> None:  # fmt: skip
        super().__init__()
        self.patch = patch_of(history, patches)
        patches = history // self.patch
        nodes = channels * patches
        self.cut = int(alpha * nodes)
        self.embed = nn.Linear(self.patch, width)
        self.blocks = nn.ModuleList(_Block(width, heads, hidden, nodes, top_p, dropout) for _ in range(blocks))
        self.head = nn.Linear(width * patches, horizon)
        self.register_buffer("kinds", edge_kinds(channels, patches).float(), persistent=False)
        self.register_buffer("places", _places(nodes, width), persistent=False)

    def forward(self, rows: Float[Tensor, "rows history channel"]) -> tuple[Tensor, Tensor]:
        """Map normalised rows, each the history of one station, to their forecasts."""
        channels = rows.shape[2]
        nodes = self.embed(rows.transpose(1, 2).unflatten(2, (-1, self.patch))).flatten(1, 2) + self.places
        sums = []
        for block in self.blocks:
            nodes, block_sums = block(nodes, self.kinds, self.cut)
            sums.append(block_sums)
        forecast = self.head(nodes.unflatten(1, (channels, -1)).flatten(2)).transpose(1, 2)
        return forecast, torch.cat(sums)

    def penalty(self, sums: Float[Tensor, " sums"]) -> Tensor:
        """Penalise unequal use of the kinds (squared coefficient of variation), and gates that do not decide."""
        each = sums.unflatten(0, (len(self.blocks), -1))
        importance, entropy, count = each[:, :_KINDS], each[:, _KINDS], each[:, _KINDS + 1]
        uneven = importance.var(dim=1) / importance.mean(dim=1).square().clamp(min=torch.finfo(sums.dtype).tiny)
        return _BALANCE * (uneven + _ENTROPY * entropy / count).mean()


def _places(count: int, width: int) -> Float[Tensor, "node width"]:
    """Return sines and cosines of the index of each node."""
    angle = torch.arange(count)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def _make(
    config: Config, source: WindowSource, instance_norm: bool = False, patches: int = _PATCHES[0]
) -> NetworkLearner:  # fmt: skip
    network = TimeFilter(config.data.history, config.data.horizon, len(source.series.variables), patches=patches)
    return per_station(config, source, network, instance_norm=instance_norm)


BASELINE = Baseline(
    name="timefilter",
    title="TimeFilter",
    reference="Hu et al. (2025)",
    kind="trained",
    make=_make,
    rates=(1e-3, 3e-3),
    train=SHORT_EPOCHS,
    switches={"patches": _PATCHES, "instance_norm": (False, True)},
)
