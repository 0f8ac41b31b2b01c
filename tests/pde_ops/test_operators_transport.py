"""Transport and gradients against what can be worked out by hand."""

from __future__ import annotations

import pytest
import torch

from pde_ops import Field, Grid2D, PDESystem, operators
from pde_ops.ops import (
    advection,
    advection_flux,
    advection_flux_central2,
    advection_upwind1,
    gradient,
    gradient_scale_x,
    gradient_scale_y,
    gradient_x,
    gradient_y,
)

NX, NY, DX, DY = 14, 12, 3000.0, 2000.0


def plane(boundary: str = "zero_gradient") -> Grid2D:
    return Grid2D.plane(NY, NX, dx=DX, dy=DY, boundary=boundary)


def coordinates() -> tuple[torch.Tensor, torch.Tensor]:
    x = (torch.arange(NX, dtype=torch.float64) - 6.0)[None, :] * DX
    y = (torch.arange(NY, dtype=torch.float64) - 5.0)[:, None] * DY
    return x.expand(NY, NX), y.expand(NY, NX)


# A scheme of order n differentiates polynomials of degree n exactly.
@pytest.mark.parametrize(
    ("name", "degree"),
    [
        ("advection", 1),
        ("advection_upwind1", 1),
        ("advection_upwind3", 3),
        ("advection_central2", 2),
        ("advection_central4", 4),
    ],
)
@pytest.mark.parametrize("wind", [(7.0, 3.0), (7.0, -3.0), (-7.0, 3.0), (-7.0, -3.0)])
def test_an_advection_scheme_is_exact_on_polynomials_of_its_degree(
    name: str, degree: int, wind: tuple[float, float]
) -> None:
    x, y = coordinates()
    a = (x / DX) ** degree + 2.0 * (y / DY) ** degree
    u, v = (torch.full_like(a, speed) for speed in wind)
    expected = u * degree * (x / DX) ** (degree - 1) / DX + v * 2.0 * degree * (y / DY) ** (degree - 1) / DY
    result = operators[name](a, u, v, grid=plane())
    torch.testing.assert_close(result[2:-2, 2:-2], expected[2:-2, 2:-2], rtol=1e-11, atol=1e-12)


def test_upwind_advection_looks_only_to_where_the_wind_comes_from() -> None:
    a = torch.zeros(NY, NX, dtype=torch.float64)
    a[5, 6] = 1.0
    u, calm = torch.full_like(a, 10.0), torch.zeros_like(a)
    result = advection_upwind1(a, u, calm, grid=plane())
    expected = torch.zeros_like(a)
    expected[5, 6], expected[5, 7] = 10.0 / DX, -10.0 / DX
    torch.testing.assert_close(result, expected, rtol=1e-14, atol=0.0)


def test_the_default_advection_is_first_order_upwind() -> None:
    torch.manual_seed(0)
    a, u, v = torch.randn(3, NY, NX, dtype=torch.float64)
    assert torch.equal(advection(a, u, v, grid=plane()), advection_upwind1(a, u, v, grid=plane()))


@pytest.mark.parametrize("name", [n for n in operators.list() if operators[n].wind is not None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_number_carried_by_wind_keeps_the_precision_of_the_wind(name: str, dtype: torch.dtype) -> None:
    grid = Grid2D.plane(5, 6, dx=1e4)
    wind = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    result = operators[name](0.1, wind[0], wind[1], grid=grid)  # 0.1 is one number in float32, another in float64
    expected = operators[name](torch.full_like(wind[0], 0.1), wind[0], wind[1], grid=grid)
    assert result.dtype == dtype
    round_off = torch.finfo(dtype).eps  # of ten terms, where wind times 0.1 over 10 km is the size of each
    torch.testing.assert_close(result, expected, rtol=16 * round_off, atol=16 * round_off * 0.1 / 1e4)


@pytest.mark.parametrize("scheme", [advection_flux, advection_flux_central2], ids=lambda s: s.name)
def test_flux_form_dilutes_a_uniform_field_where_the_wind_diverges(scheme: object) -> None:
    x, y = coordinates()
    a = torch.full_like(x, 5.0)
    result = scheme(a, 2e-5 * x, 3e-5 * y, grid=plane())  # type: ignore[operator]
    torch.testing.assert_close(result[1:-1, 1:-1], torch.full_like(a, 5.0 * 5e-5)[1:-1, 1:-1], rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("scheme", [advection_flux, advection_flux_central2], ids=lambda s: s.name)
@pytest.mark.parametrize("boundary", ["reflecting", "periodic", ("periodic", "reflecting")], ids=str)
def test_flux_form_conserves_the_amount_on_a_converging_grid(scheme: object, boundary: str) -> None:
    grid = Grid2D.from_latlon(range(40, 76, 3), range(0, 28, 2), boundary=boundary)
    torch.manual_seed(1)
    a, u, v = torch.rand(NY, NX, dtype=torch.float64), *(20.0 * torch.randn(2, NY, NX, dtype=torch.float64))
    amount = scheme(a, u, v, grid=grid) * torch.tensor(grid.cell_area)[:, None]  # type: ignore[operator]
    assert abs(amount.sum()) < 1e-13 * amount.abs().sum()  # a few hundred roundings of 1e-16


def test_donor_cell_transport_never_empties_an_empty_cell() -> None:
    torch.manual_seed(2)
    a = torch.rand(NY, NX, dtype=torch.float64) * (torch.rand(NY, NX) > 0.5)
    u, v = 20.0 * torch.randn(2, NY, NX, dtype=torch.float64)
    change = -advection_flux(a, u, v, grid=plane("reflecting"))
    assert (change[a == 0.0] >= 0.0).all() and (change > 0.0).any()


def test_gradients_of_a_linear_field_are_its_slopes() -> None:
    x, y = coordinates()
    a = 2e-3 * x - 5e-3 * y
    east, north = gradient(a, grid=plane())
    inner = (slice(3, -3), slice(3, -3))
    for result, slope in (
        (east, 2e-3),
        (north, -5e-3),
        (gradient_x(a, grid=plane()), 2e-3),
        (gradient_y(a, grid=plane()), -5e-3),
        (gradient_scale_x(a, grid=plane()), 2e-3),
        (gradient_scale_y(a, grid=plane()), -5e-3),
    ):
        torch.testing.assert_close(result[inner], torch.full_like(a, slope)[inner], rtol=1e-12, atol=0.0)


def test_the_slope_at_a_scale_spans_that_many_cells() -> None:
    a = torch.zeros(NY, NX, dtype=torch.float64)
    a[6, 9] = 1.0
    result = gradient_scale_x(a, grid=plane(), radius=2)
    assert result[6, 7] == pytest.approx(1.0 / (4.0 * DX), rel=1e-14)
    assert result[6, 8] == 0.0 and result[6, 11] == -result[6, 7]


def test_gradient_of_an_expression_is_a_pair_of_nodes() -> None:
    T = Field("T", "K")
    east, north = gradient(T)
    assert (east.text(), north.text()) == ("∂x T", "∂y T")


def test_without_advection_takes_out_every_scheme() -> None:
    T, u, v = Field("T", "K"), Field("u", "m/s"), Field("v", "m/s")
    names = [name for name in operators.list() if operators[name].family == "advection"]
    assert len(names) == 7
    for name in names:
        system = PDESystem("carried", {T: -operators[name](T, u, v), u: 0.0, v: 0.0})
        assert not list(system.without("advection").calls())
