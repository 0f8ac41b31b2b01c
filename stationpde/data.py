"""From the name of a dataset to a record in memory: ``weather2k``, ``meteonet``, ``demo``, or a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from fields.errors import ProblemReport
from fields.progress import Watcher
from fields.readers import ReadOptions
from fields.series import StationSeries

__all__ = ["DATASETS", "DataSettings", "load_series"]

DATASETS = ("weather2k", "meteonet", "demo")


class DataSettings(Protocol):
    """What of a configuration's ``data`` section is needed here."""

    @property
    def step_seconds(self) -> int: ...
    @property
    def split(self) -> Sequence[float]: ...
    @property
    def max_missing(self) -> float: ...
    @property
    def missing(self) -> Mapping[str, str]: ...


def load_series(
    dataset: str,
    settings: DataSettings,
    data_path: str | Path | None = None,
    *,
    read: ReadOptions | None = None,
    cache: str | Path | None = None,
    watcher: Watcher | None = None,
    report: ProblemReport | None = None,
) -> StationSeries:
    """The record that a dataset's name and options stand for."""
    raise NotImplementedError
