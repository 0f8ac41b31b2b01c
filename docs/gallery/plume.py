"""A pollutant plume over real relief: a north-westerly carries it down the Strait of Georgia.

A made-up plant on the coast of British Columbia emits sulphur dioxide. The wind is diagnosed, not forecast: a uniform
wind is steered until as much air leaves every column between ground and lid as enters it, and high ground is hard to
cross, so that it goes round the mountains and through the straits. The relief is the sample that matplotlib ships.
"""

from pathlib import Path

import numpy as np
import torch

import pde_ops as po
import pictures
from pde_ops import Field, Positive, Static
from pde_ops.ops import advection_flux, diffusion, friction

m, d = Field("m", "kg/m**2"), Field("d", "kg/m**2")  # in the air above a square metre, and deposited on it
u, v = Static("u", "m/s"), Static("v", "m/s")
depth = Static("depth", "1", latex=r"\eta")  # of the mixed layer, as a share of its depth over the sea
kappa, source = Static("kappa", "m**2/s", latex=r"\kappa"), Static("source", "kg/m**2/s")
deposition = friction(m, Positive("r_d", "1/day", init=0.7) / depth)  # a shallow layer loses its load sooner

plume = po.PDESystem("plume over relief", {
    m: -advection_flux(m, u, v) + diffusion(m / depth, kappa * depth) - deposition + source,
    d: deposition,
})  # fmt: skip

LID, SHALLOWEST = 1000.0, 150.0  # m: top of the mixed layer above the sea, least depth of the layer
BREEZE = (5.0, -3.0)  # m/s, eastward and northward
PLANT, EMISSION = (49.74, -124.45), 0.5  # latitude, longitude; kg/s


def relief(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return latitudes, longitudes and height [m] on an even grid; a made-up valley where matplotlib has no sample."""
    lat, lon = np.linspace(48.05, 49.97, rows), np.linspace(-125.9, -122.05, columns)
    try:
        from matplotlib.cbook import get_sample_data

        with get_sample_data("topobathy.npz") as file:
            known_lat, known_lon, z = file["latitude"], file["longitude"] - 360.0, file["topo"]
    except (ImportError, FileNotFoundError):
        north, east = np.meshgrid(lat, lon, indexing="ij")
        return lat, lon, 900.0 * np.tanh(4.0 * np.abs(north - 49.1)) * np.tanh(2.0 * (east + 123.3)) - 50.0
    along = np.stack([np.interp(lon, known_lon, row) for row in z])
    return lat, lon, np.stack([np.interp(lat, known_lat, column) for column in along.T], axis=1)


def layer_depth(z: np.ndarray) -> torch.Tensor:
    """Return the depth of the layer between ground and lid, as a share of its depth over the sea."""
    least = SHALLOWEST / LID
    ground = torch.tensor(np.maximum(z, 0.0)) / LID
    return least + torch.nn.functional.softplus(1.0 - ground - least, beta=12.0)


def steered_wind(depth: torch.Tensor, grid: po.Grid2D) -> tuple[torch.Tensor, torch.Tensor]:
    """Return V = η(V0 + ∇φ) with ∇·(ηV) = 0: as much air leaves a column as enters, high ground slows it."""
    ease, area = depth**2, torch.tensor(grid.cell_area)[:, None]
    target = -area * po.ops.advection_flux_central2(ease, *(torch.full_like(ease, c) for c in BREEZE), grid=grid)
    phi = conjugate_gradients(lambda a: area * po.ops.diffusion(a, ease, grid=grid), target)
    east, north = po.ops.gradient(phi, grid=grid)
    return depth * (BREEZE[0] + east), depth * (BREEZE[1] + north)


def conjugate_gradients(apply, target: torch.Tensor) -> torch.Tensor:
    """Solve apply(x) = target, up to a constant, for a symmetric negative operator."""
    x, residual = torch.zeros_like(target), target - target.mean()
    direction, before = residual, residual.square().sum()
    enough = 1e-12 * before
    while before > enough:
        image = apply(direction)
        length = before / (direction * image).sum()
        x, residual = x + length * direction, residual - length * image
        after = residual.square().sum()
        direction, before = residual + after / before * direction, after
    return x


def run(hours: float, *, rows: int = 150, columns: int = 200, backend: str = "torch") -> dict[str, object]:
    """Return the grid, relief, wind and the two fields after some hours of emission."""
    lat, lon, z = relief(rows, columns)
    grid = po.Grid2D.from_latlon(lat, lon)
    share = layer_depth(z)
    east, north = steered_wind(share, grid)
    mixing = 60.0 + 25.0 * torch.hypot(east, north) * (2.0 - share)  # m²/s; rough ground mixes more
    emitted = torch.zeros_like(share)
    row, column = abs(lat - PLANT[0]).argmin(), abs(lon - PLANT[1]).argmin()
    emitted[row, column] = EMISSION / grid.cell_area[row]
    statics = {"u": east, "v": north, "depth": share, "kappa": mixing, "source": emitted}
    fastest, mixed = float(torch.hypot(east, north).max()), float(mixing.max())
    dt = po.stability.stable_time_step(grid, fastest, diffusivity=mixed)
    steps = int(np.ceil(hours * 3600.0 / dt))
    step = po.integrators["ssprk3"](plume.compile(grid, backend=backend, statics=statics), dt=hours * 3600.0 / steps)
    with torch.no_grad():
        air, ground = po.integrate(step, torch.zeros(1, 2, rows, columns), steps)[0]
    concentration = 1e9 * air / (share * LID)  # µg/m³, mean over the mixed layer
    return {"grid": grid, "lat": lat, "lon": lon, "z": z, "u": east, "v": north,
            "air": air, "ground": ground, "concentration": concentration}  # fmt: skip


def draw(found: dict[str, object], hours: float, out: Path) -> Path:
    import matplotlib.pyplot as plt
    from matplotlib.colors import LightSource, LinearSegmentedColormap, TwoSlopeNorm

    lat, lon, z, c = found["lat"], found["lon"], found["z"], found["concentration"].numpy()
    extent = (lon[0], lon[-1], lat[0], lat[-1])
    figure = pictures.blank(9.2, 6.5)
    ax = figure.subplots()
    ground = ["#6f9fc4", "#a9cbe0", "#d5e6ee", "#e4e3d6", "#cfc9b4", "#b5aa92", "#f5f4f2"]
    heights = LinearSegmentedColormap.from_list("ground", list(zip([0, 0.3, 0.499, 0.5, 0.6, 0.75, 1], ground)))
    light = LightSource(azdeg=315, altdeg=40)
    shaded = light.shade(z, heights, norm=TwoSlopeNorm(0, -400, 2200), vert_exag=7, dx=1500, dy=1500, blend_mode="soft")
    ax.imshow(shaded, origin="lower", extent=extent, interpolation="bicubic")
    ax.contour(lon, lat, z, levels=[0.0], colors="#33475b", linewidths=0.7)

    levels = [0.2, 0.5, 1, 2, 5, 10, 20, 50]
    colours = plt.get_cmap("inferno_r")(np.linspace(0.08, 0.95, len(levels)))
    image = ax.contourf(lon, lat, c, levels, colors=colours, extend="max", alpha=0.82)
    some = slice(5, None, 10)
    wind = [found[name].numpy()[some, some] for name in ("u", "v")]
    arrows = ax.quiver(lon[some], lat[some], *wind, scale=170, width=1.6e-3, headwidth=4, color="#22313f", alpha=0.75)
    ax.quiverkey(arrows, 0.075, 0.135, 5.0, "5 m/s", labelpos="E", color="#22313f")

    ax.plot(PLANT[1], PLANT[0], "*", ms=15, mfc="white", mec="black")
    halo = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.65}
    places = {"plant": PLANT, "Vancouver": (49.26, -123.11), "Nanaimo": (49.17, -123.94), "Victoria": (48.43, -123.36)}
    for name, (north, east) in places.items():
        if name != "plant":
            ax.plot(east, north, "o", ms=3.5, color="black")
        ax.annotate(name, (east, north), (6, 5), textcoords="offset points", fontsize=9, bbox=halo)
    degree = 111.195 * np.cos(np.deg2rad(lat.mean()))  # km of a degree of longitude
    ax.plot(
        [lon[0] + 0.12, lon[0] + 0.12 + 50 / degree], [lat[0] + 0.1] * 2, color="black", lw=3, solid_capstyle="butt"
    )
    ax.text(lon[0] + 0.12 + 25 / degree, lat[0] + 0.125, "50 km", ha="center", fontsize=9)
    ax.set(
        xlabel="longitude [°E]",
        ylabel="latitude [°N]",
        xlim=extent[:2],
        ylim=extent[2:],
        aspect=1 / np.cos(np.deg2rad(lat.mean())),
    )
    ax.set_title(f"Sulphur dioxide {hours:g} h after a plant began to emit {EMISSION:g} kg/s")
    label = "SO$_2$, mean over the mixed layer [µg/m³]"
    figure.colorbar(image, ax=ax, shrink=0.85, pad=0.02, ticks=levels, format="%g", label=label)
    return pictures.save(figure, out, dpi=96)


def main(out: Path | None = None, *, hours: float = 12.0, backend: str = "auto") -> Path:
    """Run the model and draw it; return where the picture is."""
    return draw(run(hours, backend=backend), hours, out or Path("out/plume.png"))


if __name__ == "__main__":
    pictures.command(main, __doc__)
