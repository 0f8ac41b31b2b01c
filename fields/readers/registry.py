"""Readers by name: our own, and those that others publish under the entry-point group ``fields.readers``.

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

from ..errors import DataError, UsageError, printable
from .safety import file_kind, kind_in_words, open_binary, read_npy_header, shown
from .source import ReadOptions, Source, Workspace

__all__ = ["GROUP", "Reader", "detect", "names", "reader"]

GROUP = "fields.readers"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader.

    ``recognises`` looks at a path (cheaply, reading headers at most) and answers how sure it is: 0 no, 1 could be,
    2 by its layout, 3 by an unmistakable mark. ``open`` gives the source.
    """

    name: str
    summary: str
    recognises: Callable[[Path], int]
    open: Callable[[Path, ReadOptions, Workspace], Source]


_OWN = {
    "weather2k": "fields.readers.weather2k",
    "meteonet": "fields.readers.meteonet",
    "arrays": "fields.readers.arrays",
    "dataset": "fields.readers.dataset",
    "table": "fields.readers.table",
    "synthetic": "fields.readers.synthetic",
}
_loaded: dict[str, Reader] = {}
_broken: set[str] = set()


def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in (*_OWN, *_broken)}


def names() -> list[str]:
    """All readers; plug-ins are listed without being imported."""
    return [*_OWN, *sorted(_plugins())]


def reader(name: str) -> Reader:
    """A reader by name; an unknown one is a `UsageError` that suggests."""
    if name not in _loaded:
        if name in _OWN:
            _loaded[name] = importlib.import_module(_OWN[name]).READER
        elif name in _plugins():
            _load_plugin(name, _plugins()[name])
    if name not in _loaded:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean --reader {near[0]}?" if near else f"known: {', '.join(names())}"
        raise UsageError(f"no reader '{printable(name)[:60]}'", code="SPDE-D107", do=hint)
    return _loaded[name]


def _load_plugin(name: str, point: EntryPoint) -> None:
    try:
        made = point.load()
        if not isinstance(made, Reader):
            raise TypeError(f"{point.value} is not a Reader")
    # A plug-in is foreign code: whatever it raises on import must not take the library down.
    except BaseException as problem:
        if isinstance(problem, KeyboardInterrupt | SystemExit):
            raise
        _broken.add(name)
        log.warning("reader plug-in '%s' (%s) failed to load and is skipped: %r", name, point.value, problem)
        return
    _loaded[name] = made


def detect(path: Path) -> Reader:
    """The reader that knows a source best.

    Raises
    ------
    DataError
        If none does.
    """
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
        # Reading it as what it is would be kind, but somebody was told it is an array.
        with open_binary(path) as file:
            read_npy_header(file, shown(path))
    if best is None:
        what = "a folder without tables" if path.is_dir() else kind_in_words(file_kind(path))
        raise DataError(
            f"no reader recognises {printable(path)}: it is {what}",
            code="SPDE-D107",
            do=f"name one with --reader: {', '.join(names())}",
        )
    return best
