"""Find stations that stand apart from all others, and say which slip of their coordinates would explain it.

One station with exchanged or unsigned coordinates passes every check of ranges: it stretches the region over an ocean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fields.checks.remedy import mend_or_drop
from fields.checks.values import Subject
from fields.constants import earth_radius
from fields.errors import Problem, ProblemReport, counted
from fields.grid import great_circle

__all__ = ["check_isolation", "check_neighbour_altitudes"]

Array = np.ndarray[Any, Any]

_FEWEST_STATIONS = 5
# A station stands apart beyond this distance and this many typical distances between neighbours; where more than a
# tenth of them do, the network has several parts.
_APART_M, _APART_SPACINGS = 200e3, 8.0
_MOST_APART = 0.1
# The nearest stations within this distance hardly ever all lie lower, or all higher, by so much [m].
_NEIGHBOURS, _NEARBY_M, _LARGEST_RISE_M = 3, 300e3, 4000.0
# What may have happened to a place: the words for it, and the place before it happened.
_SLIPS = (
    ("latitude and longitude exchanged", lambda lat, lon: (lon, lat)),
    ("the other sign of latitude", lambda lat, lon: (-lat, lon)),
    ("the other sign of longitude", lambda lat, lon: (lat, -lon)),
    ("the other sign of both coordinates", lambda lat, lon: (-lat, -lon)),
    ("latitude and longitude exchanged and the other sign of latitude", lambda lat, lon: (-lon, lat)),
    ("latitude and longitude exchanged and the other sign of longitude", lambda lat, lon: (lon, -lat)),
    ("latitude and longitude exchanged and the other sign of both", lambda lat, lon: (-lon, -lat)),
)


def check_isolation(lat: Array, lon: Array, subject: Subject) -> ProblemReport:
    """Report stations far from all others: an error where a slip of coordinates explains it, else a warning.

    Parameters
    ----------
    lat, lon : degrees; stations without a possible position are left out
    """
    report = ProblemReport()
    usable = np.isfinite(lat) & np.isfinite(lon) & (np.abs(lat) <= 90.0) & (np.abs(lon) <= 360.0)
    if usable.sum() < _FEWEST_STATIONS:
        return report
    where = np.flatnonzero(usable)
    places = _on_sphere(lat[where], lon[where])
    link = max(_APART_M, _APART_SPACINGS * _spacing(places))
    apart = ~_main_part(places, link)
    if not apart.any() or apart.sum() > max(1, _MOST_APART * where.size):
        return report
    reasons: dict[str, list[int]] = {}
    for i in where[apart].tolist():
        reasons.setdefault(_slip_of(lat[i], lon[i], places[~apart], link), []).append(i)
    for reason, chosen in reasons.items():
        _report_apart(report, reason, chosen, lat, lon, where[~apart], subject)
    return report


def _report_apart(
    report: ProblemReport, reason: str, chosen: list[int], lat: Array, lon: Array, others: Array, subject: Subject
) -> None:
    first = chosen[0]
    far = great_circle(lat[first], lon[first], lat[others], lon[others]).min() / 1e3
    mask = np.isin(np.arange(lat.size), chosen)
    stands = "stands" if len(chosen) == 1 else "stand"
    what = f"{counted(len(chosen), 'station')} {stands} far from all others"
    why = f"{subject.ids(mask)[0]} at {lat[first]:.4f}, {lon[first]:.4f} is {far:,.0f} km from the nearest"
    mend = mend_or_drop(mask, subject)
    if reason:
        problem = Problem(
            "SPDE-D013", f"{what}, and among them with {reason}", subject.where("lat", mask), why,
            f"{mend}   or, if the places are right: {subject.command} --trust lat",
        )  # fmt: skip
        subject.add(report, "lat", problem)
        return
    report.warning("SPDE-D014", what, where=subject.where("lat", mask), why=why, do=mend)


def check_neighbour_altitudes(lat: Array, lon: Array, alt: Array, subject: Subject) -> ProblemReport:
    """Warn of stations that stand kilometres above or below each of their neighbours."""
    from scipy.spatial import cKDTree

    report = ProblemReport()
    usable = np.flatnonzero(np.isfinite(lat) & np.isfinite(lon) & np.isfinite(alt) & (np.abs(lat) <= 90.0))
    if usable.size < _FEWEST_STATIONS:
        return report
    places, metres = _on_sphere(lat[usable], lon[usable]), alt[usable]
    distance, index = cKDTree(places).query(places, k=1 + _NEIGHBOURS)
    nearby = (distance <= _chord(_NEARBY_M))[:, 1:].all(axis=1)
    rise = np.abs(metres[:, None] - metres[index[:, 1:]]).min(axis=1)
    odd = usable[nearby & (rise > _LARGEST_RISE_M)]
    if odd.size:
        mask = np.isin(np.arange(lat.size), odd)
        report.warning(
            "SPDE-D015", f"{counted(odd.size, 'station')} kilometres above or below the neighbours",
            where=subject.where("alt", mask),
            why=f"altitude {alt[odd[0]]:.0f} m, the {_NEIGHBOURS} nearest differ by more than {_LARGEST_RISE_M:.0f} m",
            do="check the altitude in the station list",
        )  # fmt: skip
    return report


def _slip_of(lat: float, lon: float, others: Array, link: float) -> str:
    """Return the slip that would bring a place among the others; empty where none does."""
    for words, undo in _SLIPS:
        before = undo(lat, lon)
        if abs(before[0]) <= 90.0:
            place = _on_sphere(np.array([before[0]]), np.array([before[1]]))
            if np.linalg.norm(others - place, axis=1).min() <= _chord(link):
                return words
    return ""


def _main_part(places: Array, link: float) -> Array:
    """Mark the stations that are linked with the one in the middle by steps of at most ``link`` metres."""
    from scipy.spatial import cKDTree

    middle = np.median(places, axis=0)
    reached = np.zeros(len(places), bool)
    reached[np.argmin(np.linalg.norm(places - middle, axis=1))] = True
    front = reached.copy()
    while front.any() and not reached.all():
        rest = np.flatnonzero(~reached)
        near, _ = cKDTree(places[front]).query(places[rest], distance_upper_bound=_chord(link))
        front = np.zeros_like(reached)
        front[rest[np.isfinite(near)]] = True
        reached |= front
    return reached


def _spacing(places: Array) -> float:
    """Return the median distance to the nearest other place, metres."""
    from scipy.spatial import cKDTree

    chords = cKDTree(places).query(places, k=2)[0][:, 1]
    return float(2.0 * earth_radius * np.arcsin(np.median(chords) / 2.0))


def _on_sphere(lat: Array, lon: Array) -> Array:
    phi, turn = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(phi) * np.cos(turn), np.cos(phi) * np.sin(turn), np.sin(phi)], axis=-1)


def _chord(metres: float) -> float:
    """Return the straight distance on the unit sphere of two places so far apart along it."""
    return float(2.0 * np.sin(min(metres / earth_radius, np.pi) / 2.0))
