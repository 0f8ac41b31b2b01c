"""`stationpde calibrate`: fit the distributions about the forecasts of a run."""

from __future__ import annotations

from typing import Any

from cli._console import console
from cli._options import Checkpoint, Obs, Run
from cli._progress import ProgressDisplay
from cli._stopping import resumable

__all__ = ["calibrate"]


def calibrate(run: Run, obs: Obs = None, checkpoint: Checkpoint = "best") -> None:
    """Fit how far the forecasts of a run err, so that forecast can give quantiles.

    Nothing is trained again: errors on the validation windows of the record of training are used, or on what a later
    record holds beyond it. Training does it at its end; this is for older runs, another checkpoint, or later data.
    Without --obs the record is used that training kept beside the run. Exit codes: 3 too little data, or another
    network, 5 a damaged run.

    Example: stationpde calibrate runs/demo --obs demo
    """
    from stationpde.data import load_series
    from stationpde.extras import fit_extras
    from stationpde.runs import RunLock, load_run, observations_of_run
    from stationpde.uncertainty import CALIBRATION, calibrate_run

    loaded = load_run(run, checkpoint)
    record = observations_of_run(loaded, "calibrate") if obs is None else str(obs)
    with ProgressDisplay() as display, resumable():
        series = load_series(
            record, loaded.model.config.data, command="calibrate", watcher=display,
            trained=loaded.model.statistics.stations,
        )  # fmt: skip
        with RunLock(loaded.path):
            if series.fingerprint == loaded.record.get("data_fingerprint"):
                fit_extras(loaded, series, display)
            calibration = calibrate_run(loaded, series, display)
    facts: dict[str, Any] = dict(calibration.facts)
    named = ", ".join(calibration.marginals)
    console.text(
        f"{loaded.path / CALIBRATION}: {named}, from {facts['windows']:,} windows of {facts['days']:,} days, "
        f"checkpoint {facts['checkpoint']}"
    )
    console.result({"output": str(loaded.path / CALIBRATION), "variables": list(calibration.marginals), **facts})
