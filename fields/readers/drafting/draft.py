"""Draft the column map of a table, and prove it on the rows from which it was drafted."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fields.errors import DataError, FieldsError, printable
from fields.readers.column_map import parse_map
from fields.readers.csv_text import Block
from fields.readers.decode import Decoder
from fields.readers.drafting.cells import look_at
from fields.readers.drafting.names import named
from fields.readers.drafting.places import PlaceGuess, columns_of_places, guess_places
from fields.readers.drafting.sample import Sample, read_sample
from fields.readers.drafting.times import called_times, guess_times
from fields.readers.drafting.variables import guess_variables, marks_of
from fields.readers.drafting.write import map_text
from fields.readers.safety import DEFAULT_MAX_BYTES
from fields.times import Zone

__all__ = ["Draft", "draft_map"]

_FALLBACK = "map.toml"


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted map: its text, the variables that it maps, what is unsure, and the command that uses it."""

    text: str
    variables: tuple[str, ...]
    unsure: tuple[str, ...]
    command: str

    def to_dict(self) -> dict[str, Any]:
        """Return the draft as plain values for JSON."""
        return {"map": self.text, "variables": list(self.variables), "unsure": list(self.unsure),
                "command": self.command}  # fmt: skip


def draft_map(
    path: Path, *, stations: str | None = None, output: str | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> Draft:
    """Draft the column map of a table.

    Parameters
    ----------
    path : file, folder or archive; the head of the first table is read
    stations : list of stations from which positions are to be taken
    output : file that the map will be written to, for the command

    Raises
    ------
    DataError, UsageError
        If this is no table, if one of the first rows is damaged, or if time, stations or variables are not there.
    """
    sample = read_sample(path, max_bytes)
    listed = read_sample(Path(stations), max_bytes) if stations is not None else None
    decimal = sample.layout.decimal if sample.layout is not None else "."
    names = [named(column) for column in sample.columns]
    cells = [look_at(column, decimal) for column in sample.cells]
    times = guess_times(names, sample.cells)
    if times is None:
        raise _no_time(path, sample, columns_of_places(names, cells), called_times(names))
    places = guess_places(sample, names, cells, listed)
    variables, notes = guess_variables(names, cells, sample.cells, {*times.columns, *places.read})
    if all(guess.is_empty for guess in variables.values()):
        raise DataError(
            f"no column of {sample.label} was recognised as wind, pressure, temperature or humidity", code="SPDE-D124",
            where=f"its columns are {', '.join(printable(c)[:40] for c in sample.columns[:12])}",
            do="write the map by hand: `stationpde data where table` shows one",
        )  # fmt: skip
    text = map_text(sample, times, places, variables, marks_of(variables, cells), notes)
    _prove(text, sample, times.order)
    unsure = tuple(line.strip().partition("unsure: ")[2] for line in text.splitlines() if "# unsure: " in line)
    command = _command(path, output or _FALLBACK, places, stations)
    return Draft(text, tuple(n for n, guess in variables.items() if not guess.is_empty), unsure, command)


def _no_time(path: Path, sample: Sample, places: dict[str, int], times: list[int]) -> DataError:
    """Build the error for a table without times, which may be a list of stations."""
    where = f"its columns are {', '.join(printable(c)[:40] for c in sample.columns[:12])}"
    if times:
        seen = ", ".join(f"{sample.columns[i]} = {next((c for c in sample.cells[i] if c), '')}" for i in times[:3])
        return DataError(
            f"{sample.label} has no column that was recognised as a time with its hour", code="SPDE-D124",
            where=printable(seen)[:160], do="write each time in one column, as 2024-01-13T05:00; or write the map by "
            "hand: `stationpde data where table` shows one",
        )  # fmt: skip
    if {"lat", "lon"} <= places.keys():
        return DataError(
            f"{sample.label} is a list of stations: it has positions and no times", code="SPDE-D124", where=where,
            do=printable(f"stationpde data map OBS.csv --station-list {shlex.quote(str(path))}"),
        )  # fmt: skip
    return DataError(f"{sample.label} has no column that was recognised as a time with its hour", code="SPDE-D124",
                     where=where, do="write the map by hand: `stationpde data where table` shows one")  # fmt: skip


def _prove(text: str, sample: Sample, order: str | None) -> None:
    """Read the rows of the sample by the draft: what cannot be read is refused here, and not by the ingest."""
    drafted = parse_map(text.encode(), "the draft")
    if drafted.time.formats == ("dates",):
        drafted = replace(drafted, time=replace(drafted.time, order=order or "dmy"))
    drafted = replace(drafted, needs_altitude=False)
    decoder = Decoder(drafted, sample.columns, sample.label, Zone("UTC", 0), layout=sample.layout, path=sample.path)
    if sample.layout is None or not sample.head:
        return
    try:
        decoder.parse(Block(sample.layout.body, sample.layout.body + len(sample.head), sample.head))
    except FieldsError as problem:
        if order is None and drafted.time.formats == ("dates",) and problem.code == "SPDE-D010":
            return  # days and months the other way round: the whole table decides
        raise


def _command(path: Path, output: str, places: PlaceGuess, stations: str | None) -> str:
    words = [
        "stationpde",
        "data",
        "ingest",
        str(path),
        "-o",
        f"{path.name.split('.')[0] or 'mine'}.zarr",
        "--map",
        output,
    ]
    if places.needs_list:
        words += ["--station-list", stations or "stations.csv"]
    if places.lacks_altitude:
        words += ["--dem", "relief.npz"]
    return printable(shlex.join(words))
