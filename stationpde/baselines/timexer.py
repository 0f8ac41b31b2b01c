"""TimeXer: attention between patches of one variable, and through a global token to the other variables.

Reference: Wang et al., "TimeXer: Empowering Transformers for Time Series Forecasting with Exogenous Variables",
NeurIPS 2024.

What differs from the original: called per station with weights that all stations share, each variable having the others
as its exogenous ones; the patch is the longest of at most 16 steps that divides the window into two or more (8 of 16,
16 of 48); width 128; no calendar features; instance normalisation is a switch that validation decides.
"""

from __future__ import annotations

from stationpde.baselines.neuralforecast_modules import build_model, models_of
from stationpde.baselines.per_station import SHORT_EPOCHS, NetworkLearner, per_station
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

__all__ = ["BASELINE", "patch_of"]

_LONGEST = 16


def patch_of(history: int) -> int:
    """Return the steps of a patch: the longest divisor that gives at least two patches, if there are two steps."""
    return max(n for n in range(1, _LONGEST + 1) if history % n == 0 and (2 * n <= history or history == 1))


def _make(config: Config, source: WindowSource, instance_norm: bool = False) -> NetworkLearner:
    settings = {
        "h": config.data.horizon, "input_size": config.data.history, "n_series": len(source.series.variables),
        "patch_len": patch_of(config.data.history), "hidden_size": 128, "d_ff": 256, "n_heads": 8, "e_layers": 1,
        "dropout": 0.1, "use_norm": False,
    }  # fmt: skip
    network = build_model(models_of("timexer").TimeXer, settings)
    return per_station(config, source, network, instance_norm=instance_norm, about="TimeXer")


BASELINE = Baseline(
    name="timexer",
    title="TimeXer",
    reference="Wang et al. (2024)",
    kind="trained",
    make=_make,
    needs="neuralforecast",
    rates=(3e-4, 1e-3),
    train=SHORT_EPOCHS,
    switches={"instance_norm": (False, True)},
)
