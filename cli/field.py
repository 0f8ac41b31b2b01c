"""`stationpde field`: stations to fields and back, scored and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli._progress import ProgressDisplay
from cli._stopping import resumable

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Fields: lift, sample, cv, plot.")

Store = Annotated[Path, typer.Argument(metavar="STORE", help="A store of stations.")]
Fields = Annotated[Path, typer.Argument(metavar="FIELDS", help="A store that `field lift` wrote.")]
Neighbours = Annotated[int, typer.Option("--k", min=1, help="Neighbours of each cell.")]
AltitudeWeight = Annotated[str, typer.Option("--w-alt", metavar="W", help="Weight of altitude, with its unit.")]
Dem = Annotated[Path | None, typer.Option(metavar="F", help="Elevation model: npz, NetCDF, zarr, GeoTIFF.")]


@app.command()
def lift(
    store: Store,
    output: Annotated[Path, typer.Argument(metavar="OUT.zarr", help="Where the fields shall appear.")],
    method: Annotated[str, typer.Option(metavar="NAME", help="idw, terrain_idw or detrended.")] = "detrended",
    dem: Dem = None,
    height: Annotated[int, typer.Option(min=4, help="Rows of the grid.")] = 32,
    k: Neighbours = 10,
    w_alt: AltitudeWeight = "5 km/m",
    variables: Annotated[str | None, typer.Option(metavar="u,v,…", help="Lift only these.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes of a local dask cluster; 0: threads.")] = 0,
    scheduler: Annotated[str | None, typer.Option(metavar="ADDR", help="Join a running dask scheduler.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing store.")] = False,
) -> None:
    """Lift every moment of a record onto a grid.

    The same command, typed again, goes on where a killed one stopped. After SIGTERM the exit code is 75.

    Example: stationpde field lift mine.zarr fields.zarr --dem relief.nc --workers 4
    """
    from fields.lift_methods import LiftSettings, altitude_weight
    from fields.lift_store import lift_store

    settings = LiftSettings(method, k, w_alt=altitude_weight(w_alt))
    names = None if variables is None else [name.strip() for name in variables.split(",") if name.strip()]
    with resumable(), ProgressDisplay() as display:
        made = lift_store(
            store, output, settings=settings, height=height, dem=dem, variables=names, workers=workers,
            scheduler=scheduler, force=force, watcher=display,
        )  # fmt: skip
    resumed = f", {made.resumed_blocks} of {made.blocks} blocks were there" if made.resumed_blocks else ""
    console.text(
        f"{made.path}: {', '.join(made.variables)} on {made.grid.height} x {made.grid.width} cells of "
        f"{made.grid.dy / 1e3:.1f} km, {made.moments:,} times ({method}{resumed})"
    )
    console.result(made.to_dict())


@app.command()
def sample(
    fields: Fields,
    points: Annotated[Path, typer.Argument(metavar="POINTS.csv", help="Places: lat, lon, alt and name.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="F.csv", help="Write the series here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Read fields at places: any latitude, longitude and altitude.

    Without an altitude a place has that of the grid. A place outside reads the border and is marked.

    Example: stationpde field sample fields.zarr places.csv -o series.csv
    """
    from fields.sampling import FieldStore, read_points, refuse_existing, write_series

    if output is None and not console.settings.json:
        raise typer.BadParameter("give -o F.csv, or --json for the series on stdout")
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
    store: Store,
    method: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this method; may repeat.")] = None,
    block_km: Annotated[
        float | None, typer.Option(min=0, metavar="R", help="Also leave out all stations within R km.")
    ] = None,
    moments: Annotated[int, typer.Option(min=1, help="Times, spread over the record.")] = 700,
    k: Neighbours = 10,
    w_alt: AltitudeWeight = "5 km/m",
) -> None:
    """Score lift methods at stations that were left out.

    Root mean square errors in m/s, hPa, K and %, one station left out at a time.

    Example: stationpde field cv mine.zarr --block-km 100 --json
    """
    from fields import store as stores
    from fields.crossval import cross_validate
    from fields.lift_methods import LIFT_METHODS, LiftSettings, altitude_weight

    settings = LiftSettings(k=k, w_alt=altitude_weight(w_alt))
    methods = tuple(method or LIFT_METHODS)
    with ProgressDisplay() as display:
        found = cross_validate(
            stores.open(store), methods, settings=settings, block_km=block_km, moments=moments, watcher=display
        )
    left = "" if block_km is None else f" and those within {block_km:g} km"
    console.note(f"{found.stations} stations, {found.moments} times; each station{left} left out in turn")
    console.table(["RMSE", "unit", *methods], found.rows())
    console.result(found.to_dict())


@app.command()
def plot(
    fields: Fields,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="F.png", help="The picture to write.")],
    variable: Annotated[str, typer.Option(metavar="NAME", help="u, v, p, t, rh or speed.")] = "t",
    at: Annotated[str | None, typer.Option(metavar="TIME", help="The moment; the last by default.")] = None,
    dem: Dem = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Draw a moment on its relief, with wind and stations.

    Example: stationpde field plot fields.zarr -o map.png --at 2023-07-05T17:00 --dem relief.nc
    """
    from fields.plots_field import draw_field
    from fields.sampling import FieldStore, refuse_existing

    refuse_existing(output, force)
    made = draw_field(FieldStore(fields), output, variable=variable, at=at, dem=dem)
    console.text(f"picture: {made}")
    console.result({"picture": str(made)})
