"""Ingest a raw source into a store: survey the whole source, then convert, derive, flag and write it block by block.

The survey (`fields.ingest.survey`) converts and checks every value before anything is written. Everything streams:
memory depends on the block, not on the record. Finished blocks and parsed rows are kept until the store is published,
so that the same command resumes where a killed one stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields import atomic, store
from fields.errors import (
    DataError,
    FieldsError,
    LockedError,
    ProblemReport,
    ResourceError,
    UsageError,
    counted,
    is_finite_number,
    locate,
    printable,
)
from fields.ingest.advice import check_declared, on_this_clock, whole_commands
from fields.ingest.compose import Plan, compose, flags_of, plan_for, substitutes_of
from fields.ingest.gate import UnitGate
from fields.ingest.selection import chosen_stations, with_terrain
from fields.ingest.survey import Survey, survey
from fields.places import Places
from fields.progress import Tracker, Watcher
from fields.readers import (
    Command,
    ExchangedCoordinates,
    ReadOptions,
    Source,
    WithoutVariables,
    Workspace,
    detect,
    identity_of,
    reader,
)
from fields.times import to_datetime64
from fields.variables import COORDINATES, VARIABLES

__all__ = ["ACCEPTABLE", "IngestOptions", "IngestResult", "ingest", "ingest_files"]

Array = np.ndarray[Any, Any]

# Values of one variable that a block may hold; some thirty arrays of a block live at once.
_BLOCK_VALUES = 4_000_000
_LONGEST_BLOCK = 4096
_CHUNK = 512
# A large network takes more memory rather than blocks that are shorter than their margins.
_SHORTEST_BLOCK = 256
# Steps on either side of a block that quality control judges it by.
_MARGIN = 400
# Stations that a command to type still names.
_MOST_NAMED = 50
ACCEPTABLE = ("sparse-axis",)
"""Oddities that a user may accept: a time axis most of whose steps have no report."""
# Share of the record that training sees: 6 of 6:1:3.
TRAINING = 0.6


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of an ingest.

    ``missing`` names substitutes (``{"p": "standard-atmosphere"}``); ``trust`` variables whose values are vouched for;
    ``accept`` what an ingest else asks about (`ACCEPTABLE`); ``max_missing`` the share of the training period (the
    first ``training`` of the record) that a station may lack.
    ``places`` are those of stations that a model was trained on: they stand in for positions that the source lacks.
    """

    read: ReadOptions = field(default_factory=ReadOptions)
    reader: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    trust: tuple[str, ...] = ()
    accept: tuple[str, ...] = field(default=(), repr=False)
    quality: bool = True
    max_missing: float | None = None
    training: float = TRAINING
    force: bool = False
    # Not part of what a store is recognised by: only a store for one forecast is made with it.
    places: Places | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("trust", "accept"):
            if isinstance(getattr(self, name), str):  # one name is not the list of its letters
                object.__setattr__(self, name, (getattr(self, name),))
        unknown = sorted(set(self.accept) - set(ACCEPTABLE))
        if unknown:
            raise UsageError(f"there is nothing called '{printable(unknown[0])[:40]}' to accept", code="SPDE-D001",
                             do=f"--accept {', '.join(ACCEPTABLE)}")  # fmt: skip
        names = (*VARIABLES, *COORDINATES)
        unknown = sorted(str(name) for name in set(self.trust) - set(names))
        if unknown:
            raise UsageError(f"there is no variable called '{printable(unknown[0])[:40]}' to vouch for",
                             code="SPDE-D001", do=f"--trust takes one of {', '.join(names)}")  # fmt: skip
        for name, share in (("--max-missing", self.max_missing), ("--train-fraction", self.training)):
            if share is not None and not (is_finite_number(share) and 0.0 <= share <= 1.0):
                raise UsageError(f"{name} is a share from 0 to 1, not {share!r}", code="SPDE-D001", do=f"{name} 0.6")

    def typed(self) -> tuple[tuple[str, str], ...]:
        """Write the options as typed on a command line."""
        options = [
            *([("--reader", self.reader)] if self.reader else []),
            *self.read.typed(),
            *(("--missing", f"{name}={what}") for name, what in self.missing.items()),
            *(("--trust", name) for name in self.trust),
            *(("--accept", name) for name in self.accept),
            *([("--max-missing", f"{self.max_missing:g}")] if self.max_missing is not None else []),
            *([("--train-fraction", f"{self.training:g}")] if self.training != TRAINING else []),
            *([] if self.quality else [("--no-qc", "")]),
            *([("--force", "")] if self.force else []),
        ]
        return tuple(options)


@dataclass(frozen=True, slots=True)
class IngestResult:
    """Store, contents and findings of an ingest."""

    path: Path
    reader: str
    stations: int
    steps: int
    variables: tuple[str, ...]
    dropped: tuple[str, ...]
    report: ProblemReport
    fingerprint: str
    resumed: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return {
            "store": str(self.path), "reader": self.reader, "stations": self.stations, "steps": self.steps,
            "variables": list(self.variables), "dropped_stations": list(self.dropped), "resumed": self.resumed,
            "fingerprint": self.fingerprint, "report": self.report.to_dict(),
        }  # fmt: skip


def ingest_files(
    source: str | Path, output: str | Path, options: IngestOptions | None = None, watcher: Watcher | None = None,
    advised: Command | None = None,
) -> IngestResult:  # fmt: skip
    """Read a source into a store.

    Parameters
    ----------
    source : file, folder or archive to read
    output : path at which the store appears once it is whole
    options : how to read and check the source; by default everything is left to the source
    watcher : called with the progress of the work
    advised : command that messages add options to, where the output is a scratch file; by default that of this call

    Raises
    ------
    DataError
        If the data are not what they are said to be; the message holds the command that mends it.
    UsageError, LockedError, ResourceError
        If the output is taken, being written, or cannot be written.
    """
    settings = options or IngestOptions()
    path, target = atomic.as_path(source), atomic.as_path(output)
    substitutes = substitutes_of(settings.missing)
    if not path.exists():
        raise UsageError(f"there is no file {printable(path)}", code="SPDE-D100", do="check the path")
    atomic.refuse_input(target, path, settings.read.column_map, settings.read.stations, settings.read.dem)
    with atomic.machine_faults(target):
        store.refuse_occupied(target, settings.force)
    command = advised or Command(str(path), str(target), settings.typed())
    tracker = Tracker(watcher)
    with _workspace(target) as folder, whole_commands(command):
        chosen = reader(settings.reader) if settings.reader else detect(path)
        opened = chosen.open(path, settings.read, Workspace(folder, tracker, command))
        check_declared(opened, settings.read)
        view = ExchangedCoordinates(opened) if settings.read.exchange else opened
        view = with_terrain(chosen_stations(view, settings.read), settings.read.dem)
        if "p" in substitutes:
            view = WithoutVariables(view, ("p", "psl"))
        identity = identity_of(path, view.label, view.reader, view.axis, view.units, replace(settings, force=False),
                               *settings.read.narrowed)  # fmt: skip
        return _Ingest(view, target, settings, command, tracker, identity).run(substitutes)


@dataclass(slots=True)
class _Ingest:
    """One ingest of an opened source."""

    source: Source
    target: Path
    options: IngestOptions
    command: Command
    tracker: Tracker
    identity: str

    def run(self, substitutes: frozenset[str]) -> IngestResult:
        """Survey the source, then write the store block by block."""
        source = self.source
        typed = self.command.with_options()
        plan, report = plan_for(source.variables, substitutes, source.label)
        rows = block_rows(len(source.network), source.axis.count)
        surveyed = survey(source, rows=rows, training=self.options.training, command=typed, trust=self.options.trust,
                          accept=self.options.accept, is_step_declared=self.options.read.step is not None,
                          progress=self.tracker, places=self.options.places)  # fmt: skip
        report = self._with_commands(report, surveyed)
        report.extend(self._with_commands(surveyed.report, surveyed))
        stations = self._usable_stations(surveyed, report)
        self._refuse(report)
        template = self._template(plan, surveyed, stations)
        # The survey has reported on the whole source: this gate only converts.
        gate = UnitGate(dict(source.units), trust=self.options.trust, keeps_sample=False)
        with store.create(
            self.target, template, force=self.options.force, resume=True, identity=self.identity, time_block=rows
        ) as staged:
            for region in staged.blocks():
                span = region["time"]
                if not staged.is_done(region):
                    staged.write(self._block(span.start, span.stop, plan, surveyed, stations, gate), region)
                self.tracker("write", span.stop, source.axis.count, "steps")
        dropped = tuple(str(i) for i in np.delete(source.network.ids, stations))
        return IngestResult(
            staged.path, source.reader, stations.size, source.axis.count, plan.stored, dropped, report,
            store.fingerprint(staged.path), staged.resumed,
        )  # fmt: skip

    def _refuse(self, report: ProblemReport) -> None:
        """Raise the errors together; where each has its command, also give the one that mends them all."""
        try:
            report.raise_if_errors(DataError)
        except DataError as problem:
            everything = self.command.joined(entry.do for entry in problem.problems)
            if len(problem.problems) > 1 and everything:
                problem.do = f"all at once: {everything}"
            raise

    def _with_commands(self, report: ProblemReport, surveyed: Survey) -> ProblemReport:
        """Complete each finding with the whole command to type."""
        places = surveyed.positions
        unplaced = ~(np.isfinite(places.lat) & np.isfinite(places.lon) & np.isfinite(places.alt))
        lacks_position = not (np.isfinite(places.lat).all() and np.isfinite(places.lon).all())
        ids = ",".join(map(str, self.source.network.ids[unplaced][:_MOST_NAMED]))
        completed = []
        for problem in report:
            do = on_this_clock(self.command.tidied(self.command.completed(problem.do)), self.source.zone)
            if problem.code == "SPDE-D008" and problem.severity == "error" and not lacks_position:
                terrain = self.command.with_options(("--dem", "FILE"))
                do = f"{terrain}   takes the altitude of the terrain; or complete the station list"
                if not unplaced.all():
                    do += f", or leave them out: {self.command.with_options(('--drop', ids))}"
            elif problem.code == "SPDE-D008" and unplaced.all():
                do = "complete the list of stations: each needs a latitude, a longitude and an altitude"
            elif problem.code == "SPDE-D008" and ids:
                do = f"complete the station list, or leave them out: {self.command.with_options(('--drop', ids))}"
            if problem.severity != "error" and self.command.output == str(self.target):
                # By the time the message is read the store exists.
                do = self.command.replacing(do)
            completed.append(replace(problem, do=do))
        return ProblemReport(completed)

    def _usable_stations(self, surveyed: Survey, report: ProblemReport) -> Array:
        """Return the indices of stations that report enough; those left out are added to the report."""
        ids, label = self.source.network.ids, self.source.label
        silent = surveyed.silent()
        if silent.all():
            report.error("SPDE-D019", "nothing was observed at all", where=label)
            return np.flatnonzero(silent)
        if silent.any():
            report.notice("SPDE-D020", f"{counted(int(silent.sum()), 'station')} left out: nothing reported",
                          where=locate(label, stations=ids[silent], out_of=len(ids)))  # fmt: skip
        sparse = np.zeros(len(ids), bool)
        if self.options.max_missing is not None:
            sparse = ~silent & (surveyed.missing_rate() > self.options.max_missing)
        if sparse.any():
            report.notice("SPDE-D041",
                          f"{counted(int(sparse.sum()), 'station')} left out: too many gaps in the training period",
                          where=locate(label, stations=ids[sparse], out_of=len(ids)),
                          why=f"allowed {self.options.max_missing:.0%} missing")  # fmt: skip
        usable = np.flatnonzero(~silent & ~sparse)
        if usable.size == 0:
            report.error("SPDE-D025", "no station is left", where=label,
                         do=self.command.with_options(("--max-missing", "1")))  # fmt: skip
        return usable

    def _template(self, plan: Plan, surveyed: Survey, stations: Array) -> xr.Dataset:
        """Build the store's dataset without values: coordinates, variables, attributes."""
        from fields.variables import cf_attributes

        source, network, places = self.source, self.source.network.take(stations), surveyed.positions
        coords: dict[str, Any] = {
            "time": ("time", to_datetime64(source.axis.seconds)),
            "station": ("station", network.ids.astype(str), {"long_name": "Station", "cf_role": "timeseries_id"}),
            **{n: ("station", getattr(places, n)[stations], cf_attributes(n)) for n in ("lat", "lon", "alt")},
        }
        if network.names is not None:
            coords["name"] = ("station", network.names.astype(str), {"long_name": "Name"})
        if network.wigos is not None:
            coords["wigos"] = ("station", network.wigos.astype(str), {"long_name": "WIGOS station identifier"})
        how = "; ".join(f"{name} {text}" for name, text in plan.derived.items())
        attrs = {
            "source": source.label, "title": source.about, "reader": source.reader, "step_seconds": source.axis.step,
            "time_zone": source.zone, "pressure_kind": plan.pressure_kind.value, "featureType": "timeSeries",
            "history": f"ingested by stationpde{': ' if how else ''}{how}",
            "source_units": ", ".join(f"{name}={unit}" for name, unit in source.units.items()),
        }  # fmt: skip
        template = store.template(xr.Dataset(coords=coords), plan.stored, flags=self.options.quality, attrs=attrs)
        for name, text in plan.derived.items():
            template[name].attrs["comment"] = text
        return template

    def _block(
        self, start: int, stop: int, plan: Plan, surveyed: Survey, stations: Array, gate: UnitGate
    ) -> dict[str, Array]:
        """Compute values and flags of one block; quality control sees a margin of steps on either side."""
        source = self.source
        low, high = start, stop
        if self.options.quality:
            low, high = max(0, start - _MARGIN), min(source.axis.count, stop + _MARGIN)
            low = max(0, min(low, high - block_rows(stations.size, source.axis.count)))  # a short last block borrows
        times = to_datetime64(source.axis.seconds[low:high])
        raw = source.read(low, high)
        values, codes = compose(raw, gate, plan, surveyed.positions.alt, times)
        del raw
        inner = slice(start - low, stop - low)
        if stations.size < len(source.network):
            values, codes = ({n: x[:, stations] for n, x in part.items()} for part in (values, codes))
        block = {name: table[inner] for name, table in values.items()}
        if self.options.quality:
            places = {n: getattr(surveyed.positions, n)[stations] for n in ("lat", "lon", "alt")}
            flags = flags_of(values, codes, plan, times, places, source.axis.step)
            block |= {f"{name}_flag": table[inner] for name, table in flags.items()}
        return block


def block_rows(stations: int, count: int) -> int:
    """Choose the steps of a block: whole chunks, few enough for memory with their margins, at most the record's."""
    room = max(1, _BLOCK_VALUES // max(1, stations))
    fits = max(room - 2 * _MARGIN, min(room, _SHORTEST_BLOCK))
    rows = fits // _CHUNK * _CHUNK if fits >= _CHUNK else 1 << (fits.bit_length() - 1)
    return max(1, min(rows, _LONGEST_BLOCK, count))


@contextmanager
def _workspace(target: Path) -> Iterator[Path]:
    """Open a folder beside the output for parsed rows: kept after a kill or a full disk, removed otherwise."""
    from filelock import FileLock, Timeout

    atomic.write_probe(target.parent)
    folder = target.with_name(f".{target.name[:200]}.gather")
    with atomic.machine_faults(target):
        folder.mkdir(exist_ok=True)
        lock = FileLock(folder / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            what = "another process is ingesting into it"
            raise LockedError(what, where=str(target), do="wait for it to end") from None
    keep = False
    try:
        with atomic.machine_faults(target):
            yield folder
    except (KeyboardInterrupt, ResourceError):
        keep = True
        raise
    except FieldsError:
        raise
    finally:
        lock.release()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


# Former name of `ingest_files`.
ingest = ingest_files
