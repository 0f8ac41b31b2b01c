"""iTransformer: every variable's whole history is one token, and attention runs between variables.

Reference: Liu et al., "iTransformer: Inverted Transformers Are Effective for Time Series Forecasting", ICLR 2024.

What differs from the original: called per station with weights that all stations share, so that there are five tokens;
width 128 and two layers; no calendar tokens; instance normalisation is a switch that validation decides.
"""

from __future__ import annotations

from stationpde.baselines.neuralforecast_modules import build_model, models_of
from stationpde.baselines.per_station import SHORT_EPOCHS, NetworkLearner, per_station
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

__all__ = ["BASELINE"]


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    settings = {
        "h": config.data.horizon, "input_size": config.data.history, "n_series": len(source.series.variables),
        "hidden_size": 128, "d_ff": 256, "n_heads": 8, "e_layers": 2, "dropout": 0.1, "use_norm": False,
    }  # fmt: skip
    network = build_model(models_of("itransformer").iTransformer, settings)
    return per_station(config, source, network, instance_norm=instance_norm, about="iTransformer")


BASELINE = Baseline(
    name="itransformer",
    title="iTransformer",
    reference="Liu et al. (2024)",
    kind="trained",
    make=_make,
    needs="neuralforecast",
    rates=(3e-4, 1e-3),
    train=SHORT_EPOCHS,
    switches={"instance_norm": (False, True)},
)
