"""`stationpde field`: stations to fields and back, scored and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli._options import (
    AltitudeWeight,
    At,
    Coriolis,
    Dem,
    Force,
    Neighbours,
    PinnSteps,
    Record,
    Seed,
    Variable,
    names_in,
)
from cli._progress import ProgressDisplay
from cli._stopping import resumable

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Fields: lift, sample, cv, plot.")

# Of `fields.lift.PinnSettings`, which is not imported for --help; a test compares them.
_STEPS = 1500

Fields = Annotated[Path, typer.Argument(metavar="FIELDS", help="A store that `field lift` wrote.")]


@app.command()
def lift(
    store: Record,
    output: Annotated[Path, typer.Argument(metavar="OUT.zarr", help="The store to write.")],
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Method: idw, terrain_idw, detrended or pinn.")
    ] = "detrended",
    dem: Dem = None,
    height: Annotated[int, typer.Option(min=4, metavar="N", help="Rows of the grid.")] = 32,
    k: Neighbours = 10,
    w_alt: AltitudeWeight = "5 km/m",
    variables: Annotated[str | None, typer.Option(metavar="u,v,…", help="Lift only these.")] = None,
    workers: Annotated[
        int, typer.Option(min=0, metavar="N", help="Processes of a local dask cluster; 0: threads.")
    ] = 0,
    scheduler: Annotated[str | None, typer.Option(metavar="ADDR", help="Join a running dask scheduler.")] = None,
    coriolis: Coriolis = True,
    seed: Seed = 0,
    steps: PinnSteps = _STEPS,
    error: Annotated[
        bool, typer.Option("--error/--no-error", help="Write one standard deviation of the error beside each field.")
    ] = True,
    force: Force = False,
) -> None:
    """Lift every time step of a record onto a grid.

    The method pinn fits a network of wind and pressure to every two weeks, under the equations of motion; it says first
    how long that takes. Temperature and humidity are lifted as by detrended.

    The same command, typed again, resumes a killed one. After SIGTERM the exit code is 75.

    Example: stationpde field lift mine.zarr fields.zarr --dem relief.nc --workers 4
    """
    from fields.atomic import refuse_input
    from fields.lift import PINN, LiftSettings, PinnSettings, altitude_weight, lift_to_store
    from stationpde.data import open_observations

    refuse_input(output, store, dem)
    _refuse_unused(method == PINN, coriolis, steps)
    settings = LiftSettings("detrended" if method == PINN else method, k, w_alt=altitude_weight(w_alt))
    pinn = PinnSettings(coriolis=coriolis, seed=seed, steps=steps) if method == PINN else None
    names = None if variables is None else list(names_in(variables))
    with (
        resumable(), ProgressDisplay() as display,
        open_observations(store, watcher=display, command="field lift", need_state=False) as observations,
        observations.as_store() as source,
    ):  # fmt: skip
        lifted = lift_to_store(
            source, output, settings=settings, pinn=pinn, height=height, dem=dem, variables=names, workers=workers,
            scheduler=scheduler, error=error, force=force, announce=console.note, watcher=display,
        )  # fmt: skip
    resumed = f", {lifted.resumed_blocks} of {lifted.blocks} blocks were there" if lifted.resumed_blocks else ""
    console.text(
        f"{lifted.path}: {', '.join(lifted.variables)} on {lifted.grid.height} x {lifted.grid.width} cells of "
        f"{lifted.grid.dy / 1e3:.1f} km, {lifted.moments:,} times ({method}{resumed})"
    )
    console.result(lifted.to_dict())


@app.command()
def sample(
    fields: Fields,
    points: Annotated[Path, typer.Argument(metavar="POINTS.csv", help="Places: lat, lon, alt and name.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="F.csv", help="Write the series here.")
    ] = None,
    force: Force = False,
) -> None:
    """Read fields at places: any latitude, longitude and altitude.

    Without an altitude a place has that of the grid. A place outside reads the border and is marked.

    Example: stationpde field sample fields.zarr places.csv -o series.csv
    """
    from fields.atomic import refuse_input
    from fields.lift import FieldStore, read_points, refuse_existing, write_series

    if output is None and not console.settings.json:
        raise typer.BadParameter("give -o F.csv, or --json for the series on stdout")
    refuse_input(output, fields, points)
    refuse_existing(output, force)
    answer = write_series(FieldStore(fields), read_points(points), output)
    outside = [place["name"] for place in answer["points"] if not place["inside"]]
    if outside:
        console.note(f"outside the grid, read at its border: {', '.join(outside[:10])}")
    if output is not None:
        console.text(f"{output}: {len(answer['points'])} places")
    console.result(answer)


@app.command()
def cv(
    store: Record,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Method: idw, terrain_idw, detrended or pinn.")
    ] = None,
    block_km: Annotated[
        float | None, typer.Option(min=0, metavar="R", help="Also leave out all stations within R km.")
    ] = None,
    moments: Annotated[int, typer.Option(min=1, metavar="N", help="Times, spread over the record.")] = 700,
    folds: Annotated[bool, typer.Option("--folds", help="Leave out a fifth of the stations at a time.")] = False,
    k: Neighbours = 10,
    w_alt: AltitudeWeight = "5 km/m",
    coriolis: Coriolis = True,
    seed: Seed = 0,
    steps: PinnSteps = _STEPS,
    error: Annotated[
        bool, typer.Option("--error/--no-error", help="Score the standard deviations that field lift writes.")
    ] = True,
) -> None:
    """Compare lift methods at stations that are left out.

    Prints root mean square errors in m/s, hPa, K and %, one station left out at a time. All methods but pinn are
    scored, or those of --method, which may be repeated. With pinn among them, or --folds, all are scored on the same
    five folds of stations over the two weeks in the middle of the record. The standard deviations of the errors are
    scored as those of normal distributions: share within one of them (68 %) and within 1.645 (90 %), and CRPS.

    Example: stationpde field cv mine.zarr --block-km 100 --json
    """
    from fields.lift import LIFT_METHODS, PINN, LiftSettings, PinnSettings, altitude_weight, cross_validate
    from stationpde.data import describe_quality, open_observations

    settings = LiftSettings(k=k, w_alt=altitude_weight(w_alt))
    methods = tuple(method or LIFT_METHODS)
    _refuse_unused(PINN in methods, coriolis, steps)
    with (
        ProgressDisplay() as display,
        open_observations(store, watcher=display, command="field cv", need_state=False) as observations,
    ):
        scores = cross_validate(
            observations.dataset, methods, settings=settings, block_km=block_km, moments=moments, folds=folds,
            error=error, pinn=PinnSettings(coriolis=coriolis, seed=seed, steps=steps), announce=console.note,
            watcher=display,
        )  # fmt: skip
    left = "" if block_km is None else f" and those within {block_km:g} km"
    turns = f"each station{left}" if scores.folds is None else f"each of {scores.folds} folds of stations"
    console.note(
        f"{scores.stations} stations, {scores.moments} times; {turns} left out in turn; "
        f"{describe_quality(observations.quality)}"
    )
    console.table(["RMSE", "unit", *methods], scores.rows())
    if scores.errors:
        heads = [f"{method}: {what}" for method in methods for what in ("1 sd", "90 %", "CRPS")]
        console.text()
        console.table(["errors", "unit", *heads], scores.error_rows())
    errors = {name: {method: one.to_dict() for method, one in part.items()} for name, part in scores.errors.items()}
    console.result({**scores.to_dict(), **({"errors": errors} if errors else {})})


@app.command()
def plot(
    fields: Fields,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="F.png", help="The picture: png, svg or pdf.")],
    variable: Variable = "t",
    at: At = None,
    dem: Dem = None,
    error: Annotated[bool, typer.Option("--error", help="Draw one standard deviation of the error instead.")] = False,
    force: Force = False,
) -> None:
    """Draw the field of one time on its relief, with wind and stations.

    The last time is drawn by default; --variable may also be speed, that of the wind. --error draws how far the field
    may be off, one standard deviation, for stores that hold it.

    Example: stationpde field plot fields.zarr -o map.png --at 2023-07-05T17:00 --dem relief.nc
    """
    from fields.atomic import refuse_input
    from fields.lift import FieldStore, refuse_existing
    from fields.plots import draw_field

    refuse_input(output, fields, dem)
    refuse_existing(output, force)
    picture = draw_field(FieldStore(fields), output, variable=variable, at=at, dem=dem, error=error)
    console.text(f"picture: {picture}")
    console.result({"picture": str(picture)})


def _refuse_unused(is_guided: bool, coriolis: bool, steps: int) -> None:
    """Refuse options of pinn where it is not among the methods."""
    unused = [name for name, typed in (("--no-coriolis", not coriolis), ("--steps", steps != _STEPS)) if typed]
    if unused and not is_guided:
        raise typer.BadParameter(f"{' and '.join(unused)} is for --method pinn alone")
