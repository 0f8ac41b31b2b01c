"""TimeMixer: season and trend mixed over several time scales, and a forecast from each scale.

Reference: Wang et al., "TimeMixer: Decomposable Multiscale Mixing for Time Series Forecasting", ICLR 2024.

What differs from the original: called per station with weights that all stations share, variables embedded together; as
many halvings of the window, three at most, as leave four steps on the coarsest scale (two of 16 steps, three of 48);
no calendar features; instance normalisation is a switch that validation decides; layers that the module creates and
does not use are not trained.
"""

from __future__ import annotations

from stationpde.baselines.neuralforecast_modules import build_model, models_of
from stationpde.baselines.per_station import SHORT_EPOCHS, NetworkLearner, per_station
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

__all__ = ["BASELINE", "halvings"]

_MOST_HALVINGS = 3
_FEWEST_STEPS = 4
# With variables embedded together.
_UNUSED = ("layer_norm", "out_cross_layer", "normalize_layers")


def halvings(history: int) -> int:
    """Return how often a window can be halved."""
    return max(n for n in range(_MOST_HALVINGS + 1) if n == 0 or history >> n >= _FEWEST_STEPS)


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    settings = {
        "h": config.data.horizon, "input_size": config.data.history, "n_series": len(source.series.variables),
        "d_model": 16, "d_ff": 32, "e_layers": 2, "dropout": 0.1, "moving_avg": 25, "use_norm": False,
        "down_sampling_layers": halvings(config.data.history),
    }  # fmt: skip
    network = build_model(models_of("timemixer").TimeMixer, settings, _UNUSED)
    return per_station(config, source, network, instance_norm=instance_norm, about="TimeMixer")


BASELINE = Baseline(
    name="timemixer",
    title="TimeMixer",
    reference="Wang et al. (2024)",
    kind="trained",
    make=_make,
    needs="neuralforecast",
    rates=(3e-3, 1e-2),
    train=SHORT_EPOCHS,
    switches={"instance_norm": (False, True)},
)
