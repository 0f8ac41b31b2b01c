"""What 4D-Var finds: the closed-form solution where there is one, else the truth within its uncertainty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pde_ops as po
from assimilation_cases import (
    BURGERS,
    DT,
    DX,
    GRID,
    MINUTES,
    NX,
    NY,
    PLACES,
    SOURCE,
    STEPS,
    kappa,
    normal,
    tracer_problem,
    tracer_step,
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
    State,
)
from pde_ops.backends.fused.build import find_compiler
from pde_ops.ops import laplacian

BACKENDS = ["torch", pytest.param("fused", marks=pytest.mark.skipif(find_compiler() is None, reason="no C compiler"))]
EXACT = {"lbfgs": {"precision": 1e-9}, "gauss_newton": {"precision": 1e-8, "inner_tolerance": 1e-9}}


def dense_model() -> list[np.ndarray]:
    """Matrices of the states after 0, 1, … steps by the first state, column by column."""
    step, columns = tracer_step(), []
    with torch.no_grad():
        for unit in torch.eye(NY * NX, dtype=torch.float64):
            columns.append(po.integrate(step, unit.reshape(1, 1, NY, NX), STEPS, windy, keep=1).flatten(1))
    return list(torch.stack(columns, dim=2).numpy())


def dense_sampling() -> np.ndarray:
    """Bilinear weights of the places, written out."""
    matrix = np.zeros((len(PLACES), NY, NX))
    for place, (row, column) in enumerate(zip(PLACES.rows, PLACES.columns, strict=True)):
        for dy in (0, 1):
            for dx in (0, 1):
                y, x = int(row) + dy, int(column) + dx
                weight = (1 - abs(row - y)) * (1 - abs(column - x))
                matrix[place, min(y, NY - 1), min(x, NX - 1)] += weight
    return matrix.reshape(len(PLACES), -1)


def dense_background(deviation: float, length: float) -> np.ndarray:
    y, x = np.divmod(np.arange(NY * NX), NX)
    squared = ((y[:, None] - y) ** 2 + (x[:, None] - x) ** 2) * DX**2
    return deviation**2 * np.exp(-0.5 * squared / length**2)


@pytest.fixture(scope="module")
def best_linear_estimate() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Analysis, its covariance, and what was observed: the equations of the Kalman smoother in closed form."""
    states, sampling = dense_model(), dense_sampling()
    half = 0.5 * (states[2] + states[3])  # 25 minutes lie between two steps of 10
    operator = np.concatenate([sampling @ states[0], sampling @ half, sampling @ states[6]])
    covariance, errors = dense_background(1.5, 6e3), 0.09 * np.eye(len(operator))
    seen = normal(len(MINUTES), len(PLACES), seed=3).numpy()
    background = np.full(NY * NX, 0.5)
    gain = covariance @ operator.T @ np.linalg.inv(operator @ covariance @ operator.T + errors)
    analysis = background + gain @ (seen.ravel() - operator @ background)
    return analysis, covariance - gain @ operator @ covariance, seen


@pytest.mark.parametrize("method", ["lbfgs", "gauss_newton"])
def test_a_linear_problem_has_the_solution_of_the_kalman_smoother(method: str, best_linear_estimate: Any) -> None:
    analysis, _, seen = best_linear_estimate
    estimate = tracer_problem(seen).solve(method, **EXACT[method])
    assert estimate.has_converged
    # The precision, in standard deviations of 1.5 K.
    np.testing.assert_allclose(estimate.state.numpy().ravel(), analysis, atol=2e-8)


@pytest.fixture(scope="module")
def linear_estimate() -> Any:
    estimate = tracer_problem().solve()
    return estimate, estimate.uncertainty()


def test_the_uncertainty_of_a_linear_problem_is_that_of_the_kalman_smoother(
    best_linear_estimate: Any, linear_estimate: Any
) -> None:
    (_, covariance, _), (_, known) = best_linear_estimate, linear_estimate
    assert known.unresolved < 0.0102
    # 15 observations, fewer than the 200 directions allowed: what is left out lowers no variance by a hundredth.
    deviation = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(known.state.numpy().ravel(), deviation, rtol=6e-3)
    total = known.of(lambda inputs: inputs.state.sum())
    assert float(total) == pytest.approx(math.sqrt(covariance.sum()), rel=6e-3)


def test_draws_have_the_covariance_that_is_stated(linear_estimate: Any) -> None:
    estimate, known = linear_estimate
    draws = torch.stack([inputs.state for inputs in known.draws(400)])
    # The deviation of a sample of 400 errs by 1/sqrt(800) = 3.5 %: five times that over all cells.
    np.testing.assert_allclose(draws.std(0).numpy(), known.state.numpy(), rtol=0.18)
    mean_error = (draws.mean(0) - estimate.state) / known.state
    assert float(mean_error.abs().max()) < 5.0 / math.sqrt(400)


def test_both_methods_agree_where_nothing_is_linear() -> None:
    problem = burgers_problem()
    first, second = problem.solve("lbfgs", precision=1e-3), problem.solve("gauss_newton", precision=1e-2)
    # Each is as near to the minimum as the two precisions say, in deviations that are at most those of the background.
    assert first.has_converged and second.has_converged
    assert float((first.descent.chi - second.descent.chi).norm()) < 0.05
    assert second.descent.iterations < first.descent.iterations
    assert first.descent.costs == sorted(first.descent.costs, reverse=True)


def burgers_problem(backend: str = "torch", **options: Any) -> FourDVar:
    step = po.integrators["heun"](BURGERS.compile(GRID, backend=backend).double(), dt=DT)
    return FourDVar(
        step,
        2.0 + 0.4 * normal(1, 1, NY, NX, seed=5),
        window=STEPS,
        controls=[State({"u": Gaussian("1 m/s", length="6 km")}), Coefficient("kappa", factor=2.0)],
        observations=[
            Points("u", PLACES, time=(MINUTES, "min"), values=(2 + 0.5 * normal(3, 5, seed=6), "m/s"), error="0.5 m/s"),
            AreaMeans(
                "u", torch.ones(NY, NX), time="1 hour", values=([7.0], "km/hour"), error="1 km/hour", over="20 min"
            ),
            Function(lambda a: a["u"][2, :2] ** 2, time="35 min", values=([6, 3], "m**2/s**2"), error="1 m**2/s**2"),
        ],
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_tangent_adjoint_and_gradient_belong_together(backend: str) -> None:
    outcome = po.assimilation.check(burgers_problem(backend))
    # Two sums of a few hundred terms in double precision.
    assert outcome.dot_product_error < 1e-13
    assert outcome.order == pytest.approx(2.0, abs=0.02)
    assert outcome.passed and "passed" in str(outcome)
    errors = dict(zip(outcome.sizes, outcome.tangent_errors, strict=True))
    assert errors[1e-2] == pytest.approx(10 * errors[1e-3], rel=0.05)  # the tangent is of first order


def test_the_tangent_by_the_adjoint_is_the_one_by_forward_mode() -> None:
    problem = burgers_problem()
    here = problem.linearise(0.1 * normal(problem.size))
    direction = normal(problem.size, seed=1)
    torch.testing.assert_close(here.tangent(direction), here.tangent(direction, forward_mode=True), rtol=1e-12, atol=0)


class _Slipped(torch.autograd.Function):
    """A square whose gradient was written down wrong."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2.02 * ctx.saved_tensors[0] * grad


def test_a_wrong_gradient_is_noticed() -> None:
    right = burgers_problem()
    slipped = Function(
        lambda a: _Slipped.apply(a["u"][1]), time="20 min", values=([3.0] * NX, "m**2/s**2"), error="1 m**2/s**2"
    )
    wrong = FourDVar(
        right.step, right.background, window=STEPS, controls=[State({"u": Diagonal("1 m/s")})], observations=[slipped]
    )
    outcome = po.assimilation.check(wrong)
    assert not outcome.passed and "FAILED" in str(outcome)
    assert outcome.order == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpointed_problem_has_the_gradient_of_the_plain_one(backend: str) -> None:
    chi = None
    found = []
    for checkpoint in (None, 1, 4, "auto"):
        problem = burgers_problem(backend, checkpoint=checkpoint)
        chi = 0.2 * normal(problem.size) if chi is None else chi
        here = problem.linearise(chi)
        found.append((here.cost, here.gradient, here.hessian(normal(problem.size, seed=2))))
    for cost, gradient, product in found[1:]:
        assert cost == found[0][0]
        # Sums over steps and observations are grouped by stretch.
        torch.testing.assert_close(gradient, found[0][1], rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(product, found[0][2], rtol=1e-11, atol=1e-12)


def test_a_twin_is_recovered_within_the_uncertainty_that_is_stated() -> None:
    controls = [State({"c": Gaussian("1.5 K", length="6 km")}), SOURCE]
    blank = tracer_problem(controls=controls)
    truth = normal(blank.size, seed=11)
    with torch.no_grad():
        (exact,) = blank.simulation.equivalents(truth)
    seen = exact + 0.1 * normal(len(exact), seed=12)
    problem = tracer_problem(seen.reshape(3, 5), error="0.1 K", controls=controls)
    estimate = problem.solve(precision=1e-4)
    known, missed = estimate.uncertainty(), truth - estimate.descent.chi
    # A quadratic form of the error by its stated covariance is chi-squared: its mean n, its deviation sqrt(2n).
    hessian = estimate._linearisation.hessian(missed)
    n = problem.size
    assert abs(float(missed @ hessian) - n) < 4.0 * math.sqrt(2 * n)
    within = (problem.inputs(truth).state - estimate.state).abs() < 2.0 * known.state
    assert float(within.double().mean()) > 0.7  # errors of neighbours are alike: a handful are independent
    assert float(known.state.mean()) < 0.8 * 1.5  # and the observations did say something
    # Twice the cost at the minimum is chi-squared with as many degrees of freedom as observations.
    assert abs(estimate.consistency - 1.0) < 4.0 * math.sqrt(2.0 / problem.count)


def coefficient_twin(factor: float, backend: str = "torch") -> Any:
    """A diffusivity that starts wrong by a factor of 2.5, from a known patch of warm air."""
    system = po.PDESystem("mixing", {po.Field("c", "K"): kappa * laplacian(po.Field("c", "K"))})
    grid = po.Grid2D.plane(12, 12, dx=4e3)
    step = po.integrators["heun"](system.compile(grid, backend=backend).double(), dt=120.0)
    row = torch.arange(12, dtype=torch.float64) - 5.5
    patch = (10.0 * torch.exp(-(row[:, None] ** 2 + row**2) / 6.0))[None, None]
    step.tendency.coefficients.assign(kappa=50.0)
    with torch.no_grad():
        states = po.integrate(step, patch, 20, keep=5)[:, 0, 0]
    step.tendency.coefficients.assign(kappa=20.0)
    rows, columns = np.indices((12, 12)).reshape(2, -1)
    seen = states.flatten(1)[1:] + 0.2 * normal(4, 144, seed=8)
    sensors = Points("c", Places(rows, columns), time=([10, 20, 30, 40], "min"), values=(seen, "K"), error="0.2 K")
    return FourDVar(step, patch, window=20, controls=[Coefficient("kappa", factor)], observations=[sensors])


def test_a_coefficient_is_recovered_in_its_unit_within_its_uncertainty() -> None:
    problem = coefficient_twin(factor=3.0)
    estimate = problem.solve("gauss_newton")
    value, error = estimate.coefficients["kappa"], estimate.uncertainty().coefficients["kappa"]
    assert f"{value.units:~}" == f"{error.units:~}" == "km ** 2 / h"
    assert abs(value.magnitude - 50.0) < 3.0 * error.magnitude
    assert 0.1 < error.magnitude < 5.0
    assert problem.step.tendency.parameters_in_units()["kappa"].magnitude == pytest.approx(20.0)
    estimate.assign()
    assert problem.step.tendency.parameters_in_units()["kappa"].magnitude == pytest.approx(value.magnitude, rel=1e-9)
    assert "±" in str(estimate.uncertainty()) and "converged" in str(estimate)


def test_a_background_that_is_trusted_holds_the_coefficient() -> None:
    estimate = coefficient_twin(factor=1.0001).solve()
    assert estimate.coefficients["kappa"].magnitude == pytest.approx(20.0, rel=0.02)


def test_a_step_into_a_blow_up_is_halved() -> None:
    rate = po.Positive("rate", "1/K/s", init=1.0)
    a = po.Field("a", "K")
    step = po.integrators["rk4"](po.PDESystem("blow-up", {a: rate * a * a}).compile(GRID).double(), dt=0.02)
    # a(1) = a/(1 - a): Newton's step from 0.9 is beyond 1, where the solution does not live to time 1.
    problem = FourDVar(
        step,
        torch.full((1, 1, NY, NX), 0.9, dtype=torch.float64),
        window=50,
        controls=[State({"a": Gaussian("1 K", length="1000 km")})],
        observations=[Points("a", Places([2.0], [3.0]), time="1 s", values=([40.0], "K"), error="0.5 K")],
    )
    estimate = problem.solve("gauss_newton")
    assert estimate.has_converged
    assert float(estimate.state[0, 0, 2, 3]) == pytest.approx(40.0 / 41.0, abs=2e-3)


def test_a_background_that_diverges_is_an_error() -> None:
    problem = burgers_problem()
    with pytest.raises(po.DivergedError, match="not finite"):
        FourDVar(
            po.integrators["euler"](problem.step.tendency, dt=1e5),
            problem.background,
            window=40,
            controls=[State({"u": Diagonal("1 m/s")})],
            observations=[Points("u", PLACES, time="0 s", values=(torch.zeros(5), "m/s"), error="1 m/s")],
        ).solve()


def test_an_estimate_that_did_not_converge_says_so(caplog: pytest.LogCaptureFixture) -> None:
    estimate = burgers_problem().solve(iterations=1)
    assert not estimate.has_converged
    assert "NOT converged" in str(estimate)
    assert "not converged after 1 iterations" in caplog.text
