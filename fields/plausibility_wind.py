r"""Does the wind fit the pressure? A direction that says where the wind goes, instead of where it comes from, does not.

Near the ground the wind blows along the isobars and across them towards the low, whatever the network: its departures
from the usual follow the geostrophic wind of the pressure's departures,

.. math:: u_g = -\frac{1}{\rho f}\frac{\partial p}{\partial y}, \; v_g = \frac{1}{\rho f}\frac{\partial p}{\partial x},

turned by 20 to 90 degrees towards the low. A wind that was read the wrong way round is turned by half a circle more.

Reference: Wallace and Hobbs (2006), Atmospheric Science, 2nd ed., section 7.2.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .errors import Problem, ProblemReport
from .geometry import LocalMetric
from .plausibility import Subject

__all__ = ["check_wind_direction", "turning"]

Array = np.ndarray[Any, Any]

_FEWEST_STATIONS = 6
_FEWEST_ROWS = 48
_SHORTEST = 15 * 86_400  # seconds; several weather systems, so that chance does not align them
_LOWEST_LATITUDE = 12.0  # nearer to the equator the wind does not follow the isobars
# Agreement that chance does not make, the usual turning, and how far a true wind may be from it (degrees).
_CLEAR = 0.6
_USUAL, _LARGEST = 50.0, 115.0
_DAY = 86_400


def turning(pressure: Array, u: Array, v: Array, times: Array, lat: Array, lon: Array) -> tuple[float, float]:
    """How well a network's wind follows its pressure, and by how much it is turned towards the low.

    Parameters
    ----------
    pressure, u, v : Pa and m/s, [time, station], NaN where missing
    times : datetime64
    lat, lon : of the stations, degrees

    Returns
    -------
    The modulus of the complex correlation of the mean wind with the geostrophic wind (0 to 1), and its angle in
    degrees: positive towards the low on either hemisphere. Both are NaN where nothing can be said.
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
    given: Literal["dd", "u"],
) -> ProblemReport:
    """Report a wind that blows the wrong way round the lows; silent where too little is known.

    ``given`` names what the source holds: a direction or components.
    """
    report = ProblemReport()
    lat, lon = (np.asarray(part, np.float64) for part in places)
    known = np.isfinite(lat) & np.isfinite(lon) & np.isfinite(pressure).any(axis=0)
    seconds = times.astype("datetime64[s]").astype(np.int64)
    if known.sum() < _FEWEST_STATIONS or seconds.size < _FEWEST_ROWS or np.ptp(seconds) < _SHORTEST:
        return report
    if np.abs(lat[known]).min() < _LOWEST_LATITUDE or np.ptp(np.sign(lat[known])):
        return report
    strength, angle = turning(pressure[:, known], u[:, known], v[:, known], times, lat[known], lon[known])
    away = abs((angle - _USUAL + 180.0) % 360.0 - 180.0)
    if not (strength >= _CLEAR and away > _LARGEST):
        return report
    do = f"{subject.command} --unit dd=towards"
    if given != "dd":
        do = "change the sign of u and v in the source (scale = -1 in a column map)"
    what = "the wind blows the wrong way round the lows: its direction is probably that in which it goes"
    why = f"turned by {angle:.0f} degrees against the isobars, usual 20 to 90"
    do += f"   (if the values are right: --trust {given})"
    subject.add(report, given, Problem("SPDE-D012", what, subject.where(given), why, do))
    return report


def _mean(values: Array, axis: int) -> Array:
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=axis)
    count = known.sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _departures(values: Array, times: Array) -> Array:
    """Values less each station's mean and daily harmonic."""
    turn = 2 * np.pi * (times.astype("datetime64[s]").astype(np.int64) % _DAY) / _DAY
    base = np.column_stack([np.ones(turn.size), np.cos(turn), np.sin(turn)])
    return np.asarray(values - base @ _coefficients(values.T, base).T)


def _coefficients(rows: Array, base: Array) -> Array:
    """Least squares of every row's known values on the columns of ``base``; the smallest ones where many fit."""
    known = np.isfinite(rows)
    left = np.einsum("rn,ni,nj->rij", known.astype(np.float64), base, base)
    right = np.einsum("rn,ni->ri", np.where(known, rows, 0.0), base)
    return np.einsum("rij,rj->ri", np.linalg.pinv(left, rcond=1e-9, hermitian=True), right)
