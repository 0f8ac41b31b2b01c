"""Linear shallow water: Poincaré waves run at their speed, and a bump adjusts to the balanced state."""

import math

import pytest


def analytic(model, k):
    return math.sqrt(model.ROTATION**2 + model.GRAVITY * model.DEPTH * k**2)


@pytest.mark.parametrize("number", [1, 3])
def test_a_plane_wave_has_the_frequency_of_poincare_waves(gallery, backend, number):
    model = gallery("shallow_water")
    k, omega = model.wave_frequency(number, n=64, backend=backend)
    # A central difference sees sin(k dx)/dx instead of k: slower by (k dx)²/6 to leading order, never faster.
    slower = (k * 1.6e6 / 64) ** 2 / 6
    assert 1.0 - slower <= omega / analytic(model, k) <= 1.0
    assert slower < 0.02


def test_the_frequency_is_that_of_the_discrete_equations(gallery):
    model = gallery("shallow_water")
    dx = 1.6e6 / 64
    k, omega = model.wave_frequency(2, n=64)
    # RK4 with 50 steps a period errs by (ω dt)⁴/120 = 2e-6.
    assert omega == pytest.approx(analytic(model, math.sin(k * dx) / dx), rel=1e-5)


def test_the_frequency_converges_at_second_order(gallery):
    model = gallery("shallow_water")
    errors = []
    for n in (32, 64):
        k, omega = model.wave_frequency(2, n=n)
        errors.append(1.0 - omega / analytic(model, k))
    # The next term of the expansion changes the ratio by (k dx)² < 5 % on the coarser grid.
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)


def last_inertial_period(states):
    """Mean over 2π/f = 17.5 h: the inertial waves that are still about drop out."""
    return states[-18:].mean(0).double()


def test_a_bump_adjusts_to_the_balanced_height(gallery, backend):
    model = gallery("shallow_water")
    n, dx = 64, 50e3
    states = model.adjust(48.0, n=n, dx=dx, backend=backend)
    balanced = model.balanced_height(states[0, 2].double().numpy(), dx)
    # The rim pulls the far field to 0 and 50 km cells blur the summit: 5 % of the balanced height.
    assert abs(last_inertial_period(states)[2].numpy() - balanced).max() < 0.05 * balanced.max()
    # Gravity alone would leave nothing: the bump has spread to a third of its height and no further.
    assert balanced.max() == pytest.approx(0.38, abs=0.01)


def test_the_adjusted_wind_blows_along_the_height_lines(gallery):
    model = gallery("shallow_water")
    n, dx = 64, 50e3
    _, v, h = last_inertial_period(model.adjust(48.0, n=n, dx=dx))
    slope = (h[n // 2, 2:] - h[n // 2, :-2]) / (2 * dx)
    geostrophic = model.GRAVITY / model.ROTATION * slope
    middle = slice(n // 4, 3 * n // 4)
    # 18 hourly states are not quite a period: a few per cent of the waves remain.
    assert (v[n // 2, 1:-1] - geostrophic)[middle].abs().max() < 0.05 * geostrophic.abs().max()


@pytest.mark.slow
def test_the_script_draws_its_picture(gallery, tmp_path):
    picture = gallery("shallow_water").main(tmp_path / "waves.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
