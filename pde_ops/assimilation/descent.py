r"""Minimisation of J: Gauss-Newton with conjugate gradients, and L-BFGS.

Both stop when the next step is small in standard deviations of what is known after the assimilation. With the
Hessian :math:`A` that is Newton's decrement,

.. math:: \lambda = \sqrt{g^\top A^{-1} g} \leq \varepsilon

which no change of units or of control variables alters. A residual :math:`r` that conjugate gradients leave counts in
full, as :math:`\lambda^2 + r^\top r`, which is at least the exact one; L-BFGS puts its approximation in the place of
:math:`A^{-1}`.

Options of both: ``precision`` (:math:`\varepsilon`, 0.01), ``iterations`` (at most so many; 20 and 200). Of
Gauss-Newton: ``inner_iterations`` (of conjugate gradients in a step, 100) and ``inner_tolerance`` (reduction of their
residual, 0.1, and less as the gradient falls, so that steps become exact where that pays). Of L-BFGS: ``memory``
(pairs of differences, 20).

References
----------
Nocedal & Wright (2006), Numerical Optimization, 2nd ed., Alg. 3.1, 5.2, 7.4; Lawless, Gratton & Nichols (2005), Q. J.
R. Meteorol. Soc. 131, 3459-3476 (Gauss-Newton in 4D-Var)
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..arguments import check_count
from ..errors import DeclarationError, DivergedError
from .conjugate_gradients import conjugate_gradients
from .problem import FourDVar, Linearisation

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["METHODS", "Descent", "gauss_newton", "lbfgs"]

log = logging.getLogger(__name__)

ENOUGH = 1e-4  # share of the promised decrease that a step must bring (Armijo)
HALVINGS = 20


@dataclass(slots=True)
class Descent:
    """How a minimisation went.

    Attributes
    ----------
    method : ``"gauss_newton"`` or ``"lbfgs"``
    chi : control vector at the end
    costs : J at the background and after every step
    decrements : Newton's decrement before every step
    products : Hessian-vector products of all steps
    has_converged : whether the decrement came below the precision, or as low as round-off lets it
    """

    method: str
    chi: Float[Tensor, " control"]
    costs: list[float] = field(default_factory=list)
    decrements: list[float] = field(default_factory=list)
    products: int = 0
    has_converged: bool = False

    @property
    def iterations(self) -> int:
        """Number of steps."""
        return len(self.costs) - 1


def gauss_newton(
    problem: FourDVar,
    *,
    precision: float = 0.01,
    iterations: int = 20,
    inner_iterations: int = 100,
    inner_tolerance: float = 0.1,
) -> Descent:
    """Minimise by steps that solve the problem linearised about the last one."""
    _check(precision, iterations)
    check_count("gauss_newton", "inner_iterations", inner_iterations, 1)
    if not 0.0 < inner_tolerance < 1.0:
        raise DeclarationError(f"gauss_newton: `inner_tolerance` must lie between 0 and 1, not {inner_tolerance}")
    products, first = 0, 0.0

    def direction(here: Linearisation) -> tuple[Tensor, float]:
        nonlocal products, first
        size = float(here.gradient.norm())
        first = max(first, size)
        share = min(inner_tolerance, math.sqrt(size / first)) if size else 0.0  # Nocedal & Wright, Sect. 7.1
        tolerance = max(share * size, 0.3 * precision)  # a residual well below the precision is as good as none
        solved, residual, count = conjugate_gradients(here.hessian, -here.gradient, tolerance, inner_iterations)
        products += count
        return solved, residual

    descent = _descend(problem, "gauss_newton", direction, precision, iterations)
    descent.products = products
    return descent


def lbfgs(problem: FourDVar, *, precision: float = 0.01, iterations: int = 200, memory: int = 20) -> Descent:
    """Minimise by steps that learn the curvature from gradients alone."""
    _check(precision, iterations)
    check_count("lbfgs", "memory", memory, 1)
    pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=memory)
    last: list[Tensor] = []

    def direction(here: Linearisation) -> tuple[Tensor, float]:
        gradient, chi = here.gradient, here.chi.detach()
        if last:
            moved, turned = chi - last[0], gradient - last[1]
            curvature = float(moved @ turned)
            if curvature > 1e-10 * float(moved.norm() * turned.norm()):  # else the pair would spoil the approximation
                pairs.append((moved, turned, curvature))
        last[:] = [chi, gradient]
        return -_two_loops(pairs, gradient), 0.0

    return _descend(problem, "lbfgs", direction, precision, iterations)


METHODS: dict[str, Callable[..., Descent]] = {"gauss_newton": gauss_newton, "lbfgs": lbfgs}


def _descend(
    problem: FourDVar,
    method: str,
    direction: Callable[[Linearisation], tuple[Tensor, float]],
    precision: float,
    iterations: int,
) -> Descent:
    here = problem.linearise(problem.start())
    descent = Descent(method, here.chi.detach(), [here.cost])
    for _ in range(iterations):
        towards, residual = direction(here)
        promised = -float(here.gradient.double() @ towards.double())
        decrement = math.sqrt(max(promised, 0.0) + residual**2)
        descent.decrements.append(decrement)
        log.info("%s: J = %.6g, decrement %.3g", method, here.cost, decrement)
        if decrement <= precision:
            descent.has_converged = True
            break
        length = _line_search(problem, here, towards, promised)
        if length is None:  # no step makes J smaller: the gradient is round-off, or wrong
            round_off = 30.0 * torch.finfo(here.chi.dtype).eps * here.cost
            descent.has_converged = promised <= math.sqrt(round_off * max(here.cost, 1.0))
            break
        here = problem.linearise(here.chi.detach() + length * towards)
        descent.chi = here.chi.detach()
        descent.costs.append(here.cost)
    if not descent.has_converged:
        log.warning(
            "%s: not converged after %d iterations (J = %.6g, decrement %.3g)",
            method, descent.iterations, here.cost, descent.decrements[-1],
        )  # fmt: skip
    return descent


def _line_search(problem: FourDVar, here: Linearisation, towards: Tensor, promised: float) -> float | None:
    """Return the length of a step that brings enough; a step into states that are not finite is too long."""
    length = 1.0
    for _ in range(HALVINGS):
        try:
            cost = problem.cost(here.chi.detach() + length * towards)
        except DivergedError:
            cost = math.inf
        if cost <= here.cost - ENOUGH * length * promised:
            return length
        length *= 0.5
    return None


def _two_loops(pairs: deque[tuple[Tensor, Tensor, float]], gradient: Tensor) -> Tensor:
    """Return the approximate inverse Hessian times the gradient."""
    if not pairs:  # the Hessian is 1 or more: a step of the gradient's own length is too long rather than too short
        return gradient / max(1.0, float(gradient.norm()))
    remaining, shares = gradient.clone(), []
    for moved, turned, curvature in reversed(pairs):
        share = float(moved @ remaining) / curvature
        remaining = remaining - share * turned
        shares.append(share)
    moved, turned, curvature = pairs[-1]
    remaining = remaining * (curvature / float(turned @ turned))
    for (moved, turned, curvature), share in zip(pairs, reversed(shares), strict=True):
        remaining = remaining + (share - float(turned @ remaining) / curvature) * moved
    return remaining


def _check(precision: float, iterations: int) -> None:
    if not (isinstance(precision, int | float) and math.isfinite(precision) and precision > 0.0):
        raise DeclarationError(f"`precision` must be finite and above 0, not {precision!r}")
    check_count("solve", "iterations", iterations, 1)
