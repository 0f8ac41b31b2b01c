r"""The adjoint test: whether tangent, adjoint and gradient belong to the model that is run.

Two tests. The dot product :math:`\langle G v, w \rangle = \langle v, G^\top w \rangle` holds to round-off whatever the
model is; :math:`G v` is computed by forward-mode differentiation, which shares nothing with the adjoint. The remainder
of a Taylor series, :math:`|J(\chi + h v) - J(\chi) - h\, g \cdot v|`, falls as :math:`h^2` until round-off takes over.
Beside it stands how far the tangent itself carries, from small to large changes.

References
----------
Navon et al. (1992), Mon. Weather Rev. 120, 1433-1446
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import DivergedError
from .problem import FourDVar

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Check", "check"]

SIZES = tuple(10.0**exponent for exponent in range(-7, 1))
# Round-off of sums over states: thousands of machine numbers.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-3}


@dataclass(frozen=True, slots=True)
class Check:
    """Outcome of the adjoint test.

    Attributes
    ----------
    dot_product_error : relative difference of the two products
    sizes : of the change, in standard deviations of the background
    gradient_errors : relative error of a finite difference of J, for each size
    tangent_errors : relative error of the tangent, for each size; infinite where the model diverged
    order : of the remainder of J, 2 for a right gradient; NaN where round-off leaves nothing to measure
    passed : whether the products agree to round-off and the order is 2 within 0.2
    """

    dot_product_error: float
    sizes: tuple[float, ...]
    gradient_errors: tuple[float, ...]
    tangent_errors: tuple[float, ...]
    order: float
    passed: bool

    def __str__(self) -> str:
        lines = [
            f"adjoint test {'passed' if self.passed else 'FAILED'}: dot product to {self.dot_product_error:.1e}, "
            f"remainder of order {self.order:.2f}",
            "    size   gradient    tangent",
        ]
        rows = zip(self.sizes, self.gradient_errors, self.tangent_errors, strict=True)
        return "\n".join([*lines, *(f"{size:8.0e}   {g:8.1e}   {t:8.1e}" for size, g, t in rows)])


def check(problem: FourDVar, chi: Float[Tensor, " control"] | None = None, *, seed: int = 0) -> Check:
    """Test tangent, adjoint and gradient of a problem about a control vector.

    Parameters
    ----------
    chi : by default a tenth of a standard deviation off the background, at random
    seed : of the random directions
    """
    draw, like = torch.Generator().manual_seed(seed), problem.start()

    def normal(size: int) -> Tensor:
        return torch.randn(size, generator=draw, dtype=torch.float64).to(like)

    here = problem.linearise(0.1 * normal(problem.size) if chi is None else chi)
    direction, weights = normal(problem.size), normal(problem.count)
    direction = direction / direction.norm()
    pushed, pulled = here.tangent(direction, forward_mode=True), here.adjoint(weights)
    left, right = float(pushed.double() @ weights.double()), float(direction.double() @ pulled.double())
    scale = float(pushed.double().norm() * weights.double().norm())
    dot_product_error = abs(left - right) / max(scale, 1e-300)
    slope = float(here.gradient.double() @ direction.double())
    gradient_errors, tangent_errors, remainders = [], [], []
    for size in SIZES:
        try:
            with torch.no_grad():
                departures = problem.departures(here.chi.detach() + size * direction)
        except DivergedError:
            departures = torch.full_like(here.departures, math.inf)
        # The difference of two costs, from the difference of their departures: nothing large is subtracted.
        change = (departures - here.departures).double()
        moved = size * direction.double()
        difference = float(0.5 * (change @ (change + 2.0 * here.departures.double())))
        difference += float(0.5 * (moved @ (moved + 2.0 * here.chi.detach().double())))
        remainders.append(abs(difference - size * slope))
        gradient_errors.append(remainders[-1] / max(abs(size * slope), 1e-300))
        gone = float((change + size * pushed.double()).norm())
        tangent_errors.append(gone / max(size * float(pushed.double().norm()), 1e-300))
    order = _order(remainders, here.cost, like.dtype)
    is_right = dot_product_error <= TOLERANCE[like.dtype] and abs(order - 2.0) <= 0.2
    return Check(dot_product_error, SIZES, tuple(gradient_errors), tuple(tangent_errors), order, is_right)


def _order(remainders: list[float], cost: float, dtype: torch.dtype) -> float:
    """Return the median slope of the remainder where it stands above round-off."""
    floor = 1e4 * torch.finfo(dtype).eps * max(cost, 1.0)
    slopes = [math.log10(b / a) for a, b in pairwise(remainders) if a > floor and math.isfinite(b)]
    return median(slopes[:4]) if slopes else math.nan
