"""Define what a reader returns: a network and its observations, read by block of time, in the source's units."""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import ProblemReport, UsageError, is_whole, printable
from fields.readers.axis import Axis
from fields.readers.safety import DEFAULT_MAX_BYTES
from fields.times import Zone, format_span
from fields.variables import PressureKind

__all__ = ["Command", "Network", "Progress", "ReadOptions", "Source", "Workspace"]

# stage, done, total (0: unknown), unit of both ("bytes", "steps")
Progress = Callable[[str, int, int, str], None]


def no_progress(stage: str, done: int, total: int, unit: str) -> None:
    """Ignore progress: no-op callback."""


@dataclass(frozen=True, slots=True)
class Network:
    """Stations in the order of the arrays; positions in the units that the source declares.

    A type apart from `fields.places.Places`, which is in degrees and metres: ingest converts one into the other.
    """

    ids: np.ndarray[Any, Any]
    lat: np.ndarray[Any, Any]
    lon: np.ndarray[Any, Any]
    alt: np.ndarray[Any, Any]
    names: np.ndarray[Any, Any] | None = None
    wigos: np.ndarray[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, index: np.ndarray[Any, Any]) -> Network:
        """Select stations by index."""
        names, wigos = (None if texts is None else texts[index] for texts in (self.names, self.wigos))
        return Network(self.ids[index], self.lat[index], self.lon[index], self.alt[index], names, wigos)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user declares about a source; None leaves it to the source.

    ``step``, ``tolerance`` and ``start`` are seconds, the last on the source's clock. ``pressure`` is ``station`` or
    ``sea-level``: what the column called p holds. ``every`` takes each n-th step. ``exchange`` is ``lat,lon`` where the
    source has them the wrong way round. ``date_order`` is that of dates of three numbers: ``dmy``, ``mdy`` or ``ymd``.
    ``bbox`` (west, south, east, north in degrees) and ``only`` choose stations; ``dem`` is an elevation model for
    stations without an altitude.
    Rows after ``until`` (s since 1970, UTC) are left out with a warning: a forecast has no use for the future.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    pressure: str | None = None
    zone: str | None = None
    start: int | None = None
    step: int | None = None
    tolerance: int | None = None
    every: int = 1
    on_duplicate: str | None = None
    on_move: str | None = None
    column_map: str | None = None
    stations: str | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    fix: bool = False
    drop: tuple[str, ...] = ()
    exchange: str | None = None
    # Left out of the text by which a kept store recognises its options, so that stores of before are still recognised.
    date_order: str | None = field(default=None, repr=False)
    until: int | None = field(default=None, repr=False)
    bbox: tuple[float, float, float, float] | None = field(default=None, repr=False)
    only: tuple[str, ...] = field(default=(), repr=False)
    dem: str | None = field(default=None, repr=False)

    @property
    def narrowed(self) -> tuple[object, ...]:
        """Options that choose and complete stations, for what a store is recognised by; empty where none is set."""
        return () if (self.bbox, self.only, self.dem) == (None, (), None) else (self.bbox, self.only, self.dem)

    def __post_init__(self) -> None:
        for name, value in (("step", self.step), ("every", self.every)):
            if value is not None and not is_whole(value, 1):
                do = "--step 1h" if name == "step" else "--every 2"
                raise UsageError(f"--{name} must be larger than 0, not {value!r}", code="SPDE-D001", do=do)
        if self.zone is not None:
            Zone.parse(self.zone)

    @property
    def pressure_kind(self) -> PressureKind | None:
        """Declared kind of the pressure called p; None leaves it to the source."""
        return None if self.pressure is None else PressureKind(self.pressure.replace("-", "_"))

    def typed(self) -> list[tuple[str, str]]:
        """Write the options as typed on a command line."""
        from fields.times import format_iso

        start = None if self.start is None else format_iso(self.start).removesuffix("Z")
        options: list[tuple[str, str | None]] = [
            ("--map", self.column_map),
            ("--station-list", self.stations),
            *(("--unit", f"{name}={unit}") for name, unit in self.units.items()),
            ("--pressure", self.pressure),
            ("--time-zone", self.zone),
            ("--date-order", self.date_order),
            ("--start", start),
            ("--step", None if self.step is None else format_span(self.step)),
            ("--tolerance", None if self.tolerance is None else format_span(self.tolerance)),
            ("--every", None if self.every == 1 else str(self.every)),
            ("--on-duplicate", self.on_duplicate),
            ("--on-move", self.on_move),
            ("--max-bytes", None if self.max_bytes == DEFAULT_MAX_BYTES else str(self.max_bytes)),
            ("--bbox", None if self.bbox is None else ",".join(f"{edge:g}" for edge in self.bbox)),
            ("--only", ",".join(self.only) or None),
            ("--drop", ",".join(self.drop) or None),
            ("--dem", self.dem),
            ("--exchange", self.exchange),
            ("--fix", "" if self.fix else None),
        ]
        return [(option, value) for option, value in options if value is not None]


# Options without a value.
_SWITCHES = ("--fix", "--force", "--no-qc")
# Options that may stand several times; the name before "=" distinguishes them.
_REPEATED = ("--unit", "--missing", "--trust", "--accept")
_OPTION = re.compile(r" (--[a-z-]+) ([^\s-]\S*)")
_OPTIONS = re.compile(r"(?: --[a-z-]+ [^\s-]\S*)+")


@dataclass(frozen=True, slots=True)
class Command:
    """The command being run, so that a message can say what to type instead."""

    source: str = "SRC"
    output: str = "OUT.zarr"
    options: tuple[tuple[str, str], ...] = ()

    def with_options(self, *more: tuple[str, str]) -> str:
        """Write the command with options added or replaced; an empty value stands for a switch."""

        def key(option: tuple[str, str]) -> tuple[str, str]:
            return option[0], option[1].partition("=")[0] if option[0] in _REPEATED else ""

        merged: dict[tuple[str, str], tuple[str, str]] = {}
        for option in (*self.options, *more):
            before = merged.get(key(option))
            if option[0] == "--drop" and before is not None:  # who is left out stays left out
                option = ("--drop", ",".join(dict.fromkeys([*before[1].split(","), *option[1].split(",")])))
            merged[key(option)] = option
        words = [word for option in merged.values() for word in option if word]
        return printable(shlex.join(["stationpde", "data", "ingest", self.source, "-o", self.output, *words]))

    def completed(self, text: str) -> str:
        """Write the whole command in place of the options that an advice begins with, alone or behind a colon."""
        if "stationpde data ingest" in text:
            return self.tidied(text)
        before, colon, after = text.rpartition(": --") if not text.startswith("--") else ("", "", text)
        words = (f"--{after}" if colon else after).split(" ")
        options: list[tuple[str, str]] = []
        while words and words[0].startswith("--"):
            option = words.pop(0)
            options.append((option, "" if option in _SWITCHES or not words else words.pop(0)))
        if not options:
            return text
        return " ".join([f"{before}{colon.removesuffix('--')}{self.with_options(*options)}", *words])

    def replacing(self, text: str) -> str:
        """Add ``--force`` to this command where a text gives it: by then its output exists."""
        typed, forced = self.with_options(), self.with_options(("--force", ""))
        if re.search(re.escape(typed) + r"(?!\S)", text):
            return text.replace(typed, forced, 1)
        bare = Command(self.source, self.output)  # one of its options was changed
        return text.replace(bare.with_options(), bare.with_options(("--force", "")), 1)

    def joined(self, texts: Iterable[str]) -> str | None:
        """Write one command with the options that all these texts advise; None where they advise fewer than two."""
        base, advised = {*_OPTION.findall(self.with_options())}, []
        for text in texts:
            _, there, after = text.partition(f"stationpde data ingest {shlex.quote(self.source)}")
            options = _OPTIONS.match(after.partition(shlex.quote(self.output))[2]) if there else None
            advised += [pair for pair in _OPTION.findall(options[0]) if pair not in base] if options else []
        return self.with_options(*advised) if len(set(advised)) > 1 else None

    def tidied(self, text: str) -> str:
        """Rewrite a text in which options were put behind this command so that each of them stands once."""
        typed = self.with_options()
        before, command, after = text.partition(typed)
        options = _OPTIONS.match(after)
        if not command or options is None:
            return text
        pairs = [(option, value) for option, value in _OPTION.findall(options[0])]
        return before + self.with_options(*pairs) + after[options.end() :]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Folder for a reader's scratch files, its progress callback, and the command that it serves."""

    folder: Path
    progress: Progress = no_progress
    command: Command = Command()


class Source(ABC):
    """Observations of a network, ready to be read in any block of time.

    ``units`` holds the declared unit of every variable, and of ``lat``, ``lon``, ``alt``. ``read`` gives arrays
    [time, station] in these units with NaN where nothing was observed. ``report`` holds the findings.
    """

    reader: str
    label: str
    axis: Axis
    network: Network
    units: Mapping[str, str]
    zone: str = "UTC"
    pressure_kind: PressureKind = PressureKind.STATION
    about: str = ""
    # Whether cells are text, so that a direction may be a word.
    reads_words: bool = False

    def __init__(self) -> None:
        self.report = ProblemReport()

    @abstractmethod
    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Read the variables [time, station] of the steps ``start`` to ``stop`` of the axis."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(name for name in self.units if name not in ("lat", "lon", "alt"))

    def findings(self) -> ProblemReport:
        """Return the findings, once everything has been read."""
        return self.report


class SourceView(Source):
    """Base of views of another source; what a view does not change is passed on."""

    def __init__(self, inner: Source) -> None:
        self.report = inner.report
        self._inner = inner
        self.reader, self.label, self.network, self.units = inner.reader, inner.label, inner.network, inner.units
        self.axis, self.zone, self.pressure_kind, self.about = inner.axis, inner.zone, inner.pressure_kind, inner.about
        self.reads_words = inner.reads_words

    def findings(self) -> ProblemReport:
        """Return the findings of the whole source."""
        return self._inner.findings()


class SelectedStations(SourceView):
    """View of selected stations of a source."""

    def __init__(self, inner: Source, index: np.ndarray[Any, Any]) -> None:
        super().__init__(inner)
        self._index = index
        self.network = inner.network.take(index)

    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Read the variables of the selected stations."""
        return {name: values[:, self._index] for name, values in self._inner.read(start, stop).items()}


class ExchangedCoordinates(SourceView):
    """View of a source with latitudes and longitudes exchanged."""

    def __init__(self, inner: Source) -> None:
        super().__init__(inner)
        self.network = replace(inner.network, lat=inner.network.lon, lon=inner.network.lat)

    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Read the same values."""
        return self._inner.read(start, stop)


class WithoutVariables(SourceView):
    """View of a source without the variables named."""

    def __init__(self, inner: Source, names: Collection[str]) -> None:
        super().__init__(inner)
        self.units = {name: unit for name, unit in inner.units.items() if name not in names}

    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Read the other variables."""
        return {name: values for name, values in self._inner.read(start, stop).items() if name in self.units}


class EveryNthStep(SourceView):
    """View of every n-th step of a source."""

    def __init__(self, inner: Source, every: int) -> None:
        super().__init__(inner)
        self._every = every
        axis = inner.axis
        self.axis = replace(axis, step=axis.step * every, count=-(-axis.count // every))

    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Read every n-th step from ``start`` to ``stop``."""
        n = self._every
        tables = self._inner.read(start * n, min((stop - 1) * n + 1, self._inner.axis.count))
        return {name: values[::n] for name, values in tables.items()}
