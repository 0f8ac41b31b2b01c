"""`stationpde forecast`: from the latest observations to a forecast, once or whenever they change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli._console import console, shown
from cli._options import (
    Accept,
    AtOrLatest,
    Checkpoint,
    ColumnMap,
    DateOrder,
    Force,
    Reader,
    RequiredObs,
    StationList,
    Stations,
    TimeZone,
    Unit,
    choice,
    is_typed,
    pairs,
)
from cli._stopping import resumable

if TYPE_CHECKING:
    import xarray as xr

    from stationpde.api import StationPDE
    from stationpde.forecasting import ForecastRequest

__all__ = ["forecast"]


def forecast(
    context: typer.Context,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Runs; several give mean and spread.")],
    obs: RequiredObs,
    at: AtOrLatest = "latest",
    stations: Stations = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="F", help="F.zarr, F.nc, F.parquet or F.csv; {time} is the issue time."),
    ] = None,
    horizon: Annotated[int | None, typer.Option(min=1, metavar="N", help="Steps ahead; as trained by default.")] = None,
    max_age: Annotated[str | None, typer.Option(metavar="3h", help="Exit 75 if the latest report is older.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Forecast whenever the observations change.")] = False,
    poll: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds between polls of --watch.")] = 60.0,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End --watch after N forecasts.")] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(metavar="0.05,0.5,…", help="Levels of quantiles; seven where calibrated, or none."),
    ] = None,
    exceed: Annotated[
        list[str] | None, typer.Option(metavar='"t<0 degC"', help="Add the probability of a threshold; may repeat.")
    ] = None,
    members: Annotated[int, typer.Option(metavar="N", help="Add N joint scenarios of a calibrated run.")] = 0,
    accept: Accept = None,
    checkpoint: Checkpoint = "best",
    reader: Reader = None,
    column_map: ColumnMap = None,
    station_list: StationList = None,
    unit: Unit = None,
    time_zone: TimeZone = None,
    date_order: DateOrder = None,
    force: Force = False,
) -> None:
    """Compute a forecast from the latest observations.

    Stations may be missing, new or moved since training; --stations adds further places. Refused unless --accept
    names it: foreign-network, thin-history, beyond-horizon, far-places. A calibrated run (stationpde calibrate) adds
    quantiles of every variable and of the wind speed ff. Exit codes: 2 the output exists,
    3 nothing to start from, or refused, 5 a damaged run, 75 the data are older than --max-age.

    Example: stationpde forecast run --obs mine.zarr --max-age 3h -o fc.nc
    """
    from fields.atomic import refuse_input
    from fields.ingest import IngestOptions
    from fields.readers import ReadOptions
    from fields.times import DATE_ORDERS, parse_span
    from stationpde.api import StationPDE
    from stationpde.forecasting import ForecastRequest, accepted_names, check_output, output_for

    if not watch and count is not None:
        raise typer.BadParameter("it counts the forecasts of --watch; add that", param_hint="--count")
    if not watch and is_typed(context, "poll"):
        raise typer.BadParameter("it is the time between the polls of --watch; add that", param_hint="--poll")
    refuse_input(output, obs, stations, station_list, column_map, *runs)
    if output is not None:
        check_output(output_for(str(output), "0"), force)
    read = ReadOptions(
        units=pairs(unit, "--unit"), zone=time_zone, column_map=column_map, stations=station_list,
        date_order=choice(date_order, "--date-order", tuple(DATE_ORDERS)),
    )  # fmt: skip
    request = ForecastRequest(
        at, stations, horizon, None if max_age is None else parse_span(max_age),
        options=IngestOptions(read=read, reader=reader), accept=tuple(accepted_names(accept)),
        quantiles=_levels(quantiles), exceed=tuple(exceed or ()), members=members,
    )  # fmt: skip
    model = StationPDE.load(*runs, checkpoint=checkpoint)
    if watch:
        if at != "latest":
            raise typer.BadParameter("--watch takes the latest observations; leave out --at", param_hint="--at")
        with resumable():
            _watch(model, obs, request, output, poll, count, force)
        return
    result = _compute(model, obs, request)
    _show(model, result, None if output is None else _target(result, output), force)


def _levels(text: str | None) -> tuple[float, ...] | None:
    """Return the levels of ``--quantiles``: None by default, empty for ``none``."""
    from stationpde.uncertainty import checked_levels

    if text is None:
        return None
    return () if text.strip() == "none" else checked_levels([part.strip() for part in text.split(",")])


def _compute(model: StationPDE, obs: Path, request: ForecastRequest) -> xr.Dataset:
    from stationpde import forecasting

    return forecasting.forecast(model.runs, obs, request)


def _watch(
    model: StationPDE, obs: Path, request: ForecastRequest, output: Path | None, poll: float, count: int | None,
    force: bool,
) -> None:  # fmt: skip
    from stationpde.forecasting import forecast_on_change

    written: set[Path | None] = set()
    console.note(f"watching {obs}, polled every {poll:g} s; Ctrl-C ends it")
    for result in forecast_on_change(
        lambda: _compute(model, obs, request), obs, poll, count=count, note=console.note
    ):  # fmt: skip
        # A file that this process wrote is replaced by the next; one that was there before stays.
        target = None if output is None else _target(result, output)
        if target is not None and target.exists() and target not in written and not force:
            console.note(f"{target} exists and stays; --force replaces it")
            target = None
        _show(model, result, target, force=True)
        written.add(target)


def _target(result: xr.Dataset, output: Path) -> Path:
    """Return the file of a forecast."""
    from fields.times import file_stamp
    from stationpde.data import WindowRequest
    from stationpde.forecasting import output_for

    issued = WindowRequest.parse_at(result.attrs["issue_time"])
    return output_for(str(output), file_stamp(int(issued or 0)))


def _show(model: StationPDE, result: xr.Dataset, target: Path | None, force: bool) -> None:
    import json

    from fields.times import format_iso
    from stationpde.forecasting import write_forecast

    checked: dict[str, Any] = json.loads(result.attrs["physics_audit"])
    written = None if target is None else write_forecast(result, target, force=force)
    _table(result)
    from stationpde.forecasting import Audit

    for line in Audit(**checked).lines():
        console.text(line)
    for sentence in result.attrs.get("warnings", []):
        console.note(f"warning: {sentence}")
    if written is not None:
        console.text(f"forecast: {written}")
    console.result(
        {
            "issue_time": result.attrs["issue_time"],
            "valid_times": [format_iso(t) for t in result["time"].values],
            "stations": result.sizes["station"],
            "quality": result.attrs["quality"],
            "members": result.attrs["members"],
            "runs": [run.about() for run in model.runs],
            "audit": checked,
            "accepted": result.attrs.get("accepted", []),
            "warnings": result.attrs.get("warnings", []),
            "physics": {name: {"value": c.value, "unit": c.unit} for name, c in model.physics().items()},
            "output": str(written) if written is not None else None,
            **({} if written is not None else {"forecast": _values(result)}),
        }
    )


def _table(result: xr.Dataset) -> None:
    """Print the mean over the network for each lead, in the units people read."""
    from fields.times import format_time
    from fields.variables import STATE_VARIABLES, display_unit, to_display

    network = result.isel(station=~result["requested"].values.astype(bool))
    places = result.sizes["station"] - network.sizes["station"]
    about = f"issued {result.attrs['issue_time']}, {network.sizes['station']} stations, {result.attrs['quality']}"
    console.text(f"{about}; means over the network{', without the places of --stations' if places else ''}:")
    names = [name for name in STATE_VARIABLES if name in result]
    heads = ["valid time (UTC)", "lead [h]", *(f"{name} [{display_unit(name)}]" for name in names)]
    rows = []
    for moment in range(result.sizes["time"]):
        now = network.isel(time=moment)
        means = (shown(float(to_display(name, float(now[name].mean())))) for name in names)
        rows.append([format_time(result["time"].values[moment], "minute"), f"{float(now['lead']):g}", *means])
    console.table(heads, rows, essential=2 + len(names))
    if "quantile" in result.coords:
        shown_levels = ", ".join(f"{level:g}" for level in result["quantile"].values)
        console.text(f"quantiles {shown_levels} of {', '.join(_distributed(result))}")
    for name in (str(name) for name in result.data_vars if "threshold" in result[name].attrs):
        chance = network[name]
        mean, most = float(chance.mean()), float(chance.max())
        console.text(f"{chance.attrs['long_name']}: {mean:.1%} in the mean, up to {most:.1%}")


def _distributed(result: xr.Dataset) -> list[str]:
    """Return the variables that have quantiles."""
    return [str(name).removesuffix("_quantile") for name in result.data_vars if str(name).endswith("_quantile")]


def _values(result: xr.Dataset) -> dict[str, Any]:
    """Return the whole forecast for a program that reads no file: SI, ``[time][station]``, quantiles before these."""
    along = ("time", "station")
    names = [str(n) for n in result.data_vars if set(along) <= set(result[n].dims)]
    levels = {"quantile": result["quantile"].values.tolist()} if "quantile" in result.coords else {}
    return {
        "station": result["station"].values.tolist(),
        **levels,
        **{name: result[name].values.astype(float).round(6).tolist() for name in names},
    }
