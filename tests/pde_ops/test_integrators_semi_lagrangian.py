"""Semi-Lagrangian transport: interpolation beyond every border, whole-cell shifts, stability at any wind."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pde_ops as po
from pde_ops.boundaries import Boundary, pad
from pde_ops.integrators.interpolation import interpolate
from pde_ops.ops import advection, advection_flux, laplacian

T, u = po.Field("T", "K"), po.Field("u", "m/s")
U, V = po.Closure("U", "m/s"), po.Closure("V", "m/s")
TRACER = po.PDESystem("tracer", {T: -advection(T, U, V)})
BORDERS = ("zero_gradient", "periodic", "reflecting")


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_step(grid, dt=600.0, system=TRACER, **options):
    return po.integrators["semi_lagrangian"](system.compile(grid, semi_lagrangian=True).double(), dt, **options)


def wind(east, north):
    return {"U": torch.as_tensor(east, dtype=torch.float64), "V": torch.as_tensor(north, dtype=torch.float64)}


@pytest.mark.parametrize("method", ["bilinear", "cubic"])
@pytest.mark.parametrize("odd", ["x", "y"])
@pytest.mark.parametrize("kind_y", BORDERS)
@pytest.mark.parametrize("kind_x", BORDERS)
def test_whole_cells_beyond_the_border_are_the_ghost_cells_of_the_stencils(kind_x, kind_y, odd, method):
    boundary = Boundary(kind_x, kind_y)
    values = numbers(1, 1, 5, 6)
    ghosts = pad(values, 3, boundary, odd)[0, 0]
    row, column = torch.meshgrid(torch.arange(-3.0, 8.0), torch.arange(-3.0, 9.0), indexing="ij")
    points = torch.stack([row, column]).double()[None]
    found = interpolate(values, points, boundary, method=method, odd=(odd,))[0, 0]
    torch.testing.assert_close(found, ghosts, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("interpolation", ["bilinear", "cubic"])
@pytest.mark.parametrize("cells", [(1, 0), (0, -1), (3, 2)])
def test_a_wind_of_whole_cells_a_step_shifts_the_field_exactly(cells, interpolation):
    grid = po.Grid2D.plane(8, 9, dx=6e3, dy=3e3, boundary="periodic")
    state = numbers(2, 1, 8, 9)
    east, north = cells
    moved = make_step(grid, interpolation=interpolation)(state, wind(10.0 * east, 5.0 * north))
    torch.testing.assert_close(moved, state.roll((north, east), (-2, -1)), rtol=1e-12, atol=1e-12)


def test_the_width_of_a_row_sets_how_many_cells_its_air_crosses():
    grid = po.Grid2D.from_latlon([10.0, 30.0, 50.0, 70.0], [0.5 * i for i in range(12)], ("periodic", "zero_gradient"))
    state = torch.sin(torch.arange(12, dtype=torch.float64) * (2 * math.pi / 12)).expand(1, 1, 4, 12).contiguous()
    east = torch.as_tensor(grid.dx.copy())[:, None] / 600.0  # one cell of each row in a step
    moved = make_step(grid)(state, wind(east.expand(4, 12), 0.0))
    torch.testing.assert_close(moved, state.roll(1, -1), rtol=1e-12, atol=1e-12)


def test_air_from_beyond_an_open_border_is_like_the_edge():
    grid = po.Grid2D.plane(3, 4, dx=6e3)
    state = torch.arange(12, dtype=torch.float64).reshape(1, 1, 3, 4)
    moved = make_step(grid)(state, wind(1000.0, 0.0))  # a hundred cells in one step
    torch.testing.assert_close(moved, state[..., :1].expand_as(state))


@pytest.mark.parametrize("boundary", BORDERS)
@given(seed=st.integers(0, 10_000), speed=st.floats(0.1, 300.0))
@settings(max_examples=15)
def test_bilinear_transport_never_leaves_the_range_of_the_field_whatever_the_wind(boundary, seed, speed):
    grid = po.Grid2D.plane(7, 8, dx=6e3, boundary=boundary)
    state = numbers(1, 1, 7, 8, seed=seed)
    blowing = wind(speed * numbers(1, 7, 8, seed=seed + 1), speed * numbers(1, 7, 8, seed=seed + 2))
    step = make_step(grid)
    with torch.no_grad():
        later = po.integrate(step, state, 3, blowing)
    assert later.max() <= state.max() + 1e-12
    assert later.min() >= state.min() - 1e-12


@pytest.mark.parametrize("interpolation", ["bilinear", "cubic"])
@given(east=st.floats(-200.0, 200.0), north=st.floats(-200.0, 200.0))
@settings(max_examples=25)
def test_no_wave_grows_in_any_uniform_wind(interpolation, east, north):
    # A pulse holds every wave; the transform of where it goes is the factor of each.
    grid = po.Grid2D.plane(12, 12, dx=6e3, boundary="periodic")
    pulse = torch.zeros(1, 1, 12, 12, dtype=torch.float64)
    pulse[..., 0, 0] = 1.0
    with torch.no_grad():
        factors = torch.fft.fft2(make_step(grid, interpolation=interpolation)(pulse, wind(east, north))).abs()
    assert factors.max() <= 1.0 + 1e-12


@pytest.mark.parametrize("boundary", BORDERS)
@pytest.mark.parametrize("interpolation", ["bilinear", "cubic"])
def test_a_constant_stays_constant(boundary, interpolation):
    grid = po.Grid2D.plane(6, 7, dx=6e3, boundary=boundary)
    state = torch.full((1, 1, 6, 7), 280.0, dtype=torch.float64)
    blowing = wind(30.0 * numbers(1, 6, 7), 30.0 * numbers(1, 6, 7, seed=1))
    moved = make_step(grid, interpolation=interpolation)(state, blowing)
    torch.testing.assert_close(moved, state, rtol=1e-14, atol=0)


@pytest.mark.parametrize("interpolation", ["bilinear", "cubic"])
def test_gradients_reach_field_and_wind(interpolation):
    grid = po.Grid2D.plane(4, 5, dx=6e3, boundary="reflecting")
    step = make_step(grid, interpolation=interpolation)
    state, east, north = numbers(1, 1, 4, 5), 4.0 + 0.3 * numbers(1, 4, 5, seed=1), 3.0 + 0.3 * numbers(1, 4, 5, seed=2)

    def moved(state, east, north):
        return step(state, {"U": east, "V": north})

    inputs = tuple(a.requires_grad_() for a in (state, east, north))
    assert torch.autograd.gradcheck(moved, inputs, fast_mode=True)


def test_a_broken_wind_gives_nan_where_it_blows_and_no_crash():
    grid = po.Grid2D.plane(5, 6, dx=6e3, boundary="periodic")
    east = torch.zeros(1, 5, 6, dtype=torch.float64)
    east[0, 2, 3] = math.nan
    moved = make_step(grid)(numbers(1, 1, 5, 6), wind(east, 0.0))
    assert torch.isnan(moved[0, 0, 2, 3])
    assert torch.isfinite(moved[0, 0, 0]).all()


def test_fields_that_are_not_carried_stay_where_they_are():
    system = po.PDESystem("one of two", {T: -advection(T, U, V), u: 0.0})
    grid = po.Grid2D.plane(5, 6, dx=6e3, boundary="periodic")
    state = numbers(1, 2, 5, 6)
    moved = make_step(grid, system=system)(state, wind(7.0, 0.0))
    assert torch.equal(moved[:, 1], state[:, 1])
    assert not torch.equal(moved[:, 0], state[:, 0])


def test_limits_of_the_remaining_terms_are_made_without_wind():
    system = po.PDESystem("mixed", {T: -advection(T, U, V) + po.Positive("kappa", "m**2/s", init=1e3) * laplacian(T)})
    grid = po.Grid2D.plane(5, 6, dx=6e3, boundary="periodic")
    limits = po.stability.limits(grid, 600.0, max_wind=0.0, system=system)
    step = po.integrators["semi_lagrangian"](system.compile(grid, semi_lagrangian=True, limits=limits), 600.0)
    assert step.inner.dt == 300.0
    windy = system.compile(grid, semi_lagrangian=True, limits=po.stability.limits(grid, 600.0))
    with pytest.raises(po.StabilityError, match="heun: dt = 300 s is beyond"):
        po.integrators["semi_lagrangian"](windy, 600.0)


def test_flux_form_and_several_winds_are_refused_at_compile():
    grid = po.Grid2D.plane(5, 6, dx=6e3)
    with pytest.raises(po.DeclarationError, match="write it once, as the term -advection"):
        po.PDESystem("flux", {T: -advection_flux(T, U, V)}).compile(grid, semi_lagrangian=True)
    with pytest.raises(po.DeclarationError, match="2 different winds"):
        po.PDESystem("two", {T: -advection(T, U, V), u: -advection(u, V, U)}).compile(grid, semi_lagrangian=True)
