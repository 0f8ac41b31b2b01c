"""One pass over forecasts: sums of errors from which every score follows, and nothing has to be run again.

For each variable the sums are kept by day of issue and by lead, station, or hour of the day for which a forecast holds.
Errors are in the units people read (m/s, hPa, K, %), humidity within 0 to 100 %, in float64. A target that was not
observed is never counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.variables import STATE_VARIABLES, to_display

if TYPE_CHECKING:
    from torch import Tensor

    from fields.torch_data import Batch

__all__ = ["ROWS", "ErrorAccumulator", "ErrorStatistics"]

Array = np.ndarray[Any, Any]
# What is summed, in the order of the first axis of every array.
ROWS = ("count", "squared", "absolute", "signed")
_DAY = 86_400
# Enough for differences of a hundred-thousandth of a percent, and half the size of all seventeen digits.
_DIGITS = 9


@dataclass(frozen=True, slots=True, eq=False)
class ErrorStatistics:
    """Sums of errors, ``[row, group, variable]``, grouped in four ways.

    Attributes
    ----------
    variables : those that are scored
    stations : ids
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
        """For a small file: lists of numbers, counts whole, the rest to nine digits."""
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
        """The inverse of `to_dict`.

        Raises
        ------
        ValueError, KeyError
            If the content is not what `to_dict` gives.
        """
        if tuple(content["rows"]) != ROWS:
            raise ValueError(f"rows {content['rows']} are not {ROWS}")
        names: dict[str, Any] = {
            name: tuple(content[name]) for name in ("variables", "stations", "lead_hours", "hours")
        }
        sizes = {"lead": "lead_hours", "station": "stations", "hour": "hours"}
        groups: dict[str, Any] = {name: np.asarray(content[name], np.float64) for name in ("day", *sizes)}
        for name, array in groups.items():
            many = len(names[sizes[name]]) if name in sizes else array.shape[1]
            if array.shape != (len(ROWS), many, len(names["variables"])):
                raise ValueError(f"`{name}` has the shape {array.shape}")
        return cls(**names, first_day=int(content["first_day"]), **groups)

    @classmethod
    def mean(cls, several: Sequence[ErrorStatistics]) -> ErrorStatistics:
        """The mean over seeds, whose targets are the same."""
        first = several[0]
        groups = {n: np.mean([getattr(s, n) for s in several], axis=0) for n in ("day", "lead", "station", "hour")}
        return cls(first.variables, first.stations, first.lead_hours, first.hours, first.first_day, **groups)


class ErrorAccumulator:
    """Takes in forecasts, batch by batch.

    Parameters
    ----------
    stations : ids
    scored : variables to score
    horizon, step_seconds : leads and their distance
    days : first and last day of issue, days since 1970

    Sums are kept by day *and* group, so that a comparison at one lead or station has its significance too.
    """

    def __init__(
        self, stations: Sequence[str], scored: Sequence[str], horizon: int, step_seconds: int, days: tuple[int, int]
    ) -> None:
        self.variables = tuple(name for name in STATE_VARIABLES if name in scored)
        self._channels = [STATE_VARIABLES.index(name) for name in self.variables]
        self.stations, self.step_seconds, self.first_day = tuple(stations), step_seconds, days[0]
        self.lead_hours = tuple((1 + np.arange(horizon)) * step_seconds / 3600.0)
        self._slots = _DAY // step_seconds
        shape = (len(ROWS), days[1] - days[0] + 1)
        last = len(self.variables)
        self.by_lead = np.zeros((*shape, horizon, last))
        self.by_station = np.zeros((*shape, len(self.stations), last))
        self.by_hour = np.zeros((*shape, self._slots, last))
        self.not_finite = 0

    def add(self, forecast: Tensor, batch: Batch) -> None:
        """Take in forecast and targets ``[batch, lead, station, channel]`` in SI."""
        target, made = self._shown(batch.future), self._shown(forecast)
        error = made - target
        seen = np.isfinite(target)
        self.not_finite += int((seen & ~np.isfinite(error)).sum())
        error = np.where(seen, error, 0.0)
        rows = np.stack([seen.astype(np.float64), np.square(error), np.abs(error), error])
        issue = batch.issue_time.numpy()
        day = issue // _DAY - self.first_day
        leads = rows.sum(axis=3)  # row, batch, lead, variable
        ahead = self.step_seconds * (1 + np.arange(leads.shape[2]))
        slot = (issue[:, None] + ahead) % _DAY // self.step_seconds
        stations = rows.sum(axis=2)
        for number, place in enumerate(day):
            self.by_lead[:, place] += leads[:, number]
            self.by_station[:, place] += stations[:, number]
            for ahead_by, hour in enumerate(slot[number]):
                self.by_hour[:, place, hour] += leads[:, number, ahead_by]

    def statistics(self) -> ErrorStatistics:
        """What was gathered, summed over days where groups are kept."""
        hours = tuple(np.arange(self._slots) * self.step_seconds / 3600.0)
        return ErrorStatistics(
            self.variables, self.stations, tuple(map(float, self.lead_hours)), tuple(map(float, hours)),
            self.first_day, day=self.by_lead.sum(axis=2), lead=self.by_lead.sum(axis=1),
            station=self.by_station.sum(axis=1), hour=self.by_hour.sum(axis=1),
        )  # fmt: skip

    def _shown(self, values: Tensor) -> Array:
        columns = []
        for name, channel in zip(self.variables, self._channels, strict=True):
            column = values[..., channel].detach().cpu().double().numpy()
            column = column.clip(0.0, 1.0) if name == "rh" else column
            columns.append(to_display(name, column))
        return np.stack(columns, axis=-1)


def _lists(array: Array) -> list[Any]:
    counts, sums = array[0], array[1:]
    rounded = [[[float(f"{x:.{_DIGITS}g}") for x in group] for group in row] for row in sums]
    return [counts.round().astype(int).tolist(), *rounded]
