"""`stationpde forecast`: from the latest observations to a forecast, once or whenever new ones come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli._console import console, shown
from cli._stopping import resumable
from cli.data import pairs

if TYPE_CHECKING:
    import xarray as xr

    from stationpde.api import StationPDE
    from stationpde.forecasting import Asked

__all__ = ["forecast"]


def forecast(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Runs; several give mean and spread.")],
    obs: Annotated[Path, typer.Option("--obs", metavar="PATH", help="Store, table or CF file of observations.")],
    at: Annotated[str, typer.Option(metavar="TIME", help="Issue time in UTC, or latest.")] = "latest",
    stations: Annotated[
        Path | None, typer.Option(metavar="F.csv", help="Further places to forecast: lat, lon, alt, name.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="F", help="F.zarr, F.nc, F.parquet or F.csv; {time} is the issue time."),
    ] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Steps; as trained by default.")] = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="3h", help="Exit 75 if the latest report is older than that.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Forecast whenever the observations change.")] = False,
    every: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds between looks of --watch.")] = 60.0,
    count: Annotated[int | None, typer.Option(min=1, help="End --watch after so many forecasts.")] = None,
    checkpoint: Annotated[str, typer.Option(metavar="NAME", help="best, last or step-N.")] = "best",
    reader: Annotated[str | None, typer.Option(metavar="NAME", help="Reader of a table; found out by default.")] = None,
    column_map: Annotated[str | None, typer.Option("--map", metavar="F.toml", help="Column map of a table.")] = None,
    station_list: Annotated[
        str | None, typer.Option(metavar="F.csv", help="List of stations for a map that needs one.")
    ] = None,
    unit: Annotated[list[str] | None, typer.Option(metavar="VAR=UNIT", help="Declare a unit, e.g. p=hPa.")] = None,
    time_zone: Annotated[str | None, typer.Option(metavar="Z", help="Clock of a table.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
) -> None:
    """Forecast from the latest observations.

    Stations may be missing, new or moved since training. Exit codes: 2 the output exists, 3 nothing to start from,
    5 a damaged run, 75 the data are older than --max-age.

    Example: stationpde forecast run --obs mine.zarr --max-age 3h -o fc.nc
    """
    from fields.ingest import IngestOptions
    from fields.readers import ReadOptions
    from fields.readers.clock import parse_step
    from stationpde.api import StationPDE
    from stationpde.forecast_output import check_output, output_for
    from stationpde.forecasting import Asked

    if output is not None:
        check_output(output_for(output, "0"), force)
    read = ReadOptions(units=pairs(unit, "--unit"), zone=time_zone, column_map=column_map, stations=station_list)
    asked = Asked(
        at, stations, horizon, None if max_age is None else parse_step(max_age),
        options=IngestOptions(read=read, reader=reader),
    )  # fmt: skip
    model = StationPDE.load(*runs, checkpoint=checkpoint)
    if watch:
        if at != "latest":
            raise typer.BadParameter("--watch takes what comes; leave out --at", param_hint="--at")
        with resumable():
            _watch(model, obs, asked, output, every, count)
        return
    _show(model, _made(model, obs, asked), output, force)


def _made(model: StationPDE, obs: Path, asked: Asked) -> xr.Dataset:
    from stationpde import forecasting

    return forecasting.forecast(model.runs, obs, asked)


def _watch(model: StationPDE, obs: Path, asked: Asked, output: str | None, every: float, count: int | None) -> None:
    """Forecast at every change that brings a later issue time; bad or late data are waited out."""
    from fields.errors import FieldsError
    from stationpde.errors import StaleDataError
    from stationpde.watch import changes

    last, done = "", 0
    console.note(f"watching {obs}, a look every {every:g} s; Ctrl-C ends it")
    for _ in changes(obs, every):
        try:
            made = _made(model, obs, asked)
        except (FieldsError, StaleDataError) as problem:
            console.note(f"{problem.code}: {problem}; waiting")
            continue
        if made.attrs["issue_time"] <= last:
            console.note(f"nothing later than {last}; waiting")
            continue
        # What this process wrote itself gives way to the next; what stood there before was refused at the start.
        _show(model, made, output, force=True)
        last, done = made.attrs["issue_time"], done + 1
        if done == count:
            return


def _show(model: StationPDE, made: xr.Dataset, output: str | None, force: bool) -> None:
    import json

    from stationpde.forecast_output import output_for, write_forecast
    from stationpde.observations import WindowRequest, issue_label

    checked: dict[str, Any] = json.loads(made.attrs["physics_audit"])
    written = None
    if output is not None:
        issued = WindowRequest.parse_at(made.attrs["issue_time"])
        written = write_forecast(made, output_for(output, issue_label(int(issued or 0))), force=force)
    _table(made)
    from stationpde.audit import Audit

    for line in Audit(**checked).lines():
        console.text(line)
    if written is not None:
        console.text(f"forecast: {written}")
    console.result(
        {
            "issue_time": made.attrs["issue_time"],
            "valid_times": [str(t)[:19] + "Z" for t in made["time"].values],
            "stations": made.sizes["station"],
            "members": made.attrs["members"],
            "runs": [run.about() for run in model.runs],
            "audit": checked,
            "physics": {name: {"value": c.value, "unit": c.unit} for name, c in model.physics().items()},
            "output": str(written) if written is not None else None,
            **({} if written is not None else {"forecast": _values(made)}),
        }
    )


def _table(made: xr.Dataset) -> None:
    """Mean over the network for each lead, in the units people read."""
    from fields.variables import STATE_VARIABLES, display_unit, to_display

    console.text(f"issued {made.attrs['issue_time']}, {made.sizes['station']} stations; means over the network:")
    heads = ["valid time (UTC)", "lead [h]", *(f"{name} [{display_unit(name)}]" for name in STATE_VARIABLES)]
    rows = []
    for moment in range(made.sizes["time"]):
        now = made.isel(time=moment)
        means = (shown(float(to_display(name, float(now[name].mean())))) for name in STATE_VARIABLES)
        rows.append([str(now["time"].values)[:16].replace("T", " "), f"{float(now['lead']):g}", *means])
    console.table(heads, rows, essential=7)


def _values(made: xr.Dataset) -> dict[str, Any]:
    """The whole forecast for a program that asked for no file: SI, ``[time][station]``."""
    from fields.variables import STATE_VARIABLES

    names = [str(n) for n in made.data_vars if str(n).removesuffix("_spread") in STATE_VARIABLES]
    return {
        "station": made["station"].values.tolist(),
        **{name: made[name].values.astype(float).round(6).tolist() for name in names},
    }
