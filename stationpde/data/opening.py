"""Open observations, for every command in the same way.

A source is the name of a dataset (``weather2k``, ``meteonet``, ``demo``), a raw file, a folder or an archive, a store,
or a dataset in memory. Raw files and foreign datasets pass the gate of units, plausibility and quality control into a
store: a temporary one, or ``data.zarr`` in a folder that keeps it (a run's own), which the next start with the same
files and options reads.
"""

from __future__ import annotations

import difflib
import itertools
import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import xarray as xr

from fields import atomic, store
from fields.errors import DataError, FieldsError, ProblemReport, UsageError, printable
from fields.ingest import IngestOptions, ingest_files
from fields.progress import Watcher
from fields.readers import Command, download_guide, identity_of
from fields.stand_ins import checked_stand_ins, reference_variables
from fields.store import DataCard, data_card
from fields.times import with_utc_times
from fields.variables import STATE_VARIABLES, cf_attributes
from fields.windows import Stations, with_state_variables
from stationpde.data.quality import Quality, mask_by_quality
from stationpde.data.trained_places import complete_places

__all__ = ["DATASETS", "Observations", "OpenObservations", "demo_network", "open_observations"]

Observations = str | Path | xr.Dataset
DATASETS = ("weather2k", "meteonet", "demo")
_STORE, _ORIGIN = "data.zarr", "data.origin.json"
_LENGTH_UNKNOWN = "SPDE-D142"
_PLACE_COMPLETED = "SPDE-D008"
# Stands where a typed name would, for a dataset that was given as an object.
_IN_MEMORY = "<dataset>"
# The file that such a dataset is saved to before a command can read it.
_SAVED = "dataset.nc"
_INGEST = "stationpde data ingest"
# How a command is told where observations lie, for advice that can be typed; the others have `--obs`.
_TYPED = {
    "train": "train {name} --obs {path}",
    "benchmark": "benchmark {path}",
    "ablate": "ablate {path}",
    "field lift": "field lift {path} OUT.zarr",
    "field cv": "field cv {path}",
    "plot transport": "plot transport {path} -o OUT.png",
    "plot w-alt": "plot w-alt {path} -o OUT.png",
}
# Commands with options for the clock of an array that has no times.
_HAVE_START = ("train",)


@dataclass(frozen=True, slots=True, eq=False)
class OpenObservations:
    """Observations that are open for reading.

    Attributes
    ----------
    dataset : dimensions time and station, SI, with all state variables; values whose quality flags count are NaN.
    label : name of the source in messages; None for a dataset in memory that names none.
    quality : which flags count.
    store : store that the values are read from; None for a dataset in memory and for ``demo``.
    notes : sentences on places that were completed by those of training.
    """

    dataset: xr.Dataset
    label: str | None
    quality: Quality
    store: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_synthetic(self) -> bool:
        """Whether the observations are made up."""
        return self.dataset.attrs.get("reader") == "synthetic"

    @contextmanager
    def as_store(self) -> Iterator[Path]:
        """Yield the path of a store with these observations, a temporary one if they are not read from a store."""
        if self.store is not None:
            yield self.store
            return
        with TemporaryDirectory(prefix="stationpde-") as folder:
            yield store.write_store(self.dataset, Path(folder) / "observations.zarr")

    def card(self) -> DataCard | None:
        """Describe the store behind the observations, flagged values counted as flagged; None without a store."""
        if self.store is None:
            return None
        return data_card(store.open_store(self.store, masked=False), path=self.store)


@contextmanager
def open_observations(
    source: Observations,
    path: str | Path | None = None,
    *,
    options: IngestOptions | None = None,
    stand_ins: Mapping[Any, str] | None = None,
    quality: Quality = "full",
    cache: str | Path | None = None,
    watcher: Watcher | None = None,
    report: ProblemReport | None = None,
    command: str = "forecast",
    trained: Stations | None = None,
    need_state: bool = True,
    complete: bool = False,
) -> Iterator[OpenObservations]:
    """Open observations as a dataset in SI with all state variables, for as long as the context lasts.

    Parameters
    ----------
    source : one of `DATASETS`, the path of a store or of raw files, or a dataset with ``time`` and ``station``. Text is
        a name first; a `Path` that exists is a path, also one that is called ``demo``.
    path : place of ``weather2k`` or ``meteonet``; for other names it is taken instead of ``source``.
    options : how raw files are read (start, time zone, reader, column map, …).
    stand_ins : substitutes for variables that are not observed, ``{"p": "standard-atmosphere"}``; those of
        ``options`` come on top.
    quality : which quality flags count, see `stationpde.data.quality`.
    cache : folder that keeps the store made of raw files; None keeps nothing.
    watcher : callback for the progress of reading.
    report : receives the notices of reading.
    command : the subcommand that advice in messages is written for.
    trained : stations of a run, whose places stand in for those that the observations lack.
    need_state : whether all state variables must be there or derivable; fields of single variables need not have them.
    complete : whether references (`fields.stand_ins`) take the place of all variables that are not observed.

    Raises
    ------
    UsageError
        If there is no such path or dataset.
    DataError
        If a named dataset is not there (the message says where to get it), or the data cannot be used.
    """
    chosen = options or IngestOptions()
    substitutes = {str(name): what for name, what in (stand_ins or {}).items()}
    substitutes |= chosen.missing
    names = checked_stand_ins(substitutes)
    # A store keeps what was observed; of all stand-ins only the pressure is written into it.
    chosen = replace(chosen, missing={n: what for n, what in substitutes.items() if n == "p"}, places=trained)
    findings, opened_store = ProblemReport() if report is None else report, None
    with ExitStack() as stack:
        if isinstance(source, xr.Dataset):
            source = with_utc_times(source)
        if isinstance(source, xr.Dataset) and _is_in_memory_form(source):
            raw, label = source, str(source.attrs.get("source", ""))
        elif _dataset_name(source) == "demo":
            raw, label = demo_network(), "demo"
        else:
            name, files = _files_of(source, path, command, stack)
            label = str(source.attrs.get("source", "")) if isinstance(source, xr.Dataset) else str(files)
            if _dataset_name(source):
                chosen = replace(chosen, reader=chosen.reader or name)
            opened_store = files
            if not store.is_store(files):
                ingest = _Ingest(name, files, chosen, watcher, findings, command)
                opened_store = ingest.into_cache(Path(cache)) if cache is not None else ingest.into_scratch(stack)
            else:
                _refuse_reading_options(files, options)
            raw = store.open_stations(opened_store, masked=False)
        if raw.sizes.get("station", 0) == 0 or raw.sizes.get("time", 0) == 0:
            raise DataError("there are no stations or no times in the data", code="SPDE-D025", where=label or None)
        raw, notes = (raw, ()) if trained is None else complete_places(raw, trained)
        notes += tuple(problem.what for problem in findings.notices if problem.code == _PLACE_COMPLETED)
        ds = mask_by_quality(raw, quality)
        if need_state:
            # Not pressure a second time where ingest has replaced it.
            ds = with_state_variables(ds, names - set(reference_variables(raw)), complete=complete)
        yield OpenObservations(ds, label or None, quality, opened_store, notes)


def _refuse_reading_options(files: Path, options: IngestOptions | None) -> None:
    """Refuse options that say how raw files are read where a store is given: it has its units and its clock."""
    names = [] if options is None else [name for name, _ in options.read.typed()]
    if options is not None and options.reader:
        names.insert(0, "--reader")
    if names:
        listed = ", ".join(dict.fromkeys(names))
        raise UsageError(
            f"{listed} would not count: that is for raw files, and {printable(files)} is a store, in SI and UTC",
            code="SPDE-D158",
            do=f"leave it out; stationpde data info {shlex.quote(str(files))}",
        )


def demo_network(stations: int = 64, days: int = 90, seed: int = 0) -> xr.Dataset:
    """Return the synthetic network with the flags of quality control, as a real record has them."""
    from fields import qc
    from fields.synthetic import network as synthetic

    ds = synthetic.make_network(stations, days, seed=seed)
    return ds.assign(qc.check_quality(ds).data_vars)


def _is_in_memory_form(ds: xr.Dataset) -> bool:
    """Return whether a dataset has the layout of `fields` and declares SI units."""
    if not ({"time", "station"} <= set(ds.dims) and {"lat", "lon", "alt"} <= set(ds.coords)):
        return False
    names = [name for name in (*STATE_VARIABLES, "ff", "dd", "td", "psl") if name in ds]
    return bool(names) and all(ds[name].attrs.get("units") == cf_attributes(name)["units"] for name in names)


def _dataset_name(source: Observations) -> str | None:
    """Return the name of `DATASETS` that a source is; a path that exists is no name, whatever it is called."""
    if isinstance(source, xr.Dataset) or str(source) not in DATASETS:
        return None
    return None if isinstance(source, Path) and source.exists() else str(source)


def _files_of(source: Observations, path: str | Path | None, command: str, stack: ExitStack) -> tuple[str, Path]:
    """Return the name of a source as typed, and the path of its files or store."""
    if isinstance(source, xr.Dataset):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="stationpde-")))
        source.to_netcdf(folder / _SAVED)
        return _IN_MEMORY, folder / _SAVED
    name = str(source)
    files = Path(path) if path is not None else None if _dataset_name(source) else atomic.as_path(source)
    if files is not None and files.exists():
        return name, files
    if _dataset_name(source):
        problem = DataError(
            f"{name} is not here: " + ("no path was given" if files is None else f"there is no {printable(files)}"),
            code="SPDE-D155", do=_command_with(command, name, "PATH"),
        )  # fmt: skip
        problem.message = f"{problem.message}\n\n{download_guide(name)}\n"
        raise problem
    near = difflib.get_close_matches(name.lower(), DATASETS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"give a path, or one of {', '.join(DATASETS)}"
    raise UsageError(f"there is neither a dataset nor a store or file '{printable(files)}'", code="SPDE-D156", do=hint)


def _command_with(command: str, name: str, path: str) -> str:
    if command not in _TYPED:
        return f"--obs {shlex.quote(path)}   with the path of its files"
    return f"stationpde {_TYPED[command].format(name=shlex.quote(name), path=shlex.quote(path))}"


@dataclass(frozen=True, slots=True)
class _Ingest:
    """Raw files on their way into a store; ``name`` is the source as typed."""

    name: str
    files: Path
    options: IngestOptions
    watcher: Watcher | None
    report: ProblemReport
    command: str

    def into_scratch(self, stack: ExitStack) -> Path:
        """Ingest into a store that is removed with ``stack``."""
        target = Path(stack.enter_context(TemporaryDirectory(prefix="stationpde-"))) / "observations.zarr"
        self._run(target)
        return target

    def into_cache(self, folder: Path) -> Path:
        """Ingest into a folder that keeps the store, or return the store that the same files and options gave."""
        target, origin = folder / _STORE, folder / _ORIGIN
        order = self.options.read.date_order
        identity = identity_of(
            self.files, str(self.files.resolve()), self._settings(), *(() if order is None else (order,)),
            *self.options.read.narrowed,
        )  # fmt: skip
        if store.is_store(target):
            earlier = atomic.read_table(origin)
            if earlier is None or earlier.get("identity") == identity:
                return target
            self.report.notice("SPDE-D157", "the files or options changed: they are read again", where=str(target))
        with atomic.machine_faults(target):
            folder.mkdir(parents=True, exist_ok=True)
        fingerprint = self._run(target)
        about = {"identity": identity, "source": str(self.files), "fingerprint": fingerprint}
        atomic.write_file(origin, json.dumps(about).encode())
        return target

    def _settings(self) -> IngestOptions:
        # Stations are judged later, at the model's cadence; a store that keeps them all serves any threshold.
        return replace(self.options, max_missing=None, force=True)

    def _run(self, target: Path) -> str:
        """Ingest into a new store and return its fingerprint."""
        settings = self._settings()
        # The store that is written here is a scratch file or a run's own: the advised command writes another.
        typed = replace(self.options, max_missing=None, force=False).typed()
        advised = Command(self._typed_source(), self._advised_output(), typed)
        try:
            result = ingest_files(self.files, target, settings, self.watcher, advised)
        except FieldsError as problem:
            _rename_in(problem, str(target), advised.output)
            if self.name == _IN_MEMORY:
                _rename_in(problem, str(self.files), _SAVED)
            if problem.code == _LENGTH_UNKNOWN and self.command in _HAVE_START:
                clock = "--start 2023-01-01 --time-zone UTC   with the real start and zone"
                line = _command_with(self.command, self.name, str(self.files))
                problem.do = printable(f"{line} {clock}; the rest as you typed it")
            elif problem.do and _INGEST in problem.do:
                problem.do = self._with_next(problem.do)
            raise
        self.report.extend(result.report)
        return result.fingerprint

    def _typed_source(self) -> str:
        return _SAVED if self.name == _IN_MEMORY else str(self.files)

    def _advised_output(self) -> str:
        """Return the name of a store that is not there yet."""
        stem = self.files.name.partition(".")[0] or "observations"
        return next(name for n in itertools.count(1) if not Path(name := f"{stem}{f'-{n}' * (n > 1)}.zarr").exists())

    def _with_next(self, do: str) -> str:
        """Write what precedes and what follows the ingest that an advice names."""
        before = f"save the dataset as {_SAVED}, then " if self.name == _IN_MEMORY else ""
        former = "the dataset" if self.name == _IN_MEMORY else printable(self.files)
        return f"{before}{do}; then the same as now with {self._advised_output()} in place of {former}"


def _rename_in(problem: FieldsError, old: str, new: str) -> None:
    """Replace a path in what an error says."""
    problem.message = problem.message.replace(old, new)
    problem.where = problem.where and problem.where.replace(old, new)
