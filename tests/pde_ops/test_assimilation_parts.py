"""The parts of an assimilation by themselves: covariances, windows, observations, coefficients, eigenpairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pde_ops as po
from assimilation_cases import (
    DX,
    GRID,
    MINUTES,
    NX,
    NY,
    PLACES,
    SOURCE,
    normal,
    tracer_problem,
    tracer_step,
    wind,
    windy,
)
from pde_ops.assimilation import (
    AreaMeans,
    Coefficient,
    Diagonal,
    FourDVar,
    Function,
    Gaussian,
    Places,
    Points,
    Source,
    State,
)
from pde_ops.assimilation.conjugate_gradients import conjugate_gradients
from pde_ops.assimilation.covariances import correlation_root
from pde_ops.assimilation.krylov import leading_pairs
from pde_ops.assimilation.latent import LatentCoefficients
from pde_ops.assimilation.quantities import amount_in_si
from pde_ops.assimilation.window import Window
from pde_ops.ops import laplacian
from pde_ops.units import parse_unit

LIKE = torch.zeros((), dtype=torch.float64)


# Covariances


@settings(max_examples=40)
@given(st.integers(2, 30), st.floats(0.05, 5.0), st.booleans())
def test_a_correlation_is_one_on_the_diagonal_and_gaussian(cells: int, spacing: float, is_periodic: bool) -> None:
    root = correlation_root(cells, spacing, is_periodic)
    correlation = root @ root.T
    np.testing.assert_allclose(correlation.diagonal(), 1.0, atol=1e-12)
    assert np.linalg.eigvalsh(correlation).min() > -1e-12
    if not is_periodic:
        distance = spacing * np.abs(np.subtract.outer(np.arange(cells), np.arange(cells)))
        np.testing.assert_allclose(correlation, np.exp(-0.5 * distance**2), atol=1e-12)
    elif spacing * cells > 12.0:  # so long a way round that one image counts
        assert correlation[0, 1] == pytest.approx(math.exp(-0.5 * spacing**2), abs=1e-6)
        assert correlation[0, -1] == pytest.approx(correlation[0, 1])


def covariance_matrix(covariance: Any, grid: po.Grid2D, unit: str = "K") -> np.ndarray:
    root = covariance.root("test", parse_unit(unit), grid, LIKE)
    units = torch.eye(grid.ny * grid.nx, dtype=torch.float64).reshape(-1, 1, grid.ny, grid.nx)
    columns = torch.stack([root.apply(unit)[0] for unit in units]).flatten(1).numpy()
    return columns.T @ columns


def test_a_gaussian_covariance_on_a_plane_is_the_formula() -> None:
    error = 1.0 + np.arange(NY * NX, dtype=float).reshape(NY, NX) / 10.0
    matrix = covariance_matrix(Gaussian((error, "K"), "7 km"), GRID)
    y, x = np.divmod(np.arange(NY * NX), NX)
    squared = (np.subtract.outer(y, y) ** 2 + np.subtract.outer(x, x) ** 2) * DX**2
    expected = np.exp(-0.5 * squared / 7e3**2) * np.outer(error, error)
    np.testing.assert_allclose(matrix, expected, atol=1e-12)


def test_on_a_globe_the_variance_is_right_and_the_correlation_between_the_widths() -> None:
    grid = po.Grid2D.from_latlon(np.linspace(30, 60, 9), np.linspace(0, 30, 8))
    matrix = covariance_matrix(Gaussian("2 degC", "300 km"), grid)
    np.testing.assert_allclose(matrix.diagonal(), 4.0, rtol=1e-12)
    neighbours = matrix.reshape(9, 8, 9, 8)[4, 3, 4, 4] / 4.0
    bounds = np.exp(-0.5 * (grid.dx[[0, -1]] / 3e5) ** 2)
    assert bounds[0] < neighbours < bounds[1]
    assert neighbours == pytest.approx(math.exp(-0.5 * (grid.dx[4] / 3e5) ** 2), abs=0.02)


def test_a_diagonal_covariance_holds_cells_without_an_error() -> None:
    error = np.ones((NY, NX))
    error[0] = 0.0
    matrix = covariance_matrix(Diagonal((error, "K")), GRID)
    np.testing.assert_array_equal(matrix, np.diag(error.ravel() ** 2))


# Windows


@settings(max_examples=60)
@given(st.floats(1.0, 1e4), st.integers(1, 40), st.floats(0.0, 1.0), st.floats(0.01, 1.0))
def test_weights_of_a_window_are_exact_for_what_is_linear_in_time(
    dt: float, steps: int, share: float, part: float
) -> None:
    window = Window(dt, steps)
    for end, over in ((share * window.length, None), (window.length * max(share, part), part * window.length)):
        ((which, weights),) = window.weights("test", np.array([end]), over)
        assert (weights > 0.0).all() and which.min() >= 0 and which.max() <= steps
        assert weights.sum() == pytest.approx(1.0, abs=1e-9)
        expected = end if over is None else end - 0.5 * over
        assert (weights * which * dt).sum() == pytest.approx(expected, abs=2e-6 * dt)


def test_a_mean_over_whole_steps_is_the_trapezoidal_rule() -> None:
    ((which, weights),) = Window(10.0, 6).weights("test", np.array([50.0]), 30.0)
    assert which.tolist() == [2, 3, 4, 5]
    np.testing.assert_allclose(weights, [1 / 6, 1 / 3, 1 / 3, 1 / 6])


# Observations


def equivalents(source: Any) -> Any:
    step = tracer_step()
    state = normal(1, 1, NY, NX, seed=4)
    problem = FourDVar(
        step,
        state,
        window=6,
        controls=[State({"c": Diagonal("1 K")})],
        observations=[source],
        closures=windy,
    )
    with torch.no_grad():
        states = po.integrate(step, state, 6, windy, keep=1)[:, 0, 0]
        return problem.simulation.equivalents(problem.start())[0], states


def test_points_are_bilinear_in_space_and_linear_in_time() -> None:
    source = Points("c", Places([1.25], [2.5]), time=([25.0], "min"), values=([[0.0]], "K"), error="1 K")
    value, states = equivalents(source)
    corners = 0.75 * states[:, 1, 2:4].mean(1) + 0.25 * states[:, 2, 2:4].mean(1)
    assert float(value) == pytest.approx(float(corners[2:4].mean()), rel=1e-12)


def test_means_over_area_and_time_count_cells_by_their_share() -> None:
    area = torch.zeros(NY, NX)
    area[2, 3], area[2, 4] = 1.0, 0.5
    source = AreaMeans("c", area, time="30 min", over="20 min", values=([0.0], "K"), error="1 K")
    value, states = equivalents(source)
    means = (states[:, 2, 3] + 0.5 * states[:, 2, 4]) / 1.5
    assert float(value) == pytest.approx(float(0.25 * means[1] + 0.5 * means[2] + 0.25 * means[3]), rel=1e-12)


def test_a_function_of_fields_is_sampled_and_computed_alike() -> None:
    places = Places([1.0, 3.0], [2.0, 5.0])
    common = {"time": ([10.0, 40.0], "min"), "values": (np.zeros((2, 2)), "K**2"), "error": "1 K**2"}
    sampled, states = equivalents(Points(lambda a: a["c"].square(), places, **common))
    computed, _ = equivalents(Function(lambda a: a["c"].square()[[1, 3], [2, 5]], **common))
    torch.testing.assert_close(sampled, computed, rtol=1e-13, atol=0.0)
    assert float(sampled[3]) == pytest.approx(float(states[4, 3, 5]) ** 2, rel=1e-12)


def test_places_in_metres_and_degrees_are_cells() -> None:
    places = Places.from_metres(GRID, ([2.0, 6.0], "km"), ([2e3, 1e4], "m"))
    np.testing.assert_allclose([places.rows, places.columns], [[0.0, 1.0], [0.0, 2.0]])
    lat, lon = np.linspace(40, 42, 5), np.array([179.0, 179.5, 180.0, -179.5])
    places = Places.from_degrees(lat, lon, [40.25, 42.0], [-179.75, 180.25])
    np.testing.assert_allclose([places.rows, places.columns], [[0.5, 4.0], [2.5, 2.5]])
    with pytest.raises(po.GridError, match="not equally wide"):
        Places.from_metres(po.Grid2D.from_latlon(lat, np.arange(4.0)), "1 km", "1 km")


def test_along_a_periodic_axis_places_lie_anywhere() -> None:
    grid = po.Grid2D.plane(NY, NX, dx=DX, boundary=("periodic", "zero_gradient"))
    Places([2.0], [NX + 2.0]).check_inside("test", grid)
    with pytest.raises(po.ObservationError):
        Places([NY + 2.0], [2.0]).check_inside("test", grid)


@pytest.mark.parametrize("factor", [1.0, 60.0])
def test_units_of_values_and_errors_convert(factor: float) -> None:
    seen = normal(3, 5, seed=3)
    plain = tracer_problem(seen)
    celsius = FourDVar(
        plain.step,
        plain.background,
        window=(factor, "hour") if factor == 1.0 else (factor, "min"),
        controls=[State({"c": Gaussian("2.7 degF", length=(6e3, "m"))})],
        observations=[
            Points("c", PLACES, time=(np.array(MINUTES) / 60, "h"), values=(seen - 273.15, "degC"), error="0.3 degC")
        ],
        closures=windy,
    )
    chi = normal(plain.size, seed=9)
    assert celsius.cost(chi) == pytest.approx(plain.cost(chi), rel=1e-12)


def test_correlated_errors_weigh_by_their_covariance() -> None:
    seen, sizes = normal(3, 5, seed=3), 0.2 + 0.1 * normal(15, seed=1).abs().numpy()
    independent = tracer_problem(seen, error=(sizes.reshape(3, 5), "K"))
    places = Points("c", PLACES, time=(MINUTES, "min"), values=(seen, "K"), covariance=(np.diag(sizes**2), "K**2"))
    dense = FourDVar(
        independent.step, independent.background, window="1 hour",
        controls=[State({"c": Gaussian("1.5 K", length="6 km")})], observations=[places], closures=windy,
    )  # fmt: skip
    chi = normal(dense.size)
    assert dense.cost(chi) == pytest.approx(independent.cost(chi), rel=1e-12)
    torch.testing.assert_close(dense.linearise(chi).gradient, independent.linearise(chi).gradient)


def test_values_that_are_skipped_are_as_if_they_were_not_there() -> None:
    seen = normal(3, 5, seed=3)
    seen[1, 2] = math.nan
    skipped = Points("c", PLACES, time=(MINUTES, "min"), values=(seen, "K"), error="0.3 K", missing="skip")
    full = tracer_problem(torch.nan_to_num(seen, nan=1e3), error=(_huge_at(seen), "K"))
    fewer = FourDVar(
        full.step, full.background, window="1 hour", controls=[State({"c": Gaussian("1.5 K", length="6 km")})],
        observations=[skipped], closures=windy,
    )  # fmt: skip
    assert (fewer.count, full.count) == (14, 15)
    chi = normal(full.size)
    torch.testing.assert_close(fewer.linearise(chi).gradient, full.linearise(chi).gradient, rtol=1e-9, atol=1e-9)


def _huge_at(seen: torch.Tensor) -> np.ndarray:
    return np.where(np.isnan(seen.numpy()), 1e12, 0.3)


# Controls


def test_a_source_is_added_in_pieces_to_the_closure_that_is_given() -> None:
    problem = tracer_problem(controls=[SOURCE])
    chi = normal(problem.size)
    inputs = problem.inputs(chi)
    assert inputs.sources["S"].shape == (2, NY, NX)
    base = torch.full((1, NY, NX), 1e-4, dtype=torch.float64)
    given = tracer_problem(controls=[SOURCE], closures=lambda n: {**wind(n), "S": base * n})
    for step, piece in ((0, 0), (2, 0), (3, 1), (5, 1)):
        corrected = given.simulation.closures_at(step, inputs.sources)["S"]
        torch.testing.assert_close(corrected, base * step + inputs.sources["S"][piece])
    absent = tracer_problem(controls=[SOURCE], closures=wind)  # the source is sought about zero
    assert absent.cost(chi) == pytest.approx(problem.cost(chi), rel=1e-13)


def test_pieces_of_a_source_remember_each_other() -> None:
    source = Source("S", Diagonal("1 K/hour"), every="10 min", memory="20 min")
    problem = tracer_problem(controls=[source])
    ((part, _),) = problem.layout.maps
    columns = [part.increment(unit)[:, 0, 0] for unit in torch.eye(part.size, dtype=torch.float64)]
    matrix = sum(torch.outer(column, column) for column in columns) * 3600.0**2
    lag = np.subtract.outer(np.arange(6), np.arange(6)) * 0.5
    np.testing.assert_allclose(matrix.numpy(), np.exp(-0.5 * lag**2), atol=1e-12)


def coefficients_of(cap: float | None, factor: float) -> LatentCoefficients:
    k = po.Positive("k", "km**2/hour", init=20.0, cap=cap)
    tendency = po.PDESystem("mixing", {po.Field("c", "K"): k * laplacian(po.Field("c", "K"))}).compile(GRID).double()
    return LatentCoefficients(tendency, [Coefficient("k", factor)])


@settings(max_examples=25)
@given(st.floats(1.01, 20.0), st.floats(-3.0, 3.0))
def test_a_coefficient_is_lognormal_in_its_factor(factor: float, chi: float) -> None:
    latent = coefficients_of(None, factor)
    value = latent.values(latent.raw(torch.tensor([chi], dtype=torch.float64)))
    assert float(value[0]) == pytest.approx(20e6 / 3600.0 * factor**chi, rel=1e-6)  # the start is stored in single


def test_a_coefficient_never_reaches_its_cap() -> None:
    latent = coefficients_of(30.0, 1.5)
    chi = torch.tensor([0.0], dtype=torch.float64, requires_grad=True)
    value = latent.values(latent.raw(chi))[0]
    (slope,) = torch.autograd.grad(value, chi)
    assert float(slope[0] / value.detach()) == pytest.approx(math.log(1.5), rel=1e-9)
    far = latent.values(latent.raw(torch.tensor([8.0], dtype=torch.float64)))
    assert float(value.detach()) < float(far[0]) <= 30e6 / 3600.0


# Linear algebra


def test_conjugate_gradients_solve_in_as_many_products_as_there_are_eigenvalues() -> None:
    basis = torch.linalg.qr(normal(20, 20))[0]
    matrix = basis @ torch.diag(torch.tensor([1.0] * 15 + [10.0] * 3 + [400.0] * 2).double()) @ basis.T
    right = normal(20, seed=1)
    solution, residual, products = conjugate_gradients(lambda v: matrix @ v, right, 1e-10, 50)
    assert products == 3
    torch.testing.assert_close(matrix @ solution, right)
    assert residual < 1e-10


@pytest.mark.parametrize("rank", [40, 200])
def test_leading_pairs_are_those_of_the_matrix_and_equal_ones_are_told_apart(rank: int) -> None:
    values = torch.cat([torch.tensor([300.0, 40.0, 40.0, 7.0, 1.0, 1.0, 0.3]), torch.zeros(53)]).double()
    basis = torch.linalg.qr(normal(60, 60))[0]
    matrix = basis @ torch.diag(values) @ basis.T
    found, vectors, unresolved = leading_pairs(lambda v: matrix @ v, 60, LIKE, rank, 0.01, seed=0)
    torch.testing.assert_close(found, values[:7], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(7, dtype=torch.float64), rtol=0, atol=1e-10)
    torch.testing.assert_close(vectors.T @ vectors, basis[:, :7] @ basis[:, :7].T, rtol=0, atol=1e-3)
    assert unresolved <= 0.01


def test_pairs_beyond_the_rank_are_reported() -> None:
    matrix = torch.diag(torch.linspace(100.0, 1.0, 50, dtype=torch.float64))
    found, _, unresolved = leading_pairs(lambda v: matrix @ v, 50, LIKE, 20, 0.01, seed=0)
    assert len(found) < 20
    assert unresolved > 1.0


def test_amounts_are_read_as_typed() -> None:
    kelvin = parse_unit("K")
    assert amount_in_si("x", "-2.5e1 degC", kelvin)[0] == pytest.approx(248.15)
    assert amount_in_si("x", "2 degF", kelvin, difference=True)[0] == pytest.approx(2 / 1.8)
    assert amount_in_si("x", po.unit_registry.Quantity([1.0, 2.0], "hPa"), None)[0].tolist() == [100.0, 200.0]
    for amount in (3.0, "three K", None, ([1.0], 5), "K"):
        with pytest.raises(po.UnitError):
            amount_in_si("x", amount, kelvin)
