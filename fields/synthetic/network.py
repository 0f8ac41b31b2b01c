"""Make a synthetic station network on real relief, to try everything without a download; its scores say nothing.

Stations stand on the terrain around the Strait of Georgia that matplotlib ships. The weather is a closed form in
space and time: travelling synoptic waves, the wind that balances them under friction, sea breeze and slope winds,
daily heating that the sea damps, a lapse rate that turns over in clear calm nights, air that saturates, and
hydrostatic pressure. No equation is stepped forward, so that a model which steps one has no advantage here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields.constants import Omega, earth_radius
from fields.derive import relative_humidity, station_pressure
from fields.errors import UsageError, is_whole
from fields.synthetic.relief import Site, choose_sites, make_relief
from fields.times import DAY, parse_time, to_datetime64
from fields.variables import PressureKind, cf_attributes

__all__ = ["make_network", "write_network"]

Array = np.ndarray[Any, Any]

_HOUR = 3600.0
_DENSITY = 1.22  # kg/m**3, of air near the ground
_WAVES = 7
_MOST_STATIONS, _MOST_DAYS = 100_000, 100_000
# Errors of good sensors, and the resolution in which stations report, in SI.
_NOISE = {"u": 0.35, "v": 0.35, "p": 12.0, "t": 0.15, "rh": 0.012}
_ROUND = {"u": 0.1, "v": 0.1, "p": 10.0, "t": 0.1, "rh": 0.01}
_GAPS = 0.015
_DRIFT = 6.0  # K, at the end of the record of the drifting thermometer


@dataclass(frozen=True, slots=True)
class _Wave:
    """One travelling wave of sea-level pressure: amplitude [Pa], wave numbers [1/m], frequency [1/s], phase, growth."""

    amplitude: float
    kx: float
    ky: float
    frequency: float
    phase: float
    period: float
    offset: float

    def at(self, x: Array, y: Array, seconds: Array) -> tuple[Array, Array]:
        """Return amplitude ``[time, 1]`` and phase angle ``[time, station]``."""
        size = self.amplitude * (1.0 + 0.6 * np.sin(2 * np.pi * seconds / self.period + self.offset))
        return size[:, None], self.kx * x + self.ky * y - self.frequency * seconds[:, None] + self.phase


def _waves(rng: np.random.Generator) -> list[_Wave]:
    waves = []
    for length in np.geomspace(700e3, 4000e3, _WAVES):
        k = 2 * np.pi / length
        tilt = rng.uniform(-0.5, 0.5)
        speed = rng.uniform(7.0, 14.0)  # m/s, towards the east
        waves.append(
            _Wave(
                amplitude=float(260.0 * (length / 4000e3) ** 0.5 * rng.uniform(0.8, 1.3)),
                kx=k * np.cos(tilt),
                ky=k * np.sin(tilt),
                frequency=k * speed,
                phase=rng.uniform(0, 2 * np.pi),
                period=rng.uniform(6, 20) * DAY,
                offset=rng.uniform(0, 2 * np.pi),
            )
        )
    return waves


def make_network(
    stations: int = 64, days: int = 90, *, seed: int = 0, start: str = "2023-03-01", faults: bool = True
) -> xr.Dataset:
    """Make hourly observations of a made-up network in the in-memory form.

    Parameters
    ----------
    stations : number of stations
    days : length of the record
    seed : the same seed gives the same record
    start : first hour, UTC
    faults : add gaps, one station that stops reporting and one whose thermometer drifts (named in the attributes)
    """
    if not (is_whole(stations, 1) and is_whole(days, 1)) or stations > _MOST_STATIONS or days > _MOST_DAYS:
        raise UsageError(
            f"a network has 1 to {_MOST_STATIONS:,} stations and 1 to {_MOST_DAYS:,} days, not {stations!r} and "
            f"{days!r}",
            code="SPDE-D150", do="make_network(stations=64, days=90)",
        )  # fmt: skip
    if not is_whole(seed, 0):
        raise UsageError(f"a seed is a whole number from 0, not {seed!r}", code="SPDE-D150",
                         do="make_network(stations=64, days=90, seed=0)")  # fmt: skip
    rng = np.random.default_rng(int(seed))
    sites = choose_sites(make_relief(), stations, rng)
    times = to_datetime64(parse_time(start)) + np.arange(days * 24) * np.timedelta64(1, "h")
    values = _weather(sites, times, rng)
    observed = {n: _measured(n, x, rng) for n, x in values.items()}
    attrs: dict[str, Any] = {
        "title": "Synthetic network on real relief: it shows the tool, not skill",
        "source": "synthetic", "reader": "synthetic", "step_seconds": 3600, "time_zone": "UTC",
        "pressure_kind": PressureKind.STATION.value, "featureType": "timeSeries",
        "history": f"made by stationpde, seed {seed}",
    }  # fmt: skip
    ids = np.array([f"SY{i:03d}" for i in range(stations)])
    if faults:
        attrs |= _spoil(observed, ids, rng)
    return xr.Dataset(
        {n: (("time", "station"), x.astype(np.float32), cf_attributes(n)) for n, x in observed.items()},
        coords={
            "time": times,
            "station": ids,
            "lat": ("station", sites.lat, cf_attributes("lat")),
            "lon": ("station", sites.lon, cf_attributes("lon")),
            "alt": ("station", sites.alt, cf_attributes("alt")),
        },
        attrs=attrs,
    )


def write_network(
    path: str | os.PathLike[str], *, stations: int = 64, days: int = 90, seed: int = 0, force: bool = False
) -> Path:
    """Make a network, run quality control on it, and write it as a store."""
    from fields import qc, store

    ds = make_network(stations, days, seed=seed)
    return store.write_store(ds.assign(qc.check_quality(ds).data_vars), path, force=force)


def _weather(sites: Site, times: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Return the true values ``[time, station]`` in SI."""
    seconds = (times - times[0]) / np.timedelta64(1, "s")
    clock = (times - times.astype("datetime64[D]")) / np.timedelta64(1, "s")
    x = earth_radius * np.deg2rad(sites.lon - sites.lon.mean()) * np.cos(np.deg2rad(sites.lat.mean()))
    y = earth_radius * np.deg2rad(sites.lat - sites.lat.mean())
    psl = np.full((times.size, sites.alt.size), 101400.0)
    gx, gy, ascent, warm = (np.zeros_like(psl) for _ in range(4))
    for wave in _waves(rng):
        size, angle = wave.at(x, y, seconds)
        psl += size * np.cos(angle)
        gx -= size * wave.kx * np.sin(angle)
        gy -= size * wave.ky * np.sin(angle)
        ascent -= size * np.cos(angle + 0.4) / 260.0  # it rains around the trough
        warm += size * np.sin(angle + 0.5) / 260.0  # the warm sector runs ahead of it
    cloud = 1.0 / (1.0 + np.exp(-1.1 * ascent))
    sun = _sunshine(times, clock, sites)
    t, heating = _temperature(sites, times, clock, warm, cloud, sun)
    u, v = _wind(sites, gx, gy, heating, rng)
    dew = _dew_point(sites, times, ascent, warm, rng)
    # Warm air holds the water; where there is too much, it saturates and the dew point is the temperature.
    rh = relative_humidity(t, np.minimum(dew, t))
    column = t - heating * 0.5  # the column below the station follows half of the daily heating
    return {"u": u, "v": v, "p": station_pressure(psl, column, sites.alt), "t": t, "rh": rh}


def _sunshine(times: Array, clock: Array, sites: Site) -> Array:
    """Return the sine of the sun's height, zero at night, ``[time, station]``."""
    day = (times - times.astype("datetime64[Y]")) / np.timedelta64(1, "D")
    tilt = np.deg2rad(-23.44 * np.cos(2 * np.pi * (day + 10) / 365.25))[:, None]
    hour = 2 * np.pi * (clock / DAY - 0.5)[:, None] + np.deg2rad(sites.lon)
    lat = np.deg2rad(sites.lat)
    return np.maximum(np.sin(lat) * np.sin(tilt) + np.cos(lat) * np.cos(tilt) * np.cos(hour), 0.0)


def _temperature(sites: Site, times: Array, clock: Array, warm: Array, cloud: Array, sun: Array) -> tuple[Array, Array]:
    """Return temperature [K] and the part of it that daily heating makes."""
    season = np.cos(2 * np.pi * (times - times.astype("datetime64[Y]")) / np.timedelta64(1, "D") / 365.25 - 3.5)
    # The ground follows the sun with some two hours of delay, and cools through a clear night.
    lag = np.empty_like(sun)
    level = sun[0] * 0
    for i in range(sun.shape[0]):
        level = level + (sun[i] - level) / 2.6
        lag[i] = level
    daily = 24
    mean = np.stack(
        [np.convolve(np.pad(column, (12, 11), "edge"), np.ones(daily) / daily, "valid") for column in lag.T]
    )
    heating = (lag - mean.T) * (1 - 0.75 * cloud) * (4.0 + 15.0 * sites.inland)
    night = np.maximum(-heating, 0.0)
    lapse = 0.0062 - 0.0009 * np.minimum(night, 4.0)  # valleys fill with cold air in clear nights
    t = 284.5 + 7.0 * season[:, None] + 2.2 * warm - lapse * sites.alt + heating
    return t, heating


def _wind(sites: Site, gx: Array, gy: Array, heating: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the geostrophic wind turned by friction towards low pressure, with breeze, slope wind and gusts."""
    f = 2 * Omega * np.sin(np.deg2rad(sites.lat))
    ug, vg = -gy / (_DENSITY * f), gx / (_DENSITY * f)
    turn = np.deg2rad(32.0)
    exposed = 0.42 + 0.25 * np.tanh(sites.alt / 900.0) + 0.15 * (1 - sites.inland)
    u = exposed * (ug * np.cos(turn) - vg * np.sin(turn))
    v = exposed * (ug * np.sin(turn) + vg * np.cos(turn))
    u = u + 0.45 * heating * sites.shore_x + 0.25 * heating * sites.slope_x
    v = v + 0.45 * heating * sites.shore_y + 0.25 * heating * sites.slope_y
    return u + _red_noise(u.shape, 0.7, 0.8, rng), v + _red_noise(v.shape, 0.7, 0.8, rng)


def _dew_point(sites: Site, times: Array, ascent: Array, warm: Array, rng: np.random.Generator) -> Array:
    season = np.cos(2 * np.pi * (times - times.astype("datetime64[Y]")) / np.timedelta64(1, "D") / 365.25 - 3.5)
    level = 279.0 + 5.0 * season[:, None] + 1.3 * ascent + 1.6 * warm - 0.0048 * sites.alt - 1.2 * sites.inland
    return level + _red_noise(level.shape, 0.5, 0.93, rng)


def _red_noise(shape: tuple[int, ...], size: float, memory: float, rng: np.random.Generator) -> Array:
    """Return first-order autoregressive noise; ``memory`` is its correlation from hour to hour."""
    noise = rng.standard_normal(shape) * size * np.sqrt(1 - memory**2)
    for i in range(1, shape[0]):
        noise[i] += memory * noise[i - 1]
    return noise


def _measured(name: str, true: Array, rng: np.random.Generator) -> Array:
    noisy = true + _NOISE[name] * rng.standard_normal(true.shape)
    if name == "rh":
        noisy = np.clip(noisy, 0.02, 1.0)
    return np.round(noisy / _ROUND[name]) * _ROUND[name]


def _spoil(observed: dict[str, Array], ids: Array, rng: np.random.Generator) -> dict[str, str]:
    """Add gaps everywhere, one station that stops reporting, one thermometer that drifts; return their names."""
    steps, stations = next(iter(observed.values())).shape
    for values in observed.values():
        values[rng.random(values.shape) < _GAPS / 2] = np.nan
    for s in range(stations):  # outages of the whole station
        for _ in range(rng.poisson(steps * _GAPS / 2 / 18)):
            begin = int(rng.integers(steps))
            for values in observed.values():
                values[begin : begin + int(rng.integers(4, 32)), s] = np.nan
    if stations < 3:
        return {}
    dead, drifting = (int(s) for s in rng.choice(stations, 2, replace=False))
    for values in observed.values():
        values[steps // 6 :, dead] = np.nan
    observed["t"][steps // 3 :, drifting] += np.linspace(0.0, _DRIFT, steps - steps // 3)
    return {"synthetic_dead": str(ids[dead]), "synthetic_drifting": str(ids[drifting])}
