"""Repeat a forecast whenever the observations change: poll their path, yield when its content has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fields.errors import FieldsError
from fields.store import MANIFEST
from stationpde.errors import can_be_waited_out

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["changes", "forecast_on_change", "signature"]

_MOST_FILES = 10_000


def forecast_on_change(
    make_forecast: Callable[[], xr.Dataset], observations: Path, poll_seconds: float, *, count: int | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Iterator[xr.Dataset]:  # fmt: skip
    """Yield a forecast at the start and after every change that brings a later issue time.

    Observations that are faulty or too old are reported to ``note``, and the next change is waited for.

    Parameters
    ----------
    make_forecast : computes a forecast from the observations as they are now
    observations : path that is polled for changes
    poll_seconds : time between two polls [s]
    count : stop after so many forecasts; None never stops
    note : is called with a line of text for people
    """
    return islice(_later_forecasts(make_forecast, observations, poll_seconds, note), count)


def _later_forecasts(
    make_forecast: Callable[[], xr.Dataset], observations: Path, poll_seconds: float, note: Callable[[str], None]
) -> Iterator[xr.Dataset]:
    last = ""
    for _ in changes(observations, poll_seconds):
        try:
            forecast = make_forecast()
        except FieldsError as problem:
            if not can_be_waited_out(problem):
                raise
            note(f"{problem.code}: {problem}; waiting")
            continue
        if forecast.attrs["issue_time"] <= last:
            note(f"nothing later than {last}; waiting")
            continue
        last = forecast.attrs["issue_time"]
        yield forecast


def signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of the files of a path, which change with its content; empty while it is absent.

    A store is replaced as a whole, so that its manifest is enough.
    """
    manifest = path / MANIFEST
    if manifest.is_file():
        return _entries([manifest])
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        return _entries(files[:_MOST_FILES])
    return _entries([path])


def changes(
    path: Path, every: float, *, wait: Callable[[float], None] = time.sleep
) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """Yield the signature at once, and then whenever the path has changed and no longer grows.

    Parameters
    ----------
    every : seconds between checks; a file that grows from one check to the next is not yielded yet
    wait : function that sleeps for a number of seconds
    """
    last: tuple[tuple[str, int, int], ...] | None = None
    before = signature(path)
    while True:
        now = signature(path)
        if now and now == before and now != last:
            last = now
            yield now
        else:
            before = now
            wait(every)


def _entries(files: list[Path]) -> tuple[tuple[str, int, int], ...]:
    entries = []
    for file in files:
        try:
            about = os.stat(file)
        except FileNotFoundError:  # gone since it was listed
            continue
        entries.append((file.name, about.st_size, about.st_mtime_ns))
    return tuple(entries)
