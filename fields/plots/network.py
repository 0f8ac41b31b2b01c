"""Draw a map of a network: relief, coast, and every station coloured by the share of its record that is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields.constants import earth_radius
from fields.errors import UsageError
from fields.grid import LARGEST_LATITUDE, Elevation, GridSpec, middle_longitude, unwrap_longitude
from fields.lift import LiftSettings, station_altitude
from fields.plots.style import FAINT, FONT, INK, check_picture, finish_map, rgb, save_picture
from fields.times import format_time
from fields.variables import STATE_VARIABLES, VARIABLES

__all__ = ["draw_network", "missing_rates"]

Array = np.ndarray[Any, Any]

_SEA, _UNKNOWN = "#d6e4ec", "#eef0f1"
_PIXELS = 420
_STEEPER = 12.0
_SHORE = 0.5
# Ends that the colour scale may have, per cent missing.
_SCALES = (10.0, 20.0, 50.0, 100.0)
_ROWS = 8192
_MOST_NAMED = 5
# Room that a station's label takes, as parts of the map.
_LABEL = (0.16, 0.04)
# Shorter over longer side of a picture, at least.
_SLIMMEST = 0.45


def missing_rates(ds: xr.Dataset, names: tuple[str, ...] = STATE_VARIABLES) -> Array:
    """Return the share of missing values of each station, a mean over those of ``names`` that any station reports."""
    rates = []
    for name in [n for n in names if n in ds]:
        reports = np.zeros(ds.sizes["station"], np.int64)
        for start in range(0, ds.sizes["time"], _ROWS):
            block = ds[name].isel(time=slice(start, start + _ROWS)).values
            reports += np.isfinite(block).sum(axis=0)
        if reports.any():
            rates.append(1 - reports / max(ds.sizes["time"], 1))
    return np.mean(rates, axis=0) if rates else np.ones(ds.sizes["station"])


def draw_network(
    ds: xr.Dataset,
    output: str | os.PathLike[str],
    *,
    variable: str | None = None,
    dem: str | os.PathLike[str] | None = None,
) -> Path:
    """Draw the network as a picture: png, svg or pdf.

    Parameters
    ----------
    ds : the in-memory form; opened with ``masked=True``, values that failed quality control count as missing
    output : path of the picture
    variable : variable whose missing values are shown; None is the mean over the state variables
    dem : elevation model for the relief; without one it is drawn from the stations' own altitudes
    """
    target = check_picture(output)
    if variable is not None and variable not in ds:
        raise UsageError(f"no variable `{variable}` in the data", do=f"there are {', '.join(map(str, ds.data_vars))}")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rates = 100 * missing_rates(ds, (variable,) if variable else STATE_VARIABLES)
    lat, lon = np.asarray(ds["lat"].values, float), np.asarray(ds["lon"].values, float)
    grid = _frame(lat, unwrap_longitude(lon, middle_longitude(lon)))
    # Across the antimeridian a frame is written with longitudes above 180: the stations follow it.
    lon = unwrap_longitude(lon, (grid.west + grid.east) / 2)
    metres, trust, true = _relief(ds, grid, dem)
    ratio = 1.0 / np.cos(np.radians((grid.south + grid.north) / 2))
    width, height = grid.east - grid.west, (grid.north - grid.south) * ratio
    size = 6.6 / max(width, height)
    with mpl.rc_context(FONT):
        figure = Figure(figsize=(max(width * size, 4.6) + 1.9, max(height * size, 3.0) + 1.25), dpi=160)
        axes = figure.add_subplot()
        _draw_relief(axes, grid, metres, trust, true)
        _draw_stations(figure, axes, lon, lat, rates)
        _write_title(axes, ds, grid, variable, ratio, true)
        _name_worst(axes, ds, lon, lat, rates)
        return save_picture(figure, target)


def _frame(lat: Array, lon: Array) -> GridSpec:
    """Choose the region and pixels of the picture; a network in a line gets room on both sides."""
    shrink = np.cos(np.radians(lat.mean()))
    tall, wide = np.ptp(lat), np.ptp(lon) * shrink
    middle, half = lat.min() + tall / 2, _SLIMMEST / 2
    across = lon.min() + np.ptp(lon) / 2
    room = np.clip([middle - half * wide, middle + half * wide], -LARGEST_LATITUDE, LARGEST_LATITUDE)
    lat = np.append(lat, room)
    lon = np.append(lon, [across - half * tall / shrink, across + half * tall / shrink])
    tall, wide = np.ptp(lat), np.ptp(lon) * shrink
    return GridSpec.around(lat, lon, height=max(8, round(_PIXELS * min(1.0, (tall + 1e-6) / (wide + 1e-6)))))


def _relief(ds: xr.Dataset, grid: GridSpec, dem: str | os.PathLike[str] | None) -> tuple[Array, Array, bool]:
    """Return altitudes of the pixels, how far they can be trusted (1 to 0), and whether they come from a model."""
    if dem is not None or ds.attrs.get("reader") == "synthetic":
        from fields.synthetic import make_relief

        model = make_relief() if dem is None else Elevation.open(Path(dem))
        lat, lon = grid.cells()
        covered = model.covers(lat, lon).reshape(grid.shape)
        metres = model.at(lat, lon).reshape(grid.shape)
        return np.where(covered, metres, 0.0), covered.astype(float), True
    few = LiftSettings(k=min(LiftSettings().k, ds.sizes["station"]))
    metres = station_altitude(ds["lat"].values, ds["lon"].values, ds["alt"].values, grid, few)
    return metres, _nearness(ds, grid), False


def _nearness(ds: xr.Dataset, grid: GridSpec) -> Array:
    """Return the nearness of stations for every pixel: 1 among them, falling to 0 far from all."""
    from scipy.spatial import cKDTree

    tree = cKDTree(grid.metric.xy(ds["lat"].values, ds["lon"].values))
    apart = tree.query(tree.data, k=min(2, tree.n))[0].reshape(tree.n, -1)[:, -1]
    reach = max(2.5 * float(np.median(apart)), grid.dy)
    distance = tree.query(grid.metric.xy(*grid.cells()))[0].reshape(grid.shape)
    return np.clip(2.0 - distance / reach, 0.0, 1.0)


def _draw_relief(axes: Any, grid: GridSpec, metres: Array, trust: Array, true: bool) -> None:
    from matplotlib import colormaps
    from scipy.ndimage import gaussian_filter

    land = np.maximum(metres, 0.0)
    top = max(float(np.nanpercentile(land, 99.5)), 300.0)
    # Pale earth colours, so that the stations carry the message.
    colour = colormaps["YlOrBr"](0.02 + 0.42 * np.clip(land / top, 0, 1) ** 0.8)[..., :3]
    colour = 0.55 * colour + 0.45 * colour.mean(axis=-1, keepdims=True)
    pixel = grid.dy
    slope = gaussian_filter(land, 0.7 if true else 4.0) * _STEEPER
    north, east = np.gradient(slope, pixel)
    sun = np.sin(np.radians(45.0))
    lit = np.clip(0.7 * ((0.5 * east - 0.5 * north + sun) / np.sqrt(1 + east**2 + north**2) - sun), -0.3, 0.3)[
        ..., None
    ]
    shaded = colour * (1 + np.minimum(lit, 0)) + (1 - colour) * np.maximum(lit, 0)
    if true:
        shaded[metres <= _SHORE] = rgb(_SEA)
    shaded = rgb(_UNKNOWN) + (shaded - rgb(_UNKNOWN)) * trust[..., None]
    extent = (grid.west, grid.east, grid.south, grid.north)
    axes.imshow(shaded, origin="lower", extent=extent, interpolation="bilinear", aspect="auto", zorder=1)
    if true and metres.min() < _SHORE < metres.max():
        coast = np.ma.masked_array(metres, trust < 1)
        axes.contour(grid.lon, grid.lat, coast, levels=[_SHORE], colors=INK, linewidths=0.7, zorder=2)


def _draw_stations(figure: Any, axes: Any, lon: Array, lat: Array, rates: Array) -> None:
    size = float(np.clip(2400 / max(rates.size, 1), 9, 46))
    order = np.argsort(rates)  # the gappy ones on top
    high = float(np.percentile(rates, 95)) if rates.size else 0.0
    top = next((level for level in _SCALES if level >= high), _SCALES[-1])
    dots = axes.scatter(
        lon[order], lat[order], c=rates[order], s=size, cmap="plasma", vmin=0, vmax=top, edgecolors=INK,
        linewidths=0.6, zorder=5,
    )  # fmt: skip
    extend: Any = "max" if rates.max(initial=0.0) > top else "neither"
    # Beside the map and as high, whatever its shape.
    bar = figure.colorbar(dots, cax=axes.inset_axes((1.015, 0.0, 0.027, 1.0)), extend=extend)
    bar.set_label("missing [%]")
    bar.outline.set_linewidth(0.4)


def _name_worst(axes: Any, ds: xr.Dataset, lon: Array, lat: Array, rates: Array) -> None:
    from fields.errors import printable

    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    named: list[tuple[float, float]] = []
    for i in np.argsort(-rates):
        if rates[i] < 10 or len(named) == _MOST_NAMED:
            return
        x, y = (lon[i] - west) / (east - west), (lat[i] - south) / (north - south)
        if any(abs(x - a) < _LABEL[0] and abs(y - b) < _LABEL[1] for a, b in named):
            continue
        named.append((x, y))
        left = x > 1 - _LABEL[0]
        axes.annotate(
            f"{printable(ds['station'].values[i])} {rates[i]:.0f} %", (lon[i], lat[i]), ha="right" if left else "left",
            xytext=(-5 if left else 5, 4), textcoords="offset points", fontsize=7, color=INK, zorder=6,
            parse_math=False, bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.7},
        )  # fmt: skip


def _write_title(axes: Any, ds: xr.Dataset, grid: GridSpec, variable: str | None, ratio: float, true: bool) -> None:
    what = VARIABLES[variable].long_name if variable and variable in VARIABLES else variable or "all variables"
    period = _period(ds["time"].values)
    alt = np.asarray(ds["alt"].values, float)
    ground = "" if true else "; relief from the stations themselves"
    axes.set_title(f"{ds.sizes['station']} stations, {period}", loc="left", fontsize=11, pad=18, color=INK)
    note = f"missing values, {what[:1].lower()}{what[1:]}; altitudes {alt.min():.0f} to {alt.max():.0f} m{ground}"
    axes.text(0, 1.012, note, transform=axes.transAxes, fontsize=8, color=FAINT, va="bottom")
    finish_map(axes, ratio, (grid.west, grid.east), (grid.south, grid.north))
    _scale_bar(axes, grid)


def _period(times: Array) -> str:
    """Write the first and last day of a record, or the hours if it spans one day."""
    if not times.size:
        return "no times"
    first, last = (format_time(time, "minute") for time in (times[0], times[-1]))
    return f"{first} to {last[11:]} UTC" if first[:10] == last[:10] else f"{first[:10]} to {last[:10]}"


def _scale_bar(axes: Any, grid: GridSpec) -> None:
    """Draw a length of round kilometres in the lower left corner."""
    km = np.radians(1.0) * earth_radius * np.cos(np.radians(grid.south)) / 1e3
    wide = (grid.east - grid.west) * km
    length = max(x for x in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000) if x <= max(wide / 4, 1))
    x, y = grid.west + 0.03 * (grid.east - grid.west), grid.south + 0.03 * (grid.north - grid.south)
    axes.plot([x, x + length / km], [y, y], color=INK, lw=1.8, solid_capstyle="butt", zorder=6)
    axes.text(x + length / km / 2, y, f"{length} km", ha="center", va="bottom", fontsize=7, zorder=6)
