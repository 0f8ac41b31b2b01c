"""The benchmark measures the right thing: its hand-written forms compute what the system says."""

import pytest
import torch

from pde_ops.benchmarking import eager_step, interleaved, make_problem, surface_system
from pde_ops.benchmarking.gradients import gradient_errors
from pde_ops.benchmarking.ratios import MOVED, measure, pde_step_ratios, triad
from pde_ops.integrators import RangeScaledEuler


@pytest.fixture(scope="module")
def problem():
    return make_problem(2, 9, 11)


def in_float64(problem):
    closures = [value.double() for value in problem.closures.values()]
    coefficients = torch.tensor(list(problem.coefficients.values()), dtype=torch.float64)
    return (
        problem.state.double(),
        closures,
        coefficients,
        eager_step.Geometry.of(problem.grid, torch.float64),
        problem.dt,
    )


def assert_same_step(ours, reference, before):
    # The coefficients of the system are float32 numbers; measured against the increment, not against 1e5 Pa.
    scale = (reference - before).abs().amax((0, 2, 3))
    assert ((ours - reference).abs().amax((0, 2, 3)) / scale).max() < 1e-6


@pytest.mark.parametrize("form", eager_step.FORMS)
def test_every_hand_written_form_is_the_surface_system(problem, form):
    state, closures, coefficients, at, dt = in_float64(problem)
    system = surface_system().compile(problem.grid).double()
    with torch.no_grad():
        reference = system.advance(state, dict(zip(problem.closures, closures, strict=True)), dt)
    assert_same_step(eager_step.step(form, state, closures, coefficients, at, dt), reference, state)


def test_the_range_scaled_form_is_that_of_the_integrator(problem):
    state, closures, coefficients, at, dt = in_float64(problem)
    system = surface_system().compile(problem.grid).double()
    with torch.no_grad():
        step = RangeScaledEuler(system, dt=dt, rule="range")
        reference = step(state, dict(zip(problem.closures, closures, strict=True)))
    assert_same_step(eager_step.range_scaled("faces", state, closures, coefficients, at, dt), reference, state)


def test_the_weather_has_dry_and_saturated_air_and_wind_of_both_signs(problem):
    u, v, p, theta, q = make_problem(4, 32, 48).state.unbind(1)
    excess = q - eager_step._saturation_humidity(theta, p)
    for part in (u, v, excess):
        share = (part > 0).double().mean()
        assert 0.02 < share < 0.98


@pytest.mark.parametrize("backend", ["torch", "fused"])
def test_gradients_are_as_exact_as_promised(backend):
    errors = gradient_errors(make_problem(2, 16, 20), backend)
    assert set(errors) == {"state", "closures", "coefficients"}
    # The project's goal for float32 gradients, parameters included.
    assert max(errors.values()) < 1e-5


def test_the_triad_moves_as_many_floats_as_a_step():
    c = triad(300)()
    assert 3 * c.numel() == MOVED * 300


def test_every_variant_gets_its_turns():
    calls = []
    seconds = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3)
    assert set(seconds) == {"a", "b"}
    assert calls.count("a") >= 6 and calls.count("b") >= 6


@pytest.mark.slow
def test_a_measurement_names_every_variant(problem):
    found = measure(problem, ["torch", "fused"], quick=True)
    assert set(found) == {"forward", "forward_backward", "range_forward", "range_forward_backward"}
    assert set(found["forward"]) == {"eager_slices", "eager_roll", "eager_faces", "torch", "fused", "triad"}
    assert all(value > 0.0 for line in found.values() for value in line.values())


@pytest.mark.slow
def test_the_ratios_have_the_names_that_others_read():
    ratios = pde_step_ratios(quick=True)
    for key in ("forward_vs_eager", "forward_backward_vs_eager", "forward_vs_bound"):
        assert set(ratios[key]) == {"32x32x48", "1x512x768"}
        assert key in ratios["range"]
    assert ratios["gradient_error"] == max(ratios["gradient_errors"].values())
