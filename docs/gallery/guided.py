"""A storm between its stations: the detrended lift, and a network that has to follow the equations of motion.

Eleven hours of 12 March 1993 in the Gulf of Mexico, reports of the airports around, where the folder of real data is
beside the repository; elsewhere the made-up low pressure system of the storm, on its way eastwards.
"""

from pathlib import Path
from typing import Any

import numpy as np

import pictures
import storm
from stationpde import fields

ROOT = Path(__file__).parents[2]
BOX = 24.0, 38.0, -100.0, -80.0  # degrees


def observed() -> dict[str, Any]:
    """Return eleven hours of reports in SI: wind, pressure at sea level, places, seconds, and what it is."""
    if not storm.REPORTS.exists():
        hours = [storm.made_up() for _ in range(11)]
        still = {name: np.stack([hour[name] for hour in hours]) for name in ("u", "v", "p")}
        still["p"] = 100.0 * still["p"]
        return {**hours[0], **still, "seconds": 3600.0 * np.arange(11)}
    south, north, west, east = BOX
    with np.load(storm.REPORTS) as file:
        names = [str(name) for name in file["variables"]]
        near = (file["lat"] > south) & (file["lat"] < north) & (file["lon"] > west) & (file["lon"] < east)
        values = {name: file["obs"][:, near, names.index(name)].astype(np.float64) for name in ("u", "v", "p")}
        values["p"] = 100.0 * values["p"]
        seconds = (file["time"] - file["time"][0]) / np.timedelta64(1, "s")
        title = f"{str(file['time'][-1])[:16].replace('T', ' ')} UTC, METAR"
        return {**values, "lat": file["lat"][near], "lon": file["lon"][near], "seconds": seconds, "title": title}


def lifted(reports: dict[str, Any], rows: int = 32, steps: int = 1500) -> tuple[fields.GridSpec, dict[str, Any]]:
    """Return the grid and the last hour on it, ``{"detrended": {"u": …}, "pinn": …, "pinn, no Coriolis": …}``."""
    lat, lon = reports["lat"], reports["lon"]
    grid = fields.GridSpec.around(lat, lon, height=rows)
    here, there = (lat, lon, np.zeros_like(lat)), (*grid.cells(), np.zeros(grid.size))
    values = {name: reports[name] for name in ("u", "v", "p")}
    maps = {"detrended": fields.StationLift.between(here, there)(values, station_pressure=False)}
    for title, coriolis in (("pinn", True), ("pinn, no Coriolis", False)):
        settings = fields.PinnSettings(coriolis=coriolis, steps=steps)
        guided = fields.PinnLift.between(here, there, settings)
        maps[title] = guided(values, reports["seconds"], station_pressure=False)
    return grid, {
        title: {n: array[-1].reshape(grid.shape) for n, array in m.values.items()} for title, m in maps.items()
    }


def main(out: Path | None = None, backend: str = "auto", steps: int = 1500, rows: int = 32) -> Path:
    """Draw the three lifts side by side; ``backend`` is not used, nothing is stepped here."""
    reports = observed()
    grid, maps = lifted(reports, rows, steps)
    figure = pictures.blank(11.0, 3.6)
    panels = figure.subplots(1, 3, sharey=True)
    lat, lon = grid.lat, grid.lon
    pressures = 1e-2 * maps["detrended"]["p"]
    shades = {"cmap": "viridis", "vmin": np.nanmin(pressures), "vmax": np.nanmax(pressures), "shading": "gouraud"}
    for axes, (title, field) in zip(panels, maps.items(), strict=True):
        colours = axes.pcolormesh(lon, lat, 1e-2 * field["p"], **shades)
        axes.contour(lon, lat, 1e-2 * field["p"], levels=np.arange(960, 1050, 2), colors="white", linewidths=0.6)
        step = slice(1, None, 3)
        wind = field["u"][step, step], field["v"][step, step]
        axes.quiver(lon[step], lat[step], *wind, color="#10202f", width=0.003, scale=250.0)
        axes.set(title=title, xlabel="longitude [°E]", xlim=(lon[0], lon[-1]), ylim=(lat[0], lat[-1]))
        axes.set_aspect(1.0 / np.cos(np.radians(lat.mean())))
    panels[0].set_ylabel("latitude [°N]")
    figure.suptitle(f"{reports['title']}: {len(reports['lat']):,} stations", fontsize=10)
    figure.colorbar(colours, ax=panels, label="pressure at sea level [hPa]", shrink=0.9)
    return pictures.save(figure, out or ROOT / "docs" / "images" / "guided.png")


if __name__ == "__main__":
    pictures.command(main, __doc__ or "")
