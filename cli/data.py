"""`stationpde data`: raw station files to a store, and what is in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli._console import console
from cli._errors import ExitCode
from cli._progress import ProgressDisplay
from cli._stopping import resumable

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Data: ingest, synth, validate, info, where, qc.")


@app.command()
def ingest(
    source: Annotated[str, typer.Argument(metavar="SRC", help="File, folder or archive.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT.zarr", help="The store to write.")],
    reader: Annotated[str | None, typer.Option(metavar="NAME", help="Reader; found out by default.")] = None,
    column_map: Annotated[
        str | None, typer.Option("--map", metavar="F.toml", help="Column map of a table: a file or a shipped name.")
    ] = None,
    stations: Annotated[
        str | None, typer.Option(metavar="F.csv", help="List of stations for a map that needs one.")
    ] = None,
    unit: Annotated[list[str] | None, typer.Option(metavar="VAR=UNIT", help="Declare a unit, e.g. p=hPa.")] = None,
    pressure: Annotated[str | None, typer.Option(metavar="KIND", help="What p holds: station or sea-level.")] = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="Z", help="Clock of the source: UTC, UTC+8, Europe/Paris.")
    ] = None,
    start: Annotated[str | None, typer.Option(metavar="T", help="First time, where the file has none.")] = None,
    step: Annotated[str | None, typer.Option(metavar="3h", help="Step of the time axis.")] = None,
    tolerance: Annotated[
        str | None, typer.Option(metavar="10min", help="Take the value nearest to each step, this far away.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Take each n-th step.")] = 1,
    on_duplicate: Annotated[
        str | None, typer.Option(metavar="first|mean", help="Settle rows that contradict each other.")
    ] = None,
    on_move: Annotated[str | None, typer.Option(metavar="split|first", help="Settle stations that move.")] = None,
    missing: Annotated[
        list[str] | None, typer.Option(metavar="VAR=WHAT", help="Substitute: p=standard-atmosphere.")
    ] = None,
    max_missing: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out stations that lack more of the training period.")
    ] = None,
    train_fraction: Annotated[float, typer.Option(min=0.01, max=1, help="The training period, from the start.")] = 0.6,
    drop: Annotated[str | None, typer.Option(metavar="ID,ID", help="Leave out these stations.")] = None,
    exchange: Annotated[
        str | None, typer.Option(metavar="lat,lon", help="Latitudes and longitudes are the wrong way round.")
    ] = None,
    trust: Annotated[list[str] | None, typer.Option(metavar="VAR", help="Vouch for implausible values.")] = None,
    no_qc: Annotated[bool, typer.Option("--no-qc", help="Skip quality control.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Merge duplicate stations that agree.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing store.")] = False,
    max_bytes: Annotated[int, typer.Option(min=1, help="Most bytes to load or inflate.")] = 8 << 30,
) -> None:
    """Read raw station files into a store.

    The same command, typed again, goes on where a killed one stopped. After SIGTERM the exit code is 75.

    Example: stationpde data ingest stations.csv -o mine.zarr --unit p=Pa
    """
    from fields.ingest import IngestOptions
    from fields.ingest import ingest as run
    from fields.readers import ReadOptions
    from fields.readers.clock import parse_instant, parse_step

    read = ReadOptions(
        units=pairs(unit, "--unit"),
        pressure=choice(pressure, "--pressure", ("station", "sea-level")),
        zone=time_zone,
        start=None if start is None else parse_instant(start),
        step=None if step is None else parse_step(step),
        tolerance=None if tolerance is None else parse_step(tolerance),
        every=every,
        on_duplicate=choice(on_duplicate, "--on-duplicate", ("first", "mean")),
        on_move=choice(on_move, "--on-move", ("split", "first")),
        column_map=column_map,
        stations=stations,
        max_bytes=max_bytes,
        fix=fix,
        drop=tuple(name for name in (drop or "").split(",") if name),
        exchange=choice(exchange, "--exchange", ("lat,lon",)),
    )
    options = IngestOptions(
        read=read, reader=reader, missing=pairs(missing, "--missing"), trust=tuple(trust or ()), quality=not no_qc,
        max_missing=max_missing, training=train_fraction, force=force,
    )  # fmt: skip
    with resumable(), ProgressDisplay() as display:
        made = run(source, output, options, display)
    for line in made.report.lines():
        console.note(line)
    console.text(
        f"{made.path}: {made.stations} stations, {made.steps:,} times, {', '.join(made.variables)} "
        f"(reader {made.reader}{', resumed' if made.resumed else ''})"
    )
    console.result(made.to_dict())


@app.command()
def synth(
    output: Annotated[Path, typer.Argument(metavar="OUT.zarr", help="The store to write.")],
    stations: Annotated[int, typer.Option(min=1, max=5000, help="Stations.")] = 64,
    days: Annotated[int, typer.Option(min=1, max=3660, help="Days, hourly.")] = 90,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same record.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing store.")] = False,
) -> None:
    """Write a made-up network on real relief: it shows the tool, not skill.

    Example: stationpde data synth demo.zarr --stations 64 --days 90
    """
    from fields import store as stores
    from fields.synthetic import write_network

    made = write_network(output, stations=stations, days=days, seed=seed, force=force)
    console.text(f"{made}: {stations} stations, {days * 24:,} times; synthetic, it shows the tool, not skill")
    console.result(
        {"store": str(made), "stations": stations, "steps": days * 24, "fingerprint": stores.fingerprint(made)}
    )


@app.command()
def info(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store.")],
    plot: Annotated[
        Path | None, typer.Option(metavar="F.png", help="Draw the network on its relief with missing rates.")
    ] = None,
    variable: Annotated[str | None, typer.Option(metavar="VAR", help="Whose missing values the picture shows.")] = None,
    dem: Annotated[Path | None, typer.Option(metavar="F", help="Elevation model for the picture.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing picture.")] = False,
) -> None:
    """Print the data card of a store.

    Example: stationpde data info mine.zarr --plot network.png
    """
    from fields import store as stores
    from fields.card import data_card

    if plot is not None and plot.exists() and not force:
        raise typer.BadParameter(f"{plot} exists; add --force to replace it", param_hint="--plot")
    if stores.kind_of(store) == "fields":
        _field_info(store, plot)
        return
    card = data_card(stores.open(store, masked=False), path=store)
    for line in card.lines():
        console.text(line)
    drawn = None
    if plot is not None:
        from fields.plots_network import draw_network

        drawn = draw_network(stores.open(store), plot, variable=variable, dem=dem)
        console.text(f"picture: {drawn}")
    console.result({"store": str(store), **card.to_dict(), "plot": str(drawn) if drawn else None})


def _field_info(store: Path, plot: Path | None) -> None:
    from fields.field_card import field_card

    if plot is not None:
        raise typer.BadParameter(f"{store} holds fields; stationpde field plot draws them", param_hint="--plot")
    card = field_card(store)
    for line in card.lines():
        console.text(line)
    console.result({"store": str(store), **card.to_dict()})


@app.command()
def validate(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store of stations or of fields.")],
) -> None:
    """Prove that a store is whole and holds what it should.

    Damage makes the exit code 5, content that does not fit the schema 3.

    Example: stationpde data validate mine.zarr --json
    """
    from fields import schema
    from fields import store as stores

    report = stores.verify(store)
    whole = report.ok
    if whole and stores.kind_of(store) == "fields":
        from fields.field_card import check_fields

        report.extend(check_fields(store))
    elif whole:
        report.extend(schema.validate(stores.open(store, verify="none"), source=str(store)))
    for line in report.lines():
        console.text(line)
    verdict = "ok" if report.ok else ("does not fit the schema" if whole else "is damaged")
    console.text(f"{store}: {verdict}")
    console.result({"store": str(store), "whole": whole, **report.to_dict()})
    if not report.ok:
        raise typer.Exit(ExitCode.DATA if whole else ExitCode.ARTEFACT)


@app.command()
def where(
    name: Annotated[str, typer.Argument(metavar="NAME", help="weather2k, meteonet, inmet or table.")],
) -> None:
    """Tell where data are found that do not ship, and what to type once they are there.

    Example: stationpde data where weather2k
    """
    from fields.where import where as tell

    text = tell(name)
    console.text(text)
    console.result({"name": name, "text": text})


@app.command()
def qc(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="An hourly store of a real network.")],
    seed: Annotated[int, typer.Option(help="Seed of the planted errors.")] = 0,
) -> None:
    """Plant errors into a copy of a record and count how many quality control finds.

    Per cent of planted spikes, stuck runs, unit slips, exchanged stations and drifts that are flagged, and of
    untouched values that are.

    Example: stationpde data qc inmet.zarr
    """
    from fields import store as stores
    from fields.quality_seeding import quality_report

    console.note("planting errors and testing; this takes a minute for a hundred station-years")
    score = quality_report(stores.open(store), seed=seed)
    for line in score.lines():
        console.text(line)
    console.result({"store": str(store), "seed": seed, **score.to_dict()})


def pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """``["p=hPa"]`` as a mapping; the last word about a name counts."""
    made = {}
    for word in given or []:
        name, sign, value = word.partition("=")
        if not (name and sign and value):
            raise typer.BadParameter(f"'{word}' is not of the form NAME=VALUE", param_hint=option)
        made[name] = value
    return made


def choice(given: str | None, option: str, allowed: tuple[str, ...]) -> Any:
    """A word out of a few."""
    if given is not None and given not in allowed:
        raise typer.BadParameter(f"'{given}' is not one of {', '.join(allowed)}", param_hint=option)
    return given
