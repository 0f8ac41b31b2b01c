"""From the name of a dataset to a record in memory: ``weather2k``, ``meteonet``, ``demo``, or a path.

Raw files are ingested once, into ``data.zarr`` in the folder that keeps them (a run's own); the next start with the
same file and options reads that store. Stations are judged by the training period alone.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from fields import atomic, store
from fields.errors import DataError, ProblemReport, UsageError, printable
from fields.ingest import IngestOptions, ingest
from fields.progress import Watcher
from fields.quality_flags import GROSS
from fields.readers.gather import identity_of
from fields.reading import mask_flagged
from fields.series import StationSeries
from fields.where import where
from fields.windows import Split

__all__ = ["DATASETS", "DataSettings", "demo_series", "load_series"]

DATASETS = ("weather2k", "meteonet", "demo")
_STORE, _ORIGIN = "data.zarr", "data.origin.json"
_LENGTH_UNKNOWN = "SPDE-D142"


class DataSettings(Protocol):
    """What of a configuration's ``data`` section is needed here."""

    @property
    def step_seconds(self) -> int:
        """Cadence of the model."""

    @property
    def split(self) -> Sequence[float]:
        """Shares of training, validation and test."""

    @property
    def max_missing(self) -> float:
        """Share of the training period that a station may lack."""

    @property
    def missing(self) -> Mapping[Any, str]:
        """Stand-ins for variables that are not observed."""


def load_series(
    dataset: str,
    settings: DataSettings,
    data_path: str | Path | None = None,
    *,
    options: IngestOptions | None = None,
    cache: str | Path | None = None,
    watcher: Watcher | None = None,
    report: ProblemReport | None = None,
    command: str = "train",
    quality: Literal["full", "gross"] = "full",
) -> StationSeries:
    """The record that a dataset's name and options stand for.

    Parameters
    ----------
    dataset : one of `DATASETS`, or the path of a store or of raw files
    settings : the ``data`` section of a configuration
    data_path : where ``weather2k`` or ``meteonet`` lies: a raw file, a folder, or a store
    options : how raw files are read (start, time zone, reader, …); stand-ins come from ``settings`` as well
    cache : folder that keeps the store made of raw files; None keeps nothing
    watcher : told how far reading is
    report : told what was met on the way
    command : the subcommand that messages say to type
    quality : which tests of a store's values count: all of them, or only those for what no sensor can have measured.
        The others judge with hindsight, from neighbours and weeks on both sides

    Raises
    ------
    DataError
        If the data are not there (the message tells where they are found), or are not what they are said to be.
    """
    notes = ProblemReport() if report is None else report
    asked = options or IngestOptions()
    asked = replace(asked, missing={**{str(k): v for k, v in settings.missing.items()}, **asked.missing})
    if dataset == "demo":
        series = demo_series(settings.step_seconds)
    else:
        path = _located(dataset, data_path, command)
        if dataset in ("weather2k", "meteonet"):
            asked = replace(asked, reader=asked.reader or dataset)
        with ExitStack() as stack:
            if not store.is_store(path):
                folder = Path(cache or stack.enter_context(TemporaryDirectory(prefix="stationpde-")))
                path = _ingested(dataset, path, folder, asked, watcher, notes, command)
            ds = store.open(path) if quality == "full" else mask_flagged(store.open(path, masked=False), GROSS)
            stood_in = ds.attrs.get("pressure_kind") == "standard_atmosphere"
            missing = {k: v for k, v in asked.missing.items() if not (k == "p" and stood_in)}
            series = StationSeries.from_dataset(ds, settings.step_seconds, missing=missing)
    border = Split.of(len(series), settings.split).val
    return series.without_sparse(settings.max_missing, border, notes)


def demo_series(step: int = 3600, stations: int = 64, days: int = 90, seed: int = 0) -> StationSeries:
    """The synthetic network, tested as a real one would be: it shows the tool, not skill."""
    from fields import quality, synthetic
    from fields.reading import mask_flagged

    ds = synthetic.make_network(stations, days, seed=seed)
    return StationSeries.from_dataset(mask_flagged(ds.assign(quality.check(ds).data_vars)), step)


def _located(dataset: str, data_path: str | Path | None, command: str) -> Path:
    """Where the data lie."""
    if dataset in DATASETS:
        path = None if data_path is None else Path(data_path)
        if path is not None and path.exists():
            return path
        problem = DataError(
            f"{dataset} is not here: " + ("no path was given" if path is None else f"there is no {path}"),
            code="SPDE-D155", do=f"stationpde {command} {dataset} --data PATH",
        )  # fmt: skip
        problem.message = f"{problem.message}\n\n{where(dataset)}\n"
        raise problem
    path = Path(data_path or dataset)
    if not path.exists():
        near = difflib.get_close_matches(dataset.lower(), DATASETS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"a path, or one of {', '.join(DATASETS)}"
        raise UsageError(f"there is neither a dataset nor a store '{printable(path)}'", code="SPDE-D156", do=hint)
    return path


def _ingested(
    dataset: str, path: Path, folder: Path, asked: IngestOptions, watcher: Watcher | None, report: ProblemReport,
    command: str,
) -> Path:  # fmt: skip
    """The store made of raw files: an earlier one, if it was made of the same files in the same way."""
    target, origin = folder / _STORE, folder / _ORIGIN
    # Stations are judged later, at the model's cadence; a store that keeps them all serves any threshold.
    wanted = replace(asked, max_missing=None, force=True)
    identity = identity_of(path, str(path.resolve()), wanted)
    if store.is_store(target):
        known = atomic.read_json(origin)
        if known is None or known.get("identity") == identity:
            return target
        report.notice("SPDE-D157", "the files or options changed: they are read again", where=str(target))
    with atomic.machine_faults(target):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        made = ingest(path, target, wanted, watcher)
    except DataError as problem:
        if problem.code == _LENGTH_UNKNOWN:
            typed = shlex.join(["stationpde", command, dataset, "--data", str(path)])
            problem.do = printable(
                f"{typed} --start 2023-01-01 --time-zone UTC   with the real start and zone; the rest as you typed it"
            )
        raise
    report.extend(made.report)
    about = {"identity": identity, "source": str(path), "fingerprint": made.fingerprint}
    atomic.write_file(origin, json.dumps(about).encode())
    return target
