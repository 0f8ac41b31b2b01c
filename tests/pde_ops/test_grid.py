"""Geometry of the grid, and borders as ghost cells."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pde_ops as po
from pde_ops.boundaries import Boundary, Rim, pad
from pde_ops.constants import earth_radius
from pde_ops.errors import GridError
from pde_ops.stencils import around, ddx, ddy

LAT, LON = np.linspace(30.0, 45.0, 16), np.linspace(100.0, 119.0, 20)


def test_spacing_is_metric_and_shrinks_poleward():
    grid = po.Grid2D.from_latlon(LAT, LON)
    assert grid.dy == pytest.approx(earth_radius * np.deg2rad(1.0), rel=1e-12)
    assert grid.dx == pytest.approx(earth_radius * np.cos(np.deg2rad(LAT)) * np.deg2rad(1.0), rel=1e-12)
    assert (np.diff(grid.dx) < 0).all()


def test_rows_run_south_to_north_and_columns_west_to_east():
    grid = po.Grid2D.from_latlon(LAT, LON)
    bound = grid.bind(torch.float64, "cpu")
    northward = torch.tensor(LAT)[:, None].expand(16, 20)
    eastward = torch.tensor(LON)[None, :].expand(16, 20)
    assert (ddy(northward, bound)[1:-1] > 0).all()
    assert (ddx(eastward, bound)[:, 1:-1] > 0).all()
    assert (grid.f > 0).all()


def test_the_antimeridian_is_no_border():
    lon = (np.arange(170.0, 190.0) + 180.0) % 360.0 - 180.0
    crossing, plain = po.Grid2D.from_latlon(LAT, lon), po.Grid2D.from_latlon(LAT, np.arange(10.0, 30.0))
    assert crossing.dx == pytest.approx(plain.dx, rel=1e-12)


@pytest.mark.parametrize(
    ("lat", "lon", "complaint"),
    [
        (LAT[::-1], LON, "south to north"),
        (LAT, LON[::-1], "west to east"),
        (np.linspace(60, 89, 16), LON, "projected grid"),
        (np.r_[LAT[:5], LAT[7:]], LON, "evenly spaced"),
        ([np.nan, 1.0], LON, "finite"),
        ([45.0], LON, "at least 2"),
    ],
)
def test_coordinates_that_make_no_grid_are_refused(lat, lon, complaint):
    with pytest.raises(GridError, match=complaint):
        po.Grid2D.from_latlon(lat, lon)


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ({"dx": 0.0}, "positive metres"),
        ({"dx": -1.0}, "positive metres"),
        ({"dx": float("nan")}, "`dx` must be finite, not nan"),
        ({"dx": 1.0, "boundary": "open"}, "open"),
    ],
)
def test_a_plane_needs_positive_spacing_and_a_known_border(bad, complaint):
    with pytest.raises(GridError, match=complaint):
        po.Grid2D.plane(8, 8, **bad)


def test_geometry_cannot_be_changed_afterwards():
    grid = po.Grid2D.plane(4, 4, dx=1.0)
    with pytest.raises(ValueError, match="read-only"):
        grid.dx[0] = 2.0
    with pytest.raises(AttributeError):
        grid.ny = 5


LINE = torch.tensor([[1.0, 2.0, 3.0, 4.0]]).expand(4, 4)


@pytest.mark.parametrize(
    ("kind", "odd", "expected"),
    [
        ("zero_gradient", None, [1, 1, 1, 2, 3, 4, 4, 4]),
        ("periodic", None, [3, 4, 1, 2, 3, 4, 1, 2]),
        ("reflecting", None, [2, 1, 1, 2, 3, 4, 4, 3]),
        ("reflecting", "x", [-2, -1, 1, 2, 3, 4, -4, -3]),
        ("zero_gradient", "x", [1, 1, 1, 2, 3, 4, 4, 4]),
    ],
)
def test_ghost_cells_by_kind_and_parity(kind, odd, expected):
    padded = pad(LINE, 2, Boundary(kind, "periodic"), odd)
    assert padded[2].tolist() == expected
    transposed = pad(LINE.T, 2, Boundary("periodic", kind), "y" if odd else None)
    assert transposed[:, 2].tolist() == expected


@given(
    st.sampled_from(["zero_gradient", "periodic", "reflecting"]),
    st.integers(1, 3),
    st.integers(-3, 3),
    st.integers(-3, 3),
)
def test_interior_shifts_do_not_depend_on_the_border(kind, extra, i, j):
    radius = max(abs(i), abs(j), extra)
    grid = po.Grid2D.plane(9, 10, dx=1.0, boundary=kind)
    a = torch.arange(90.0).reshape(9, 10)
    shifted = around(a, grid.bind(torch.float32, "cpu"), radius)[i, j]
    inner = (slice(3, 6), slice(3, 7))
    assert torch.equal(shifted[inner], a[3 + j : 6 + j, 3 + i : 7 + i])


def test_padding_leaves_its_input_alone_and_passes_gradients_to_the_source_cells():
    a = torch.arange(12.0, dtype=torch.float64).reshape(3, 4).requires_grad_()
    before = a.detach().clone()
    pad(a, 1, Boundary("zero_gradient", "periodic")).sum().backward()
    assert torch.equal(a.detach(), before)
    # each column edge is used twice (itself and its ghost), each row edge likewise by the periodic copy
    assert a.grad.tolist() == [[4, 2, 2, 4], [2, 1, 1, 2], [4, 2, 2, 4]]


def test_a_stencil_wider_than_the_grid_is_refused():
    grid = po.Grid2D.plane(3, 8, dx=1.0)
    with pytest.raises(GridError, match="radius 4 does not fit"):
        around(torch.zeros(3, 8), grid.bind(torch.float32, "cpu"), radius=4)


def test_numbers_and_rows_have_surroundings_too():
    grid = po.Grid2D.plane(4, 5, dx=1.0).bind(torch.float32, "cpu")
    assert around(2.5, grid)[1, 0] == 2.5
    assert around(torch.tensor(2.5), grid)[1, 0].shape == (4, 5)
    assert around(torch.arange(4.0)[:, None], grid)[0, 1][:, 0].tolist() == [1, 2, 3, 3]


def test_the_rim_is_strongest_outside_and_gone_inside():
    grid = po.Grid2D.plane(12, 14, dx=1.0, boundary=Boundary(rim=Rim(width=3, timescale=600.0)))
    rate = grid.rim_rate()
    assert rate[0, 5] == pytest.approx(1 / 600)
    assert rate[1, 5] == pytest.approx((2 / 3) ** 2 / 600)
    assert (rate[3:-3, 3:-3] == 0).all()
    assert (rate == rate[::-1]).all()
    assert (rate == rate[:, ::-1]).all()


@pytest.mark.parametrize("bad", [{"width": 0}, {"timescale": 0.0}, {"timescale": float("inf")}])
def test_a_rim_needs_width_and_time(bad):
    with pytest.raises(GridError):
        Rim(**bad)
