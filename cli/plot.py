"""`stationpde plot`: pictures of runs, benchmarks and records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli._console import console
from cli._options import (
    Accept,
    Against,
    At,
    ConfigFile,
    Dem,
    Force,
    Obs,
    Overrides,
    Preset,
    Run,
    StationStore,
    Variable,
    Windows,
    is_typed,
    names_in,
)
from cli._progress import ProgressDisplay
from cli._settings import configuration
from cli._stopping import resumable

if TYPE_CHECKING:
    from stationpde.report import RunView

__all__ = ["app"]

app = typer.Typer(
    rich_markup_mode=None,
    help="Pictures: router, errors, altitude, map, series, spread, uncertainty, physics, shares, transport, parts, "
    "w-alt.",
)

Output = Annotated[Path, typer.Option("-o", "--output", metavar="F.png", help="The picture: png, svg or pdf.")]


@app.command()
def router(
    run: Run,
    output: Output,
    obs: Obs = None,
    windows: Windows = 160,
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Draw the weights of the two branches by channel and by lead.

    Example: stationpde plot router runs/w2k --obs mine.zarr -o router.png
    """
    from stationpde.plots import draw_router
    from stationpde.report import OURS

    view = _view(run, output, obs, force, accept, windows=windows, against="")
    if view.scored.router is None:
        raise typer.BadParameter("this model has one branch only, and no router", param_hint="RUN")
    _show(draw_router(view.scored.router, view.scored.statistics[OURS].lead_hours, output))


@app.command()
def errors(
    run: Run,
    output: Output,
    obs: Obs = None,
    against: Against = "persistence,climatology",
    windows: Windows = 160,
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Draw the root mean square error by lead, beside that of baselines without training.

    Example: stationpde plot errors runs/w2k --obs mine.zarr -o errors.png
    """
    from stationpde.plots import draw_error_by_lead
    from stationpde.report import model_title

    statistics = _view(run, output, obs, force, accept, windows=windows, against=against).scored.statistics
    _show(draw_error_by_lead(statistics, output, {name: model_title(name) for name in statistics}))


@app.command()
def altitude(
    run: Run,
    output: Output,
    obs: Obs = None,
    windows: Windows = 160,
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Draw each station's error against its altitude.

    Example: stationpde plot altitude runs/w2k --obs mine.zarr -o altitude.png
    """
    from stationpde.plots import draw_error_by_altitude
    from stationpde.report import OURS

    view = _view(run, output, obs, force, accept, windows=windows, against="")
    _show(draw_error_by_altitude(view.scored.statistics[OURS], view.data.series.stations.alt, output))


@app.command("map")
def forecast_map(
    run: Run,
    output: Output,
    obs: Obs = None,
    at: At = None,
    variable: Variable = "t",
    lead: Annotated[int | None, typer.Option(min=1, metavar="N", help="Steps ahead; the last by default.")] = None,
    dem: Dem = None,
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Draw a forecast beside what was observed, on relief, with wind.

    The forecast is that issued at --at, by default the last of the test.

    Example: stationpde plot map runs/w2k --obs mine.zarr --variable rh -o map.png
    """
    from stationpde.plots import draw_forecast_map

    view = _view(run, output, obs, force, accept, windows=1, against="", at=at, dem=dem)
    _show(draw_forecast_map(view.moment, view.relief, output, variable=variable, lead=lead))


@app.command()
def series(
    run: Run,
    output: Output,
    station: Annotated[
        str | None, typer.Option(metavar="ID", help="Station; by default the first that reports.")
    ] = None,
    obs: Obs = None,
    at: At = None,
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Draw a station's forecast with its observations before and after the issue.

    The forecast is that issued at --at, by default the last of the test.

    Example: stationpde plot series runs/w2k --obs mine.zarr --station A801 -o A801.png
    """
    from stationpde.plots import draw_series

    view = _view(run, output, obs, force, accept, windows=1, against="", at=at)
    _show(draw_series(view.moment, station, output))


@app.command()
def spread(
    run: Run,
    output: Output,
    obs: Obs = None,
    at: At = None,
    variable: Variable = "t",
    exceed: Annotated[
        str | None, typer.Option(metavar='"t<0 degC"', help="Draw the probability of a threshold as well.")
    ] = None,
    lead: Annotated[int | None, typer.Option(min=1, metavar="N", help="Steps ahead; the last by default.")] = None,
    dem: Dem = None,
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Draw how wide the intervals of a calibrated run's forecast are, and how probable a threshold is.

    The variable ff is the speed of the wind. The forecast is that issued at --at, by default the last of the test.

    Example: stationpde plot spread runs/w2k --obs mine.zarr --variable ff --exceed "ff>10 m/s" -o spread.png
    """
    from stationpde.plots import draw_spread
    from stationpde.uncertainty import Threshold

    threshold = None if exceed is None else Threshold.parse(exceed)
    view = _view(
        run, output, obs, force, accept, windows=1, against="", at=at, dem=dem, distributions="cells"
    )  # fmt: skip
    _require_calibration(view)
    _show(draw_spread(view.moment, view.relief, output, variable=variable, lead=lead, threshold=threshold))


@app.command()
def uncertainty(
    run: Run,
    output: Output,
    obs: Obs = None,
    windows: Windows = 160,
    accept: Accept = None,
    force: Force = False,
) -> None:
    """Draw how well the distributions of a calibrated run are: coverage by lead, PIT and reliability.

    Example: stationpde plot uncertainty runs/w2k --obs mine.zarr -o uncertainty.png
    """
    from stationpde.plots import draw_uncertainty

    view = _view(run, output, obs, force, accept, windows=windows, against="", distributions="scores")
    _require_calibration(view)
    _show(draw_uncertainty(view.uncertainty, output))


@app.command()
def physics(run: Run, output: Output, force: Force = False) -> None:
    """Draw the learned coefficients of the equations with their units.

    Example: stationpde plot physics runs/w2k -o physics.png
    """
    from stationpde.api import StationPDE
    from stationpde.plots import check_picture, draw_physics

    check_picture(output, force)
    coefficients = StationPDE.load(run).physics()
    if not coefficients:
        raise typer.BadParameter("this model has no physical branch", param_hint="RUN")
    values = {name: {"value": c.value, "unit": c.unit} for name, c in coefficients.items()}
    _show(draw_physics(coefficients, output), values)


@app.command()
def shares(run: Run, output: Output, force: Force = False) -> None:
    """Draw the shares of guesses, simple forecasts and field in the forecast at the stations.

    Example: stationpde plot shares runs/w2k -o shares.png
    """
    from stationpde.model import shares_of
    from stationpde.plots import check_picture, draw_shares
    from stationpde.runs import load_run

    check_picture(output, force)
    mixed = shares_of(load_run(run, backend="torch").model)
    if mixed is None:
        raise typer.BadParameter("the field of this model is all its forecast", param_hint="RUN")
    console.text(mixed.about())
    _show(draw_shares(mixed.values, mixed.members, mixed.lead_hours, output, mixed.about()), mixed.by_variable)


@app.command()
def transport(
    store: StationStore,
    output: Output,
    at: At = None,
    hours: Annotated[float, typer.Option(min=0.1, metavar="H", help="Hours between the two fields.")] = 6.0,
    dem: Dem = None,
    force: Force = False,
) -> None:
    """Draw how the wind redistributes humidity over six hours, at real stations.

    The first field is that of --at; by default a time is searched at which the wind explains most.

    Example: stationpde plot transport mine.zarr -o transport.png
    """
    from fields.times import format_time
    from stationpde.data import WindowRequest, open_observations
    from stationpde.plots import check_picture, draw_redistribution, redistribution

    check_picture(output, force)
    # Pressure is not drawn: its stand-in lets a record without it be opened.
    with open_observations(store, stand_ins={"p": "standard-atmosphere"}, command="plot transport") as opened:
        case = redistribution(opened.dataset, None if at is None else WindowRequest.parse_at(at), hours)
    correlations = {"before": case.persisting, "carried": case.transported}
    listed = ", ".join(f"{name} {value:.2f}" for name, value in correlations.items())
    time = format_time(case.time, "minute")
    console.text(f"{time} UTC; the pattern {hours:g} h later correlates with: {listed}")
    _show(draw_redistribution(case, output, dem), {"at": time, "correlation": correlations})


@app.command()
def parts(
    results: Annotated[Path, typer.Argument(metavar="RESULTS.json", help="Results of `stationpde ablate`.")],
    output: Output,
    full: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the whole model; default or paper.")] = None,
    force: Force = False,
) -> None:
    """Draw the relative increase of MSE without each part of the model.

    Example: stationpde plot parts ablation/results.json -o parts.png
    """
    from stationpde.plots import check_picture, draw_parts, read_scores, whole_of

    check_picture(output, force)
    scores = read_scores(results)
    _show(draw_parts(scores, output, full=full or whole_of(scores)))


@app.command("w-alt")
def altitude_weight(
    context: typer.Context,
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="A store of stations, or w_alt.json of an earlier run.")
    ],
    output: Output,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the six runs.")] = Path("runs/w_alt"),
    preset: Preset = "weather2k",
    config: ConfigFile = None,
    overrides: Overrides = None,
    windows: Windows = 0,
    force: Force = False,
) -> None:
    """Draw the sensitivity to the weight of altitude: a model is trained and scored for 0, 1, 2, 5, 10 and 20 km/m.

    The same command, typed again, resumes where it stopped.

    Example: stationpde plot w-alt mine.zarr -o w_alt.png --runs runs/w_alt
    """
    from stationpde.plots import check_picture, draw_altitude_weight, read_altitude_weights

    check_picture(output, force)
    if store.suffix == ".json":
        options = {"runs": "--runs", "preset": "--preset", "config": "--config", "overrides": "--set",
                   "windows": "--windows"}  # fmt: skip
        for name in (name for name in options if is_typed(context, name)):
            raise typer.BadParameter(f"{store.name} holds scores: nothing is trained", param_hint=options[name])
        scores = read_altitude_weights(store)
    else:
        from stationpde.data import load_series
        from stationpde.evaluation import altitude_weight_scores

        settings = configuration(preset, config=config, overrides=overrides)
        with resumable(), ProgressDisplay() as display:
            data = load_series(str(store), settings.data, watcher=display, command="plot w-alt", complete=True)
            scores = altitude_weight_scores(settings, data, runs, windows=windows or None, watcher=display)
    _show(draw_altitude_weight(scores, output), {f"{weight:g}": mse for weight, mse in scores.items()})


def _view(
    run: Path, output: Path, obs: Path | None, force: bool, accept: list[str] | None, *, windows: int, against: str,
    **more: Any,
) -> Any:  # fmt: skip
    """Build the view of a run and its scores, after the picture's name has been checked; refuse a run without data."""
    from fields.atomic import refuse_input
    from stationpde.errors import UsageError
    from stationpde.plots import check_picture
    from stationpde.report import build_run_view

    refuse_input(output, obs, run, more.get("dem"))
    check_picture(output, force)
    view: RunView = build_run_view(
        run, obs, windows=windows or None, against=names_in(against), accept=accept or (), **more
    )
    if view.data is None:
        raise UsageError(
            "the run does not hold its observations", code="SPDE-B004", where=str(run),
            do="add --obs STORE with the store that it was trained on",
        )  # fmt: skip
    return view


def _require_calibration(view: RunView) -> None:
    """Refuse a run without a calibration."""
    import shlex

    from stationpde.errors import UsageError

    if view.moment is None or not view.moment.bands:
        raise UsageError(
            f"{view.run.path.name} is not calibrated at {view.run.checkpoint}", code="SPDE-Q012",
            where=str(view.run.path), do=f"stationpde calibrate {shlex.quote(str(view.run.path))} --obs STORE",
        )  # fmt: skip


def _show(picture: Path, numbers: Any = None) -> None:
    console.text(f"picture: {picture}")
    # The key `found` is part of the output for machines.
    console.result({"picture": str(picture), **({} if numbers is None else {"found": numbers})})
