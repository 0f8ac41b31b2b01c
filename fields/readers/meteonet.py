"""Read MeteoNet ground stations: yearly CSV files, or the archives in which they are distributed.

Values come every six minutes; those on the hour are taken. Pressure is reduced to the sea and missing at two stations
of three: station pressure is derived from it where it exists (`fields.derive`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fields.readers.archives import tables_in
from fields.readers.column_map import load_map, shipped_map
from fields.readers.registry import Reader
from fields.readers.safety import file_kind, open_binary
from fields.readers.source import EveryNthStep, ReadOptions, Source, Workspace
from fields.readers.table import TableSource

__all__ = ["READER"]

_HEADER = b"number_sta,lat,lon,height_sta,date,dd,ff,precip,hu,td,t,psl"


def open_meteonet(path: Path, options: ReadOptions, work: Workspace) -> Source:
    """Open MeteoNet tables as a source."""
    chosen = load_map(options.column_map) if options.column_map else shipped_map("meteonet")
    chosen = replace(chosen.with_units(options.units), needs_altitude=options.dem is None)
    source = TableSource(path, chosen, options, work, "meteonet")
    return EveryNthStep(source, options.every) if options.every > 1 else source


def _recognises(path: Path) -> int:
    files = tables_in(path) if path.is_dir() else [path]
    if not files:
        return 0
    first = files[0]
    kind = file_kind(first)
    if kind == "text":
        with open_binary(first) as file:
            head = file.read(256).lstrip(b"\xef\xbb\xbf").splitlines()
        return 3 if head and head[0].strip() == _HEADER else 0
    named = "ground_station" in first.name.lower()
    return 3 if named and kind in ("gzip", "tar") else 0


READER = Reader("meteonet", "MeteoNet ground stations (CSV, tar.gz, tar)", _recognises, open_meteonet)
