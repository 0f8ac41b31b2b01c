"""`stationpde data`: raw station files to a store, and what is in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli._errors import ExitCode
from cli._options import (
    Accept,
    ColumnMap,
    DateOrder,
    Days,
    Dem,
    Force,
    Missing,
    Reader,
    Seed,
    Start,
    StationList,
    TimeZone,
    Unit,
    VariableOrNone,
    choice,
    names_in,
    pairs,
)
from cli._progress import ProgressDisplay
from cli._stopping import resumable

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Data: ingest, map, synth, validate, info, where, qc-score.")


@app.command()
def ingest(
    source: Annotated[str, typer.Argument(metavar="SRC", help="File, folder or archive.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.zarr", help="The store to write.")],
    reader: Reader = None,
    column_map: ColumnMap = None,
    station_list: StationList = None,
    unit: Unit = None,
    pressure: Annotated[str | None, typer.Option(metavar="KIND", help="What p holds: station or sea-level.")] = None,
    time_zone: TimeZone = None,
    date_order: DateOrder = None,
    start: Start = None,
    step: Annotated[str | None, typer.Option(metavar="3h", help="Step of the time axis.")] = None,
    tolerance: Annotated[
        str | None, typer.Option(metavar="10min", help="Take the value nearest to each step, this far away.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Take each N-th step.")] = 1,
    on_duplicate: Annotated[
        str | None, typer.Option(metavar="first|mean", help="Settle rows that contradict each other.")
    ] = None,
    on_move: Annotated[str | None, typer.Option(metavar="split|first", help="Settle stations that move.")] = None,
    missing: Missing = None,
    max_missing: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="X", help="Leave out stations that lack more of the training period."),
    ] = None,
    train_fraction: Annotated[
        float, typer.Option(min=0.01, max=1, metavar="X", help="The training period, from the start.")
    ] = 0.6,
    bbox: Annotated[
        str | None, typer.Option(metavar="W,S,E,N", help="Take the stations within these degrees alone.")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="ID,ID", help="Take these stations alone.")] = None,
    drop: Annotated[str | None, typer.Option(metavar="ID,ID", help="Leave out these stations.")] = None,
    dem: Dem = None,
    exchange: Annotated[
        str | None, typer.Option(metavar="lat,lon", help="Latitudes and longitudes are the wrong way round.")
    ] = None,
    trust: Annotated[list[str] | None, typer.Option(metavar="VAR", help="Vouch for implausible values.")] = None,
    accept: Accept = None,
    no_qc: Annotated[bool, typer.Option("--no-qc", help="Skip quality control.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Merge duplicate stations that agree.")] = False,
    force: Force = False,
    max_bytes: Annotated[int, typer.Option(min=1, metavar="N", help="Most bytes to load or inflate.")] = 8 << 30,
) -> None:
    """Read raw station files into a store.

    The same command, typed again, resumes a killed one. After SIGTERM the exit code is 75. --accept sparse-axis takes
    a time axis most of whose steps have no report.

    Example: stationpde data ingest stations.csv -o mine.zarr --unit p=Pa
    """
    from fields.ingest import IngestOptions, ingest_files, parse_bbox
    from fields.readers import ReadOptions
    from fields.times import DATE_ORDERS, parse_span, parse_time
    from fields.variables import PressureKind

    read = ReadOptions(
        units=pairs(unit, "--unit"),
        pressure=choice(pressure, "--pressure", (PressureKind.STATION.option, PressureKind.SEA_LEVEL.option)),
        zone=time_zone,
        start=None if start is None else parse_time(start),
        step=None if step is None else parse_span(step),
        tolerance=None if tolerance is None else parse_span(tolerance),
        every=every,
        on_duplicate=choice(on_duplicate, "--on-duplicate", ("first", "mean")),
        on_move=choice(on_move, "--on-move", ("split", "first")),
        column_map=column_map,
        stations=station_list,
        max_bytes=max_bytes,
        fix=fix,
        drop=names_in(drop),
        bbox=None if bbox is None else parse_bbox(bbox),
        only=names_in(only),
        dem=None if dem is None else str(dem),
        exchange=choice(exchange, "--exchange", ("lat,lon",)),
        date_order=choice(date_order, "--date-order", tuple(DATE_ORDERS)),
    )
    options = IngestOptions(
        read=read, reader=reader, missing=pairs(missing, "--missing"), trust=tuple(trust or ()), quality=not no_qc,
        accept=tuple(accept or ()),
        max_missing=max_missing, training=train_fraction, force=force,
    )  # fmt: skip
    with resumable(), ProgressDisplay() as display:
        written = ingest_files(source, str(output), options, display)
    for line in written.report.lines():
        console.note(line)
    console.text(
        f"{written.path}: {written.stations} stations, {written.steps:,} times, {', '.join(written.variables)} "
        f"(reader {written.reader}{', resumed' if written.resumed else ''})"
    )
    console.result(written.to_dict())


@app.command("map")
def draft(
    source: Annotated[str, typer.Argument(metavar="FILE", help="Table, or folder or archive of tables.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="M.toml", help="Column map to write; printed by default.")
    ] = None,
    station_list: StationList = None,
    force: Force = False,
    max_bytes: Annotated[int, typer.Option(min=1, metavar="N", help="Most bytes to load or inflate.")] = 8 << 30,
) -> None:
    """Draft the column map of a table from its names and first rows, and print the ingest command.

    What is a guess is marked as unsure: look at it before you ingest. With --station-list positions are taken from that
    list.

    Example: stationpde data map observations.csv -o mine.toml
    """
    from fields.atomic import refuse_input, write_file
    from fields.readers import draft_map

    refuse_input(output, source, station_list)
    if output is not None and output.exists() and not force:
        raise typer.BadParameter(f"{output} exists; add --force to replace it", param_hint="--output")
    drafted = draft_map(
        Path(source), stations=station_list, output=None if output is None else str(output), max_bytes=max_bytes
    )
    if output is None:
        console.text(drafted.text)
    else:
        write_file(output, drafted.text.encode())
        console.text(f"{output}: {', '.join(drafted.variables)}")
    for line in drafted.unsure:
        console.note(f"unsure: {line}")
    console.text(drafted.command)
    console.result({"output": None if output is None else str(output), **drafted.to_dict()})


@app.command()
def synth(
    output: Annotated[Path, typer.Argument(metavar="OUT.zarr", help="The store to write.")],
    station_count: Annotated[
        int, typer.Option(min=1, max=5000, metavar="N", help="Stations of the synthetic network.")
    ] = 64,
    days: Days = 90,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Write a synthetic network on real relief: it shows the tool, not skill.

    Example: stationpde data synth demo.zarr --station-count 64 --days 90
    """
    from fields import store as stores
    from fields.synthetic import write_network

    path = write_network(output, stations=station_count, days=days, seed=seed, force=force)
    console.text(f"{path}: {station_count} stations, {days * 24:,} times; synthetic, it shows the tool, not skill")
    console.result(
        {"store": str(path), "stations": station_count, "steps": days * 24, "fingerprint": stores.fingerprint(path)}
    )


@app.command()
def info(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store.")],
    plot: Annotated[
        Path | None, typer.Option(metavar="F.png", help="Draw the network on its relief with missing rates.")
    ] = None,
    variable: VariableOrNone = None,
    dem: Dem = None,
    force: Force = False,
) -> None:
    """Print the data card of a store.

    --plot draws the stations with their missing rates, those of --variable or of all variables.

    Example: stationpde data info mine.zarr --plot network.png
    """
    from fields import store as stores
    from fields.store import data_card

    if plot is not None and plot.exists() and not force:
        raise typer.BadParameter(f"{plot} exists; add --force to replace it", param_hint="--plot")
    if stores.kind_of(store) == "fields":
        _field_info(store, plot)
        return
    card = data_card(stores.open_store(store, masked=False), path=store)
    for line in card.lines():
        console.text(line)
    if stores.kind_of(store) == "stations":
        _warn_of_impossible(store)
    drawn = None
    if plot is not None:
        from fields.plots import draw_network

        drawn = draw_network(stores.open_store(store), plot, variable=variable, dem=dem)
        console.text(f"picture: {drawn}")
    console.result({"store": str(store), **card.to_dict(), "plot": str(drawn) if drawn else None})


def _warn_of_impossible(store: Path) -> None:
    """Tell of a variable that cannot be in the unit of a store: its numbers on the card mean nothing."""
    from fields import store as stores
    from fields.errors import DataError

    try:
        stores.require_plausible(stores.open_store(store, verify="none"), "", do=stores.ways_out(store))
    except DataError as problem:
        console.note(f"warning: {problem.message}; {problem.do}")


def _field_info(store: Path, plot: Path | None) -> None:
    from fields.lift import field_card

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
    """Check that a store is undamaged and fits the schema.

    Damage makes the exit code 5, content that does not fit the schema 3.

    Example: stationpde data validate mine.zarr --json
    """
    from fields import store as stores
    from fields.checks import validate as check_schema

    report = stores.verify_store(store)
    whole = report.ok
    if whole and stores.kind_of(store) == "fields":
        from fields.lift import check_fields

        report.extend(check_fields(store))
    elif whole:
        report.extend(check_schema(stores.open_store(store, verify="none"), source=str(store)))
    for line in report.lines():
        console.text(line)
    verdict = "ok" if report.ok else ("does not fit the schema" if whole else _broken(store))
    console.text(f"{store}: {verdict}")
    console.result({"store": str(store), "whole": whole, **report.to_dict()})
    if not report.ok:
        raise typer.Exit(ExitCode.DATA if whole else ExitCode.ARTEFACT)


def _broken(store: Path) -> str:
    """Say whether a path that cannot be read is a damaged store or none at all."""
    from fields import store as stores

    return "is damaged" if stores.is_store(store) else "is not a finished store"


@app.command()
def where(
    name: Annotated[str, typer.Argument(metavar="NAME", help="weather2k, meteonet, inmet or table.")],
) -> None:
    """Print where data that do not ship can be downloaded, and what to type then.

    Example: stationpde data where weather2k
    """
    from fields.readers import download_guide

    text = download_guide(name)
    console.text(text)
    console.result({"name": name, "text": text})


@app.command("qc-score")
def qc_score(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="An hourly store of a real network.")],
    seed: Seed = 0,
) -> None:
    """Measure the quality control: plant errors into a copy of a record and count how many are found.

    Per cent of planted spikes, stuck runs, unit slips, exchanged stations and drifts that are flagged, and of
    untouched values that are.

    Example: stationpde data qc-score inmet.zarr
    """
    from fields import store as stores
    from fields.qc import quality_report

    console.note("planting errors and testing; this takes a minute for a hundred station-years")
    score = quality_report(stores.open_stations(store), seed=seed)
    for line in score.lines():
        console.text(line)
    console.result({"store": str(store), "seed": seed, **score.to_dict()})
