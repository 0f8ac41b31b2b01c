"""The order an integrator declares is the order it has, on solutions known in closed form; all in float64."""

from __future__ import annotations

import math

import pytest
import torch

import pde_ops as po
from pde_ops.ops import advection, coriolis, friction, laplacian, quadratic_drag, relaxation
from pde_ops.testing import observed_order

u, v, T = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("T", "K")
U, V = po.Closure("U", "m/s"), po.Closure("V", "m/s")
f = po.Static("f", "1/s")
UNIT = po.units.registry.Quantity
EXPLICIT = ("euler", "heun", "ssprk3", "rk4")


def integrated(tendency, name, total, steps, state, closures=None, **options):
    step = po.integrators[name](tendency.double(), total / steps, **options)
    with torch.no_grad():
        return po.integrate(step, state, steps, closures)


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_integrators_have_their_order_on_a_turning_wind_with_drag(name):
    # dV/dt = -c|V|V + f x V: the speed is V0 / (1 + c V0 t), the direction turns by -ft. Nonlinear in both components.
    c, speed, turn, total = 1e-5, 10.0, 1e-4, 14400.0
    drag = UNIT(c, "1/m")
    system = po.PDESystem(
        "drag",
        {u: coriolis(v, f) - quadratic_drag(u, u, v, drag), v: -coriolis(u, f) - quadratic_drag(v, u, v, drag)},
    )
    tendency = system.compile(po.Grid2D.plane(2, 2, dx=1e4, f=turn))
    state = torch.zeros(1, 2, 2, 2, dtype=torch.float64)
    state[:, 0] = speed
    slowed = speed / (1.0 + c * speed * total)
    exact = torch.tensor([slowed * math.cos(turn * total), -slowed * math.sin(turn * total)], dtype=torch.float64)
    errors = [float((integrated(tendency, name, total, n, state)[0, :, 0, 0] - exact).abs().max()) for n in (32, 64)]
    assert observed_order(errors) == pytest.approx(po.integrators[name].order, abs=0.1)


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_integrators_have_their_order_on_advection_and_diffusion(name):
    # On a periodic plane every wave a evolves by itself, da/dt = λ a: its exact course needs no time stepping.
    kappa, total, n = 2e4, 3600.0, 16
    grid = po.Grid2D.plane(n, n, dx=2e4, boundary="periodic")
    system = po.PDESystem("waves", {T: -advection(T, U, V) + UNIT(kappa, "m**2/s") * laplacian(T)})
    tendency = system.compile(grid).double()
    wind = {"U": torch.tensor(6.0, dtype=torch.float64), "V": torch.tensor(-4.0, dtype=torch.float64)}
    pulse = torch.zeros(1, 1, n, n, dtype=torch.float64)
    pulse[..., 0, 0] = 1.0
    symbol = torch.fft.fft2(tendency(pulse, wind).detach())
    state = torch.randn(1, 1, n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = torch.fft.ifft2(torch.fft.fft2(state) * torch.exp(symbol * total)).real
    errors = [float((integrated(tendency, name, total, m, state, wind) - exact).abs().max()) for m in (16, 32, 64)]
    assert observed_order(errors) == pytest.approx(po.integrators[name].order, abs=0.1)


@pytest.mark.parametrize(("name", "inner", "order"), [("strang", "heun", 2), ("strang", "rk4", 2), ("lie", "euler", 1)])
def test_splitting_has_its_order_where_the_parts_do_not_commute(name, inner, order):
    # Rotation, friction and relaxation are flows; drag stays explicit; u is drawn to a target, so nothing commutes.
    drag, rate = UNIT(2e-5, "1/m"), UNIT(1e-4, "1/s")
    system = po.PDESystem(
        "split",
        {
            u: coriolis(v, f) - friction(u, UNIT(5e-5, "1/s")) + relaxation(u, U, rate) - quadratic_drag(u, u, v, drag),
            v: -coriolis(u, f) - friction(v, UNIT(3e-5, "1/s")) - quadratic_drag(v, u, v, drag),
        },
    )
    grid = po.Grid2D.plane(2, 2, dx=1e4, f=1e-4)
    state = torch.tensor([10.0, -3.0], dtype=torch.float64)[None, :, None, None].expand(1, 2, 2, 2).contiguous()
    closures = {"U": torch.tensor(4.0, dtype=torch.float64)}
    # 128 steps of RK4 on the unsplit system: an error of about (112 s · 2e-4/s)⁴ m/s, 3e-7 and far below the rest
    exact = integrated(system.compile(grid), "rk4", 14400.0, 128, state, closures)
    tendency = system.compile(grid, exact_flows=True)
    assert len(tendency.flows) == 4
    errors = [
        float((integrated(tendency, name, 14400.0, n, state, closures, inner=inner) - exact).abs().max())
        for n in (16, 32, 64)
    ]
    assert observed_order(errors) == pytest.approx(order, abs=0.1)
    assert po.integrators[name].order == order


def centre(n=41, dx=1e4):
    """Coordinates on a plane about its middle, and a mask of what the border cannot reach."""
    axis = (torch.arange(n, dtype=torch.float64) - n // 2) * dx
    x, y = axis.expand(n, n), axis[:, None].expand(n, n)
    return x, y, torch.maximum(x.abs(), y.abs()) < 6 * dx


def test_semi_lagrangian_transport_is_second_order_along_curved_trajectories():
    # Solid rotation of a linear field stays linear, which bilinear interpolation keeps exactly: the error is in time.
    x, y, inside = centre()
    omega, total = 1e-4, 7200.0
    system = po.PDESystem("rotation", {T: -advection(T, U, V)})
    tendency = system.compile(po.Grid2D.plane(41, 41, dx=1e4), semi_lagrangian=True)
    closures = {"U": -omega * y, "V": omega * x}
    angle = omega * total
    exact = x * math.cos(angle) + y * math.sin(angle)
    errors = []
    for n in (4, 8, 16):
        moved = integrated(tendency, "semi_lagrangian", total, n, x[None, None], closures)[0, 0]
        errors.append(float((moved - exact)[inside].abs().max()))
    assert observed_order(errors) == pytest.approx(po.integrators["semi_lagrangian"].order, abs=0.1)


@pytest.mark.parametrize("interpolation", ["bilinear", "cubic"])
def test_semi_lagrangian_transport_is_second_order_when_the_wind_carries_itself_and_is_forced(interpolation):
    # du/dt + u du/dx = -r u with u = s(t) x stays linear in x: ds/dt = -s² - r s.
    x, _, inside = centre()
    s, r, total = 5e-5, 1e-4, 7200.0
    system = po.PDESystem(
        "burgers",
        {
            u: -advection(u, u, v) - friction(u, UNIT(r, "1/s")),
            v: -advection(v, u, v) - friction(v, UNIT(r, "1/s")),
        },
    )
    tendency = system.compile(po.Grid2D.plane(41, 41, dx=1e4), semi_lagrangian=True)
    exact = x * r * s / ((r + s) * math.exp(r * total) - s)
    state = torch.stack([s * x, torch.zeros_like(x)])[None]
    errors = []
    for n in (4, 8, 16):
        moved = integrated(tendency, "semi_lagrangian", total, n, state, interpolation=interpolation)[0, 0]
        errors.append(float((moved - exact)[inside].abs().max()))
    assert observed_order(errors) == pytest.approx(po.integrators["semi_lagrangian"].order, abs=0.1)


@pytest.mark.parametrize(("interpolation", "order"), [("bilinear", 2), ("cubic", 4)])
def test_interpolation_converges_at_its_order_in_space(interpolation, order):
    from pde_ops.boundaries import Boundary
    from pde_ops.integrators.interpolation import interpolate

    errors = []
    for n in (16, 32, 64):
        nodes = torch.arange(n, dtype=torch.float64) * (2.0 * math.pi / n)
        points = torch.arange(n, dtype=torch.float64) + 0.4  # a fixed share of a cell; 0.5 would cancel odd errors
        wave = torch.sin(nodes)[:, None] * torch.cos(nodes)
        where = torch.stack([points[:, None].expand(n, n), points.expand(n, n)])[None]
        found = interpolate(wave[None, None], where, Boundary("periodic", "periodic"), method=interpolation)
        turned = points * (2.0 * math.pi / n)
        errors.append(float((found[0, 0] - torch.sin(turned)[:, None] * torch.cos(turned)).abs().max()))
    assert observed_order(errors) == pytest.approx(order, abs=0.1)


def test_range_scaled_euler_without_a_rule_is_first_order():
    system = po.PDESystem("decay", {T: -friction(T, UNIT(1e-4, "1/s"))})
    grid = po.Grid2D.plane(2, 2, dx=1e5)
    tendency = system.compile(grid, limits=po.stability.limits(grid, 3600.0, max_wind=0.0, substeps=2))
    state = torch.ones(1, 1, 2, 2, dtype=torch.float64)
    errors = [
        abs(float(integrated(tendency, "range_scaled_euler", 3600.0, n, state, rule="none").mean()) - math.exp(-0.36))
        for n in (4, 8, 16)
    ]
    assert observed_order(errors) == pytest.approx(1, abs=0.1)
