"""Columns of the regressions of one variable: lead, hour, and signals of the issue time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stationpde.uncertainty.signals import NOISE, VARIABLES, Signals

__all__ = ["Design", "LeadGroups"]

Array = np.ndarray[Any, Any]
_MOST_GROUPS = 24
# Beyond so many standard deviations of the sample a signal counts as that far: no regression is extrapolated.
_FARTHEST = 3.0


@dataclass(frozen=True, slots=True)
class LeadGroups:
    """Leads, at most 24 groups of neighbouring ones; leads beyond the last are of its group."""

    horizon: int

    @property
    def count(self) -> int:
        """Number of groups."""
        return min(self.horizon, _MOST_GROUPS)

    def of(self, leads: int) -> Array:
        """Return the group of each of so many leads."""
        return np.minimum(np.arange(leads), self.horizon - 1) * self.count // self.horizon


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Columns for one variable: 1, lead, hour (two harmonics of local solar time), season, and scaled signals.

    Attributes
    ----------
    name : variable
    groups : groups of leads
    centre, width : mean and standard deviation of each signal in the sample; first those of the location, then those
        of the scale
    has_season : whether the last two columns of the scale are the first harmonic of the year
    """

    name: str
    groups: LeadGroups
    centre: Array
    width: Array
    has_season: bool = False

    @classmethod
    def of(cls, name: str, groups: LeadGroups, signals: Signals, rows: Array, has_season: bool) -> Design:
        """Measure the signals of a variable on a sample; ``rows`` selects its observed targets."""
        parts = [column[rows] for column in (*_location(name, signals), *_scale(name, signals))]
        centre = np.array([part.mean() for part in parts])
        return cls(name, groups, centre, np.array([max(float(part.std()), 1e-6) for part in parts]), has_season)

    def location(self, signals: Signals) -> Array:
        """Return the columns of the location ``[batch, lead, station, column]``."""
        columns = _location(self.name, signals)
        return self._columns(signals, columns, 0)

    def scale(self, signals: Signals) -> Array:
        """Return the columns of the logarithm of the scale ``[batch, lead, station, column]``."""
        columns = self._columns(signals, _scale(self.name, signals), len(_location(self.name, signals)))
        if not self.has_season:
            return columns
        year = np.broadcast_to(signals.season[:, None, None], signals.angle.shape)
        return np.concatenate([columns, np.cos(year)[..., None], np.sin(year)[..., None]], axis=-1)

    def level(self, signals: Signals) -> Array:
        """Return the best estimate as a number of standard deviations from its mean."""
        forecast = signals.forecast[..., VARIABLES.index(self.name)]
        standardised: Array = (forecast - self.centre[0]) / self.width[0]
        return standardised

    def _columns(self, signals: Signals, parts: list[Array], first: int) -> Array:
        shape = signals.angle.shape
        lead = np.zeros((shape[1], self.groups.count))
        lead[np.arange(shape[1]), self.groups.of(shape[1])] = 1.0
        columns = np.empty((*shape, 5 + self.groups.count + len(parts)))
        columns[..., 0] = 1.0
        for place, wave in enumerate((np.cos, np.sin)):
            columns[..., 1 + place] = wave(signals.angle)
            columns[..., 3 + place] = wave(2.0 * signals.angle)
        columns[..., 5 : 5 + self.groups.count] = lead[None, :, None]
        for number, part in enumerate(parts):
            scaled = (part - self.centre[first + number]) / self.width[first + number]
            columns[..., 5 + self.groups.count + number] = np.clip(scaled, -_FARTHEST, _FARTHEST)
        return columns


def _location(name: str, signals: Signals) -> list[Array]:
    """List the signals of the mean error of a variable; the best estimate comes first."""
    c = VARIABLES.index(name)
    forecast = signals.forecast[..., c]
    columns = [forecast, forecast**2, signals.departure[..., c]]
    if name == "ff":
        # The speed of a mean wind is less than the mean speed, by more the weaker the wind is.
        columns.append(np.sqrt(forecast**2 + np.square(signals.change[:, None, :, c])))
    return columns


def _scale(name: str, signals: Signals) -> list[Array]:
    """List the signals of the spread of a variable."""
    c, wind = VARIABLES.index(name), VARIABLES.index("ff")
    least, forecast = NOISE[c], signals.forecast[..., c]
    ones = np.ones_like(forecast)
    columns = [
        np.log(signals.change[:, None, :, c] + least) * ones,
        np.log(signals.network_change[:, None, None, c] + least) * ones,
        np.log(np.abs(signals.departure[..., c]) + least),
        forecast,
        forecast**2,
        np.log1p(signals.forecast[..., wind]),
        np.log1p(signals.age[:, None, :, c]) * ones,
    ]
    return columns if signals.spread is None else [*columns, np.log(signals.spread[..., c] + least)]
