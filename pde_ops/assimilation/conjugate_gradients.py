"""Conjugate gradients for a positive definite operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["conjugate_gradients"]


def conjugate_gradients(
    operator: Callable[[Tensor], Tensor], right: Float[Tensor, " n"], tolerance: float, iterations: int
) -> tuple[Float[Tensor, " n"], float, int]:
    r"""Solve :math:`A x = b` approximately from zero.

    Parameters
    ----------
    tolerance : stop when the residual is no longer than that

    Returns
    -------
    the solution, the length of its residual, and the number of products with the operator

    References
    ----------
    Hestenes & Stiefel (1952), J. Res. Natl. Bur. Stand. 49, 409-436
    """
    solution = torch.zeros_like(right)
    residual = search = right
    size = float(residual @ residual)
    for count in range(iterations):
        if size <= tolerance**2:
            return solution, math.sqrt(size), count
        product = operator(search)
        length = size / float(search @ product)
        solution = solution + length * search
        residual = residual - length * product
        size, before = float(residual @ residual), size
        search = residual + (size / before) * search
    return solution, math.sqrt(size), iterations
