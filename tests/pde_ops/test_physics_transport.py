"""Transport and mixing against what is known: a blob that moves, a blob that spreads, blow-ups, conserved mass."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import pde_ops as po
from pde_ops import stability
from pde_ops.ops import advection, advection_central2, advection_flux, laplacian
from pde_ops.testing import observed_order

T, u, v = po.Field("T", "K"), po.Field("u", "m/s"), po.Field("v", "m/s")
U, V = po.Closure("U", "m/s"), po.Closure("V", "m/s")
TRACER = po.PDESystem("tracer", {T: -advection(T, U, V)})
DT = 1800.0
UNIT = po.units.registry.Quantity


def wind(east, north):
    return {"U": torch.as_tensor(east, dtype=torch.float64), "V": torch.as_tensor(north, dtype=torch.float64)}


def run(step, state, steps, closures=None):
    with torch.no_grad():
        return po.integrate(step.double(), state, steps, closures)


# --- a blob that moves -------------------------------------------------------------------------------------

# 10 K on 32 x 32 cells of 19 km, moved along x through the middle. A width of 2.5 cells is what gives the persistence
# error of 1.67 K that the reference figures state; its path and shape are not stated, hence 15 % and not 1 %.
CELL, SIDE, WIDTH = 19e3, 32, 2.5 * 19e3
GRID = po.Grid2D.plane(SIDE, SIDE, dx=CELL)


def blob(centre_x, background=280.0):
    axis = (torch.arange(SIDE, dtype=torch.float64) - (SIDE - 1) / 2) * CELL
    squared = (axis - centre_x) ** 2 + axis[:, None] ** 2
    return background + 10.0 * torch.exp(-squared / (2.0 * WIDTH**2))[None, None]


def moved(speed, hours):
    """Start, end, wind and number of steps of a blob that crosses the middle."""
    way = speed * hours * 3600.0
    return blob(-way / 2), blob(way / 2), wind(speed, 0.0), int(hours * 3600.0 / DT)


def rmse(found, exact):
    return float((found - exact).square().mean().sqrt())


SLOW, FAST = (5.0, 6.0), (20.0, 2.0)


def test_persistence_of_the_slow_blob_is_the_reference_figure():
    start, end, _, _ = moved(*SLOW)
    assert rmse(start, end) == pytest.approx(1.67, abs=0.01)


@pytest.mark.parametrize(
    ("name", "options", "figure"),
    [
        ("euler", {}, 0.26),
        ("range_scaled_euler", {"rule": "weathergft"}, 3.1),
        ("range_scaled_euler", {"rule": "range"}, 1.04),
        ("range_scaled_euler", {"rule": "limiter"}, 0.23),
    ],
    ids=["upwind", "affine", "range", "limiter"],
)
def test_a_blob_carried_for_six_hours_has_the_reference_error(name, options, figure):
    start, end, closures, steps = moved(*SLOW)
    step = po.integrators[name](TRACER.compile(GRID), DT, **options)
    assert rmse(run(step, start, steps, closures), end) == pytest.approx(figure, rel=0.15)


def test_a_blob_in_fast_wind_has_the_reference_error_with_sub_steps():
    start, end, closures, steps = moved(*FAST)
    limits = stability.limits(GRID, DT, max_wind=20.0)
    step = po.integrators["range_scaled_euler"](TRACER.compile(GRID, limits=limits), DT, rule="none")
    assert rmse(run(step, start, steps, closures), end) == pytest.approx(0.21, rel=0.15)


def test_semi_lagrangian_transport_is_several_times_better_in_fast_wind():
    start, end, closures, steps = moved(*FAST)
    tendency = TRACER.compile(GRID, semi_lagrangian=True)
    errors = {}
    for method in ("bilinear", "cubic"):
        step = po.integrators["semi_lagrangian"](tendency, DT, interpolation=method)
        errors[method] = rmse(run(step, start, steps, closures), end)
    assert errors["bilinear"] == pytest.approx(0.04, rel=0.15)
    assert errors["cubic"] < 0.2 * errors["bilinear"]


def test_the_affine_rule_heats_air_that_no_wind_reaches():
    step = po.integrators["range_scaled_euler"](TRACER.compile(GRID), DT, rule="weathergft")
    corner = float(run(step, blob(0.0), 48, wind(5.0, 0.0))[0, 0, 0, 0]) - 280.0
    assert 9.0 <= corner <= 11.0
    for rule in ("range", "limiter"):
        step = po.integrators["range_scaled_euler"](TRACER.compile(GRID), DT, rule=rule)
        # Upwind carries the blob's skirt to the corner, no more than the blob has there: 10 K exp(-38)
        assert abs(float(run(step, blob(0.0), 48, wind(5.0, 0.0))[0, 0, 0, 0]) - 280.0) < 1e-6


# --- configurations that blow up ---------------------------------------------------------------------------

PERIODIC = po.Grid2D.plane(32, 32, dx=18.8e3, boundary="periodic")


def noise(fields=1, size=1.0):
    return size * torch.randn(1, fields, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_nine_metres_a_second_along_the_diagonal_blow_up_unlimited_and_not_with_limits():
    # Each component alone is below the limit of 10.4 m/s; the shortest wave grows by 2 · 1.22 - 1 a step.
    closures = wind(9.0 / math.sqrt(2.0), 9.0 / math.sqrt(2.0))
    state = noise()
    assert run(po.integrators["euler"](TRACER.compile(PERIODIC), DT), state, 48, closures).abs().max() > 1e6
    limited = TRACER.compile(PERIODIC, limits=stability.limits(PERIODIC, DT))
    after = run(po.integrators["range_scaled_euler"](limited, DT, rule="none"), state, 48, closures)
    assert after.abs().max() <= state.abs().max()


def test_a_wind_beyond_the_bound_is_limited_and_stays_harmless():
    limited = TRACER.compile(PERIODIC, limits=stability.limits(PERIODIC, DT, max_wind=20.0))
    state = noise()
    after = run(po.integrators["range_scaled_euler"](limited, DT, rule="none"), state, 48, wind(300.0, -500.0))
    assert after.abs().max() <= state.abs().max()


def test_a_diffusivity_at_its_explicit_limit_blows_up_once_the_wind_blows_and_the_cap_prevents_it():
    explicit = stability.diffusivity_limit(PERIODIC, DT)
    kappa = po.Positive("kappa", "m**2/s", init=explicit * (1.0 - 1e-6))
    system = po.PDESystem("mixed", {T: -advection(T, U, V) + kappa * laplacian(T)})
    step = po.integrators["euler"](system.compile(PERIODIC), DT)
    state = noise()
    assert run(step, state, 48, wind(0.0, 0.0)).abs().max() <= state.abs().max()
    assert run(step, state, 48, wind(3.0, 0.0)).abs().max() > 1e6
    with pytest.raises(po.DeclarationError, match="not below its cap"):
        system.compile(PERIODIC, limits=stability.limits(PERIODIC, DT, max_wind=3.0, substeps=1))
    small = po.Positive("kappa", "m**2/s", init=1e3)
    system = po.PDESystem("mixed", {T: -advection(T, U, V) + small * laplacian(T)})
    tendency = system.compile(PERIODIC, limits=stability.limits(PERIODIC, DT, max_wind=3.0, substeps=1))
    with torch.no_grad():
        tendency.coefficients.raw.fill_(1e4)  # as far as training could ever push it
    assert run(po.integrators["euler"](tendency, DT), state, 48, wind(3.0, 0.0)).abs().max() <= state.abs().max()


@pytest.mark.parametrize(("scheme", "speed"), [(advection_central2, 7.0), (advection, 10.0)], ids=["central", "upwind"])
def test_a_wind_that_carries_itself_too_fast_diverges_and_the_error_names_it(scheme, speed):
    # An eddy in a stream over cells of 18-20 km: finite numbers are left after 22 and 18 steps.
    lat = 46.25 + np.rad2deg(18.8e3 / 6.371e6) * np.arange(32)
    grid = po.Grid2D.from_latlon(lat, -5.5 + 0.26 * np.arange(32))
    axis = (torch.arange(32, dtype=torch.float64) - 15.5) / 4.0
    eddy = speed * torch.exp(-0.5 * (axis**2 + axis[:, None] ** 2))
    state = torch.stack([speed - axis[:, None] * eddy, axis * eddy])[None].float()
    system = po.PDESystem("wind", {u: -scheme(u, u, v), v: -scheme(v, u, v)})
    step = po.integrators["euler"](system.compile(grid), DT)
    assert not stability.report(step.tendency, state, DT).stable
    with pytest.raises(po.DivergedError, match=r"u .* cells"):
        po.integrate(step, state, 48)
    limited = system.compile(grid, limits=stability.limits(grid, DT))
    if scheme is advection:
        after = po.integrate(po.integrators["range_scaled_euler"](limited, DT, rule="none"), state, 48)
        assert after.abs().max() <= state.abs().max() + 1e-4
    else:
        after = po.integrate(po.integrators["ssprk3"](limited, limited.limits.part), state, 48)
        assert torch.isfinite(after).all()


def test_an_exploding_configuration_of_one_kilometre_cells_is_refused_and_semi_lagrangian_carries_it():
    grid = po.Grid2D.plane(16, 16, dx=1e3, boundary="periodic")
    with pytest.raises(po.StabilityError, match="semi_lagrangian=True"):
        stability.limits(grid, DT, max_wind=100.0)
    tendency = TRACER.compile(grid, semi_lagrangian=True)
    state = noise()[..., :16, :16]
    after = run(po.integrators["semi_lagrangian"](tendency, DT), state, 20, wind(100.0 / math.sqrt(2.0), 70.0))
    assert after.abs().max() <= state.abs().max()


# --- a blob that spreads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rk4", "ssprk3"])
def test_a_gaussian_spreads_as_the_heat_equation_says(name):
    # T = A (s0/s)² exp(-r²/2s²), s² = s0² + 2κt. Cells shrink by 2, the step by 4: the error falls with dx².
    kappa, start, side, total = 2e5, 8e4, 1.2e6, 3 * 3600.0
    later = math.sqrt(start**2 + 2.0 * kappa * total)
    errors = []
    for cells in (40, 80):
        grid = po.Grid2D.plane(cells, cells, dx=side / cells)
        axis = (torch.arange(cells, dtype=torch.float64) - (cells - 1) / 2) * (side / cells)
        squared = axis**2 + axis[:, None] ** 2
        state = 10.0 * torch.exp(-squared / (2.0 * start**2))[None, None]
        exact = 10.0 * (start / later) ** 2 * torch.exp(-squared / (2.0 * later**2))
        system = po.PDESystem("heat", {T: UNIT(kappa, "m**2/s") * laplacian(T)})
        steps = (cells // 10) ** 2
        after = run(po.integrators[name](system.compile(grid), total / steps), state, steps)
        errors.append(rmse(after[0, 0], exact))
    assert observed_order(errors) == pytest.approx(2.0, abs=0.1)
    assert errors[-1] < 0.01 * float(exact.square().mean().sqrt())


# --- mass --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["euler", "ssprk3"])
@pytest.mark.parametrize("border", [("periodic", "reflecting"), "reflecting"])
def test_the_flux_form_conserves_mass_over_many_steps_on_the_sphere_and_keeps_it_positive(border, name):
    grid = po.Grid2D.from_latlon([40.0 + 0.5 * i for i in range(12)], [0.5 * i for i in range(14)], border)
    system = po.PDESystem("column", {T: -advection_flux(T, U, V)})
    draw = torch.Generator().manual_seed(1)
    closures = {name: 10.0 * torch.randn(1, 12, 14, generator=draw, dtype=torch.float64) for name in ("U", "V")}
    state = torch.rand(1, 1, 12, 14, generator=draw, dtype=torch.float64)
    area = torch.tensor(grid.cell_area)[:, None]
    # Such a wind may leave a cell through all four faces: half the step of a uniform one.
    step = po.integrators[name](system.compile(grid), 0.5 * stability.stable_time_step(grid, 40.0))
    after = run(step, state, 200, closures)
    before_mass, after_mass = float((state * area).sum()), float((after * area).sum())
    assert after_mass == pytest.approx(before_mass, rel=1e-12)  # 200 steps of round-off, 2e-16 each
    assert (after - state).abs().max() > 0.1
    assert after.min() >= 0.0


def test_the_advective_form_does_not_conserve_mass_where_the_wind_diverges():
    grid = po.Grid2D.plane(12, 14, dx=5e4, boundary="periodic")
    draw = torch.Generator().manual_seed(1)
    closures = {name: 10.0 * torch.randn(1, 12, 14, generator=draw, dtype=torch.float64) for name in ("U", "V")}
    state = torch.rand(1, 1, 12, 14, generator=draw, dtype=torch.float64)
    after = run(po.integrators["euler"](TRACER.compile(grid), 300.0), state, 50, closures)
    assert abs(float(after.sum() / state.sum()) - 1.0) > 1e-3


# --- another solver ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_advection_and_diffusion_agree_with_py_pde():
    # Both use central second-order differences on the same periodic cells and RK4 in the same steps, so they agree to
    # round-off, not just to the order of the scheme.
    pde = pytest.importorskip("pde")
    east, north, kappa, dx, nx, ny = 3.0, -2.0, 1e4, 1e4, 32, 24
    grid = pde.CartesianGrid([[0.0, nx * dx], [0.0, ny * dx]], [nx, ny], periodic=True)

    class AdvectionDiffusion(pde.PDEBase):
        def evolution_rate(self, state, t=0):
            slope = state.gradient("periodic", backend="scipy").data
            curved = state.laplace("periodic", backend="scipy").data
            return pde.ScalarField(state.grid, -east * slope[0] - north * slope[1] + kappa * curved)

    start = np.random.default_rng(0).random((nx, ny))
    how = {"solver": "runge-kutta", "adaptive": False, "backend": "numpy", "tracker": None}
    theirs = AdvectionDiffusion().solve(pde.ScalarField(grid, start), t_range=3600.0, dt=60.0, **how)
    system = po.PDESystem("both", {T: -advection_central2(T, U, V) + UNIT(kappa, "m**2/s") * laplacian(T)})
    step = po.integrators["rk4"](system.compile(po.Grid2D.plane(ny, nx, dx=dx, boundary="periodic")), 60.0)
    ours = run(step, torch.tensor(start.T.copy())[None, None], 60, wind(east, north))
    np.testing.assert_allclose(ours[0, 0].numpy().T, theirs.data, rtol=0, atol=1e-12)
