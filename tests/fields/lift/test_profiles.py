"""The fitted plane and the hydrostatic law: exact where they can be, sober where they cannot."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fields.constants import R_d, T_standard, g, lapse_standard, p_standard
from fields.lift.profiles import PRIORS, LocalPositions, fit_plane, hydrostatic, reduced, restored

T = PRIORS["t"]


def places(count, seed=0, relief=2000.0):
    draw = np.random.default_rng(seed)
    x, y = draw.uniform(-5e5, 5e5, (2, count))
    z = draw.uniform(0.0, relief, count)
    return LocalPositions(x, y, z, z)


def fit(values, where, prior=T):
    return fit_plane(np.atleast_2d(values), where, where.z, prior, np)


@given(
    seed=st.integers(0, 1000),
    count=st.integers(3, 60),
    lapse=st.floats(-0.0119, 0.0119),
    level=st.floats(230.0, 310.0),
)
def test_an_atmosphere_linear_in_altitude_is_fitted_exactly(seed, count, lapse, level):
    where = places(count, seed)
    if np.ptp(where.z) < 10.0:
        return
    plane = fit(level - lapse * where.z, where)
    # The least scatter that the fit assumes is 1e-5 of 1.5 K: nothing beside the fitted 12 K/km.
    assert plane.along_z[0, 0] == pytest.approx(-lapse, abs=1e-8)
    np.testing.assert_allclose(plane.at(where, where.z)[0], level - lapse * where.z, atol=1e-5)


def test_a_horizontal_gradient_does_not_pass_for_a_lapse():
    where = places(40)
    where = LocalPositions(where.x, where.y, 1000.0 + where.y / 1e3 + 300.0 * np.sin(where.x), where.z)
    values = 290.0 - 0.0065 * where.z + 8e-6 * where.y
    plane = fit(values, where)
    assert plane.along_z[0, 0] == pytest.approx(-0.0065, abs=1e-8)
    assert plane.along_y[0, 0] == pytest.approx(8e-6, rel=1e-4)


def test_a_broken_sensor_hardly_moves_the_lapse():
    where = places(30)
    values = 290.0 - 0.005 * where.z + np.random.default_rng(1).normal(0, 0.5, 30)
    honest = fit(values, where).along_z[0, 0]
    values[int(np.argmax(where.z))] += 40.0
    # By least squares this outlier at the summit would move it by 4 K/km.
    assert fit(values, where).along_z[0, 0] == pytest.approx(honest, abs=4e-4)


@pytest.mark.parametrize("count", [0, 1])
def test_without_a_second_station_the_lapse_is_the_usual_one(count):
    where = places(5)
    values = np.full(5, np.nan)
    values[:count] = 280.0
    plane = fit(values, where)
    assert plane.along_z[0, 0] == pytest.approx(-lapse_standard)
    expected = 280.0 if count else T_standard - lapse_standard * (where.z[0] - where.z.mean())
    assert plane.at(where, where.z)[0, 0] == pytest.approx(expected)


def test_two_stations_are_believed_in_part():
    where = places(2)
    measured = 2e-3
    slope = fit(280.0 + measured * where.z, where).along_z[0, 0]
    assert -lapse_standard < slope < measured


def test_stations_of_one_altitude_give_the_usual_lapse():
    where = places(20)
    where = LocalPositions(where.x, where.y, np.full(20, 400.0), np.full(20, 400.0))
    values = 285.0 + np.random.default_rng(0).normal(0, 1, 20)
    assert fit(values, where).along_z[0, 0] == pytest.approx(-lapse_standard, abs=1e-9)


def test_a_slope_stays_within_its_bound():
    where = places(30)
    assert fit(200.0 + 0.05 * where.z, where).along_z[0, 0] == T.bound


def test_noise_draws_the_slope_towards_the_usual_one_the_more_the_fewer_stations_there_are():
    pulls = []
    for count in (4, 12, 60):
        where = places(count, seed=3, relief=400.0)
        noise = np.random.default_rng(0).normal(0, 1.5, (200, count))
        plane = fit_plane(290.0 + 0.0 * where.z + noise, where, where.z, T, np)
        pulls.append(np.median(plane.along_z))
    assert pulls[0] < pulls[1] < pulls[2] < 0.0


def test_moments_are_fitted_one_by_one():
    where = places(25)
    values = np.stack([280.0 - s * where.z for s in (0.002, 0.006, -0.003)])
    values[1, :5] = np.nan
    together = fit_plane(values, where, where.z, T, np).along_z[:, 0]
    alone = [fit(row, where).along_z[0, 0] for row in values]
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_numpy_and_torch_fit_the_same_plane():
    where = places(40)
    values = 285.0 - 0.004 * where.z + np.random.default_rng(2).normal(0, 1, (6, 40))
    values[np.random.default_rng(3).random(values.shape) < 0.2] = np.nan
    here = fit_plane(values, where, where.z, T, np)
    tensors = LocalPositions(*(torch.from_numpy(a) for a in (where.x, where.y, where.z, where.z)))
    there = fit_plane(torch.from_numpy(values), tensors, tensors.z, T, torch)
    for name in ("level", "along_x", "along_y", "along_z"):
        np.testing.assert_allclose(getattr(there, name).numpy(), getattr(here, name), rtol=1e-9, atol=1e-15)


@given(
    warm=st.floats(220.0, 320.0), lapse=st.floats(-0.012, 0.012), z=st.floats(-400.0, 8000.0), p=st.floats(3e4, 1.08e5)
)
def test_reduction_and_restoration_undo_each_other(warm, lapse, z, p):
    arrays = [np.array([v]) for v in (p, warm, lapse, z)]
    back = restored(reduced(*arrays, np), *arrays[1:], np)
    np.testing.assert_allclose(back, p, rtol=1e-12)


def test_the_hydrostatic_law_is_the_standard_atmosphere():
    z = np.array([0.0, 1000.0, 5000.0])
    expected = p_standard * (1 - lapse_standard * z / T_standard) ** (g / (R_d * lapse_standard))
    pressure = p_standard * np.exp(hydrostatic(T_standard, np.full(3, lapse_standard), z, np))
    np.testing.assert_allclose(pressure, expected, rtol=1e-13)


@given(lapse=st.floats(-1e-6, 1e-6), z=st.floats(-400.0, 5000.0))
def test_the_law_passes_smoothly_through_isothermal_air(lapse, z):
    log_ratio = hydrostatic(np.array([280.0]), np.array([lapse]), np.array([z]), np)[0]
    # Second order of Γz/T, which is below 2e-5 here.
    assert log_ratio == pytest.approx(-g * z / (R_d * 280.0) * (1 + lapse * z / 560.0), rel=1e-8, abs=1e-12)


def test_gradients_of_the_law_are_finite_at_zero_lapse_and_zero_altitude():
    warm, lapse, z = (torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in (280.0, 0.0, 0.0))
    hydrostatic(warm, lapse, z, torch).sum().backward()
    assert all(torch.isfinite(v.grad).all() for v in (warm, lapse, z))
