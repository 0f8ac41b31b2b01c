"""Components of a vector behind a reflecting wall, in every operator and on every backend."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pde_ops as po
from pde_ops import Closure, DeclarationError, Field, Grid2D, PDESystem, Positive, Static, elementwise, operators
from pde_ops.backends.fused.ir import Graph
from pde_ops.backends.fused.symbol import Sym
from pde_ops.backends.inductor import InductorRunner
from pde_ops.ops import advection, gradient_x, gradient_y, hyperdiffusion, laplacian, vorticity
from pde_ops.parity import Turned, plain, product, shared, turned
from pde_ops.stencils import around, ddx

N, DX = 12, 1e4
WALLS = ("reflecting", "reflecting")


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unfolded(a: torch.Tensor, parity: str) -> torch.Tensor:
    """The field on a periodic plane twice as wide each way, of which walls show one quarter: the method of images."""
    east = -a.flip(-1) if "x" in parity else a.flip(-1)
    wide = torch.cat([a, east], -1)
    north = -wide.flip(-2) if "y" in parity else wide.flip(-2)
    return torch.cat([wide, north], -2)


def tendency_between_walls(equation: Any, boundary: Any = WALLS, backend: str = "torch", nx: int = N) -> Any:
    """Compile ``da/dt = equation(a, u, v)`` with a wind that rests, on a plane."""
    a, u, v = (Field(n, "m/s", component=c) for n, c in (("a", None), ("u", "x"), ("v", "y")))
    right = equation(a, u, v)
    result = Field("result", right.unit * po.unit_registry.second)
    system = PDESystem("images", {result: right, a: 0.0, u: 0.0, v: 0.0})
    grid = Grid2D.plane(N, nx, dx=DX, dy=0.8 * DX, boundary=boundary)
    return system.compile(grid, backend=backend).double()


STENCILS = {
    "laplacian": (lambda a, u, v: laplacian(u), "x"),
    "laplacian of the northward wind": (lambda a, u, v: laplacian(v), "y"),
    "fourth order": (lambda a, u, v: operators["laplacian4"](u), "x"),
    "three cells away": (lambda a, u, v: operators["laplacian_scale"](v, radius=3), "y"),
    "applied twice": (lambda a, u, v: hyperdiffusion(u), "x"),
    "variable diffusivity": (lambda a, u, v: operators["diffusion"](u, (a * a) * UNIT_MIXING), "x"),
    "advection": (lambda a, u, v: advection(v, u, v), "y"),
    "upwind-3": (lambda a, u, v: operators["advection_upwind3"](u, u, v), "x"),
    "flux form": (lambda a, u, v: operators["advection_flux"](u, u, v), "x"),
    "slope": (lambda a, u, v: gradient_x(u), ""),
    "slope along the wall": (lambda a, u, v: gradient_y(u), "xy"),
    "slope of a slope": (lambda a, u, v: gradient_x(gradient_x(a)), ""),
    "curvature of a slope": (lambda a, u, v: laplacian(gradient_y(a)), "y"),
    "curvature of the vorticity": (lambda a, u, v: laplacian(vorticity(u, v)), "xy"),
    "product of components": (lambda a, u, v: laplacian(u * v), "xy"),
    "square of a component": (lambda a, u, v: laplacian(u * u / a), ""),
    "after friction": (lambda a, u, v: laplacian(operators["friction"](u, Positive("r", "1/s", init=0.5))), "x"),
}
UNIT_MIXING = Positive("mixing", "s", init=1.0, learnable=False)


def images_agree(name: str, backend: str) -> float:
    equation, parity = STENCILS[name]
    state = noise(2, 4, N, N)
    state[:, 1] = state[:, 1].abs() + 1.0  # away from 0: one of them divides by it
    quarter = tendency_between_walls(equation, backend=backend)(state)[:, 0]
    whole = torch.stack([unfolded(state[:, k], p) for k, p in enumerate(("", "", "x", "y"))], dim=1)
    a, u, v = (Field(n, "m/s") for n in ("a", "u", "v"))
    right = equation(a, u, v)
    system = PDESystem("images", {Field("result", right.unit * po.unit_registry.second): right, a: 0.0, u: 0.0, v: 0.0})
    periodic = system.compile(Grid2D.plane(2 * N, 2 * N, dx=DX, dy=0.8 * DX, boundary="periodic")).double()
    expected = periodic(whole)[:, 0]
    # The images must themselves be what is claimed, or the comparison proves nothing.
    torch.testing.assert_close(unfolded(expected[..., :N, :N], parity), expected, rtol=1e-9, atol=1e-30)
    off, size = (quarter - expected[..., :N, :N]).detach().abs().max(), expected.detach().abs().max()
    return float(off / size)


@pytest.mark.parametrize("backend", ["torch", "fused"])
@pytest.mark.parametrize("name", STENCILS)
def test_a_wall_gives_what_the_mirror_image_beyond_it_would(name: str, backend: str) -> None:
    assert images_agree(name, backend) < 1e-12  # round-off of the largest value


def test_a_wind_that_is_not_declared_a_component_is_mirrored_like_a_scalar() -> None:
    u = Field("u", "m/s")
    grid = Grid2D.plane(N, N, dx=DX, boundary=WALLS)
    state = noise(1, 1, N, N)
    got = PDESystem("scalar", {u: Positive("kappa", "m**2/s", init=1.0) * laplacian(u)}).compile(grid).double()(state)
    torch.testing.assert_close(got[:, 0], laplacian(state[:, 0], grid=grid))


@pytest.mark.parametrize("boundary", ["periodic", "zero_gradient", "nudged"])
def test_a_component_means_nothing_where_there_is_no_wall(boundary: str) -> None:
    plain_u, named_u = Field("u", "m/s"), Field("u", "m/s", component="x")
    grid = Grid2D.plane(N, N, dx=DX, boundary=boundary)
    kappa = Positive("kappa", "m**2/s", init=1.0)
    programs = [PDESystem("one", {u: kappa * laplacian(u)}).compile(grid).program for u in (plain_u, named_u)]
    assert programs[0].nodes == programs[1].nodes


@pytest.mark.parametrize("backend", ["torch", "fused"])
@pytest.mark.parametrize("component", [None, "x"])
def test_a_standing_wave_between_walls_keeps_its_energy(component: Any, backend: str) -> None:
    r"""∂u/∂t = -g ∂h/∂x, ∂h/∂t = -H ∂u/∂x in a closed box: nothing leaves, so E = Σ (H u² + g h²)/2 stays.

    Written with the slope of a scalar, which does not know by itself that u is a component.
    """
    u, h = Field("u", "m/s", component=component), Field("h", "m")
    g, depth = (Positive(n, unit, init=10.0, learnable=False) for n, unit in (("g", "m/s**2"), ("H", "m")))
    box = PDESystem("standing wave", {u: -g * gradient_x(h), h: -depth * gradient_x(u)})
    nx = 24
    grid = Grid2D.plane(3, nx, dx=DX, boundary=WALLS)
    phase = math.pi * (torch.arange(nx, dtype=torch.float64) + 0.5) / nx
    state = torch.stack([torch.zeros(nx, dtype=torch.float64), torch.cos(phase)])[None, :, None].expand(1, 2, 3, nx)
    tendency = box.compile(grid, backend=backend).double()
    period = 2.0 * math.pi * DX / (10.0 * math.sin(math.pi / nx))  # of this wave on this grid, √(gH) = 10 m/s
    # With 200 steps a period, RK4 damps by (ω dt)⁶/72 a step, 1e-8 in two periods, and lags by (ω dt)⁴/120.
    step = po.integrators["rk4"](tendency, dt=period / 200)
    with torch.no_grad():
        states = po.integrate(step, state, steps=400, keep=20)[:, 0]
    energy = states.square().mean((1, 2, 3))
    change = float((energy / energy[0] - 1.0).abs().max())
    if component is None:
        assert change > 0.05  # what the declaration is for
    else:
        assert change < 2e-8
        assert float((states[-1] - states[0]).abs().max()) < 1e-6  # and the wave is back where it was


@pytest.mark.parametrize("mode", [1, 2, 5])
def test_friction_inside_a_closed_box_damps_each_wave_at_its_own_rate(mode: int) -> None:
    # sin(m π x/L) vanishes at both walls: it is an eigenfunction of the Laplacian only if it is odd across them.
    u = Field("u", "m/s", component="x")
    grid = Grid2D.plane(4, N, dx=DX, boundary=WALLS)
    wave = torch.sin(mode * math.pi * (torch.arange(N, dtype=torch.float64) + 0.5) / N).expand(1, 1, 4, N)
    kappa = Positive("kappa", "m**2/s", init=1.0)
    got = PDESystem("damped", {u: kappa * laplacian(u)}).compile(grid).double()(wave)
    rate = -((2.0 / DX * math.sin(0.5 * mode * math.pi / N)) ** 2)
    torch.testing.assert_close(got, rate * wave, rtol=1e-6, atol=1e-14 * abs(rate))  # kappa is kept in float32


def test_gradients_of_both_backends_agree_behind_walls() -> None:
    u, v, c = Field("u", "m/s", component="x"), Field("v", "m/s", component="y"), Field("c", "K")
    kappa, nu = Positive("kappa", "m**2/s", init=1e3), Positive("nu", "m**4/s", init=1e11)
    source = Closure("S", "m/s", component="y")
    wind = Static("wind", "m/s", component="x")
    system = PDESystem("all at once", {
        u: -advection(u, u, v) + kappa * laplacian(u + wind) + nu * hyperdiffusion(u),
        v: -operators["advection_upwind3"](v, wind, v) + kappa * laplacian(v + source),
        c: -operators["advection_flux"](c, u, v) + c * gradient_x(u) - c * gradient_y(source),
    })  # fmt: skip
    grid = Grid2D.from_latlon([40.0 + k for k in range(7)], [10.0 + k for k in range(9)], boundary=("reflecting",) * 2)
    found = []
    for backend in ("torch", "fused"):
        tendency = system.compile(grid, backend=backend, statics={"wind": noise(7, 9, seed=3)}).double()
        leaves = [noise(2, 3, 7, 9).requires_grad_(), noise(2, 7, 9, seed=1).requires_grad_()]
        result = tendency(leaves[0], {"S": leaves[1]})
        loss = (result * noise(2, 3, 7, 9, seed=2)).sum()
        found.append([result, *torch.autograd.grad(loss, [*leaves, tendency.coefficients.raw])])
    for fused, eager in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(fused, eager, rtol=1e-10, atol=1e-12 * float(eager.abs().max()))


def test_calls_of_different_parity_are_not_stacked_into_one() -> None:
    fields = [Field("u", "m/s", component="x"), Field("v", "m/s", component="y"), Field("a", "m/s"), Field("b", "m/s")]
    kappa = Positive("kappa", "m**2/s", init=1.0)
    tendency = PDESystem("four", {f: kappa * laplacian(f) for f in fields}).compile(
        Grid2D.plane(N, N, dx=DX, boundary=WALLS)
    )
    calls = [
        len(group.members)
        for group in tendency.runner.groups
        if tendency.program.nodes[group.members[0]].kind == "call"
    ]
    assert sorted(calls) == [1, 1, 2]


def test_a_step_between_walls_traces_as_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InductorRunner, "compiler", "aot_eager")
    for equation in (STENCILS["flux form"][0], STENCILS["applied twice"][0], STENCILS["upwind-3"][0]):
        state = noise(1, 4, N, N)
        got = tendency_between_walls(equation, backend="inductor")(state)
        expected = tendency_between_walls(equation)(state)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-14 * float(expected.abs().max()))


@pytest.mark.parametrize("interpolation", ["bilinear", "cubic"])
def test_semi_lagrangian_transport_between_walls_is_that_of_the_mirror_images(interpolation: str) -> None:
    def after(state: torch.Tensor, boundary: Any, components: tuple[Any, Any]) -> torch.Tensor:
        u, v = (Field(n, "m/s", component=c) for n, c in zip(("u", "v"), components, strict=True))
        carried = PDESystem("carried", {f: -advection(f, u, v) for f in (u, v, Field("c", "K"))})
        grid = Grid2D.plane(*state.shape[-2:], dx=DX, boundary=boundary)
        tendency = carried.compile(grid, semi_lagrangian=True).double()
        return po.integrators["semi_lagrangian"](tendency, dt=0.7 * DX, interpolation=interpolation)(state)

    state = noise(1, 3, N, N)  # m/s, and 0.7 cells a step for each of them
    whole = torch.stack([unfolded(state[:, k], p) for k, p in enumerate(("x", "y", ""))], dim=1)
    expected = after(whole, "periodic", (None, None))[..., :N, :N]
    torch.testing.assert_close(after(state, WALLS, ("x", "y")), expected, rtol=1e-12, atol=1e-12)


def test_one_name_with_two_components_is_refused() -> None:
    u = Field("u", "m/s", component="x")
    other = Field("u", "m/s")
    kappa = Positive("kappa", "m**2/s", init=1.0)
    with pytest.raises(DeclarationError, match=r"two symbols are called 'u'.*x-component"):
        PDESystem("twice", {u: kappa * laplacian(other)}).compile(Grid2D.plane(4, 4, dx=1.0))
    with pytest.raises(DeclarationError, match="'x', 'y' or None, not 'z'"):
        Field("w", "m/s", component="z")  # type: ignore[arg-type]


def test_the_documentation_of_a_system_says_what_is_a_component() -> None:
    u = Field("u", "m/s", component="x")
    text = PDESystem("one", {u: Positive("kappa", "m**2/s", init=1.0) * laplacian(u)}).to_markdown()
    assert "| $u$ `u` | field, x-component | m/s |" in text


PARITIES = st.sampled_from(["", "x", "y", "xy"])


@given(PARITIES, PARITIES, PARITIES)
def test_parities_multiply_like_signs(a: str, b: str, c: str) -> None:
    assert product(a, b) == product(b, a) and product(a, "") == a and product(a, a) == ""
    assert product(product(a, b), c) == product(a, b, c)
    assert shared(a, a) == a and (shared(a, b) == "" or a == b)


@pytest.mark.parametrize(
    ("combine", "parity"),
    [
        (lambda a, b: a + b, ""),
        (lambda a, b: b - a, ""),
        (lambda a, b: a - 2.0 * a, "x"),
        (lambda a, b: 0.0 - a, "x"),
        (lambda a, b: a + 1.0, ""),
        (lambda a, b: b * a, "x"),
        (lambda a, b: b / a, "x"),
        (lambda a, b: 2.0 / a, "x"),
        (lambda a, b: a * a, ""),
        (lambda a, b: a**3, "x"),
        (lambda a, b: a**2, ""),
        (lambda a, b: a**b, ""),
        (lambda a, b: torch.sub(b, a), ""),
        (lambda a, b: torch.div(a, b), "x"),
        (lambda a, b: elementwise.where(b > 0.0, a, -a), "x"),
        (lambda a, b: elementwise.positive_part(a), "x"),
        (lambda a, b: elementwise.maximum(a, b), ""),
        (lambda a, b: elementwise.sin(a) + elementwise.tanh(a), "x"),
        (lambda a, b: elementwise.cos(a) + elementwise.exp(a) + elementwise.absolute(a) + abs(a), ""),
    ],
)
def test_tensors_and_symbols_carry_the_same_parity(combine: Any, parity: str) -> None:
    a, b = noise(4, 5).abs() + 0.5, noise(4, 5, seed=1)
    result = combine(Turned(a, "x"), b)
    assert (result.parity if isinstance(result, Turned) else "") == parity
    torch.testing.assert_close(plain(result), combine(a, b))
    graph = Graph()
    assert combine(Sym(graph, graph.cell(0), "x"), Sym(graph, graph.cell(1))).parity == parity


def test_a_body_written_with_torch_is_turned_too() -> None:
    grid = Grid2D.plane(5, 6, dx=1.0, boundary=WALLS)
    bound = grid.bind(torch.float64, "cpu")
    a, weight = noise(5, 6), noise(5, 6, seed=1).abs()

    def with_methods(a: Any) -> Any:
        twice = torch.mul(weight, a.neg()).sub(a, alpha=2.0)
        return around(torch.where(weight > 0.5, twice, 0.0), bound)[1, 0] + weight * torch.exp(a).mean()

    def with_operators(a: Any, odd: Any) -> Any:
        twice = weight * -a - 2.0 * a
        return (
            around(torch.where(weight > 0.5, twice, torch.zeros_like(a)), bound, odd=odd)[1, 0]
            + weight * a.exp().mean()
        )

    got = with_methods(Turned(a, "x"))
    torch.testing.assert_close(plain(got), with_operators(a, "x"))
    # An axis that the body names itself is turned back by the parity of the argument.
    torch.testing.assert_close(plain(ddx(turned(a, "x"), bound, odd="x")), ddx(a, bound))
