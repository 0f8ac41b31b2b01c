"""How much the weight of altitude in the lift matters: one model trained for each weight (the paper's Fig. 3 d)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic

if TYPE_CHECKING:
    from fields.series import StationSeries
    from stationpde.config import Config

__all__ = ["ALTITUDE_WEIGHTS", "altitude_weight_scores"]

# km/m; the paper uses 5.
ALTITUDE_WEIGHTS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)


def altitude_weight_scores(
    config: Config, series: StationSeries, folder: str | Path, weights: Sequence[float] = ALTITUDE_WEIGHTS,
    *, windows: int | None = None, watcher: Callable[[Any], None] | None = None,
) -> dict[float, dict[str, float]]:  # fmt: skip
    """MSE on the test split by weight [km/m] and variable, in the units people read squared.

    Each weight has a run in ``folder``; runs that are finished are not trained again.

    Parameters
    ----------
    config : of the model; the lift is ``terrain_idw`` for all
    windows : at most so many test windows; None scores all
    """
    from stationpde.evaluation.metrics import scores_by
    from stationpde.evaluation.scoring import score, windows_to_score
    from stationpde.learner import ModelLearner
    from stationpde.loading import load_run
    from stationpde.report.view import thinned
    from stationpde.training.session import train
    from stationpde.training.source import WindowSource

    found: dict[float, dict[str, float]] = {}
    for weight in weights:
        settings = config.with_overrides(["lift.method=terrain_idw", f'lift.w_alt="{weight:g} km/m"'])
        run = Path(folder) / f"w_alt-{weight:g}"
        train(settings, series, run, watcher=watcher)
        source = WindowSource.of(series, settings)
        starts = thinned(windows_to_score(source), windows)
        learner = ModelLearner(load_run(run).model.at(series.stations))
        made = score(learner, source, settings, starts, name=run.name).statistics()
        found[weight] = {name: own.mse for name, own in scores_by(made.total, made.variables).items()}
    content = {"unit": "km/m", "mse": {f"{weight:g}": own for weight, own in found.items()}}
    with atomic.machine_faults(Path(folder)):
        atomic.write_file(Path(folder) / "w_alt.json", json.dumps(content, indent=2).encode())
    return found
