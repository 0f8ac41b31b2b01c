"""Sums of errors of test forecasts by day of issue, lead, station and hour: every score follows from them.

One pass over the forecasts is enough. Units and masks are those of `stationpde.data.ErrorSums`; hours are hours of the
day (UTC) for which a forecast holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.times import DAY
from fields.variables import STATE_VARIABLES
from stationpde.data import ErrorSums

if TYPE_CHECKING:
    from torch import Tensor

    from fields.windows import Batch

__all__ = ["ROWS", "ErrorAccumulator", "ErrorStatistics"]

Array = np.ndarray[Any, Any]
# Quantities that are summed, in the order of the first axis of every array.
ROWS = ("count", "squared", "absolute", "signed")
# Enough for differences of a hundred-thousandth of a percent, and half the size of all seventeen digits.
_DIGITS = 9


@dataclass(frozen=True, slots=True, eq=False)
class ErrorStatistics:
    """Sums of errors, ``[row, group, variable]``, grouped in four ways.

    Attributes
    ----------
    variables : scored variables
    stations : station ids
    lead_hours, hours : hours after issue; hours of the day (UTC) for which forecasts hold
    first_day : day of the first issue, in days since 1970; the groups of ``day`` follow each other from there
    """

    variables: tuple[str, ...]
    stations: tuple[str, ...]
    lead_hours: tuple[float, ...]
    hours: tuple[float, ...]
    first_day: int
    day: Array
    lead: Array
    station: Array
    hour: Array

    @property
    def total(self) -> Array:
        """Sums over everything, ``[row, variable]``."""
        whole: Array = self.day.sum(axis=1)
        return whole

    def to_dict(self) -> dict[str, Any]:
        """Return lists of numbers for a small file: counts as integers, sums to nine digits."""
        groups = {name: _lists(getattr(self, name)) for name in ("day", "lead", "station", "hour")}
        return {
            "variables": list(self.variables),
            "stations": list(self.stations),
            "lead_hours": list(self.lead_hours),
            "hours": list(self.hours),
            "first_day": self.first_day,
            "rows": list(ROWS),
            **groups,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ErrorStatistics:
        """Read what `to_dict` returns.

        Raises
        ------
        ValueError, KeyError
            If the content has other rows or shapes than `to_dict` writes.
        """
        if tuple(content["rows"]) != ROWS:
            raise ValueError(f"rows {content['rows']} are not {ROWS}")
        names: dict[str, Any] = {
            name: tuple(content[name]) for name in ("variables", "stations", "lead_hours", "hours")
        }
        sizes = {"lead": "lead_hours", "station": "stations", "hour": "hours"}
        groups: dict[str, Any] = {name: np.asarray(content[name], np.float64) for name in ("day", *sizes)}
        for name, array in groups.items():
            groups_expected = len(names[sizes[name]]) if name in sizes else array.shape[1] if array.ndim > 1 else 0
            if array.shape != (len(ROWS), groups_expected, len(names["variables"])):
                raise ValueError(f"`{name}` has the shape {array.shape}")
        return cls(**names, first_day=int(content["first_day"]), **groups)

    @classmethod
    def mean(cls, seeds: Sequence[ErrorStatistics]) -> ErrorStatistics:
        """Return the mean over seeds, whose targets are the same."""
        first = seeds[0]
        groups = {n: np.mean([getattr(s, n) for s in seeds], axis=0) for n in ("day", "lead", "station", "hour")}
        return cls(first.variables, first.stations, first.lead_hours, first.hours, first.first_day, **groups)


class ErrorAccumulator(ErrorSums):
    """Sums of errors by day of issue *and* group, so that a comparison at one lead or station has its significance.

    Parameters
    ----------
    stations : station ids
    scored : variables to score
    horizon, step_seconds : number of leads and seconds between them
    days : first and last day of issue, in days since 1970

    Attributes
    ----------
    by_lead, by_station, by_hour : ``[row, day, group, variable]``
    """

    def __init__(
        self, stations: Sequence[str], scored: Sequence[str], horizon: int, step_seconds: int, days: tuple[int, int]
    ) -> None:
        super().__init__([name for name in STATE_VARIABLES if name in scored], ROWS)
        self.stations, self.step_seconds, self.first_day = tuple(stations), step_seconds, days[0]
        self.lead_hours = tuple((1 + np.arange(horizon)) * step_seconds / 3600.0)
        self._slots = DAY // step_seconds
        shape = (len(ROWS), days[1] - days[0] + 1)
        last = len(self.variables)
        self.by_lead = np.zeros((*shape, horizon, last))
        self.by_station = np.zeros((*shape, len(self.stations), last))
        self.by_hour = np.zeros((*shape, self._slots, last))

    def _add_rows(self, rows: Iterator[Tensor], batch: Batch) -> None:
        pairs = [(row.sum(axis=2), row.sum(axis=1)) for row in (tensor.cpu().numpy() for tensor in rows)]
        leads, stations = (np.stack(arrays) for arrays in zip(*pairs, strict=True))  # [row, batch, group, variable]
        issue = batch.issue_time.numpy()
        ahead = self.step_seconds * (1 + np.arange(leads.shape[2]))
        slot = (issue[:, None] + ahead) % DAY // self.step_seconds
        for window, day in enumerate(issue // DAY - self.first_day):
            self.by_lead[:, day] += leads[:, window]
            self.by_station[:, day] += stations[:, window]
            for lead, hour in enumerate(slot[window]):
                self.by_hour[:, day, hour] += leads[:, window, lead]

    def statistics(self) -> ErrorStatistics:
        """Return the sums by day, and by lead, station and hour summed over days."""
        hours = tuple(np.arange(self._slots) * self.step_seconds / 3600.0)
        return ErrorStatistics(
            self.variables, self.stations, tuple(map(float, self.lead_hours)), tuple(map(float, hours)),
            self.first_day, day=self.by_lead.sum(axis=2), lead=self.by_lead.sum(axis=1),
            station=self.by_station.sum(axis=1), hour=self.by_hour.sum(axis=1),
        )  # fmt: skip


def _lists(array: Array) -> list[Any]:
    counts, sums = array[0], array[1:]
    rounded = [[[float(f"{x:.{_DIGITS}g}") for x in group] for group in row] for row in sums]
    return [counts.round().astype(int).tolist(), *rounded]
