"""A source found from noisy sensors: where a gas is released, and how much, from hourly readings downwind.

Thirty sensors with noise see a plume in a wind that turns. Neither the place nor the rate of the release is known, nor
the diffusivity, but that it lies within a factor of two of 6 km²/h. 4D-Var finds the map of releases and the
diffusivity together, with the uncertainty of both and of the total.
"""

import math
from pathlib import Path

import torch

import pde_ops as po
import pictures
from pde_ops.assimilation import Coefficient, Estimate, FourDVar, Gaussian, Places, Points, Source, Uncertainty
from pde_ops.integrators import Integrator
from pde_ops.ops import advection_upwind3, laplacian

c = po.Field("c", "kg/m**2")  # gas in a column of air
U, V, release = po.Closure("U", "m/s"), po.Closure("V", "m/s"), po.Closure("release", "kg/m**2/s")
kappa = po.Positive("kappa", "km**2/hour", init=6.0, latex=r"\kappa")

PLUME = po.PDESystem("plume", {c: kappa * laplacian(c) - advection_upwind3(c, U, V) + release})

CELLS, DX, DT, HOURS = 40, 3e3, 600.0, 6  # m, s
STACKS = {(12, 10): 9.0, (25, 17): 5.0}  # row, column: tonnes an hour, spread over the neighbouring cells
TRUE_KAPPA, SENSORS, NOISE = 9.0, 30, 0.5  # km²/h, number, mg/m²


def stepper(backend: str) -> Integrator:
    grid = po.Grid2D.plane(CELLS, CELLS, dx=DX)
    return po.integrators["ssprk3"](PLUME.compile(grid, backend=backend).double(), dt=DT)


def wind(number: int) -> dict[str, torch.Tensor]:
    """Return a wind of 4 m/s that turns from west to south within the window."""
    angle = 0.5 * math.pi * number * DT / (HOURS * 3600.0)
    one = torch.ones(1, CELLS, CELLS, dtype=torch.float64)
    return {"U": 4.0 * math.cos(angle) * one, "V": 4.0 * math.sin(angle) * one}


def true_release() -> torch.Tensor:
    """Return the releases [y, x], kg/m²/s."""
    number = torch.arange(CELLS, dtype=torch.float64)
    total = torch.zeros(CELLS, CELLS, dtype=torch.float64)
    for (row, column), tonnes in STACKS.items():
        patch = torch.exp(-0.5 * ((number[:, None] - row) ** 2 + (number - column) ** 2) / 1.5**2)
        total += tonnes * 1e3 / 3600.0 * patch / patch.sum() / DX**2
    return total


def observe(seed: int = 0, backend: str = "torch") -> tuple[Places, torch.Tensor]:
    """Return where the sensors stand and what they read after every hour, mg/m² [time, sensor]."""
    draw = torch.Generator().manual_seed(seed)
    places = Places(*(2.0 + (CELLS - 5.0) * torch.rand(2, SENSORS, generator=draw, dtype=torch.float64)))
    step = stepper(backend)
    step.tendency.coefficients.assign(kappa=TRUE_KAPPA)
    with torch.no_grad():
        truth = true_release()[None]
        clean = torch.zeros(1, 1, CELLS, CELLS, dtype=torch.float64)
        hour = round(3600.0 / DT)
        states = po.integrate(step, clean, HOURS * hour, lambda n: {**wind(n), "release": truth}, keep=hour)[1:, 0, 0]
    grid_points = torch.as_tensor(places.tensor())
    below = grid_points.long()
    y, x = grid_points - below
    corner = [states[:, below[0] + dy, below[1] + dx] for dy in (0, 1) for dx in (0, 1)]
    exact = (1 - y) * (1 - x) * corner[0] + (1 - y) * x * corner[1] + y * (1 - x) * corner[2] + y * x * corner[3]
    return places, 1e6 * exact + NOISE * torch.randn(exact.shape, generator=draw, dtype=torch.float64)


def assimilate(places: Places, readings: torch.Tensor, backend: str = "torch") -> tuple[Estimate, Uncertainty]:
    """Return the estimate of releases and diffusivity, and its uncertainty."""
    hours = list(range(1, HOURS + 1))
    problem = FourDVar(
        stepper(backend),
        torch.zeros(1, 1, CELLS, CELLS, dtype=torch.float64),  # the air is clean at first
        window=f"{HOURS} hours",
        controls=[Source("release", Gaussian("10 kg/km**2/hour", length="6 km")), Coefficient("kappa", factor=2.0)],
        observations=[
            Points("c", places, time=(hours, "hours"), values=(readings, "mg/m**2"), error=f"{NOISE} mg/m**2")
        ],
        closures=wind,
    )
    estimate = problem.solve(precision=0.05, iterations=500)  # to a twentieth of what is uncertain
    return estimate, estimate.uncertainty()


def tonnes_an_hour(release: torch.Tensor) -> torch.Tensor:
    """Return the total of a map of releases."""
    return release.sum() * DX**2 * 3600.0 / 1e3


def total(estimate: Estimate, known: Uncertainty) -> tuple[float, float]:
    """Return the total release and its standard deviation, tonnes an hour."""
    deviation = known.of(lambda inputs: tonnes_an_hour(inputs.sources["release"]))
    return float(tonnes_an_hour(estimate.sources["release"])), float(deviation)


def draw(places: Places, readings: torch.Tensor, estimate: Estimate, known: Uncertainty, out: Path) -> Path:
    figure = pictures.blank(12, 4.1)
    axes = figure.subplots(1, 3, sharey=True)
    km = DX / 1e3
    size = CELLS * km
    per_hour = 1e6 * 3600.0  # kg/m²/s to kg/km²/h
    maps = {
        "released (truth)": true_release(),
        f"estimated from {SENSORS} sensors": estimate.sources["release"][0],
        "standard deviation": known.sources["release"][0],
    }
    top = per_hour * float(true_release().max())
    images = []
    for ax, (title, field) in zip(axes, maps.items()):
        cmap, highest = ("viridis", 10.0) if title.startswith("standard") else ("cividis", top)
        shown, extent = per_hour * field.numpy(), (0, size, 0, size)
        images.append(ax.imshow(shown, origin="lower", extent=extent, cmap=cmap, vmin=0.0, vmax=highest))
        east, north = km * (places.columns + 0.5), km * (places.rows + 0.5)
        look = {"cmap": "Reds", "s": 22, "edgecolor": "white", "linewidth": 0.6, "vmin": 0.0, "vmax": 30.0}
        marks = ax.scatter(east, north, c=readings[-1].numpy(), **look)
        for row, column in STACKS:
            ax.plot(km * (column + 0.5), km * (row + 0.5), "x", color="deepskyblue", ms=8, mew=2)
        ax.set(title=title, xlabel="x [km]", xlim=(0, size), ylim=(0, size))
    axes[0].set_ylabel("y [km]")
    figure.colorbar(images[1], ax=axes[1], label="release [kg/km²/h]", extend="both", shrink=0.8, pad=0.01)
    figure.colorbar(images[2], ax=axes[2], label="its deviation [kg/km²/h]", shrink=0.8, pad=0.01)
    figure.colorbar(marks, ax=axes[0], label="last reading [mg/m²]", extend="both", shrink=0.8, pad=0.01)
    amount, error = total(estimate, known)
    value, spread = estimate.coefficients["kappa"].magnitude, known.coefficients["kappa"].magnitude
    figure.suptitle(
        f"Total {amount:.1f} ± {error:.1f} t/h (truth {sum(STACKS.values()):g}), "
        f"diffusivity {value:.1f} ± {spread:.1f} km²/h (truth {TRUE_KAPPA:g}, first guess 6)"
    )
    return pictures.save(figure, out)


def main(out: Path | None = None, *, backend: str = "auto") -> Path:
    """Observe, assimilate and draw; return where the picture is."""
    places, readings = observe(backend=backend)
    estimate, known = assimilate(places, readings, backend=backend)
    print(estimate)
    print(known)
    return draw(places, readings, estimate, known, out or Path("out/source.png"))


if __name__ == "__main__":
    pictures.command(main, __doc__)
