"""Linear shallow water on a rotating plane: a bump of water adjusts to rotation.

Gravity flattens the bump and radiates Poincaré waves; rotation keeps the part of it that is in balance with a wind
around it (Rossby 1938). The equations are a screen; the operators are unit-checked, the borders absorb the waves.
"""

import math
from pathlib import Path

import numpy as np
import torch

import pde_ops as po
import pictures
from pde_ops import Field, Positive, Static
from pde_ops.ops import coriolis, divergence, gradient_x, gradient_y

u, v, h = Field("u", "m/s"), Field("v", "m/s"), Field("h", "m")
f = Static("f", "1/s")
g = Positive("g", "m/s**2", init=9.81, learnable=False)
H = Positive("H", "m", init=100.0, learnable=False)  # mean depth: long waves run at √(gH) = 31 m/s

shallow_water = po.PDESystem("linear shallow water", {
    u: coriolis(v, f) - g * gradient_x(h),
    v: -coriolis(u, f) - g * gradient_y(h),
    h: -H * divergence(u, v),
})  # fmt: skip

GRAVITY, DEPTH, ROTATION = 9.81, 100.0, 1e-4  # m/s², m, 1/s
RADIUS = math.sqrt(GRAVITY * DEPTH) / ROTATION  # Rossby's radius of deformation, 313 km


def adjust(hours: float, *, n: int = 128, dx: float = 25e3, backend: str = "torch") -> torch.Tensor:
    """Return the states [hour, field, y, x] of a 1 m bump left to itself, waves absorbed by the rim."""
    rim = po.Rim(width=n // 6, timescale=1800.0)
    grid = po.Grid2D.plane(n, n, dx=dx, f=ROTATION, boundary=po.Boundary(rim=rim))
    step = po.integrators["rk4"](shallow_water.compile(grid, backend=backend), dt=600.0)
    state = torch.zeros(1, 3, n, n)
    state[0, 2] = torch.exp(-distance_squared(n, dx) / (2.0 * (0.8 * RADIUS) ** 2))
    at_rest = {f"rim_{name}": torch.zeros(1, n, n) for name in ("u", "v", "h")}
    with torch.no_grad():
        return po.integrate(step, state, steps=round(hours * 6), closures=at_rest, keep=6)[:, 0]


def wave_frequency(
    wavenumber: int, *, n: int = 128, length: float = 1.6e6, backend: str = "torch"
) -> tuple[float, float]:
    """Return k [1/m] and the frequency [1/s] measured on a plane wave that runs through a periodic box."""
    grid = po.Grid2D.plane(4, n, dx=length / n, f=ROTATION, boundary="periodic")
    k = 2.0 * math.pi * wavenumber / length
    omega = math.sqrt(ROTATION**2 + GRAVITY * DEPTH * k**2)
    phase = k * length / n * torch.arange(n, dtype=torch.float64).expand(1, 4, n)
    polarised = [omega / (DEPTH * k) * phase.cos(), ROTATION / (DEPTH * k) * phase.sin(), phase.cos()]
    dt = 0.02 * 2.0 * math.pi / omega
    step = po.integrators["rk4"](shallow_water.compile(grid, backend=backend).double(), dt=dt)
    with torch.no_grad():
        states = po.integrate(step, torch.stack(polarised, dim=1), steps=50, keep=1)
    mode = (states[:, 0, 2, 0] * torch.exp(-1j * phase[0, 0])).sum(-1)
    turned = np.unwrap(torch.angle(mode).numpy())
    return k, float(-(turned[-1] - turned[0]) / (50 * dt))


def balanced_height(h0: np.ndarray, dx: float) -> np.ndarray:
    """Return the height that keeps the potential vorticity of h0 and is in geostrophic balance."""
    k = 2.0 * math.pi * np.fft.fftfreq(h0.shape[0], dx)
    shape = 1.0 + RADIUS**2 * (k[:, None] ** 2 + k[None, :] ** 2)
    return np.fft.ifft2(np.fft.fft2(h0) / shape).real


def distance_squared(n: int, dx: float) -> torch.Tensor:
    x = dx * (torch.arange(n) - (n - 1) / 2)
    return x[None, :] ** 2 + x[:, None] ** 2


def draw(states: torch.Tensor, dx: float, waves: list[tuple[float, float]], out: Path) -> Path:
    n = states.shape[-1]
    km = dx / 1e3 * (np.arange(n) - (n - 1) / 2)
    figure = pictures.blank(10, 6.8)
    figure.suptitle("Geostrophic adjustment: what rotation keeps of a bump of water\n", fontsize=13)
    maps, curves = figure.subfigures(2, 1, height_ratios=[1.15, 1], hspace=0.04)
    axes = maps.subplots(1, 3, sharey=True)
    for ax, hour in zip(axes, (0, 5, len(states) - 1)):
        wind_u, wind_v, height = states[hour].numpy()
        image = ax.pcolormesh(km, km, height, cmap="RdBu_r", vmin=-0.4, vmax=0.4, rasterized=True)
        some = slice(4, None, 8)
        if hour:  # at the start there is no wind to draw
            ax.quiver(km[some], km[some], wind_u[some, some], wind_v[some, some], scale=2.0, width=4e-3, color="0.15")
        ax.set(
            title=f"after {hour} h" if hour else "start: 1 m high, at rest",
            xlabel="x [km]",
            aspect="equal",
            xlim=(-1300, 1300),
            ylim=(-1300, 1300),
        )
    axes[0].set_ylabel("y [km]")
    maps.colorbar(image, ax=axes, label="height h [m]", extend="max", shrink=0.9, pad=0.02)

    section, dispersion = curves.subplots(1, 2)
    middle = n // 2
    section.plot(km, states[0, 2, middle], color="0.6", label="start")
    section.plot(km, states[-1, 2, middle], color="tab:blue", lw=2, label=f"model, {len(states) - 1} h")
    balanced = balanced_height(states[0, 2].double().numpy(), dx)
    section.plot(km, balanced[middle], "k--", lw=1.2, label="balanced (theory)")
    section.set(
        xlabel="x [km]", ylabel="h [m]", xlim=(-1300, 1300), ylim=(-0.05, 1.1), title="Section through the middle"
    )
    section.legend(frameon=False, loc="upper right", fontsize="small")
    k = np.linspace(0.0, 1.05 * waves[-1][0], 200)
    dispersion.plot(
        1e6 * k, 1e4 * np.sqrt(ROTATION**2 + GRAVITY * DEPTH * k**2), "k-", label=r"$\omega^2 = f^2 + gHk^2$"
    )
    measured = np.array(waves)
    dispersion.plot(1e6 * measured[:, 0], 1e4 * measured[:, 1], "o", color="tab:red", label="measured in the model")
    dispersion.set(
        xlabel=r"wavenumber k [10$^{-6}$ m$^{-1}$]",
        ylabel=r"frequency $\omega$ [10$^{-4}$ s$^{-1}$]",
        title="Poincaré waves",
    )
    dispersion.set_ylim(bottom=0.0)
    dispersion.legend(frameon=False)
    return pictures.save(figure, out)


def main(out: Path | None = None, *, backend: str = "auto") -> Path:
    """Run the model and draw it; return where the picture is."""
    waves = [wave_frequency(number, backend=backend) for number in range(1, 7)]
    return draw(adjust(48.0, backend=backend), 25e3, waves, out or Path("out/shallow_water.png"))


if __name__ == "__main__":
    pictures.command(main, __doc__)
