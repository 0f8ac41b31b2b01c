r"""Check that the wind fits the pressure: a direction given as "to" instead of "from" does not.

Near the ground the wind blows along the isobars and across them towards the low, in every network: its departures
from the mean follow the geostrophic wind of the pressure's departures,

.. math:: u_g = -\frac{1}{\rho f}\frac{\partial p}{\partial y}, \; v_g = \frac{1}{\rho f}\frac{\partial p}{\partial x},

turned by 20 to 90 degrees towards the low. A wind that was read the wrong way round is turned by half a circle more.

Reference: Wallace and Hobbs (2006), Atmospheric Science, 2nd ed., section 7.2.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fields.checks.values import Subject
from fields.errors import Problem, ProblemReport
from fields.grid import LocalMetric
from fields.times import DAY, to_seconds

__all__ = ["check_wind_direction", "turning"]

Array = np.ndarray[Any, Any]

_FEWEST_STATIONS = 6
_FEWEST_ROWS = 48
_SHORTEST = 15 * DAY  # several weather systems, so that chance does not align them
_LOWEST_LATITUDE = 12.0  # nearer to the equator the wind does not follow the isobars
# Agreement that chance does not produce, the typical turning, and how far a true wind may be from it (degrees).
_CLEAR = 0.6
_TYPICAL, _LARGEST = 50.0, 115.0
# Units of a direction that say the contrary of each other.
_OPPOSITE = {"towards": "degrees", "compass": "compass-towards", "compass-towards": "compass"}


def turning(pressure: Array, u: Array, v: Array, times: Array, lat: Array, lon: Array) -> tuple[float, float]:
    """Measure how closely a network's wind follows its pressure, and by how much it is turned towards the low.

    Parameters
    ----------
    pressure : Pa, [time, station], NaN where missing
    u, v : m/s, alike
    times : datetime64
    lat, lon : coordinates of the stations [degrees]

    Returns
    -------
    The modulus of the complex correlation of the mean wind with the geostrophic wind (0 to 1), and its angle in
    degrees: positive towards the low on either hemisphere. Both are NaN where there are too few values.
    """
    xy = LocalMetric.around(lat, lon).xy(lat, lon)
    # Relative departures: stations at all altitudes count alike. The daily cycle (valley winds, heat lows) goes too.
    relative = _departures(pressure / _mean(pressure, 0), times)
    wind = _mean(_departures(u, times), 1) + 1j * _mean(_departures(v, times), 1)
    slope = _coefficients(relative, np.column_stack([np.ones(len(xy)), (xy - xy.mean(axis=0)) / 1e6]))
    geostrophic = (-slope[:, 2] + 1j * slope[:, 1]) * np.sign(np.mean(lat))
    good = np.isfinite(wind) & (np.isfinite(relative).sum(axis=1) >= _FEWEST_STATIONS)
    if good.sum() < _FEWEST_ROWS:
        return np.nan, np.nan
    wind, geostrophic = wind[good], geostrophic[good]
    size = np.sqrt((np.abs(wind) ** 2).sum() * (np.abs(geostrophic) ** 2).sum())
    if not size > 0:
        return np.nan, np.nan
    agreement = (wind * np.conj(geostrophic)).sum() / size
    return float(np.abs(agreement)), float(np.degrees(np.angle(agreement)) * np.sign(np.mean(lat)))


def check_wind_direction(
    pressure: Array,
    u: Array,
    v: Array,
    times: Array,
    places: tuple[Array, Array],
    subject: Subject,
    source_variable: Literal["dd", "u"],
    declared: str = "degrees",
) -> ProblemReport:
    """Report a wind that blows the wrong way round the lows; nothing is reported where there are too few values.

    Parameters
    ----------
    pressure : Pa, [time, station]
    u, v : m/s, alike
    times : datetime64
    places : latitudes and longitudes of the stations [degrees]
    source_variable : variable that the source holds, a direction (``dd``) or components (``u``)
    declared : unit of the direction
    """
    report = ProblemReport()
    lat, lon = (np.asarray(part, np.float64) for part in places)
    usable = np.isfinite(lat) & np.isfinite(lon) & np.isfinite(pressure).any(axis=0)
    seconds = to_seconds(times)
    if usable.sum() < _FEWEST_STATIONS or seconds.size < _FEWEST_ROWS or np.ptp(seconds) < _SHORTEST:
        return report
    if np.abs(lat[usable]).min() < _LOWEST_LATITUDE or np.ptp(np.sign(lat[usable])):
        return report
    strength, angle = turning(pressure[:, usable], u[:, usable], v[:, usable], times, lat[usable], lon[usable])
    away = abs((angle - _TYPICAL + 180.0) % 360.0 - 180.0)
    if not (strength >= _CLEAR and away > _LARGEST):
        return report
    do = f"{subject.command} --unit dd={_OPPOSITE.get(declared.strip(), 'towards')}"
    if source_variable != "dd":
        do = "change the sign of u and v in the source (scale = -1 in a column map)"
    what = "the wind blows the wrong way round the lows: its direction is probably that in which it goes"
    why = f"turned by {angle:.0f} degrees against the isobars, typically 20 to 90"
    do += f"   or, if the values are right: {subject.command} --trust {source_variable}"
    subject.add(report, source_variable, Problem("SPDE-D012", what, subject.where(source_variable), why, do))
    return report


def _mean(values: Array, axis: int) -> Array:
    present = np.isfinite(values)
    total = np.where(present, values, 0.0).sum(axis=axis)
    count = present.sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _departures(values: Array, times: Array) -> Array:
    """Subtract each station's mean and daily harmonic."""
    turn = 2 * np.pi * (to_seconds(times) % DAY) / DAY
    base = np.column_stack([np.ones(turn.size), np.cos(turn), np.sin(turn)])
    return np.asarray(values - base @ _coefficients(values.T, base).T)


def _coefficients(rows: Array, base: Array) -> Array:
    """Fit every row's present values to the columns of ``base`` by least squares (of least norm where many fit)."""
    present = np.isfinite(rows)
    left = np.einsum("rn,ni,nj->rij", present.astype(np.float64), base, base)
    right = np.einsum("rn,ni->ri", np.where(present, rows, 0.0), base)
    return np.einsum("rij,rj->ri", np.linalg.pinv(left, rcond=1e-9, hermitian=True), right)
