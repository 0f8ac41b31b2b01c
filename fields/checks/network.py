"""Check that a network is consistent: coordinates, pressure against altitude, daily cycle against longitude.

These checks compare stations with one another. Pressure falls by an eighth for every kilometre: a network whose
pressures do not follow its altitudes has reduced pressures, altitudes in feet, or misplaced stations. Temperature is
highest in the early solar afternoon: a network that peaks at another hour has the wrong clock or exchanged coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fields.checks.isolation import check_isolation, check_neighbour_altitudes
from fields.checks.remedy import mend_or_drop
from fields.checks.twins import are_at_one_place
from fields.checks.values import Subject
from fields.constants import R_d, T_standard, g, lapse_standard
from fields.derive import standard_pressure
from fields.errors import Problem, ProblemReport
from fields.times import DAY, to_seconds
from fields.units import conversion
from fields.variables import COORDINATES, NUMERIC_SENTINELS, PressureKind

__all__ = ["check_coordinates", "check_daily_cycle", "check_pressure_profile"]

Array = np.ndarray[Any, Any]

_HIGHEST_LATITUDE = 85.0
# Logarithms of pressure: the least spread of altitudes that allows a check, and misfits that weather does not make.
_LEAST_SPREAD = 0.01
_GOOD_FIT = 0.006
_LARGEST_OFFSET = 0.06
_LARGEST_MISFIT = 0.025
_FEWEST_STATIONS = 5
# Hours of the sun at which the first harmonic of temperature peaks on land, and the largest credible departure.
_TYPICAL_PEAK = 14.3
_LARGEST_SHIFT = 4.0
# Exchanged coordinates: the peak is this near the typical one with the other longitude, and this far with its own.
_CLOSE_PEAK, _FAR_PEAK = 1.3, 2.3
_EXCHANGE = "--exchange lat,lon"
# Share of the stations whose altitudes may be slips of theirs.
_FEW = 0.1


def check_coordinates(lat: Array, lon: Array, alt: Array, subject: Subject) -> ProblemReport:
    """Check that latitude and longitude [degrees] and altitude [m] are in range, not exchanged, not in feet."""
    report = ProblemReport()
    lat, lon, alt = (np.asarray(a, np.float64) for a in (lat, lon, alt))
    for name, values in (("lat", lat), ("lon", lon), ("alt", alt)):
        absent = ~np.isfinite(values)
        if absent.any():
            report.error(
                "SPDE-D008", f"{int(absent.sum())} stations have no {COORDINATES[name].long_name.lower()}",
                where=subject.where(name, absent), do="complete the station list, or leave these stations out",
            )  # fmt: skip
    _check_position(report, lat, lon, subject)
    if are_at_one_place(lat, lon):
        report.warning(
            "SPDE-D024", f"all {lat.size} stations stand at one place", where=subject.where("lat"),
            why=f"latitude {np.nanmedian(lat):.4f}, longitude {np.nanmedian(lon):.4f}: nothing can be interpolated",
            do="write each station's own latitude and longitude into the source",
        )  # fmt: skip
    if not {"SPDE-D013", "SPDE-D014"} & {problem.code for problem in report.errors}:
        report.extend(check_isolation(lat, lon, subject))
    _check_altitude(report, alt, subject)
    if not any(problem.code == "SPDE-D015" for problem in report):
        report.extend(check_neighbour_altitudes(lat, lon, alt, subject))
    polar = np.abs(lat) > _HIGHEST_LATITUDE
    if polar.any() and not np.any(np.abs(lat) > 90.0):
        report.error(
            "SPDE-D021", "stations this close to a pole need a projection",
            where=subject.where("lat", polar),
            why=f"latitude {lat[polar][0]:.2f}, allowed -{_HIGHEST_LATITUDE:g} to {_HIGHEST_LATITUDE:g}",
            do=mend_or_drop(polar, subject),
        )  # fmt: skip
    finite = np.isfinite(lon)
    if finite.any() and np.ptp(lon[finite]) > 180.0 and np.ptp(lon[finite] % 360.0) < 180.0:
        report.notice("SPDE-D022", "the network lies across the 180th meridian", where=subject.where("lon"))
    return report


def _check_position(report: ProblemReport, lat: Array, lon: Array, subject: Subject) -> None:
    beyond = np.abs(lat) > 90.0
    if beyond.any():
        # One latitude beyond a pole among many is that of a station, and no column of longitudes.
        few = lat.size >= _FEWEST_STATIONS and beyond.sum() <= max(1, _FEW * lat.size)
        swapped = not few and np.all(np.abs(lon[np.isfinite(lon)]) <= _HIGHEST_LATITUDE)
        report.error(
            "SPDE-D013",
            "latitude and longitude look exchanged" if swapped else "latitudes are beyond the poles",
            where=subject.where("lat", beyond),
            why=f"latitude {lat[beyond][0]:.4f}, allowed -90 to 90",
            do=f"{subject.command} {_EXCHANGE}" if swapped else mend_or_drop(beyond, subject),
        )
    east = lon > 180.0
    if east.any() and not np.any(lon > 360.0) and not np.any(lon < -180.0):
        report.error(
            "SPDE-D014", "longitudes run from 0 to 360",
            where=subject.where("lon", east), why=f"longitude {lon[east][0]:.4f}, allowed -180 to 180",
            do=f"{subject.command} --unit lon=0-360",
        )  # fmt: skip
    elif np.any(np.abs(lon) > 180.0):
        far = np.abs(lon) > 180.0
        report.error(
            "SPDE-D014", "longitudes are out of range", where=subject.where("lon", far),
            why=f"longitude {lon[far][0]:.4f}, allowed -180 to 180", do=mend_or_drop(far, subject),
        )  # fmt: skip
    _check_radians(report, lat, lon, subject)
    null = (lat == 0) & (lon == 0)
    if null.any():
        report.warning(
            "SPDE-D014", "stations stand at 0° N 0° E, which lists use for an unknown place",
            where=subject.where("lat", null), do=mend_or_drop(null, subject),
        )  # fmt: skip


def _check_radians(report: ProblemReport, lat: Array, lon: Array, subject: Subject) -> None:
    """Report coordinates that are all possible as radians: as degrees they lie in the Gulf of Guinea, without land."""
    placed = np.isfinite(lat) & np.isfinite(lon) & ((lat != 0) | (lon != 0))
    if placed.sum() < 2 or np.any(np.abs(lat[placed]) > np.pi / 2) or np.any(np.abs(lon[placed]) > np.pi):
        return
    subject.add(report, "lat", Problem(
        "SPDE-D014", "latitudes and longitudes look like radians but are declared degrees", subject.where("lat"),
        f"latitude {lat[placed].min():.4g} to {lat[placed].max():.4g}, longitude {lon[placed].min():.4g} to "
        f"{lon[placed].max():.4g}: in degrees these places are at sea",
        f"{subject.command} --unit lat=radians --unit lon=radians   or, if the places are right: {subject.command} "
        "--trust lat",
    ))  # fmt: skip


def _check_altitude(report: ProblemReport, alt: Array, subject: Subject) -> None:
    row = COORDINATES["alt"]
    coded = np.isin(alt, [code for code in NUMERIC_SENTINELS if not row.hard[0] <= code <= row.hard[1]])
    if coded.any():
        subject.add(report, "alt", Problem(
            "SPDE-D015", "altitudes are codes for missing ones", subject.where("alt", coded),
            f"altitude {alt[coded][0]:.6g} m, allowed {row.hard[0]:g} to {row.hard[1]:g} m",
            mend_or_drop(coded, subject),
        ))  # fmt: skip
        alt = np.where(coded, np.nan, alt)
    finite = alt[np.isfinite(alt)]
    if finite.size == 0:
        return
    outside = (alt < row.hard[0]) | (alt > row.hard[1])
    top, middle = float(np.percentile(finite, 99)), float(np.median(finite))
    if outside.any() or middle > row.typical[1] or top > row.tail[1]:
        doubtful = outside | (alt > row.tail[1])
        feet = conversion("alt", "ft").to_si(finite)
        fits_feet = row.hard[0] <= feet.min() and feet.max() <= row.hard[1]
        # One odd altitude is that of a station, and no unit of all of them.
        single = middle <= row.typical[1] and doubtful.sum() <= max(1, _FEW * finite.size)
        mended = fits_feet and not single and not _stands_out(finite, row.hard[1])
        subject.add(report, "alt", Problem(
            "SPDE-D015",
            "altitudes look like ft but are declared m" if mended else "altitudes are out of range",
            subject.where("alt", doubtful),
            f"highest {finite.max():.6g} m, lowest {finite.min():.6g} m, allowed {row.hard[0]:g} to {row.hard[1]:g} m",
            f"{subject.command} --unit alt=ft" if mended else mend_or_drop(doubtful, subject),
        ))  # fmt: skip


def _stands_out(alt: Array, highest: float) -> bool:
    """Return whether what is too high stands far above all other stations: a typing error, not a unit."""
    others = alt[alt <= highest]
    return bool(others.size) and 2 * float(others.max()) < float(alt[alt > highest].min(initial=np.inf)) < np.inf


def check_pressure_profile(
    pressure: Array, alt: Array, subject: Subject, *, kind: PressureKind = PressureKind.STATION
) -> ProblemReport:
    """Compare the median pressure of every station with the standard atmosphere at its altitude.

    Parameters
    ----------
    pressure : Pa, ``[time, station]`` or the stations' medians
    alt : altitude of the stations [m]
    kind : what the pressure is declared to be: at the station or reduced to the sea

    Notes
    -----
    The logarithm of the median pressure is compared with that of the standard atmosphere under four readings: as
    declared; reduced to the sea; altitudes in feet; altitudes in metres declared as feet. The reading with the
    smallest spread is reported, if it is clearly smaller. A network without relief, or of fewer than five stations,
    cannot tell the readings apart and is not judged.
    """
    report = ProblemReport()
    table = np.atleast_2d(np.asarray(pressure, np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        usable = np.isfinite(table).any(axis=0) & np.isfinite(alt)
        middle = np.full(table.shape[1], np.nan)
        if usable.any():
            middle[usable] = np.nanmedian(table[:, usable], axis=0)
        log_p = np.log(middle)
        usable &= np.isfinite(log_p)
    if usable.sum() < _FEWEST_STATIONS:
        return report
    readings = _readings(np.asarray(alt, np.float64))
    spread = {name: _robust_spread((log_p - line)[usable]) for name, line in readings.items()}
    contrast = float(np.std(readings[PressureKind.STATION][usable]))
    declared = PressureKind.STATION if kind == PressureKind.STATION else PressureKind.SEA_LEVEL
    best = min(spread, key=spread.__getitem__)
    where = subject.where("p", usable)
    why = (
        f"pressure departs from the altitudes by {_percent(spread[declared])}, read as {{}} by {_percent(spread[best])}"
    )
    if contrast > _LEAST_SPREAD and spread[declared] > _GOOD_FIT and spread[best] < spread[declared] / 2:
        what, reading, do = _verdict(best, subject, np.asarray(alt, np.float64))
        subject.add(report, "p", Problem("SPDE-D016" if PressureKind.SEA_LEVEL in (best, declared) else "SPDE-D015",
                                         what, where, why.format(reading), do))  # fmt: skip
        return report
    misfit = np.where(usable, log_p - readings[declared], 0.0)
    offset = float(np.median(misfit[usable]))
    if abs(offset) > _LARGEST_OFFSET:
        subject.add(report, "p", Problem(
            "SPDE-D012", "pressure does not fit the stations' altitudes in any known reading", where,
            f"it is {_percent(offset)} off the standard atmosphere, allowed ±{_percent(_LARGEST_OFFSET)}",
            f"{subject.command} --unit p=mmHg" if abs(offset - _offset_of_mercury()) < _LARGEST_OFFSET else
            f"check pressure and altitudes; if the values are right: {subject.command} --trust p",
        ))  # fmt: skip
        return report
    misplaced = usable & (np.abs(misfit - offset) > _LARGEST_MISFIT)
    if misplaced.any():
        metres = (misfit - offset)[misplaced][0] * R_d * T_standard / g  # the scale height of the standard atmosphere
        report.warning(
            "SPDE-D017",
            f"pressure does not fit the altitude at {int(misplaced.sum())} of {int(usable.sum())} stations",
            where=subject.where("p", misplaced),
            why=f"as if the first stood {abs(metres):.0f} m {'lower' if metres > 0 else 'higher'} than listed",
            do=f"check their altitude and position, or leave them out: {subject.dropping(misplaced)}",
        )  # fmt: skip
    return report


def _readings(alt: Array) -> dict[str, Array]:
    """Return the logarithm of the standard pressure at the altitudes, under each reading of the numbers."""
    foot = conversion("alt", "ft").factor
    highest = 0.95 * T_standard / lapse_standard  # the standard profile ends above
    return {
        PressureKind.STATION: np.log(standard_pressure(np.minimum(alt, highest))),
        PressureKind.SEA_LEVEL: np.full_like(alt, np.log(standard_pressure(np.zeros(1))[0])),
        "alt_ft": np.log(standard_pressure(np.minimum(alt * foot, highest))),
        "alt_m": np.log(standard_pressure(np.minimum(alt / foot, highest))),
    }


def _offset_of_mercury() -> float:
    """Return the offset of the logarithm where millimetres of mercury are declared as hectopascal."""
    return float(np.log(conversion("p", "hPa").factor / conversion("p", "mmHg").factor))


def _verdict(best: str, subject: Subject, alt: Array) -> tuple[str, str, str]:
    if best == PressureKind.SEA_LEVEL:
        return (
            "pressure is reduced to the sea but is declared as station pressure", "sea-level pressure",
            f"declare it: psl in the column map, or {subject.command} --pressure {PressureKind.SEA_LEVEL.option}",
        )  # fmt: skip
    if best == PressureKind.STATION:
        return (
            "pressure is station pressure but is declared as reduced to the sea", "station pressure",
            f"declare it: p in the column map, or {subject.command} --pressure {PressureKind.STATION.option}",
        )  # fmt: skip
    unit = best.removeprefix("alt_")
    other = "m" if unit == "ft" else "ft"
    foot = conversion("alt", "ft").factor
    too_high = (alt * foot if unit == "ft" else alt / foot) > COORDINATES["alt"].hard[1]
    # In the other unit these would be refused in turn: without them, the rest can be read in it.
    option = f" --unit alt={unit}"
    do = mend_or_drop(too_high, subject, option) if too_high.any() else f"{subject.command}{option}"
    return (
        f"altitudes look like {unit} but are declared {other}: pressure falls too "
        f"{'slowly' if unit == 'ft' else 'fast'} with them", f"altitudes in {unit}",
        do,
    )  # fmt: skip


def _robust_spread(values: Array) -> float:
    return float(np.median(np.abs(values - np.median(values))) * 1.4826)  # a standard deviation, if it were normal


def _percent(value: float) -> str:
    return f"{abs(value):.1%}"


def check_daily_cycle(temperature: Array, times: Array, lat: Array, lon: Array, subject: Subject) -> ProblemReport:
    """Check that temperature peaks in the solar afternoon at the stations' longitudes.

    Five days with values in every quarter of the day are needed. Where there is no daily cycle (sea, polar night)
    nothing is reported.

    Parameters
    ----------
    temperature : K, ``[time, station]``
    times : datetime64, UTC as declared
    lat, lon : degrees
    """
    report = ProblemReport()
    seconds = to_seconds(times)
    quarters = np.unique(seconds % DAY // (DAY // 4))
    if quarters.size < 4 or np.ptp(seconds) < 5 * DAY:
        return report
    peaks, strong = _peak_hours(np.asarray(temperature, np.float64), seconds, np.asarray(lon, np.float64))
    if strong.sum() == 0:
        return report
    hour = _mean_hour(peaks[strong])
    shift = _hours_late(hour)
    swapped, swapped_strong = _peak_hours(np.asarray(temperature, np.float64), seconds, np.asarray(lat, np.float64))
    exchanged = bool(swapped_strong.any()) and (
        abs(_hours_late(_mean_hour(swapped[swapped_strong]))) < _CLOSE_PEAK < _FAR_PEAK < abs(shift)
    )
    if abs(shift) <= _LARGEST_SHIFT and not exchanged:
        return report
    where = subject.where("t", strong)
    why = f"temperature peaks at {hour:.1f} h of local solar time, typical {_TYPICAL_PEAK:.0f} ± {_LARGEST_SHIFT:.0f} h"
    if exchanged:
        report.warning("SPDE-D013", "latitude and longitude look exchanged: the daily cycle fits the other one",
                       where=where, why=why, do=f"{subject.command} {_EXCHANGE}")  # fmt: skip
    else:
        report.warning("SPDE-D009", "the clock does not look like UTC", where=where, why=why,
                       do=f"if times are local: {subject.command} --time-zone UTC{shift:+.0f}")  # fmt: skip
    return report


def _hours_late(hour: float) -> float:
    """Return the hours by which a peak comes later than typical, between -12 and 12."""
    return (hour - _TYPICAL_PEAK + 12) % 24 - 12


def _peak_hours(temperature: Array, seconds: Array, lon: Array) -> tuple[Array, Array]:
    """Return the hour of local solar time at which each station's daily harmonic peaks, and whether it is strong."""
    angle = 2 * np.pi * ((seconds % DAY) / DAY)[:, None] + np.deg2rad(lon)[None, :]
    present = np.isfinite(temperature)
    count = present.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.where(present, temperature, 0).sum(axis=0) / count
        anomaly = np.where(present, temperature - level, 0.0)
        east = 2 * (anomaly * np.cos(angle)).sum(axis=0) / count
        north = 2 * (anomaly * np.sin(angle)).sum(axis=0) / count
        hours = np.arctan2(north, east) / (2 * np.pi) * 24 % 24
        strong = (np.hypot(east, north) > 1.0) & (count > 20)  # kelvin; values
    return hours, strong


def _mean_hour(hours: Array) -> float:
    turn = np.exp(2j * np.pi * hours / 24)
    return float(np.angle(turn.mean()) / (2 * np.pi) * 24 % 24)
