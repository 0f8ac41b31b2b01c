"""Sensitivity to the weight of altitude in the lift: one model trained for each weight (the paper's Fig. 3 d)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.config import Config

__all__ = ["ALTITUDE_WEIGHTS", "altitude_weight_scores"]

# km/m; the paper uses 5.
ALTITUDE_WEIGHTS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)


def altitude_weight_scores(
    config: Config, series: StationSeries, folder: str | Path, weights: Sequence[float] = ALTITUDE_WEIGHTS,
    *, windows: int | None = None, watcher: Callable[[Any], None] | None = None,
) -> dict[float, dict[str, float]]:  # fmt: skip
    """Train a model for each weight [km/m]; return the MSE on the test split by variable, in squared display units.

    Each weight has a run in ``folder``; runs that are finished are not trained again.

    Parameters
    ----------
    config : configuration of the model; the lift is ``terrain_idw`` for all
    windows : largest number of test windows; None scores all
    """
    from stationpde.data import WindowSource
    from stationpde.evaluation import thinned
    from stationpde.evaluation.metrics import scores_by
    from stationpde.evaluation.scoring import score, windows_to_score
    from stationpde.model import ModelLearner
    from stationpde.runs import load_run
    from stationpde.training import train

    errors: dict[float, dict[str, float]] = {}
    for weight in weights:
        settings = config.with_overrides(["lift.method=terrain_idw", f'lift.w_alt="{weight:g} km/m"'])
        run = Path(folder) / f"w_alt-{weight:g}"
        train(settings, series, run, watcher=watcher)
        source = WindowSource.of(series, settings)
        starts = thinned(windows_to_score(source), windows)
        learner = ModelLearner(load_run(run).model.at(series.stations))
        statistics = score(learner, source, settings, starts, name=run.name).statistics()
        errors[weight] = {name: score.mse for name, score in scores_by(statistics.total, statistics.variables).items()}
    content = {"unit": "km/m", "mse": {f"{weight:g}": mse for weight, mse in errors.items()}}
    with atomic.machine_faults(Path(folder)):
        atomic.write_file(Path(folder) / "w_alt.json", json.dumps(content, indent=2).encode())
    return errors
