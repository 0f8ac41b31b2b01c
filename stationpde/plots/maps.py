"""Maps of a forecast and of the observed field on the same relief and scale, with wind and stations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.constants import earth_radius
from fields.plots import degrees_label, relief_light
from fields.times import format_time
from fields.variables import STATE_VARIABLES, VARIABLES
from stationpde.errors import UsageError
from stationpde.physics import WIND
from stationpde.plots.style import FAINT, INK, label_of, sheet, unit_of

if TYPE_CHECKING:
    from stationpde.forecasting import Moment
    from stationpde.plots.relief import Relief

__all__ = ["Frame", "draw_forecast_map", "draw_frame"]

Array = np.ndarray[Any, Any]

# Colours of the maps; `report/page.js` has them as PALETTES for the HTML report, which a test compares.
COLOUR_MAPS = {"u": "RdBu_r", "v": "RdBu_r", "p": "viridis", "t": "RdYlBu_r", "rh": "YlGnBu", "spread": "cividis_r"}
_ARROWS, _SHORE, _NO_DATA = 14, 0.5, "#dfe3e6"
_STRENGTHS = (1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0)


class Frame:
    """Relief and shape of a map, shared by all maps of one region; puts values of cells on pixels."""

    def __init__(self, relief: Relief) -> None:
        self.relief, self.grid = relief, relief.grid
        self.ratio = 1.0 / np.cos(np.radians((self.grid.south + self.grid.north) / 2))
        metres = relief.metres
        pixel = np.radians(self.grid.north - self.grid.south) * earth_radius / (metres.shape[0] - 1)
        covered = np.isfinite(metres)
        land = np.where(covered, np.maximum(metres, 0.0), 0.0)
        light = relief_light(land, pixel, 0.0 if relief.is_true else 3.0)
        # At the border of the elevation model the slope is no real one: no shading there.
        self.light = np.where(_inside(covered), light, 0.0)[..., None]

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, east, south and north [degrees], as matplotlib takes them."""
        return self.grid.west, self.grid.east, self.grid.south, self.grid.north

    def size(self, longest: float) -> tuple[float, float]:
        """Compute width and height of one map [inches]; the longer side is ``longest``."""
        wide, high = self.grid.east - self.grid.west, (self.grid.north - self.grid.south) * self.ratio
        return longest * wide / max(wide, high), longest * high / max(wide, high)

    @property
    def is_flat(self) -> bool:
        """Whether the region is much wider than high."""
        width, height = self.size(1.0)
        return height < 0.4 * width

    def on_pixels(self, cells: Array) -> Array:
        """Interpolate values of cells ``[y, x]`` bilinearly to the pixels of the relief."""
        from scipy.ndimage import zoom

        rows, columns = self.relief.metres.shape
        return zoom(cells, (rows / cells.shape[0], columns / cells.shape[1]), order=1, grid_mode=False, mode="nearest")


def _inside(covered: Array) -> Array:
    from scipy.ndimage import binary_erosion

    return np.asarray(binary_erosion(covered, iterations=2, border_value=1))


def draw_forecast_map(
    moment: Moment, relief: Relief, output: str | os.PathLike[str], *, variable: str = "t", lead: int | None = None
) -> Path:
    """Draw the forecast field of one lead beside the field lifted from the observations of that time.

    Parameters
    ----------
    moment : the forecast with the observations of its times
    relief : altitudes under the map
    output : the picture to write; its ending decides the format
    variable : one of u, v, p, t, rh
    lead : step ahead, from 1; the last by default
    """
    if variable not in moment.names:
        raise UsageError(f"no variable '{variable}'", code="SPDE-R004", do=f"one of {', '.join(moment.names)}")
    steps = len(moment.fields)
    number = steps - 1 if lead is None else lead
    if not 1 <= number < steps:
        raise UsageError(f"there is no lead {lead}; leads run from 1 to {steps - 1}", code="SPDE-R004")
    frame, channel = Frame(relief), STATE_VARIABLES.index(variable)
    panels = [("forecast (dots: observed)", moment.fields[number])]
    truth = moment.truth[number]
    if np.isfinite(truth).any():
        panels.append(("lifted from observations", truth))
    # Maps of a network that is much wider than high stand one above the other.
    rows, columns = (len(panels), 1) if frame.is_flat else (1, len(panels))
    width, height = frame.size(7.5 if frame.is_flat else 5.2)
    dots = moment.observed[moment.history - 1 + number, :, channel]
    scale = _scale(variable, [*(field[channel] for _, field in panels), dots])
    has_wind = {"u", "v"} <= set(moment.names)
    strength = _strength([field[WIND] for _, field in panels]) if has_wind else None
    with sheet(output, rows, columns, (width * columns + 1.2, (height + 0.8) * rows)) as (figure, axes):
        for place, (title, field) in zip(axes.ravel(), panels):
            wind = field[WIND] if has_wind else None
            drawn = draw_frame(place, frame, field[channel], variable, scale, wind=wind, strength=strength)
            places = relief.grid, moment.stations
            _draw_stations(place, *places, dots, variable, scale)
            place.set_title(title, fontsize=10)
        bar = figure.colorbar(drawn, ax=list(axes.ravel()), shrink=0.9, pad=0.02, aspect=30)
        bar.set_label(unit_of(variable) if frame.is_flat else label_of(variable))
        bar.outline.set_linewidth(0.4)
        time = format_time(moment.times[moment.history - 1 + number], "minute")
        when = f"{time} UTC, {moment.lead_hours[number - 1]:g} h ahead"
        figure.suptitle(f"{VARIABLES[variable].long_name}, {when}", x=0.01, ha="left", fontsize=11)
    return Path(output)


def _scale(variable: str, fields: list[Array]) -> tuple[float, float]:
    values = np.concatenate([field[np.isfinite(field)].ravel() for field in fields])
    low, high = np.percentile(values, [0.5, 99.5]) if values.size else (0.0, 1.0)
    if variable in ("u", "v"):
        high = max(abs(low), abs(high), 1.0)
        low = -high
    return (float(low), float(high)) if high - low > 1e-6 else (float(low) - 0.5, float(high) + 0.5)


def draw_frame(
    axes: Any, frame: Frame, field: Array, variable: str, scale: tuple[float, float], *, wind: Array | None = None,
    strength: float | None = None, colours: str | None = None,
) -> Any:  # fmt: skip
    """Draw one map on axes: colours over shaded relief, coast, wind arrows; return the mappable of a colour bar.

    ``strength`` is the wind [m/s] of an arrow as long as arrows are apart: maps side by side share it.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    norm, palette = Normalize(*scale), colormaps[colours or COLOUR_MAPS[variable]]
    picture = palette(norm(frame.on_pixels(field)))
    lit, rgb = frame.light, picture[..., :3]
    shaded = rgb * (1.0 + np.minimum(lit, 0.0)) + (1.0 - rgb) * np.maximum(lit, 0.0)
    shaded = np.concatenate([shaded, picture[..., 3:]], axis=-1)
    axes.set_facecolor(_NO_DATA)
    axes.imshow(shaded, origin="lower", extent=frame.extent, interpolation="bilinear", aspect="auto", zorder=1)
    metres, grid = frame.relief.metres, frame.grid
    if frame.relief.is_true and np.nanmin(metres) < _SHORE < np.nanmax(metres):
        lon, lat = (
            np.linspace(grid.west, grid.east, metres.shape[1]),
            np.linspace(grid.south, grid.north, metres.shape[0]),
        )
        axes.contour(lon, lat, np.ma.masked_invalid(metres), levels=[_SHORE], colors=INK, linewidths=0.8, zorder=3)
    if wind is not None:
        _draw_wind(axes, frame, wind, strength or _strength([wind]))
    axes.set_aspect(frame.ratio)
    axes.set_xlim(grid.west, grid.east)
    axes.set_ylim(grid.south, grid.north)
    axes.grid(visible=False)
    axes.xaxis.set_major_formatter(lambda x, _: degrees_label((x + 180.0) % 360.0 - 180.0, "EW"))
    axes.yaxis.set_major_formatter(lambda y, _: degrees_label(y, "NS"))
    axes.tick_params(length=3, labelsize=7)
    axes.locator_params(nbins=5)
    if frame.is_flat:
        axes.locator_params(axis="y", nbins=3)
    for side in axes.spines.values():
        side.set_visible(True)
    return ScalarMappable(norm, palette)


def _strength(winds: list[Array]) -> float:
    """Choose a round wind speed [m/s] that few of the winds exceed."""
    speed = np.concatenate([np.hypot(u, v).ravel() for u, v in winds])
    typical = float(np.nanpercentile(speed, 90)) if np.isfinite(speed).any() else 1.0
    return next((size for size in _STRENGTHS if size >= typical), typical)


def _draw_wind(axes: Any, frame: Frame, wind: Array, strength: float) -> None:
    grid = frame.grid
    step = max(1, round(max(grid.shape) / _ARROWS))
    rows, columns = slice(step // 2, None, step), slice(step // 2, None, step)
    u, v = wind[0][rows, columns], wind[1][rows, columns]
    length = (grid.lon[1] - grid.lon[0]) * step
    arrows = axes.quiver(
        grid.lon[columns], grid.lat[rows], u, v, scale=strength / length, scale_units="x", width=0.0035, headwidth=4,
        headlength=4.5, color=INK, alpha=0.85, zorder=4, edgecolor="#ffffffa0", linewidth=0.3,
    )  # fmt: skip
    # The key stands a seventh of an inch above the map, however low that is.
    above = 1.0 + 0.14 / frame.size(5.2)[1]
    axes.quiverkey(arrows, 0.92, above, strength, f"{strength:.0f} m/s", labelpos="W", coordinates="axes", color=INK,
                   fontproperties={"size": 7})  # fmt: skip


def _draw_stations(
    axes: Any, grid: Any, stations: Any, values: Array, variable: str, scale: tuple[float, float]
) -> None:
    middle = (grid.west + grid.east) / 2.0
    lon = middle + (stations.lon - middle + 180.0) % 360.0 - 180.0
    there = np.isfinite(values)
    axes.plot(lon[~there], stations.lat[~there], "x", ms=3, color=FAINT, zorder=5)
    axes.scatter(lon[there], stations.lat[there], c=values[there], s=16, cmap=COLOUR_MAPS[variable], vmin=scale[0],
                 vmax=scale[1], edgecolors=INK, linewidths=0.6, zorder=5)  # fmt: skip
