"""`stationpde plot`: pictures of runs and of the ideas behind them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli._console import console
from cli._progress import ProgressDisplay
from cli._settings import assembled
from cli._stopping import resumable

if TYPE_CHECKING:
    from stationpde.report.view import RunView

__all__ = ["app"]

app = typer.Typer(
    rich_markup_mode=None, help="Pictures: router, errors, altitude, map, series, physics, transport, parts, w-alt."
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="F.png", help="The picture: png, svg or pdf.")]
Obs = Annotated[Path | None, typer.Option("--obs", metavar="STORE", help="Observations; those of training if found.")]
At = Annotated[str | None, typer.Option(metavar="TIME", help="Issue time (UTC); the last tested by default.")]
Windows = Annotated[int, typer.Option(min=0, help="At most so many test windows; 0 takes all.")]
Dem = Annotated[Path | None, typer.Option(metavar="F", help="Elevation model for the relief.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing picture.")]


@app.command()
def router(run: Run, output: Output, obs: Obs = None, windows: Windows = 160, force: Force = False) -> None:
    """Weights of the two branches by channel and by lead.

    Example: stationpde plot router runs/w2k --obs mine.zarr -o router.png
    """
    from stationpde.plots.router import draw_router
    from stationpde.report.view import OURS

    view = _looked(run, output, obs, force, windows=windows, against="")
    if view.scored.router is None:
        raise typer.BadParameter("this model has one branch only, and no router", param_hint="RUN")
    _show(draw_router(view.scored.router, view.scored.statistics[OURS].lead_hours, output))


@app.command()
def errors(
    run: Run,
    output: Output,
    obs: Obs = None,
    against: Annotated[str, typer.Option(metavar="A,B", help="Baselines beside it.")] = "persistence,climatology",
    windows: Windows = 160,
    force: Force = False,
) -> None:
    """Root mean square error by lead, beside baselines.

    Example: stationpde plot errors runs/w2k --obs mine.zarr -o errors.png
    """
    from stationpde.plots.errors import draw_error_by_lead
    from stationpde.report.content import model_title

    found = _looked(run, output, obs, force, windows=windows, against=against).scored.statistics
    _show(draw_error_by_lead(found, output, {name: model_title(name) for name in found}))


@app.command()
def altitude(run: Run, output: Output, obs: Obs = None, windows: Windows = 160, force: Force = False) -> None:
    """Each station's error against its altitude.

    Example: stationpde plot altitude runs/w2k --obs mine.zarr -o altitude.png
    """
    from stationpde.plots.errors import draw_error_by_altitude
    from stationpde.report.view import OURS

    view = _looked(run, output, obs, force, windows=windows, against="")
    _show(draw_error_by_altitude(view.scored.statistics[OURS], view.data.series.stations.alt, output))


@app.command("map")
def forecast_map(
    run: Run,
    output: Output,
    obs: Obs = None,
    at: At = None,
    variable: Annotated[str, typer.Option(metavar="NAME", help="u, v, p, t or rh.")] = "t",
    lead: Annotated[int | None, typer.Option(min=1, help="Steps ahead; the last by default.")] = None,
    dem: Dem = None,
    force: Force = False,
) -> None:
    """A forecast beside what was observed, on relief, with wind.

    Example: stationpde plot map runs/w2k --obs mine.zarr --variable rh -o map.png
    """
    from stationpde.plots.maps import draw_forecast_map

    view = _looked(run, output, obs, force, windows=1, against="", at=at, dem=dem)
    _show(draw_forecast_map(view.moment, view.relief, output, variable=variable, lead=lead))


@app.command()
def series(
    run: Run,
    output: Output,
    station: Annotated[str | None, typer.Option(metavar="ID", help="The station; the first that reports.")] = None,
    obs: Obs = None,
    at: At = None,
    force: Force = False,
) -> None:
    """A station's forecast with its observations before and after the issue.

    Example: stationpde plot series runs/w2k --obs mine.zarr --station A801 -o A801.png
    """
    from stationpde.plots.series import draw_series

    view = _looked(run, output, obs, force, windows=1, against="", at=at)
    _show(draw_series(view.moment, station, output))


@app.command()
def physics(run: Run, output: Output, force: Force = False) -> None:
    """Learned coefficients of the equations with their units.

    Example: stationpde plot physics runs/w2k -o physics.png
    """
    from stationpde.api import StationPDE
    from stationpde.plots.physics import draw_physics
    from stationpde.plots.style import check_picture

    check_picture(output, force)
    found = StationPDE.load(run).physics()
    if not found:
        raise typer.BadParameter("this model has no physical branch", param_hint="RUN")
    _show(draw_physics(found, output), {name: {"value": c.value, "unit": c.unit} for name, c in found.items()})


@app.command()
def transport(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store of stations.")],
    output: Output,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="The start (UTC); a clear case is looked for.")] = None,
    hours: Annotated[float, typer.Option(min=0.1, help="Between the two fields.")] = 6.0,
    dem: Dem = None,
    force: Force = False,
) -> None:
    """How the wind redistributes humidity over six hours, at real stations.

    Example: stationpde plot transport mine.zarr -o transport.png
    """
    from fields import store as stores
    from stationpde.observations import WindowRequest
    from stationpde.plots.redistribution import draw_redistribution, redistribution
    from stationpde.plots.style import check_picture
    from stationpde.report.moment import stamp

    check_picture(output, force)
    found = redistribution(stores.open(store), None if at is None else WindowRequest.parse_at(at), hours)
    correlations = {"before": found.persisting, "carried": found.transported}
    told = ", ".join(f"{name} {value:.2f}" for name, value in correlations.items())
    console.text(f"{stamp(found.time)} UTC; the pattern {hours:g} h later correlates with: {told}")
    _show(draw_redistribution(found, output, dem), {"at": stamp(found.time), "correlation": correlations})


@app.command()
def parts(
    results: Annotated[Path, typer.Argument(metavar="RESULTS.json", help="What `stationpde ablate` wrote.")],
    output: Output,
    full: Annotated[str | None, typer.Option(metavar="NAME", help="The whole model; found by default.")] = None,
    force: Force = False,
) -> None:
    """Relative increase of MSE without each part of the model.

    Example: stationpde plot parts ablation/results.json -o parts.png
    """
    from stationpde.plots.parts import draw_parts, read_scores, whole_of
    from stationpde.plots.style import check_picture

    check_picture(output, force)
    scores = read_scores(results)
    _show(draw_parts(scores, output, full=full or whole_of(scores)))


@app.command("w-alt")
def altitude_weight(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="A store of stations, or w_alt.json of an earlier run.")
    ],
    output: Output,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where the six runs are kept.")] = Path("runs/w_alt"),
    preset: Annotated[str, typer.Option(help="weather2k, meteonet, demo or tiny.")] = "weather2k",
    config: Annotated[Path | None, typer.Option("-c", "--config", metavar="FILE", help="TOML on top.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key.")] = None,
    windows: Windows = 0,
    force: Force = False,
) -> None:
    """Sensitivity to the weight of altitude: trains a model for each of 0, 1, 2, 5, 10 and 20 km/m and scores it.

    The same command, typed again, goes on where it stopped.

    Example: stationpde plot w-alt mine.zarr -o w_alt.png --runs runs/w_alt
    """
    from stationpde.plots.parts import draw_altitude_weight
    from stationpde.plots.style import check_picture

    check_picture(output, force)
    if store.suffix == ".json":
        found = {float(w): own for w, own in json.loads(store.read_text())["mse"].items()}
    else:
        from stationpde.data import load_series
        from stationpde.sensitivity import altitude_weight_scores

        settings = assembled(preset, config=config, overrides=overrides)
        with resumable(), ProgressDisplay() as display:
            data = load_series(str(store), settings.data, watcher=display)
            found = altitude_weight_scores(settings, data, runs, windows=windows or None, watcher=display)
    _show(draw_altitude_weight(found, output), {f"{w:g}": own for w, own in found.items()})


def _looked(run: Path, output: Path, obs: Path | None, force: bool, *, windows: int, against: str, **more: Any) -> Any:
    """A run with data, or the reason why there is none."""
    from stationpde.plots.style import check_picture
    from stationpde.report import look

    check_picture(output, force)
    names = [name for name in against.split(",") if name]
    view: RunView = look(run, obs, windows=windows or None, against=names, **more)
    if view.data is None:
        raise typer.BadParameter("the data of the run are not beside it", param_hint="--obs")
    return view


def _show(made: Path, found: Any = None) -> None:
    console.text(f"picture: {made}")
    console.result({"picture": str(made), **({} if found is None else {"found": found})})
