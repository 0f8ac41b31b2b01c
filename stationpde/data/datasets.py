"""The record of a network at the model's cadence, from whatever holds the observations.

Stations are judged by the training period alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fields.errors import ProblemReport
from fields.ingest import IngestOptions
from fields.progress import Watcher
from fields.windows import Split, Stations, StationSeries
from stationpde.data.opening import DATASETS, Observations, OpenObservations, demo_network, open_observations
from stationpde.data.quality import Quality, mask_by_quality

__all__ = ["DATASETS", "DataSettings", "demo_series", "load_series", "series_of"]


class DataSettings(Protocol):
    """The keys of a configuration's ``data`` section that are needed here."""

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

    @property
    def quality(self) -> Quality:
        """Quality flags that count."""

    @property
    def extra(self) -> Sequence[str]:
        """Variables beside the state."""


def load_series(
    dataset: Observations,
    settings: DataSettings,
    data_path: str | Path | None = None,
    *,
    options: IngestOptions | None = None,
    cache: str | Path | None = None,
    watcher: Watcher | None = None,
    report: ProblemReport | None = None,
    command: str = "train",
    quality: Quality | None = None,
    trained: Stations | None = None,
    complete: bool = False,
) -> StationSeries:
    """Load the record of a network into memory, at the model's cadence.

    Parameters
    ----------
    dataset : one of `DATASETS`, the path of a store or of raw files, or a dataset in memory.
    settings : the ``data`` section of a configuration.
    data_path : place of ``weather2k`` or ``meteonet``: a raw file, a folder, or a store.
    options : how raw files are read (start, time zone, reader, …); stand-ins come from ``settings`` as well.
    cache : folder that keeps the store made of raw files; None keeps nothing.
    watcher : callback for the progress of reading.
    report : receives the notices of reading, and the stations that were left out.
    command : the subcommand that advice in messages is written for.
    quality : which quality flags count; None takes the setting ``data.quality``.
    trained : stations of a run, whose places stand in for those that the record lacks.
    complete : whether references take the place of variables that the network does not observe; the configuration
        follows by `Config.fitted_to`.

    Raises
    ------
    UsageError
        If there is no such path or dataset.
    DataError
        If a named dataset is not there (the message says where to get it), or the data cannot be used.
    """
    with open_observations(
        dataset, data_path, options=options, stand_ins=settings.missing, quality=quality or settings.quality,
        cache=cache, watcher=watcher, report=report, command=command, trained=trained, complete=complete,
    ) as opened:  # fmt: skip
        return series_of(opened, settings, report, complete=complete)


def series_of(
    opened: OpenObservations, settings: DataSettings, report: ProblemReport | None = None, *, complete: bool = False
) -> StationSeries:
    """Read open observations at the model's cadence, without stations that lack too much of the training period."""
    series = StationSeries.from_dataset(opened.dataset, settings.step_seconds, complete=complete, extra=settings.extra)
    absent = [name for name in series.reference if name not in settings.missing]
    if absent and report is not None:
        report.notice(
            "SPDE-D019", f"{', '.join(absent)} not observed: a reference stands in, which is not scored",
            where=opened.label or "",
        )  # fmt: skip
    border = Split.of(len(series), settings.split).val
    return series.without_sparse(settings.max_missing, border, report)


def demo_series(step: int = 3600, stations: int = 64, days: int = 90, seed: int = 0) -> StationSeries:
    """Make the record of a synthetic network, tested as a real one would be: it shows the tool, not skill."""
    return StationSeries.from_dataset(mask_by_quality(demo_network(stations, days, seed), "full"), step)
