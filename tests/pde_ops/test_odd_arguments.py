"""What a user may hand to a compiled system, a grid or an equation by mistake: refused in words, on every backend."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import pde_ops as po
from pde_ops.errors import DeclarationError, GridError, ShapeError, StabilityError, UnknownNameError
from pde_ops.ops import advection, laplacian, relaxation

u, v, T = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("T", "K")
S, ground = po.Closure("S", "K/s"), po.Static("ground", "K")
rate, kappa = po.Positive("rate", "1/s", init=1e-4), po.Positive("kappa", "m**2/s", init=100.0)
GRID = po.Grid2D.plane(6, 7, dx=1e3, boundary="periodic")
TOWN = po.PDESystem(
    "town",
    {
        u: -advection(u, u, v),
        v: -advection(v, u, v),
        T: kappa * laplacian(T) + relaxation(T, ground, rate) + S,
    },
)
STATE = torch.randn(2, 3, 6, 7, generator=torch.Generator().manual_seed(0))
BACKENDS = ["torch", "fused"]


def compiled(backend, system=TOWN, **more):
    return system.compile(GRID, backend=backend, statics={"ground": 288.0}, **more)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("closure", "complaint"),
    [
        (
            torch.zeros(2, 6, 7, device="meta"),
            "'S' is on meta but the state is on cpu",
        ),
        (torch.zeros(2, 6, 7, dtype=torch.complex64), "not of real numbers"),
        (np.zeros((2, 6, 7)), "must be a torch tensor, not numpy.ndarray"),
        (0.0, "must be a torch tensor"),
        (None, "must be a torch tensor"),
    ],
)
def test_a_closure_that_is_no_tensor_of_real_numbers_beside_the_state_is_refused(backend, closure, complaint):
    with pytest.raises(ShapeError, match=complaint):
        compiled(backend)(STATE, {"S": closure})


@pytest.mark.parametrize("backend", BACKENDS)
def test_closures_are_a_table_by_name(backend):
    with pytest.raises(ShapeError, match="must be a dict by name, not list"):
        compiled(backend)(STATE, [torch.zeros(2, 6, 7)])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("factor", [torch.ones(1), torch.ones(4), torch.ones(3, device="meta"), torch.tensor(1.0)])
def test_a_factor_that_is_not_one_number_a_field_is_refused(backend, factor):
    with pytest.raises(ShapeError, match="`factor` must be a tensor"):
        compiled(backend).advance(STATE, {"S": torch.zeros(2, 6, 7)}, 60.0, factor)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "odd",
    [
        {"added": torch.zeros(1, 3, 6, 7)},
        {"decay": torch.zeros(3)},
        {"factor": torch.ones(2)},
        {"every": 0},
        {"steps": 2.5},
    ],
)
def test_a_march_that_does_not_fit_the_state_is_refused(backend, odd):
    march = po.March(**{"dt": 60.0, "steps": 2, **odd})
    with pytest.raises((ShapeError, DeclarationError)):
        compiled(backend).march(STATE, {"S": torch.zeros(2, 6, 7)}, march)


@pytest.mark.parametrize("backend", ["torch", "fused", "auto"])
def test_a_copy_of_a_system_that_ran_computes_the_same_and_has_coefficients_of_its_own(backend):
    closures = {"S": torch.full((2, 6, 7), 1e-4)}
    first = compiled(backend)
    before = first(STATE, closures)
    second = copy.deepcopy(po.integrators["euler"](first, dt=60.0)).tendency
    assert torch.equal(second(STATE, closures), before)
    second.coefficients.assign(rate=5e-4)
    after = second(STATE, closures)
    fresh = compiled("torch")
    fresh.coefficients.assign(rate=5e-4)
    torch.testing.assert_close(after, fresh(STATE, closures))
    assert torch.equal(first(STATE, closures), before)
    torch.testing.assert_close(second.double()(STATE.double(), {"S": closures["S"].double()}).float(), after)


@pytest.mark.parametrize("ground", [None, "warm", torch.ones(6, 7, dtype=torch.complex64), object()])
def test_a_static_that_holds_no_real_numbers_is_refused(ground):
    with pytest.raises(GridError, match="must hold real numbers"):
        TOWN.compile(GRID, statics={"ground": ground})


def test_a_system_is_compiled_for_a_grid_with_a_table_of_statics():
    with pytest.raises(DeclarationError, match="expected a grid, got NoneType"):
        TOWN.compile(None)
    with pytest.raises(ShapeError, match="`statics` must be a dict by name"):
        TOWN.compile(GRID, statics=[1.0])


@pytest.mark.parametrize("number", [np.float32(2.0), np.int64(2), np.float64(2.0)])
def test_numbers_of_numpy_stand_on_either_side(number):
    assert T * number == number * T == 2.0 * T


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_a_number_that_is_not_finite_is_no_part_of_an_equation(number):
    with pytest.raises(DeclarationError, match="finite"):
        number * T
    with pytest.raises(DeclarationError, match="divided by 0"):
        T / 0.0


def test_terms_can_be_summed_and_zero_has_any_unit():
    assert sum([rate * T, rate * T]) == rate * T + rate * T
    assert 0 + T == T - 0.0 == T
    assert 0.0 - T == -T
    with pytest.raises(po.UnitError):
        T + 1.0


@pytest.mark.parametrize("init", ["3", None, [1.0], 1e-320, 1e300, math.nan])
def test_a_coefficient_starts_at_a_number_that_single_precision_holds(init):
    with pytest.raises(DeclarationError, match=r"init|single precision"):
        po.Positive("r", "1/s", init=init)


@pytest.mark.parametrize("name", [3, None, b"a"])
def test_a_name_is_text(name):
    with pytest.raises(DeclarationError, match="identifier"):
        po.Field(name, "K")


@pytest.mark.parametrize("value", ["a", None, torch.ones(2), 1j])
def test_only_numbers_are_assigned_to_coefficients(value):
    tendency = compiled("torch")
    with pytest.raises(DeclarationError, match="`rate` must be a number"):
        tendency.coefficients.assign(rate=value)
    tendency.coefficients.assign(rate=torch.tensor(2e-4))
    assert tendency.parameters_in_units()["rate"].magnitude == pytest.approx(2e-4)


def test_names_that_are_no_text_are_unknown():
    with pytest.raises(UnknownNameError, match="no integrator '3'"):
        po.integrators[3]


@pytest.mark.parametrize("border", [None, 3, ("periodic",), ("periodic",) * 3])
def test_a_border_is_one_name_or_two(border):
    with pytest.raises(GridError, match="a border is one name, two for x and y, or a Boundary"):
        po.Grid2D.plane(4, 4, dx=1e3, boundary=border)


def test_a_nudged_side_is_told_how_a_rim_is_asked_for():
    with pytest.raises(GridError, match="a rim goes all round"):
        po.Grid2D.plane(4, 4, dx=1e3, boundary=("nudged", "periodic"))
    with pytest.raises(GridError, match="must be a Rim"):
        po.Boundary(rim="wide")
    for odd in ({"width": 2.5}, {"width": "4"}, {"timescale": "1"}, {"timescale": None}):
        with pytest.raises(GridError, match="rim needs"):
            po.Rim(**odd)


@pytest.mark.parametrize(
    "odd", [{"ny": 2.5}, {"ny": "4"}, {"ny": -1}, {"nx": None}, {"dx": None}, {"f": [1e-4, 1e-4]}, {"f": "x"}]
)
def test_a_plane_of_what_is_no_number_is_refused(odd):
    size = {"ny": 4, "nx": 4, "dx": 1e3, **odd}
    with pytest.raises(GridError):
        po.Grid2D.plane(size.pop("ny"), size.pop("nx"), **size)


def test_longitudes_that_meet_themselves_are_refused():
    lat = np.linspace(-60.0, 60.0, 5)
    with pytest.raises(GridError, match="meet the first again"):
        po.Grid2D.from_latlon(lat, np.linspace(0.0, 720.0, 17))
    with pytest.raises(GridError, match="meet the first again"):
        po.Grid2D.from_latlon(lat, np.linspace(-180.0, 180.0, 9), boundary=("periodic", "zero_gradient"))
    assert po.Grid2D.from_latlon(lat, np.linspace(-180.0, 135.0, 8), boundary=("periodic", "zero_gradient")).nx == 8
    with pytest.raises(GridError, match="`lat` must be a 1-D array of degrees"):
        po.Grid2D.from_latlon(["north"], [1.0, 2.0])


def test_limits_of_a_coarser_grid_are_refused():
    limits = po.stability.limits(GRID, dt=60.0, max_wind=5.0, system=TOWN)
    with pytest.raises(StabilityError, match="the limits hold for cells of 1000 x 1000 m"):
        TOWN.compile(po.Grid2D.plane(6, 7, dx=10.0), limits=limits, statics={"ground": 288.0})
    assert compiled("torch", limits=limits).limits is limits


@pytest.mark.parametrize("odd", [{"steps": 2.5}, {"steps": "3"}, {"steps": None}, {"steps": 5, "keep": 2.5}])
def test_steps_are_counted_in_whole_numbers(odd):
    step = po.integrators["euler"](compiled("torch"), dt=60.0)
    with pytest.raises(DeclarationError, match="must be a whole number"):
        po.integrate(step, STATE, closures={"S": torch.zeros(2, 6, 7)}, **odd)
    with pytest.raises(ShapeError, match="must be a tensor"):
        po.integrate(step, STATE[0], steps=0)


@pytest.mark.parametrize("backend", ["torch", "fused"])
def test_a_negated_view_counts_with_its_sign(backend):
    field, source = po.Field("T", "K"), po.Closure("source", "K/s")
    right = po.Positive("kappa", "m**2/s", init=1e3) * laplacian(field) + source
    tendency = po.PDESystem("mixed", {field: right}).compile(po.Grid2D.plane(4, 5, dx=1e3), backend=backend)
    state, extra = torch.randn(2, 1, 4, 5), torch.randn(2, 4, 5)
    plain = tendency(-state, {"source": -extra})
    assert torch.equal(tendency(torch._neg_view(state), {"source": torch._neg_view(extra)}), plain)
    state.requires_grad_()
    seeds = (-torch.ones(2, 1, 4, 5), torch._neg_view(torch.ones(2, 1, 4, 5)))
    ours, other = (torch.autograd.grad(tendency(state, {"source": extra}), state, seed)[0] for seed in seeds)
    assert torch.equal(ours, other)


@pytest.mark.parametrize("unit", [None, 3, 1.0, ["m"], object])
def test_a_unit_that_is_none_is_refused_by_name(unit):
    with pytest.raises(po.UnitError, match="is not a unit"):
        po.Field("a", unit)
    with pytest.raises(po.UnitError, match="is not a unit"):
        po.Positive("a", unit, init=1.0)


@pytest.mark.parametrize("backend", ["torch", "fused"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_a_closure_of_another_type_than_the_state_is_refused_by_name(backend: str, dtype: torch.dtype) -> None:
    field, source = po.Field("c", "K"), po.Closure("S_c", "K/s")
    side = po.PDESystem("one", {field: 1.0 * source}).compile(po.Grid2D.plane(4, 5, dx=1.0), backend=backend)
    state, closure = torch.zeros(1, 1, 4, 5), torch.ones(1, 4, 5)
    assert side(state, {"S_c": closure}).dtype == torch.float32
    with pytest.raises(po.ShapeError, match=f"closure 'S_c' is {dtype} but the state is torch.float32"):
        side(state, {"S_c": closure.to(dtype)})
