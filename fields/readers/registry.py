"""Find readers by name: the package's, and those that others publish under the entry-point group ``fields.readers``.

A reader is imported when it is first used. A plug-in that fails to load is skipped with a warning and harms nothing
else; a name that is taken twice goes to the package's own reader.
"""

from __future__ import annotations

import difflib
import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from fields.errors import DataError, UsageError, printable
from fields.readers.safety import check_zip, file_kind, kind_in_words, open_binary, read_npy_header, shown
from fields.readers.source import ReadOptions, Source, Workspace
from fields.readers.spreadsheets import ENDINGS, refuse_spreadsheet
from fields.readers.zarr_metadata import METADATA_FILES

__all__ = ["GROUP", "Reader", "detect", "names", "reader"]

GROUP = "fields.readers"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader of one kind of source.

    ``recognises`` inspects a path (cheaply, reading headers at most) and returns how sure it is: 0 no, 1 could be,
    2 by its layout, 3 by an unmistakable mark. ``open`` returns the source.
    """

    name: str
    summary: str
    recognises: Callable[[Path], int]
    open: Callable[[Path, ReadOptions, Workspace], Source]


_SHIPPED = {
    "weather2k": "fields.readers.weather2k",
    "meteonet": "fields.readers.meteonet",
    "metar": "fields.readers.metar",
    "isd": "fields.readers.isd:FULL",
    "isd_lite": "fields.readers.isd:LITE",
    "arrays": "fields.readers.arrays",
    "dataset": "fields.readers.dataset",
    "table": "fields.readers.table",
    "synthetic": "fields.synthetic.reader",
}
_loaded: dict[str, Reader] = {}
_broken: set[str] = set()


def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in (*_SHIPPED, *_broken)}


def names() -> list[str]:
    """List all readers; plug-ins are listed without being imported."""
    return [*_SHIPPED, *sorted(_plugins())]


def reader(name: str) -> Reader:
    """Return a reader by name; an unknown one is a `UsageError` that suggests the nearest."""
    if name not in _loaded:
        if name in _SHIPPED:
            module, _, attribute = _SHIPPED[name].partition(":")
            _loaded[name] = getattr(importlib.import_module(module), attribute or "READER")
        elif name in _plugins():
            _load_plugin(name, _plugins()[name])
    if name not in _loaded:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"--reader {near[0]}" if near else f"known: {', '.join(names())}"
        raise UsageError(f"no reader '{printable(name)[:60]}'", code="SPDE-D107", do=hint)
    return _loaded[name]


def _load_plugin(name: str, point: EntryPoint) -> None:
    try:
        loaded = point.load()
        if not isinstance(loaded, Reader):
            raise TypeError(f"{point.value} is not a Reader")
    # A plug-in is foreign code: whatever it raises on import must not take the library down.
    except BaseException as problem:
        if isinstance(problem, KeyboardInterrupt | SystemExit):
            raise
        _broken.add(name)
        log.warning("reader plug-in '%s' (%s) failed to load and is skipped: %r", name, point.value, problem)
        return
    _loaded[name] = loaded


def _other_form(path: Path) -> str:
    """Advise in which form a source that no reader recognises can be read."""
    if path.is_dir():
        for sheet in sorted(p for p in path.iterdir() if p.is_file() and p.name.lower().endswith(ENDINGS)):
            refuse_spreadsheet(sheet)
        return "name a folder that holds tables or archives of them, or one of the files"
    kind = file_kind(path)
    if kind == "empty":
        return "fetch the file again"
    if kind in ("bzip2", "xz", "zstd"):
        return "unpack it and ingest the files"
    return "save it as CSV, parquet, npz or CF NetCDF"


def _refuse_packed_store(path: Path) -> None:
    """Refuse a zarr store in a zip archive, of which no member is a table."""
    if file_kind(path) != "zip":
        return
    with open_binary(path) as file:
        archive = check_zip(file, shown(path), 1 << 62)
        if any(Path(name).name in METADATA_FILES for name in archive.namelist()):
            raise DataError(
                f"{shown(path)} is a zarr store that is packed, which is not read", code="SPDE-D107",
                do="unpack it, and give the folder that holds zarr.json or .zgroup",
            )  # fmt: skip


def detect(path: Path) -> Reader:
    """Choose the reader that recognises a source most surely.

    Raises
    ------
    DataError
        If none recognises it.
    """
    if path.is_file():
        refuse_spreadsheet(path)
        _refuse_packed_store(path)
    best, sure = None, 0
    for name in names():
        try:
            candidate = reader(name)
        except UsageError:  # a broken plug-in
            continue
        answer = candidate.recognises(path)
        if answer > sure:
            best, sure = candidate, answer
    if path.suffix.lower() in (".npy", ".npz") and (best is None or best.name == "table"):
        # A file named as an array that is none is refused with the reason, not read as a table.
        with open_binary(path) as file:
            read_npy_header(file, shown(path))
    if best is None:
        what = "a folder without tables" if path.is_dir() else kind_in_words(file_kind(path))
        raise DataError(
            f"no reader recognises {printable(path)}: it is {what}",
            code="SPDE-D107",
            do=_other_form(path),
        )
    return best
