"""What is known of a forecast at its issue time, in display units (m/s, hPa, °C, %): the signals of its spread.

A signal is made of the history and the forecast alone. The change of the last day against the day before is an error of
persistence that was verified at issue time: it follows seasons and regimes that no calibration period has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.times import DAY
from fields.variables import STATE_VARIABLES, to_display, variable

__all__ = ["NOISE", "VARIABLES", "Signals", "shown", "signals_of"]

Array = np.ndarray[Any, Any]

VARIABLES = (*STATE_VARIABLES, "ff")
"""Variables with a distribution: those of a forecast, and the speed of the wind."""
NOISE: Array = np.array([to_display(name, variable(name).noise, difference=True) for name in VARIABLES])
"""Error of a good sensor in display units: no spread is smaller."""
_YEAR = 365.2425 * DAY


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """Signals of a batch of forecasts; variables in the order of `VARIABLES`, display units.

    Attributes
    ----------
    forecast : best estimate, ``[batch, lead, station, variable]``
    departure : best estimate minus what was observed at the same hour of the last day, of the same shape
    change : mean absolute change of the last day against the day before, ``[batch, station, variable]``
    network_change : the same over all stations, ``[batch, variable]``
    age : steps since the variable was last observed, ``[batch, station, variable]``
    angle : local solar time of the valid time as an angle, ``[batch, lead, station]``
    season : time of the year at issue as an angle, ``[batch]``
    spread : standard deviation of the guesses that the forecast mixes, shaped like it; None without guesses
    """

    forecast: Array
    departure: Array
    change: Array
    network_change: Array
    age: Array
    angle: Array
    season: Array
    spread: Array | None = None

    def take(self, stations: Array) -> Signals:
        """Return the signals at some of the stations."""
        spread = None if self.spread is None else self.spread[:, :, stations]
        return Signals(
            self.forecast[:, :, stations], self.departure[:, :, stations], self.change[:, stations],
            self.network_change, self.age[:, stations], self.angle[:, :, stations], self.season, spread,
        )  # fmt: skip

    def window(self, number: int) -> Signals:
        """Return the signals of one window of the batch."""
        one = slice(number, number + 1)
        return Signals(
            self.forecast[one], self.departure[one], self.change[one], self.network_change[one], self.age[one],
            self.angle[one], self.season[one], None if self.spread is None else self.spread[one],
        )  # fmt: skip


def shown(values: Array) -> Array:
    """Convert ``[..., STATE_VARIABLES]`` in SI to display units, humidity in 0 to 100 %, with the speed of the wind."""
    columns = [to_display(name, values[..., c].astype(np.float64)) for c, name in enumerate(STATE_VARIABLES)]
    columns[4] = np.clip(columns[4], 0.0, 100.0)
    return np.stack([*columns, np.hypot(columns[0], columns[1])], axis=-1)


def signals_of(
    history: Array, forecast: Array, issue_time: Array, step_seconds: int, longitude: Array,
    guesses: Array | None = None,
) -> Signals:  # fmt: skip
    """Make the signals of a batch.

    Parameters
    ----------
    history : ``[batch, time, station, variable]``, SI, NaN where nothing was observed
    forecast : ``[batch, lead, station, variable]``, SI
    issue_time : seconds since 1970, UTC
    longitude : of the stations, degrees
    guesses : ``[guess, batch, lead, station, variable]``, SI
    """
    past, ahead = shown(history), shown(forecast)
    leads = ahead.shape[1]
    last, age = _last(past)
    day = max(1, round(DAY / step_seconds))
    valid = issue_time[:, None] + step_seconds * np.arange(1, leads + 1)
    local = (valid[:, :, None] % DAY) / DAY + longitude[None, None] / 360.0
    change, network = _changes(past, day)
    spread = None
    if guesses is not None and len(guesses) > 1:
        spread = np.zeros(ahead.shape)
        mean = np.mean([shown(guess) for guess in guesses], axis=0)
        for guess in guesses:
            spread += (shown(guess) - mean) ** 2
        spread = np.sqrt(spread / (len(guesses) - 1))
    return Signals(
        ahead, ahead - _same_hour(past, last, ahead, day), change, network, age, 2.0 * np.pi * local,
        2.0 * np.pi * (issue_time / _YEAR % 1.0), spread,
    )  # fmt: skip


def _last(past: Array) -> tuple[Array, Array]:
    """Return the last observed value of each station and variable, NaN without one, and its age in steps."""
    steps = past.shape[1]
    observed = np.isfinite(past)
    age = np.where(observed.any(axis=1), observed[:, ::-1].argmax(axis=1), steps)
    row = np.clip(steps - 1 - age, 0, steps - 1)
    value = np.take_along_axis(past, row[:, None], axis=1)[:, 0]
    return value, age.astype(np.float64)


def _same_hour(past: Array, last: Array, ahead: Array, day: int) -> Array:
    """Return what was observed at the hour of each lead on the last day, else last, else the forecast itself."""
    steps, leads = past.shape[1], ahead.shape[1]
    number = np.arange(1, leads + 1)
    row = steps - 1 + number - day * np.ceil(number / day).astype(int)
    value = np.where((row >= 0)[None, :, None, None], past[:, np.clip(row, 0, steps - 1)], np.nan)
    value = np.where(np.isfinite(value), value, last[:, None])
    return np.where(np.isfinite(value), value, ahead)


def _changes(past: Array, day: int) -> tuple[Array, Array]:
    """Return the mean absolute change from day to day, at each station and over the network.

    In a history shorter than a day, and where nothing was observed a day apart, the change from step to step.
    """
    steps = past.shape[1]
    lag = day if steps > day else 1
    change = np.abs(past[:, lag:] - past[:, :-lag]) if steps > 1 else np.zeros((len(past), 1, *past.shape[2:]))
    observed = np.isfinite(change)
    count, total = observed.sum(axis=1), np.where(observed, change, 0.0).sum(axis=1)
    whole = count.sum(axis=1)
    network = np.where(whole > 0, total.sum(axis=1) / np.maximum(whole, 1), NOISE)
    return np.where(count > 0, total / np.maximum(count, 1), network[:, None]), network
