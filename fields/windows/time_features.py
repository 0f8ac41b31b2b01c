r"""Fraction of the day and of the year of a time, exact: integers until the last division.

Seconds since 1970 need 31 bits and float32 keeps 24, so that a float loses minutes; a year of 365.25 days drifts by a
day over the leap cycle. Here the calendar is computed in whole days (Hinnant's algorithm for the proleptic Gregorian
calendar), with operators that numpy arrays and torch tensors share: the same code serves both and can be exported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fields.times import DAY

__all__ = ["annual_harmonics", "day_fraction", "month_of", "year_fraction"]

Times = Any  # int64 seconds since 1970 UTC: a numpy array, a torch tensor or an int



def day_fraction(seconds: Times) -> Times:
    """Return the time since midnight UTC in days: 0 <= f < 1."""
    return (seconds % DAY) / DAY


def _civil(seconds: Times) -> tuple[Times, Times, Times]:
    """Compute year, month (1 to 12) and days since 1 March; inside, years are counted from March."""
    days = seconds // DAY + 719_468  # since 0000-03-01
    era = days // 146_097
    day_of_era = days - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    since_march = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * since_march + 2) // 153  # 0 is March
    month = (shifted + 2) % 12 + 1
    return year_of_era + era * 400 + (shifted >= 10), month, since_march


def month_of(seconds: Times) -> Times:
    """Return the month, 1 to 12."""
    return _civil(seconds)[1]


def _first_day(year: Times) -> Times:
    """Return the days from 1970-01-01 to the first of January of a year."""
    before = year - 1
    return 365 * (year - 1970) + (before // 4 - before // 100 + before // 400) - 477


def year_fraction(seconds: Times) -> Times:
    """Return the time since the first of January in parts of that year, leap or not: 0 <= f < 1."""
    year = _civil(seconds)[0]
    first = _first_day(year)
    return (seconds - first * DAY) / ((_first_day(year + 1) - first) * DAY)


def annual_harmonics(seconds: Times, count: int, daily: bool, xp: Any) -> list[Times]:
    r"""Compute annual harmonics and, on request, their products with the daily cycle.

    .. math:: \cos 2\pi k\phi,\ \sin 2\pi k\phi \quad (k = 1 \dots n), \qquad
              \text{each also} \times \cos 2\pi\tau \text{ and } \times \sin 2\pi\tau

    Parameters
    ----------
    seconds : times, seconds since 1970 UTC; :math:`\phi` and :math:`\tau` are `year_fraction` and `day_fraction`
    count : the number n of harmonics; 0 gives an empty list
    daily : whether to add the products
    xp : numpy or torch
    """
    phase = 2 * np.pi * year_fraction(seconds)
    waves = [wave(k * phase) for k in range(1, count + 1) for wave in (xp.cos, xp.sin)]
    if daily:
        angle = 2 * np.pi * day_fraction(seconds)
        waves += [a * wave(angle) for a in list(waves) for wave in (xp.cos, xp.sin)]
    return waves
