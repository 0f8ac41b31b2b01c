"""Autoformer: series are decomposed into season and trend inside the network, and attention is auto-correlation.

Reference: Wu et al., "Autoformer: Decomposition Transformers with Auto-Correlation for Long-Term Series Forecasting",
NeurIPS 2021.

What differs from the original: called per station with weights that all stations share; width 64; no calendar features;
time delays are chosen for each row in training as well, where the original takes common ones of the batch, so that
neither the size of a batch nor its division over processes matters; instance normalisation is a switch that validation
decides. The class of the package takes one variable only: its layers are combined here for all variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from stationpde.baselines.neuralforecast_modules import models_of
from stationpde.baselines.per_station import SHORT_EPOCHS, NetworkLearner, per_station
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["BASELINE", "Autoformer"]

_WIDTH, _HEADS, _HIDDEN, _AVERAGED, _DROPOUT, _FACTOR = 64, 4, 128, 25, 0.05, 3


class Autoformer(nn.Module):
    """Two encoder layers and one decoder layer; the decoder starts from the second half of the window."""

    def __init__(self, history: int, horizon: int, channels: int) -> None:
        super().__init__()
        parts = models_of("autoformer")
        # Auto-correlation by real Fourier transforms needs an even number of steps in the decoder.
        self.overlap = history // 2 + (history // 2 + horizon) % 2
        self.horizon = horizon
        self.split = parts.SeriesDecomp(_AVERAGED)
        embedding = {"exog_input_size": 0, "hidden_size": _WIDTH, "pos_embedding": False, "dropout": _DROPOUT}
        self.embed_past = parts.DataEmbedding(channels, **embedding)
        self.embed_season = parts.DataEmbedding(channels, **embedding)
        sizes: dict[str, Any] = {
            "hidden_size": _WIDTH, "conv_hidden_size": _HIDDEN, "MovingAvg": _AVERAGED, "dropout": _DROPOUT,
            "activation": "gelu",
        }  # fmt: skip
        layers = [parts.EncoderLayer(_correlation(parts), **sizes) for _ in range(2)]
        self.encoder = parts.Encoder(layers, norm_layer=parts.LayerNorm(_WIDTH))
        last = parts.DecoderLayer(_correlation(parts), _correlation(parts), c_out=channels, **sizes)
        self.decoder = parts.Decoder([last], norm_layer=parts.LayerNorm(_WIDTH), projection=nn.Linear(_WIDTH, channels))

    def train(self, mode: bool = True) -> Autoformer:
        """Set training mode except for the choice of delays, which is made row by row as in evaluation."""
        super().train(mode)
        for name, module in self.named_modules():
            if name.endswith("inner_correlation"):
                module.training = False
        return self

    def forward(self, rows: Float[Tensor, "rows history channel"]) -> Float[Tensor, "rows lead channel"]:
        """Map normalised rows, each the history of one station, to their forecasts."""
        season, trend = self.split(rows)
        ahead = rows.new_zeros(rows.shape[0], self.horizon, rows.shape[2])
        start = rows.shape[1] - self.overlap
        season = torch.cat([season[:, start:], ahead], dim=1)
        trend = torch.cat([trend[:, start:], ahead + rows.mean(dim=1, keepdim=True)], dim=1)
        past, _ = self.encoder(self.embed_past(rows, None), attn_mask=None)
        season, trend = self.decoder(self.embed_season(season, None), past, trend=trend)
        forecast: Tensor = (season + trend)[:, -self.horizon :]
        return forecast


def _correlation(parts: Any) -> nn.Module:
    inner = parts.AutoCorrelation(False, _FACTOR, attention_dropout=_DROPOUT, output_attention=False)
    layer: nn.Module = parts.AutoCorrelationLayer(inner, _WIDTH, _HEADS)
    return layer


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    network = Autoformer(config.data.history, config.data.horizon, len(source.series.variables))
    return per_station(config, source, network, instance_norm=instance_norm)


BASELINE = Baseline(
    name="autoformer",
    title="Autoformer",
    reference="Wu et al. (2021)",
    kind="trained",
    make=_make,
    needs="neuralforecast",
    rates=(3e-4, 1e-3),
    train=SHORT_EPOCHS,
    switches={"instance_norm": (False, True)},
)
