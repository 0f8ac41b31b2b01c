"""The inverse problem: the coefficients come back, as exactly as the noise allows."""

import pytest
import torch


@pytest.fixture(scope="module")
def fitted(gallery):
    model = gallery("inverse")
    _, seen = model.observe(backend="fused")
    return model, *model.fit(seen, backend="fused")


def test_both_coefficients_are_found_within_the_noise(fitted):
    model, step, path = fitted
    errors = model.standard_errors(step)
    for name, true in model.TRUTH.items():
        # 4 standard errors: noise alone throws the estimate further once in 16,000 draws, and the draw is fixed.
        assert abs(path[-1][name] - true) < 4.0 * errors[name]
        assert errors[name] < 0.04 * true


def test_the_first_guess_was_far_off(fitted):
    model, _, path = fitted
    for name, true in model.TRUTH.items():
        assert not 0.5 < path[0][name] / true < 2.0


def test_the_fit_is_converged(fitted):
    # One iteration more moves the estimate by less than a tenth of what the noise does.
    model, step, path = fitted
    errors = model.standard_errors(step)
    assert all(abs(path[-1][name] - path[-2][name]) < 0.1 * errors[name] for name in errors)


def test_the_gradient_through_the_solver_is_the_same_on_both_backends(gallery):
    model = gallery("inverse")
    _, seen = model.observe()
    gradients = []
    for backend in ("torch", "fused"):
        step = model.solver(backend)
        ((model.snapshots(step) - seen) / model.NOISE).square().mean().backward()
        gradients.append(step.tendency.coefficients.raw.grad)
    # 36 steps of float32 in either direction: a hundred times its round-off.
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("backend", [pytest.param("torch", marks=pytest.mark.slow), "fused"])
def test_without_noise_the_truth_is_found_exactly(gallery, backend):
    model = gallery("inverse")
    truth, _ = model.observe(backend=backend)
    _, path = model.fit(truth, backend=backend)
    # The misfit is flat at its minimum: a square root of round-off, 3e-4, times the condition of the problem remains.
    for name, true in model.TRUTH.items():
        assert path[-1][name] == pytest.approx(true, rel=5e-3)


@pytest.mark.slow
def test_the_script_draws_its_picture(gallery, tmp_path):
    picture = gallery("inverse").main(tmp_path / "inverse.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
