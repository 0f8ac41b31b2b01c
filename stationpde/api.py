"""The model for notebooks: load a run, give it observations, get a dataset.

>>> from stationpde import StationPDE
>>> StationPDE.load("run").forecast("observations.zarr")["t"].sel(station="71799")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from fields.ingest import IngestOptions
from fields.times import parse_span, to_datetime64
from fields.variables import STATE_VARIABLES, cf_attributes
from fields.windows import Stations
from stationpde import forecasting
from stationpde.config import Config
from stationpde.data import Observations
from stationpde.errors import UsageError
from stationpde.forecasting import write_forecast
from stationpde.model import Coefficient, coefficients_of
from stationpde.physics import STATE, clipped, to_observed
from stationpde.runs import LoadedRun, load_run

__all__ = ["Coefficient", "StationPDE"]

_DERIVED = {
    "theta": {"units": "K", "standard_name": "air_potential_temperature", "long_name": "Potential temperature"},
    "q": {"units": "1", "standard_name": "specific_humidity", "long_name": "Specific humidity"},
}


class StationPDE:
    """One trained run, or several as an ensemble."""

    def __init__(self, *runs: LoadedRun) -> None:
        if not runs or not all(isinstance(run, LoadedRun) for run in runs):
            raise UsageError(
                "a model is made of one loaded run at least", code="SPDE-T120", do="use StationPDE.load with folders"
            )
        self._runs = runs

    @classmethod
    def load(
        cls, *runs: str | Path, checkpoint: str = "best", backend: str | None = None, device: str = "cpu"
    ) -> StationPDE:
        """Load a run directory; with several, forecasts are their mean and have a spread.

        Parameters
        ----------
        runs : run directories
        checkpoint : weights to use: ``best``, ``last`` or ``step-N``
        backend : backend of the equations in place of the configured one; ``torch`` runs everywhere
        device : torch device on which the model computes
        """
        return cls(*(load_run(run, checkpoint, backend=backend, device=device) for run in runs))

    @property
    def config(self) -> Config:
        """The configuration of the (first) run."""
        return self._runs[0].model.config

    @property
    def stations(self) -> Stations:
        """The stations of training."""
        return self._runs[0].model.statistics.stations

    @property
    def runs(self) -> tuple[LoadedRun, ...]:
        """The loaded runs."""
        return self._runs

    def __repr__(self) -> str:
        data = self.config.data
        names = ", ".join(run.path.name for run in self._runs)
        return f"StationPDE({names}: {len(self.stations)} stations, {data.history} -> {data.horizon} x {data.step})"

    def forecast(
        self,
        observations: Observations,
        at: Any = "latest",
        stations: Any = None,
        *,
        horizon: int | None = None,
        max_age: str | int | None = None,
        options: IngestOptions | None = None,
        accept: str | Iterable[str] = (),
        quantiles: float | Iterable[float] | None = None,
        exceed: str | Iterable[str] | None = None,
        members: int = 0,
    ) -> xr.Dataset:
        """Compute the forecast at stations.

        Parameters
        ----------
        observations : a store, table or CF file, or a dataset with ``time`` and ``station``
        at : issue time (UTC), or ``latest``
        stations : further places to forecast: a CSV, a data frame or a dataset with lat, lon, alt and name
        horizon : number of steps ahead; that of training by default
        max_age : greatest age of the latest observations, ``"3h"`` or seconds; older ones raise `StaleDataError`
        options : options for reading a table
        accept : names of what is not refused: ``foreign-network``, ``thin-history``, ``beyond-horizon``, ``far-places``
        quantiles : levels of quantiles of every variable; seven from 0.05 to 0.95 by default where the runs are
            calibrated, ``()`` for none
        exceed : thresholds whose probability is added, such as ``"wind_speed > 15 m/s"``
        members : number of joint scenarios ``u_member`` … that keep the dependence of variables, leads and stations

        Returns
        -------
        ``u, v`` [m/s], ``p`` [Pa], ``t`` [K], ``rh`` [1] over valid time and station, with flags ``known``, ``inside``,
        ``present`` and ``requested``, the coordinate ``lead`` [h], and the physics audit and warnings in ``attrs``. Of
        calibrated runs also the wind speed ``ff`` [m/s] (its median), and ``u_quantile`` … ``ff_quantile`` over the
        coordinate ``quantile``; ``forecast.exceedance("wind_speed > 15 m/s")`` returns a probability
        """
        age = parse_span(max_age) if isinstance(max_age, str) else max_age
        request = forecasting.ForecastRequest(
            at, stations, horizon, age, options=options, accept=tuple(forecasting.accepted_names(accept)),
            quantiles=None if quantiles is None else _listed(quantiles),
            exceed=() if exceed is None else _listed(exceed), members=members,
        )  # fmt: skip
        return forecasting.forecast(self._runs, observations, request)

    def field(
        self, observations: Observations, at: Any = "latest", *, horizon: int | None = None,
        options: IngestOptions | None = None, accept: str | Iterable[str] = (),
    ) -> xr.Dataset:  # fmt: skip
        """Compute the forecast on the grid of the first run's model, in agreement with that at the stations.

        Parameters are those of `forecast`.

        Returns
        -------
        ``u, v, p, t, rh, theta, q`` over valid time, latitude and longitude in SI, and the weight of the data-driven
        branch for each channel where the model has a router
        """
        run = self._runs[:1]
        accepted = tuple(forecasting.accepted_names(accept))
        request = forecasting.ForecastRequest(at, horizon=horizon, options=options, accept=accepted)
        start = forecasting.start_of(run, observations, request)
        window, model, gates = start.window, start.models[0], start.gates
        output, present = forecasting.run_model(model, window, start.horizon)
        checked = forecasting.audit_of(model, output, present, window)
        forecasting.check_result(start, checked, run)
        with torch.inference_mode():
            maps = model.maps(output, torch.tensor([window.issue_time], device=output.state.device))
        grid, leads = model.region.grid, maps.shape[1]
        step = self.config.data.step_seconds
        seconds = step * np.arange(1, leads + 1, dtype=np.int64)
        with torch.inference_mode():
            cells = maps[0].movedim(1, -1)
            shown = clipped(to_observed(cells)).cpu().numpy()
        dims = ("time", "lat", "lon")
        absent = self.config.data.missing
        variables: dict[str, Any] = {
            n: (dims, shown[..., c], cf_attributes(n)) for c, n in enumerate(STATE_VARIABLES) if n not in absent
        }
        for name, about in _DERIVED.items():
            if {"theta": "t", "q": "rh"}[name] in absent:
                continue
            variables[name] = (dims, cells[..., STATE.index(name)].cpu().numpy(), about)
        if output.router is not None:
            variables["data_weight"] = (
                ("time", "channel", "lat", "lon"),
                output.router[0].cpu().numpy(),
                {"units": "1", "long_name": "Weight of the data-driven branch"},
            )
        coords = {
            "time": ("time", to_datetime64(window.issue_time + seconds), {"standard_name": "time"}),
            "lead": ("time", seconds / 3600.0, {"standard_name": "forecast_period", "units": "h"}),
            "lat": ("lat", grid.lat, cf_attributes("lat")),
            "lon": ("lon", grid.lon, cf_attributes("lon")),
            "alt": (("lat", "lon"), model.region.altitude, cf_attributes("alt")),
            **({"channel": ("channel", list(STATE))} if output.router is not None else {}),
        }
        origin = {"Conventions": "CF-1.11", "runs": run[0].path.name, **gates.attributes(), **checked.attributes()}
        return xr.Dataset(variables, coords, origin)

    def physics(self) -> Mapping[str, Coefficient]:
        """Return the learned coefficients of the equations with their units, and the update factors."""
        return coefficients_of(self._runs[0].model)

    @staticmethod
    def write(forecast: xr.Dataset, path: str | Path, *, force: bool = False) -> Path:
        """Write a forecast to zarr, NetCDF, parquet or CSV, by the ending of the name."""
        return write_forecast(forecast, path, force=force)


def _listed(value: Any) -> tuple[Any, ...]:
    """Return several values as they are, and one as the only one."""
    if isinstance(value, str | bytes):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        return (value,)
