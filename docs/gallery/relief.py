"""A forecast over relief: a small model learns from stations for a minute and forecasts the field a day ahead.

Stations and relief of southern Brazil where the folder of real data is beside the repository; elsewhere the made-up
network of the demo. Both maps share their colours and the length of their arrows.
"""

import os
from pathlib import Path

import pictures
from stationpde import fields
from stationpde.config import Config
from stationpde.data import load_series
from stationpde.forecasting import Moment, issue_step, moment_of
from stationpde.plots import Relief, draw_forecast_map
from stationpde.runs import load_run
from stationpde.training import train

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared")) / "data"
STATIONS, GROUND = DATA / "inmet_south" / "observations.npz", DATA / "terrain" / "dem_brazil.npz"
IS_REAL = STATIONS.exists() and GROUND.exists()
SMALL = ["data.step=3h", "data.history=8", "data.horizon=8", "train.validate_windows=16", "train.threads=1"]


def observations() -> object:
    """Return what the model learns from: a file of real stations, or a made-up network."""
    return STATIONS if IS_REAL else fields.make_network()


def forecast(run: Path, *, steps: int = 30, at: str | None = None, backend: str = "auto") -> tuple[Moment, Relief]:
    """Train in ``run``, or take what is trained there; the forecast issued ``at`` a time, and the ground under it.

    By default it is issued a day before the end of the record, which training has not seen.
    """
    ground = [f"grid.dem={GROUND}", "grid.height=24"] if IS_REAL else []
    own = [f"train.max_steps={steps}", f"pde.backend={backend}"]
    config = Config.preset("demo").with_overrides([*SMALL, *ground, *own])
    series = load_series(str(STATIONS) if IS_REAL else "demo", config.data, quality="gross")
    train(config, series, run)  # a finished run is left as it is
    model = load_run(run).model.at(series.stations)
    issue = issue_step(series, config.data.history, at, default=len(series) - 1 - config.data.horizon)
    relief = Relief.of(model.region, GROUND if IS_REAL else None, synthetic=not IS_REAL)
    return moment_of(model, series, issue), relief


def main(out: Path | None = None, *, backend: str = "auto", run: Path | None = None, steps: int = 30) -> Path:
    """Train, forecast and draw; return where the picture is."""
    moment, relief = forecast(run or Path("out/gallery/relief"), steps=steps, backend=backend)
    return pictures.smaller(draw_forecast_map(moment, relief, out or Path("out/relief.png"), variable="t"))


if __name__ == "__main__":
    pictures.command(main, __doc__)
