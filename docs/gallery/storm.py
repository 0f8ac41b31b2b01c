"""Lifting a storm: hundreds of stations, half of them without pressure, become a field of pressure and wind.

The storm of 12 March 1993 in the Gulf of Mexico, reports of the airports around, where the folder of real data is
beside the repository; elsewhere a made-up low pressure system over as many made-up stations, and the title says so.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

import pictures
from stationpde import fields

ROOT = Path(__file__).parents[2]
REPORTS = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared")) / "data" / "metar_1993" / "observations.npz"


def observed() -> dict[str, Any]:
    """Return one hour of reports: pressure at sea level [hPa], wind [m/s], latitude, longitude, and what it is."""
    with np.load(REPORTS) as file:
        names = [str(name) for name in file["variables"]]
        near = (file["lat"] > 24) & (file["lat"] < 46) & (file["lon"] > -106) & (file["lon"] < -72)
        values = file["obs"][-1][near].astype(np.float64)
        found = {name: values[:, names.index(name)] for name in ("u", "v", "p")}
        moment = str(file["time"][-1])[:16].replace("T", " ")
        return {**found, "lat": file["lat"][near], "lon": file["lon"][near], "title": f"{moment} UTC, METAR"}


def made_up(stations: int = 600) -> dict[str, Any]:
    """Return a circular low over made-up stations, half of them without pressure."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(24.0, 46.0, stations), rng.uniform(-106.0, -72.0, stations)
    x, y = (lon + 86.0) * 90.0, (lat - 33.0) * 111.0  # km from the centre
    low = 38.0 * np.exp(-(x**2 + y**2) / 600.0**2)
    speed = low / 38.0 * np.hypot(x, y) / 20.0
    angle = np.arctan2(y, x) + np.pi / 2 + 0.3
    p = 1014.0 - low + rng.normal(0.0, 0.5, stations)
    p[rng.random(stations) < 0.5] = np.nan
    wind = {"u": speed * np.cos(angle), "v": speed * np.sin(angle)}
    return {**wind, "p": p, "lat": lat, "lon": lon, "title": "made-up low"}


def lifted(reports: dict[str, Any], rows: int = 60) -> tuple[fields.GridSpec, dict[str, np.ndarray], np.ndarray]:
    """Return the grid, the lifted variables on it, and the share of each cell's neighbours that reported pressure."""
    lat, lon = reports["lat"], reports["lon"]
    grid = fields.GridSpec.around(lat, lon, height=rows)
    here, there = (lat, lon, np.zeros_like(lat)), (*grid.cells(), np.zeros(grid.size))
    lift = fields.StationLift.between(here, there, fields.LiftSettings("idw", k=8, power=2.0))
    # Sea-level pressure and wind have no profile to take out: the horizontal lift, missing reports renormalised.
    made = lift({name: reports[name][None] for name in ("u", "v", "p")})
    shape = grid.shape
    return grid, {n: made.values[n][0].reshape(shape) for n in made.values}, made.coverage["p"][0].reshape(shape)


def main(out: Path | None = None, backend: str = "auto") -> Path:
    """Draw the lifted storm; ``backend`` is not used, nothing is stepped here."""
    reports = observed() if REPORTS.exists() else made_up()
    grid, field, _ = lifted(reports)
    figure = pictures.blank(8.2, 5.4)
    axes = figure.subplots()
    lat, lon = grid.lat, grid.lon
    colours = axes.pcolormesh(lon, lat, field["p"], cmap="viridis", shading="gouraud")
    lines = axes.contour(lon, lat, field["p"], levels=np.arange(960, 1050, 2), colors="white", linewidths=0.7)
    axes.clabel(lines, fontsize=7)
    step = slice(1, None, 4)
    wind = field["u"][step, step], field["v"][step, step]
    arrows = axes.quiver(lon[step], lat[step], *wind, color="#10202f", width=0.0018)
    axes.quiverkey(arrows, 0.93, 1.022, 10.0, "10 m/s", labelpos="W", color="#10202f")
    silent = np.isnan(reports["p"])
    dots = {"linestyle": "none", "marker": "o", "markersize": 3.2, "markeredgecolor": "#10202f", "markeredgewidth": 0.4}
    axes.plot(reports["lon"][~silent], reports["lat"][~silent], color="#ff7a5c", label="reports pressure", **dots)
    axes.plot(reports["lon"][silent], reports["lat"][silent], color="#cfd8e0", label="does not", **dots)
    axes.set(xlabel="longitude [°E]", ylabel="latitude [°N]", xlim=(lon[0], lon[-1]), ylim=(lat[0], lat[-1]))
    axes.set_aspect(1.0 / np.cos(np.radians(lat.mean())))
    count, part = len(silent), 100.0 * silent.mean()
    axes.set_title(f"{reports['title']}: {count:,} stations, {part:.0f} % without pressure", loc="left", fontsize=10)
    axes.legend(loc="lower right", fontsize="small", framealpha=0.9)
    figure.colorbar(colours, label="pressure at sea level [hPa]", shrink=0.9)
    return pictures.save(figure, out or ROOT / "docs" / "images" / "storm.png")


if __name__ == "__main__":
    pictures.command(main, __doc__ or "")
