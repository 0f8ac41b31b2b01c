r"""StemGNN: a learned graph between variables, and filters in its spectrum and in that of time.

Reference: Cao et al., "Spectral Temporal Graph Neural Network for Multivariate Time-Series Forecasting", NeurIPS 2020.

What differs from the original: called per station with weights that all stations share, the variables being the nodes
of the graph. There is a graph for each row; the original averages it over the batch, so that a forecast would depend on
the other windows beside it, later ones included. The first Chebyshev polynomial is the identity, as in the paper;
public code has zeros. Attention is dropped out at 0.1 (0.5 there, where an average over rows hides it). Instance
normalisation is a switch that validation decides. The layers are those of neuralforecast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from stationpde.baselines.neuralforecast_modules import build_model, models_of
from stationpde.baselines.per_station import SHORT_EPOCHS, NetworkLearner, per_station
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["BASELINE", "StemGNN"]

# Least degree of a node whose edges are all dropped out.
_LEAST_DEGREE = 1e-3


class StemGNN(nn.Module):
    """The layers of a StemGNN of neuralforecast, with a graph for each row."""

    layers: Any

    def __init__(self, history: int, horizon: int, channels: int) -> None:
        super().__init__()
        settings = {"h": horizon, "input_size": history, "n_series": channels, "dropout_rate": 0.1}
        self.layers = build_model(models_of("stemgnn").StemGNN, settings).model
        # The second block has no backcast.
        del self.layers.stock_block[1].backcast_short_cut

    def forward(self, rows: Float[Tensor, "rows history channel"]) -> Float[Tensor, "rows lead channel"]:
        """Map normalised rows, each the history of one station, to their forecasts."""
        polynomials = self._graph(rows)
        remainder = rows.transpose(1, 2)
        total = torch.zeros_like(remainder)
        for block in self.layers.stock_block:
            filtered = self._filtered(block, polynomials, remainder)
            total = total + block.forecast_result(torch.sigmoid(block.forecast(filtered)))
            if block.stack_cnt == 0:
                remainder = torch.sigmoid(block.backcast(filtered) - block.backcast_short_cut(remainder))
        forecast: Tensor = self.layers.fc(total).transpose(1, 2)
        return forecast

    def _graph(self, rows: Tensor) -> Float[Tensor, "rows order node node"]:
        """Compute Chebyshev polynomials, up to the third, of the normalised Laplacian of each row's graph."""
        hidden, _ = self.layers.GRU(rows.permute(2, 0, 1).contiguous())
        weights = self.layers.self_graph_attention(hidden.transpose(0, 1).contiguous())
        degree = weights.sum(dim=-1).clamp(min=_LEAST_DEGREE)
        edges = 0.5 * (weights + weights.transpose(1, 2))
        scale = degree.rsqrt()
        one = torch.eye(edges.shape[-1], dtype=edges.dtype, device=edges.device)
        first = scale[:, :, None] * (degree[:, :, None] * one - edges) * scale[:, None, :]
        second = 2 * first @ first - one
        return torch.stack([one.expand_as(first), first, second, 2 * first @ second - first], dim=1)

    @staticmethod
    def _filtered(block: Any, polynomials: Tensor, series: Tensor) -> Float[Tensor, "rows node hidden"]:
        seen = (polynomials @ series.unsqueeze(1)).unsqueeze(2)
        spectral: Tensor = block.spe_seq_cell(seen)
        return (spectral @ block.weight.squeeze(2)).sum(dim=1)


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    network = StemGNN(config.data.history, config.data.horizon, len(source.series.variables))
    return per_station(config, source, network, instance_norm=instance_norm)


BASELINE = Baseline(
    name="stemgnn",
    title="StemGNN",
    reference="Cao et al. (2020)",
    kind="trained",
    make=_make,
    needs="neuralforecast",
    rates=(1e-3, 3e-3),
    train=SHORT_EPOCHS,
    switches={"instance_norm": (False, True)},
)
