"""Systems drawn at random from all operators and borders run the same in the fused backend as in torch."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from pde_ops import Closure, Field, Grid2D, PDESystem, Positive, Static, operators, unit_registry
from pde_ops.backends import Inputs, backends
from pde_ops.backends.eager import EagerRunner
from pde_ops.boundaries import Boundary, Rim
from pde_ops.expr import Constant
from pde_ops.testing.strategies import DrawnSystem, systems, worst_difference

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pde_ops.backends.fused.runner") is None, reason="the fused backend is not built"
)

# float64: the same formulas in another order; a term may be a difference of numbers 1e4 times larger (1e-16 · 1e4),
# and a digit is left for sums over the grid. float32: the figure the project promises, gradients included.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5}
# Each example generates and compiles a kernel, which takes a second or two: few here, many where time is.
FEW, MANY = 20, 300
DTYPES = st.sampled_from([torch.float32, torch.float64])
STEPS = st.sampled_from([None, 1000.0])  # the tendency, or a step in which a field changes by about its range


def agree(drawn: DrawnSystem, dtype: torch.dtype, dt: float | None) -> None:
    off = worst_difference(drawn, "fused", dtype, dt=dt)
    assume(not math.isnan(off))
    assert off <= TOLERANCE[dtype], f"fused and torch differ by {off:.1e}"


# No shrinking here: it builds hundreds of kernels. The slow test does shrink.
@pytest.mark.timeout(600)
@settings(max_examples=FEW, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(systems(max_terms=2), DTYPES, STEPS)
def test_fused_equals_torch_on_drawn_systems(drawn: DrawnSystem, dtype: torch.dtype, dt: float | None) -> None:
    agree(drawn, dtype, dt)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=MANY)
@given(systems(), DTYPES, STEPS)
def test_fused_equals_torch_on_many_drawn_systems(drawn: DrawnSystem, dtype: torch.dtype, dt: float | None) -> None:
    agree(drawn, dtype, dt)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_off_is_no_difference_where_a_derivative_vanishes(dtype):
    """The potential temperature of the temperature of θ is θ, whatever the pressure: its derivative is round-off."""
    c, p, theta = Field("c", "1"), Field("p", "Pa"), Closure("theta", "K")
    again = operators["potential_temperature"](operators["temperature"](theta, p), p)
    system = PDESystem("round trip", {c: Constant(1e-6, unit_registry("1/K/s").units) * again, p: 0.0})
    ranges = {"c": (0.5, 1.5), "p": (8e4, 1.05e5), "theta": (210.0, 390.0)}
    drawn = DrawnSystem(system, Grid2D.plane(5, 5, dx=20e3, dy=15e3), ranges, {}, 0, 1)
    assert worst_difference(drawn, "fused", dtype) <= TOLERANCE[dtype]


def test_a_rim_counts_where_the_equations_vanish():
    """Its part of a factor's derivative is a sum over the grid: against nothing, its last digit would be infinite."""
    c, source = Field("c", "1"), Closure("S", "1/s")
    grid = Grid2D.plane(11, 13, dx=20e3, dy=15e3, boundary=Boundary(rim=Rim(width=3, timescale=600.0)))
    drawn = DrawnSystem(PDESystem("still", {c: source}), grid, {"c": (0.0, 1.0), "S": (0.0, 0.0)}, {}, 481, 2)
    assert worst_difference(drawn, "fused", torch.float64, dt=1000.0) <= TOLERANCE[torch.float64]


@settings(max_examples=60)
@given(systems())
def test_drawn_systems_run_and_are_finite(drawn: DrawnSystem) -> None:
    tendency = drawn.system.compile(drawn.grid, statics=drawn.statics()).double()
    result = tendency(drawn.state(), drawn.closures())
    assert result.shape == drawn.state().shape and torch.isfinite(result).all()
    assert any(True for _ in drawn.system.calls())


class Doubled(EagerRunner):
    """A backend that is wrong."""

    def tendency(self, inputs: Inputs) -> torch.Tensor:
        return 2.0 * super().tendency(inputs)


@settings(max_examples=10)
@given(drawn=systems(names=["laplacian", "friction", "advection"], max_fields=2))
def test_a_backend_that_is_wrong_is_noticed(drawn: DrawnSystem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backends._entries, "doubled", Doubled)
        assert worst_difference(drawn, "doubled") > 0.1
    assert worst_difference(drawn, "torch") == 0.0


class SteepSlope(EagerRunner):
    """A backend that is right but for the derivative by coefficients."""

    def tendency(self, inputs: Inputs) -> torch.Tensor:
        c = inputs.coefficients
        return super().tendency(replace(inputs, coefficients=2.0 * c - c.detach()))


def cancelling(boundary: str, dt: float | None) -> tuple[DrawnSystem, float | None]:
    """A field whose slope is taken twice, with opposite signs and speeds that agree in seven digits."""
    c, speed = Field("c", "K"), 78.3887
    k = Positive("k", "m/s", init=speed)
    slope = operators["gradient_x"](c)
    system = PDESystem("cancelling", {c: k * slope - speed * unit_registry("m/s") * slope})
    return DrawnSystem(system, Grid2D.plane(5, 6, dx=2e4, boundary=boundary), {"c": (0.5, 1.5)}, {}, 0, 1), dt


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("boundary", "dt"), [("zero_gradient", None), ("periodic", 1000.0)])
def test_terms_that_cancel_do_not_count_as_a_difference(boundary: str, dt: float | None, dtype: torch.dtype) -> None:
    # Found by the strategy: what is left of the two terms is 1e-8 of them, and so is known to eight digits less.
    drawn, dt = cancelling(boundary, dt)
    assert worst_difference(drawn, "fused", dtype, dt=dt) <= 8 * torch.finfo(dtype).eps


def test_a_wrong_derivative_by_a_coefficient_is_noticed_among_terms_that_cancel() -> None:
    drawn, _ = cancelling("periodic", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backends._entries, "steep", SteepSlope)
        assert worst_difference(drawn, "steep") > 0.01


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_map_fixed_in_time_is_the_same_for_every_sample_of_a_batch(batch: int) -> None:
    # Found by the strategy: the kernel walked out of the map from the second sample on.
    c, u, v = Field("c", "kg/m**3"), Static("wind_u", "m/s"), Static("wind_v", "m/s")
    system = PDESystem("carried", {c: -operators["advection"](c, u, v)})
    grid = Grid2D.plane(6, 7, dx=2e4)
    wind = 10.0 * torch.randn(2, 6, 7, generator=torch.Generator().manual_seed(0))
    state = torch.rand(batch, 1, 6, 7, generator=torch.Generator().manual_seed(1))
    fused, plain = (
        system.compile(grid, backend=name, statics={"wind_u": wind[0], "wind_v": wind[1]})(state)
        for name in ("fused", "torch")
    )
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-9)
