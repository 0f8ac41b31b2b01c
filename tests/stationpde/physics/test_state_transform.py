"""Ψ and Ψ⁻¹: exact against MetPy, inverse to each other, bounded, and with a gradient wherever training needs it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stationpde.physics.state import LARGEST_HUMIDITY, OBSERVED, STATE, clipped, to_observed, to_state

mpcalc = pytest.importorskip("metpy.calc")
from metpy.units import units  # noqa: E402

air = st.tuples(
    st.floats(-40, 40), st.floats(-40, 40), st.floats(5e4, 1.05e5), st.floats(235.0, 318.0), st.floats(0.02, 1.0)
)  # fmt: skip
NOWHERE = torch.tensor(1e5)


def sample(dtype=torch.float64):
    rng = np.random.default_rng(0)
    low, high = [-30, -30, 5e4, 230.0, 0.01], [30, 30, 1.05e5, 318.0, 1.0]
    return torch.as_tensor(rng.uniform(low, high, (500, 5)), dtype=dtype)


def test_channels_are_in_the_order_of_the_equations():
    assert OBSERVED == ("u", "v", "p", "t", "rh")
    assert STATE == ("u", "v", "p", "theta", "q")


@given(air)
def test_psi_and_its_inverse_undo_each_other_in_single_precision(values):
    observed = torch.tensor(values, dtype=torch.float32)
    back = to_observed(to_state(observed, NOWHERE))
    # 1e-3 K and 1e-3 % of humidity; wind and pressure pass through untouched.
    assert torch.equal(back[:3], observed[:3])
    assert abs(float(back[3] - observed[3])) < 1e-3
    assert abs(float(back[4] - observed[4])) < 1e-5


def test_psi_agrees_with_metpy():
    observed = sample()
    state = to_state(observed, NOWHERE.double()).numpy()
    _, _, p, t, rh = observed.numpy().T
    p, t = p * units.Pa, t * units.kelvin
    theta = mpcalc.potential_temperature(p, t).to("K").magnitude
    vapour = rh * mpcalc.saturation_vapor_pressure(t)
    q = mpcalc.specific_humidity_from_mixing_ratio(mpcalc.mixing_ratio(vapour, p)).to("kg/kg").magnitude
    np.testing.assert_allclose(state[:, 3], theta, rtol=1e-6)
    np.testing.assert_allclose(state[:, 4], q, rtol=1e-6)


def test_the_gradient_is_not_zero_at_a_relative_humidity_of_101_percent():
    observed = torch.tensor([1.0, 2.0, 9.5e4, 290.0, 1.01], dtype=torch.float64, requires_grad=True)
    (to_state(observed, NOWHERE)[4]).backward()
    assert float(observed.grad[4]) > 1e-3
    state = to_state(observed.detach(), NOWHERE).requires_grad_()
    back = to_observed(state)
    assert back[4].item() == pytest.approx(1.01)
    back[4].backward()
    assert float(state.grad[4]) > 1.0


def test_relative_humidity_is_clipped_at_the_output_only():
    observed = torch.tensor([[0.0, 0.0, 9e4, 280.0, 1.2], [0.0, 0.0, 9e4, 280.0, -0.1]])
    assert clipped(observed)[:, 4].tolist() == [1.0, 0.0]
    assert torch.equal(clipped(observed)[:, :4], observed[:, :4])
    state = to_state(observed[:1].double(), NOWHERE.double())
    assert float(to_observed(state)[0, 4]) == pytest.approx(1.2)


@pytest.mark.parametrize("observed", [
    [0, 0, 1e5, 20.0, 0.5], [0, 0, 1e5, 900.0, 0.5], [0, 0, 10.0, 280.0, 0.5], [0, 0, 9e9, 280.0, 0.5],
    [0, 0, 4e4, 339.0, 50.0], [0, 0, 1e5, 280.0, -3.0],
])  # fmt: skip
def test_impossible_air_stays_finite_with_a_finite_gradient(observed):
    values = torch.tensor(observed, dtype=torch.float32, requires_grad=True)
    state = to_state(values, NOWHERE)
    assert 0.0 <= float(state[4]) <= LARGEST_HUMIDITY * (1 + 1e-6)
    back = to_observed(state)
    back.sum().backward()
    assert torch.isfinite(torch.cat([state, back, values.grad])).all()


def test_humidity_is_bounded_where_vapour_is_nine_tenths_of_the_pressure():
    full = to_state(torch.tensor([0.0, 0.0, 4e4, 339.0, 99.0], dtype=torch.float64), NOWHERE.double())
    assert float(full[4]) == pytest.approx(LARGEST_HUMIDITY)
    wet = to_observed(torch.tensor([0.0, 0.0, 4e4, 400.0, 3.0], dtype=torch.float64))
    assert float(wet[4]) == pytest.approx(float(to_observed(full.clone().index_fill_(0, torch.tensor(3), 400.0))[4]))


def test_a_wild_state_is_read_as_finite_air():
    wild = torch.tensor([[0, 0, -5.0, 1e4, -1.0], [0, 0, 1e7, -50.0, 9.0]], dtype=torch.float32, requires_grad=True)
    observed = to_observed(wild)
    observed.sum().backward()
    assert torch.isfinite(observed).all()
    assert torch.isfinite(wild.grad).all()
    assert bool((observed[:, 4] >= 0).all())


def test_what_is_missing_stays_missing_and_nothing_else():
    nan = float("nan")
    gaps = [[1.0, nan, 9e4, 280.0, 0.5], [1.0, 2.0, 9e4, nan, 0.5], [1.0, 2.0, 9e4, 280.0, nan]]
    state = to_state(torch.tensor(gaps), NOWHERE)
    assert torch.isnan(state).tolist() == [
        [False, True, False, False, False],
        [False, False, False, True, True],
        [False, False, False, False, True],
    ]


def test_a_silent_barometer_is_replaced_by_the_stations_mean_in_theta_and_q_but_not_in_p():
    observed = torch.tensor([0.0, 0.0, 9.4e4, 280.0, 0.5], dtype=torch.float64)
    silent = observed.clone()
    silent[2] = float("nan")
    state, full = to_state(silent, torch.tensor(9.4e4)), to_state(observed, NOWHERE)
    assert torch.isnan(state[2])
    torch.testing.assert_close(state[3:], full[3:], rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_never_reaches_the_thermodynamics(dtype):
    observed = torch.tensor([[3.0, -2.0, 60000.0, 288.0, 0.5]])  # all of them numbers that half precision can hold
    pressure = torch.tensor([60000.0])
    expected = to_state(observed, pressure)
    with torch.autocast("cpu", dtype):
        torch.testing.assert_close(to_state(observed, pressure), expected, rtol=0, atol=0)
        state = to_state(observed.to(dtype), pressure)
    assert state.dtype == torch.float32 and to_observed(expected.to(dtype)).dtype == torch.float32
    # The input was rounded, to eight bits at worst; nothing after it was.
    torch.testing.assert_close(state, to_state(observed.to(dtype).float(), pressure), rtol=0, atol=0)
