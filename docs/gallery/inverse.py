"""An inverse problem: find a diffusivity and a drag coefficient from noisy snapshots of the wind and a tracer.

Eddies decay by drag and mixing while they stir a warm patch; their pressure balances their inertia, as in Taylor and
Green's vortices, so neither is written. Six snapshots with noise are given. The two coefficients start wrong by a
factor of 3 and are found by gradient descent through the solver; the curvature of the misfit says how well the data
can know them.
"""

import math
from pathlib import Path

import numpy as np
import torch

import pde_ops as po
import pictures
from pde_ops import Field, Positive
from pde_ops.integrators import Integrator
from pde_ops.ops import advection_upwind3, laplacian, quadratic_drag

u, v, T = Field("u", "m/s"), Field("v", "m/s"), Field("T", "K")
kappa = Positive("kappa", "km**2/hour", init=20.0, latex=r"\kappa")
drag = Positive("C_D", "1/Mm", init=12.0, latex=r"C_D/h")  # drag coefficient over the depth of the layer


eddies = po.PDESystem("decaying eddies", {
    u: kappa * laplacian(u) - quadratic_drag(u, u, v, drag),
    v: kappa * laplacian(v) - quadratic_drag(v, u, v, drag),
    T: kappa * laplacian(T) - advection_upwind3(T, u, v),
})  # fmt: skip

TRUTH = {"kappa": 60.0, "C_D": 4.0}  # in the declared units
NOISE = torch.tensor([0.5, 0.5, 0.5])[:, None, None]  # m/s, m/s, K
CELLS, DX, DT, STEPS, KEEP = 32, 6e3, 300.0, 36, 6  # m, s: three hours, a snapshot every half hour


def initial_state() -> torch.Tensor:
    """Return four eddies and a warm patch, periodic in both directions."""
    x = 2.0 * math.pi * torch.arange(CELLS) / CELLS
    east, north = x[None, :], x[:, None]
    wind_u = 10.0 * torch.cos(north) * torch.sin(east)
    wind_v = -10.0 * torch.sin(north) * torch.cos(east)
    patch = 8.0 * torch.exp(2.0 * (torch.cos(east - 2.4) + torch.cos(north - 3.6)) - 4.0)
    return torch.stack([wind_u, wind_v, patch])[None]


def solver(backend: str) -> Integrator:
    """Return one step of the model with the first guess of its coefficients."""
    grid = po.Grid2D.plane(CELLS, CELLS, dx=DX, boundary="periodic")
    return po.integrators["heun"](eddies.compile(grid, backend=backend), dt=DT)


def snapshots(step: Integrator) -> torch.Tensor:
    """Return the states [time, field, y, x] that the model gives at the times of observation."""
    return po.integrate(step, initial_state(), STEPS, keep=KEEP)[1:, 0]


def observe(seed: int = 0, backend: str = "torch") -> tuple[torch.Tensor, torch.Tensor]:
    """Return the truth and what the instruments saw of it."""
    step = solver(backend)
    step.tendency.coefficients.assign(**TRUTH)
    with torch.no_grad():
        truth = snapshots(step)
    return truth, truth + NOISE * torch.randn(truth.shape, generator=torch.Generator().manual_seed(seed))


def fit(
    seen: torch.Tensor, *, iterations: int = 12, backend: str = "torch"
) -> tuple[Integrator, list[dict[str, float]]]:
    """Return the fitted solver and the coefficients, in their units, after every iteration."""
    step = solver(backend)
    optimiser = torch.optim.LBFGS([step.tendency.coefficients.raw], max_iter=1, line_search_fn="strong_wolfe")

    def misfit() -> torch.Tensor:
        optimiser.zero_grad()
        loss = 0.5 * ((snapshots(step) - seen) / NOISE).square().mean()
        loss.backward()
        return loss

    path = [magnitudes(step)]
    for _ in range(iterations):
        optimiser.step(misfit)
        path.append(magnitudes(step))
    return step, path


def magnitudes(step: Integrator) -> dict[str, float]:
    return {name: float(value.magnitude) for name, value in step.tendency.parameters_in_units().items()}


def standard_errors(step: Integrator) -> dict[str, float]:
    """Return how far noise alone throws each coefficient: from the Fisher information, by finite differences."""
    found, columns = magnitudes(step), []
    with torch.no_grad():
        for name, value in found.items():
            sides = []
            for sign in (1.0, -1.0):
                step.tendency.coefficients.assign(**{**found, name: value * (1.0 + 0.02 * sign)})
                sides.append((snapshots(step) / NOISE).flatten().double())
            columns.append((sides[0] - sides[1]) / (0.04 * value))
        step.tendency.coefficients.assign(**found)
    sensitivity = torch.stack(columns, dim=1)
    covariance = torch.linalg.inv(sensitivity.T @ sensitivity)
    return {name: float(variance.sqrt()) for name, variance in zip(found, covariance.diagonal())}


def draw(truth: torch.Tensor, seen: torch.Tensor, step: Integrator, path: list[dict[str, float]], out: Path) -> Path:
    figure = pictures.blank(10, 6.9)
    maps, curves = figure.subfigures(2, 1, height_ratios=[1.2, 1], hspace=0.03)
    axes = maps.subplots(1, 3, sharey=True)
    km = DX / 1e3 * (np.arange(CELLS) + 0.5)
    with torch.no_grad():
        fitted = snapshots(step)
    hours = STEPS * DT / 3600.0
    for ax, state, name in zip(axes, (truth, seen, fitted), ("truth", "observed, with noise", "fitted model")):
        wind_u, wind_v, temperature = state[-1].numpy()
        image = ax.pcolormesh(km, km, temperature, cmap="magma", vmin=-1.0, vmax=4.5, rasterized=True)
        some = slice(1, None, 3)
        ax.quiver(
            km[some], km[some], wind_u[some, some], wind_v[some, some], color="white", alpha=0.8, scale=90, width=4e-3
        )
        ax.set(title=f"{name}, {hours:g} h", xlabel="x [km]", aspect="equal")
    axes[0].set_ylabel("y [km]")
    maps.colorbar(image, ax=axes, label="temperature anomaly [K]", extend="both", shrink=0.9, pad=0.02)
    errors = standard_errors(step)
    labels = {"kappa": "diffusivity κ [km²/h]", "C_D": "drag $C_D/h$ [1/Mm]"}
    for ax, name in zip(curves.subplots(1, 2), labels):
        values, true, error = [point[name] for point in path], TRUTH[name], errors[name]
        ax.axhspan(true - 2 * error, true + 2 * error, color="tab:green", alpha=0.2, label="±2 standard errors")
        ax.axhline(true, color="tab:green", label=f"truth: {true:g}")
        ax.plot(values, "o-", color="tab:blue", ms=4, label=f"estimate: {values[-1]:.3g} ± {error:.1g}")
        ax.set(xlabel="iteration", ylabel=labels[name])
        ax.set_ylim(bottom=0.0)
        ax.legend(frameon=False, loc="lower right" if values[-1] > values[0] else "upper right")
    figure.suptitle("A diffusivity and a drag coefficient, found by gradients through the solver\n", fontsize=13)
    return pictures.save(figure, out)


def main(out: Path | None = None, *, backend: str = "auto") -> Path:
    """Observe, fit and draw; return where the picture is."""
    truth, seen = observe(backend=backend)
    step, path = fit(seen, backend=backend)
    return draw(truth, seen, step, path, out or Path("out/inverse.png"))


if __name__ == "__main__":
    pictures.command(main, __doc__)
