"""Draw a map of one moment of a field store: colours over shaded relief, wind arrows, stations, the coast.

The field is read at every pixel with the pixel's own altitude, so that valleys and ridges show the lapse of the lift.
Everything comes from the data at hand: the coast is where the relief leaves the sea.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from fields.constants import earth_radius
from fields.errors import UsageError
from fields.grid import Elevation
from fields.lift import FieldStore
from fields.plots.style import FAINT, FONT, INK, check_picture, finish_map, relief_light, rgb, save_picture
from fields.times import format_time
from fields.variables import VARIABLES, display_unit, to_display

__all__ = ["draw_field"]

_COLOURS = {
    "t": "RdYlBu_r",
    "td": "BrBG",
    "rh": "YlGnBu",
    "p": "viridis",
    "psl": "viridis",
    "speed": "YlOrRd",
    "error": "cividis_r",
}
# Pixels along the longer side of the map, and arrows along it.
_PIXELS, _ARROWS = 480, 22
# Wind speeds that the arrow in the corner may stand for, m/s.
_STRENGTHS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0)
# Inches: a map lower than this has no room for the variable beside its colour bar, only for the unit.
_LOW = 2.2
# Metres above which a pixel is land; models without bathymetry have it at exactly 0.
_SHORE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class _Canvas:
    """The pixels of a map: latitudes, longitudes [degrees], altitudes [m], and how far from stations (0 near, 1 far).

    ``reach_km`` is the distance from a station at which the map begins to pale; ``blur`` [pixels] hides the facets of a
    relief that is no finer than the grid.
    """

    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    alt: NDArray[np.float64]
    far: NDArray[np.float64]
    reach_km: float
    blur: float

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, east, south and north ends, as matplotlib takes them."""
        return self.lon[0], self.lon[-1], self.lat[0], self.lat[-1]


def draw_field(
    fields: FieldStore,
    output: str | os.PathLike[str],
    *,
    variable: str = "t",
    at: str | None = None,
    dem: str | os.PathLike[str] | None = None,
    error: bool = False,
) -> Path:
    """Draw one variable at a moment, or the error of its field.

    Parameters
    ----------
    fields : an opened field store
    output : path of the picture: png, svg or pdf
    variable : name of the variable; ``speed`` is that of the wind
    at : the moment as text, such as ``2023-01-05T17:00``; None is the last of the record
    dem : elevation model for the relief; without one the altitudes of the grid are drawn
    error : draw one standard deviation of the error
    """
    target = check_picture(output)
    drawable = (*fields.variables, *(("speed",) if {"u", "v"} <= set(fields.variables) else ()))
    if variable not in drawable:
        raise UsageError(f"no field `{variable}`; there are {', '.join(drawable)}", code="SPDE-D091", do="--variable t")
    index = fields.moment(at)
    canvas = _canvas(fields, None if dem is None else Elevation.open(Path(dem)))
    if error:
        # How far the field may be off where no station stands is what such a map is for: nothing pales.
        canvas = replace(canvas, far=np.zeros_like(canvas.far))
    shown, unit = (_error if error else _values)(fields, canvas, variable, index)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ratio = 1.0 / np.cos(np.radians(canvas.lat.mean()))
    width, height = np.ptp(canvas.lon), np.ptp(canvas.lat) * ratio
    size = 6.6 / max(width, height)
    with mpl.rc_context(FONT):
        figure = Figure(figsize=(width * size + 1.9, height * size + 1.25), dpi=160)
        axes = figure.add_subplot()
        title = f"{_title(variable)}: error of the field" if error else _title(variable)
        label = unit if height * size < _LOW else "One standard deviation" if error else _title(variable)
        label = label if label == unit else f"{label} [{unit}]"
        _draw_values(figure, axes, canvas, shown, "error" if error else variable, label)
        _draw_coast(axes, canvas)
        if not error:
            _draw_wind(axes, fields, canvas, index, height * size)
        lat, lon = (fields.ds[f"station_{name}"].values for name in ("lat", "lon"))
        axes.plot(_unwrapped(lon, canvas), lat, "o", ms=3.2, mfc="white", mec=INK, mew=0.7, zorder=5)
        _write_title(axes, fields, canvas, title, index, ratio)
        return save_picture(figure, target)


def _canvas(fields: FieldStore, model: Elevation | None) -> _Canvas:
    grid = fields.grid
    span = max(grid.north - grid.south, grid.east - grid.west)
    rows = max(2, round(_PIXELS * (grid.north - grid.south) / span))
    columns = max(2, round(_PIXELS * (grid.east - grid.west) / span))
    lat, lon = np.linspace(grid.south, grid.north, rows), np.linspace(grid.west, grid.east, columns)
    pixels = np.meshgrid(lat, lon, indexing="ij")
    if model is None:
        places = (pixels[0].ravel(), pixels[1].ravel(), np.nan)
        altitude, blur = fields.readout(places).places.z, 0.5 * rows / grid.height
    else:
        altitude, blur = model.at(pixels[0].ravel(), pixels[1].ravel()), 0.7
    stations = grid.metric.xy(*(fields.ds[f"station_{name}"].values for name in ("lat", "lon")))
    tree = cKDTree(stations)
    gaps = tree.query(stations, k=min(2, len(stations)))[0].reshape(len(stations), -1)[:, -1]
    reach = max(3.0 * float(np.median(gaps)), grid.dy)
    distance = tree.query(grid.metric.xy(pixels[0].ravel(), pixels[1].ravel()))[0].reshape(rows, columns)
    far = np.clip(distance / reach - 1.0, 0.0, 1.0)
    return _Canvas(lat, lon, np.asarray(altitude).reshape(rows, columns), far, reach / 1e3, blur)


def _values(fields: FieldStore, canvas: _Canvas, variable: str, index: int) -> tuple[NDArray[np.float64], str]:
    lat, lon = np.meshgrid(canvas.lat, canvas.lon, indexing="ij")
    readout = fields.readout((lat.ravel(), lon.ravel(), canvas.alt.ravel()))
    names = ("u", "v") if variable == "speed" else (variable,)
    read = fields.read(readout, slice(index, index + 1), names)
    if variable == "speed":
        return np.hypot(read["u"], read["v"]).reshape(canvas.alt.shape).astype(float), "m/s"
    shown = to_display(variable, read[variable].astype(np.float64)).reshape(canvas.alt.shape)
    return shown, display_unit(variable).replace("degC", "°C")


def _error(fields: FieldStore, canvas: _Canvas, variable: str, index: int) -> tuple[NDArray[np.float64], str]:
    """Return the standard deviation at every pixel in display units; that of the speed is of its components."""
    from fields.lift import bilinear_weights

    names = ("u", "v") if variable == "speed" else (variable,)
    squares = [to_display(name, fields.error(name, index), difference=True) ** 2 for name in names]
    lat, lon = np.meshgrid(canvas.lat, canvas.lon, indexing="ij")
    weights, _ = bilinear_weights(fields.grid, lat.ravel(), lon.ravel())
    shown, _ = weights.apply(np.sqrt(np.mean(squares, axis=0)).ravel(), coverage=False)
    return np.asarray(shown, np.float64).reshape(canvas.alt.shape), display_unit(names[0], difference=True)


def _draw_values(figure: Any, axes: Any, canvas: _Canvas, shown: Any, variable: str, label: str) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    finite = shown[np.isfinite(shown)]
    low, high = (0.0, 1.0) if not finite.size else np.percentile(finite, [0.5, 99.5])
    if variable in ("u", "v"):
        high = max(abs(low), abs(high), 1.0)
        low = -high
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    scale, colours = Normalize(low, high), colormaps[_COLOURS.get(variable, "RdBu_r")]
    picture = colours(scale(np.where(np.isfinite(shown), shown, np.nan)))
    # Slopes that face the light pale, the others darken; level ground keeps the colour of the scale.
    pixel = np.radians(canvas.lat[1] - canvas.lat[0]) * earth_radius
    lit = relief_light(canvas.alt, pixel, canvas.blur)[..., None]
    shaded = picture[..., :3] * (1.0 + np.minimum(lit, 0.0)) + (1.0 - picture[..., :3]) * np.maximum(lit, 0.0)
    shaded += (1.0 - shaded) * 0.7 * canvas.far[..., None]
    shaded = np.concatenate([shaded, picture[..., 3:]], axis=-1)
    axes.set_facecolor("#e9ecef")
    axes.imshow(shaded, origin="lower", extent=canvas.extent, interpolation="bilinear", aspect="auto", zorder=1)
    bar = figure.colorbar(ScalarMappable(scale, colours), cax=axes.inset_axes((1.015, 0.0, 0.027, 1.0)))
    bar.set_label(label)
    bar.outline.set_linewidth(0.4)


def _draw_coast(axes: Any, canvas: _Canvas) -> None:
    if canvas.alt.min() < _SHORE < canvas.alt.max():
        axes.contour(canvas.lon, canvas.lat, canvas.alt, levels=[_SHORE], colors=INK, linewidths=0.9, zorder=3)


def _draw_wind(axes: Any, fields: FieldStore, canvas: _Canvas, index: int, tall: float) -> None:
    if not {"u", "v"} <= set(fields.variables):
        return
    grid = fields.grid
    wind = fields.ds[["u", "v"]].isel(time=index).load()
    step = max(1, round(max(grid.shape) / _ARROWS))
    rows, columns = slice(step // 2, None, step), slice(step // 2, None, step)
    u, v = wind["u"].values[rows, columns], wind["v"].values[rows, columns]
    # Far from stations the arrows pale as the colours do.
    y = np.searchsorted(canvas.lat, grid.lat[rows]).clip(0, canvas.lat.size - 1)
    x = np.searchsorted(canvas.lon, grid.lon[columns]).clip(0, canvas.lon.size - 1)
    near = 1.0 - canvas.far[np.ix_(y, x)].ravel()
    inks = [(*rgb(INK), 0.2 + 0.65 * part) for part in near]
    rims = [(1.0, 1.0, 1.0, 0.6 * part) for part in near]
    speed = np.hypot(u, v)
    typical = float(np.nanpercentile(speed, 90)) if np.isfinite(speed).any() else 1.0
    strength = next((size for size in _STRENGTHS if size >= typical), typical)
    # An arrow of this strength spans the distance to its neighbour.
    length = (grid.lon[1] - grid.lon[0]) * step
    arrows = axes.quiver(
        grid.lon[columns], grid.lat[rows], u, v, scale=strength / length, scale_units="x", width=0.0022,
        headwidth=4, headlength=4.5, facecolor=inks, zorder=4, edgecolor=rims, linewidth=0.4,
    )  # fmt: skip
    # The key stands a ninth of an inch above the map, however low that is.
    axes.quiverkey(arrows, 0.93, 1.0 + 0.11 / tall, strength, f"{strength:.0f} m/s", labelpos="W", coordinates="axes",
                   color=INK)  # fmt: skip


def _write_title(axes: Any, fields: FieldStore, canvas: _Canvas, title: str, index: int, ratio: float) -> None:
    time = format_time(fields.ds["time"].values[index], "minute")
    count = fields.ds.sizes["station"]
    axes.set_title(f"{title}   {time} UTC", loc="left", fontsize=11, pad=18, color=INK)
    method = fields.ds.attrs.get("method", "")
    note = f"{count} stations, {method} lift on {fields.grid.height} × {fields.grid.width} cells"
    if canvas.far.any():
        note += f"; pale beyond {canvas.reach_km:.0f} km from a station"
    axes.text(0, 1.012, note, transform=axes.transAxes, fontsize=8, color=FAINT, va="bottom")
    finish_map(axes, ratio, (canvas.lon[0], canvas.lon[-1]), (canvas.lat[0], canvas.lat[-1]))


def _unwrapped(lon: NDArray[np.float64], canvas: _Canvas) -> NDArray[np.float64]:
    middle = (canvas.lon[0] + canvas.lon[-1]) / 2.0
    return middle + (lon - middle + 180.0) % 360.0 - 180.0


def _title(variable: str) -> str:
    return "Wind speed" if variable == "speed" else VARIABLES[variable].long_name
