"""Cost of the uncertainty: time of a forecast with seven quantiles over one without, and of calibrating over training.

``python -m benchmarks.uncertainty`` makes up a network of 1,866 stations, trains a model of the default size for a few
steps (what a forecast costs does not depend on how well it was trained), calibrates it and repeats forecasts. The share
of calibrating is of this short training; ``--run RUN --obs STORE`` takes a trained run instead.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["measure", "prepared"]

_ROUNDS = 7
_SHORT = (
    "train.max_steps=2", "train.epochs=1", "train.validate_windows=4", "train.threads=1", "model.guide_networks=1",
    "model.guide_epochs=1", "train.batch=2",
)  # fmt: skip


def prepared(folder: Path, stations: int = 1866, days: int = 75) -> tuple[Path, Path, float]:
    """Train a model of the default size on a made-up network for a few steps; return run, store and CPU seconds."""
    from fields.store import write_store
    from fields.synthetic import make_network
    from stationpde.config import Config
    from stationpde.data import load_series
    from stationpde.training import train

    obs = write_store(make_network(stations, days, seed=0), folder / "net.zarr")
    config = Config.preset("weather2k").with_overrides(list(_SHORT))
    series = load_series(str(obs), config.data)
    began = time.process_time()
    train(config, series, folder / "run")
    return folder / "run", obs, time.process_time() - began


def measure(run: Path, obs: Path, training_seconds: float | None = None, rounds: int = _ROUNDS) -> dict[str, Any]:
    """Measure medians of forecasts in turn, and the time to calibrate."""
    from stationpde.data import load_series
    from stationpde.forecasting import ForecastRequest, forecast
    from stationpde.runs import load_run
    from stationpde.uncertainty import calibrate_run

    loaded = load_run(run)
    series = load_series(str(obs), loaded.model.config.data, trained=loaded.model.statistics.stations)
    began = time.process_time()
    calibrate_run(loaded, series)
    calibrating = time.process_time() - began
    requests = {
        "without": ForecastRequest(quantiles=()), "with": ForecastRequest(),
        "exceed": ForecastRequest(exceed=("ff>15 m/s", "t<0 degC")),
    }  # fmt: skip
    seconds: dict[str, list[float]] = {name: [] for name in requests}
    for _ in range(rounds + 1):
        for name, request in requests.items():
            began = time.perf_counter()
            forecast([loaded], obs, request)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: median(values[1:]) for name, values in seconds.items()}
    result: dict[str, Any] = {
        "stations": len(loaded.model.statistics.stations), "seconds": {k: round(v, 3) for k, v in medians.items()},
        "ratio": round(medians["with"] / medians["without"], 3),
        "ratio_with_two_thresholds": round(medians["exceed"] / medians["without"], 3),
        "calibrating_cpu_seconds": round(calibrating, 1),
    }  # fmt: skip
    if training_seconds:
        result |= {"training_cpu_seconds": round(training_seconds, 1),
                   "calibrating_share": round(calibrating / training_seconds, 3)}  # fmt: skip
    return result


def _main() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.uncertainty", description=__doc__)
    parser.add_argument("--stations", type=int, default=1866)
    parser.add_argument("--days", type=int, default=75)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--run", type=Path, help="a trained run instead")
    parser.add_argument("--obs", type=Path, help="its store")
    options = parser.parse_args()
    if options.run is not None:
        result = measure(options.run, options.obs, rounds=options.rounds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run, obs, seconds = prepared(Path(folder), options.stations, options.days)
            result = measure(run, obs, seconds, options.rounds)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    _main()
