"""MultiPatchFormer: patches of four lengths side by side, attention in time, then attention between variables.

The forecast is computed in eight parts one after the other, each of which depends on those before it.

Reference: Naghashi, Boukadoum and Diallo, "A multiscale model for multivariate time series forecasting", Scientific
Reports 15, 2025.

What differs from the original: called per station with weights that all stations share; patches are a twelfth, a sixth,
a quarter and a third of the window, with strides of a twelfth but at least two steps, where public code has 8, 16, 24
and 32 steps and fails on any window but 96; half its width (128, and 256 in between); a horizon of fewer than eight
steps is written in as many parts; attention is to all patches and all variables, where public code masks later ones;
instance normalisation is a switch that validation decides.
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
    from jaxtyping import Float

__all__ = ["BASELINE", "MultiPatchFormer", "parts_of", "patches_of"]

_SHARES = (12, 6, 4, 3)
_PARTS = 8
# A stride of one would give a short window as many tokens as steps, most of them of the same values.
_LEAST_STRIDE = 2


def patches_of(history: int) -> tuple[int, tuple[int, ...]]:
    """Return the stride, a twelfth of the window, and patch lengths of a twelfth, a sixth, a quarter and a third.

    Both are at least two steps where the window has them; no patch is shorter than the stride, so that no step
    is left out.
    """
    stride = min(history, max(_LEAST_STRIDE, round(history / _SHARES[0])))
    return stride, tuple(max(stride, round(history / share)) for share in _SHARES)


def parts_of(horizon: int) -> tuple[int, ...]:
    """Return the steps of each part of a forecast; the last part takes the remainder."""
    count = min(_PARTS, horizon)
    size = horizon // count
    return (*(size,) * (count - 1), horizon - size * (count - 1))


class _Attention(nn.Module):
    """Attention with a feed-forward layer, each added and then normalised."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, mixed: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        # Between variables, keys and values are mixed once more beforehand.
        self.mix = nn.Linear(width, width) if mixed else nn.Identity()
        self.layer = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Float[Tensor, "rows token width"]) -> Float[Tensor, "rows token width"]:
        """Apply one layer to the tokens."""
        mixed = self.mix(tokens)
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query(tokens), self.key(mixed), self.value(mixed))
        )
        weights = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(dim=-1)
        attended = (self.dropout(weights) @ value).transpose(1, 2).flatten(2)
        tokens = self.norms[0](tokens + self.dropout(self.out(attended)))
        output: Tensor = self.norms[1](tokens + self.dropout(self.layer(tokens)))
        return output


class MultiPatchFormer(nn.Module):
    """The network of one station."""

    places: Tensor

    def __init__(
        self, history: int, horizon: int, *, width: int = 128, heads: int = 8, hidden: int = 256, layers: int = 1,
        dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.stride, self.lengths = patches_of(history)
        self.tokens = -(-history // self.stride)
        self.embed = nn.ModuleList(nn.Linear(length, width // len(_SHARES)) for length in self.lengths)
        self.in_time = nn.ModuleList(_Attention(width, heads, hidden, dropout, False) for _ in range(layers))
        self.to_variable = nn.Linear(width * self.tokens, width)
        self.between = _Attention(width, heads, hidden, dropout, True)
        sizes = parts_of(horizon)
        self.write = nn.ModuleList(nn.Linear(width + sum(sizes[:i]), size) for i, size in enumerate(sizes))
        angle = torch.arange(self.tokens)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        self.register_buffer("places", torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1), persistent=False)

    def forward(self, rows: Float[Tensor, "rows history channel"]) -> Float[Tensor, "rows lead channel"]:
        """Map normalised rows, each the history of one station, to their forecasts."""
        channels = rows.shape[2]
        series = rows.transpose(1, 2).flatten(0, 1)
        tokens = torch.cat([layer(part) for layer, part in zip(self.embed, self._patches(series))], dim=-1)
        tokens = tokens + self.places
        for attention in self.in_time:
            tokens = attention(tokens)
        variables = self.between(self.to_variable(tokens.flatten(1)).unflatten(0, (-1, channels)))
        written = variables[..., :0]
        for layer in self.write:
            written = torch.cat([written, layer(torch.cat([variables, written], dim=-1))], dim=-1)
        return written.transpose(1, 2)

    def _patches(self, series: Float[Tensor, "rows history"]) -> list[Float[Tensor, "rows token length"]]:
        """Cut patches of each length, equally many; the last value is repeated beyond the end of the window."""
        patches = []
        for length in self.lengths:
            beyond = (self.tokens - 1) * self.stride + length - series.shape[1]
            longer = F.pad(series[:, None], (0, max(beyond, 0)), mode="replicate")[:, 0]
            patches.append(longer.unfold(1, length, self.stride)[:, : self.tokens])
        return patches


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    network = MultiPatchFormer(config.data.history, config.data.horizon)
    return per_station(config, source, network, instance_norm=instance_norm)


BASELINE = Baseline(
    name="multipatchformer",
    title="MultiPatchFormer",
    reference="Naghashi et al. (2025)",
    kind="trained",
    make=_make,
    rates=(3e-4, 1e-3),
    train=SHORT_EPOCHS,
    switches={"instance_norm": (False, True)},
)
