"""A comparable five-field Euler step in py-pde, with its numba backend.

Upwind transport is written with its one-sided differences. It has no closures and no gradients: the sources are
constants, the plane is flat and the numbers are float64. Compiling takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pde_ops.benchmarking.eager_step import HEAT_POWER, LATENT_POWER
from pde_ops.benchmarking.problem import FIELDS, Problem
from pde_ops.constants import T_triple, e_s0, epsilon, kappa, p0

__all__ = ["prepare"]


def prepare(problem: Problem) -> Callable[[], np.ndarray]:
    """Return a call that takes one Euler step on the first sample; it compiles for a while before."""
    from pde import PDE, CartesianGrid, FieldCollection, ScalarField

    ny, nx = problem.grid.ny, problem.grid.nx
    width, height = float(problem.grid.dx.mean()) * nx, problem.grid.dy * ny
    grid = CartesianGrid([(0.0, width), (0.0, height)], [nx, ny], periodic=False)
    data = problem.state[0].double().numpy().transpose(0, 2, 1)
    state = FieldCollection([ScalarField(grid, values, label=name) for name, values in zip(FIELDS, data, strict=True)])
    equations = PDE(_equations(), bc={"derivative": 0}, consts=_constants(problem), user_funcs={"excess": _excess})
    right_hand_side = equations.make_pde_rhs(state, backend="numba")
    values, dt = np.ascontiguousarray(state.data), problem.dt

    def step() -> np.ndarray:
        return values + dt * right_hand_side(values, 0.0)

    step()
    return step


HEAT, BOTH, T0, ES0, EPS = (float(x) for x in (HEAT_POWER, HEAT_POWER + LATENT_POWER, T_triple, e_s0, epsilon))
POISSON, INVERSE_P0 = float(kappa), 1.0 / float(p0)


def _excess(q: np.ndarray, theta: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the humidity beyond saturation; a function of its own, because sympy is slow with the nested formula."""
    ratio = T0 / (theta * np.exp(POISSON * np.log(p * INVERSE_P0)))
    e_s = ES0 * np.exp(BOTH * (1.0 - ratio) + HEAT * np.log(ratio))
    return np.maximum(q - EPS * e_s / (p - (1.0 - EPS) * e_s), 0.0)


def _equations() -> dict[str, str]:
    def transport(a: str) -> str:
        along_x = f"heaviside(u, 0) * u * d_dx_backward({a}) + heaviside(-u, 0) * u * d_dx_forward({a})"
        along_y = f"heaviside(v, 0) * v * d_dy_backward({a}) + heaviside(-v, 0) * v * d_dy_forward({a})"
        return f"kappa * laplace({a}) - ({along_x}) - ({along_y})"

    return {
        "u": f"{transport('u')} + f * v - r_m * u",
        "v": f"{transport('v')} - f * u - r_m * v",
        "p": f"{transport('p')} + S_p",
        "theta": f"{transport('theta')} + S_theta",
        "q": f"{transport('q')} + S_q - lambda_c * excess(q, theta, p)",
    }


def _constants(problem: Problem) -> dict[str, float]:
    coefficients = problem.coefficients
    sources = {name: float(value.mean()) for name, value in problem.closures.items()}
    return {
        "kappa": coefficients["kappa_u"], "r_m": coefficients["r_m"], "lambda_c": coefficients["lambda_c"],
        "f": float(problem.grid.f.mean()),
        **sources,
    }  # fmt: skip
