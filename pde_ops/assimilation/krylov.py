"""Leading eigenpairs of a symmetric, positive semi-definite operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["leading_pairs"]

BLOCK = 4  # equal eigenvalues up to so many are told apart at once; on a symmetric grid they come in pairs
TOLERANCE = 1e-3  # residual of a pair over 1 + its eigenvalue


def leading_pairs(
    operator: Callable[[Tensor], Tensor], size: int, like: Tensor, rank: int, least: float, seed: int
) -> tuple[Float[Tensor, " pair"], Float[Tensor, "pair n"], float]:
    """Return the eigenpairs above a value that have converged, largest first.

    Parameters
    ----------
    size : of the space
    like : tensor whose dtype and device are taken
    rank : largest number of products with the operator
    least : eigenvalues below it are of no interest

    Returns
    -------
    eigenvalues, orthonormal eigenvectors, and the largest eigenvalue seen that is left out (0 if none can be)
    """
    draw = torch.Generator().manual_seed(seed)
    basis, images = like.new_zeros(0, size), like.new_zeros(0, size)
    rank = min(rank, size)
    block = torch.randn(min(BLOCK, rank), size, generator=draw, dtype=torch.float64).to(like)
    while True:
        fresh = _orthonormal(block, basis, draw)
        basis = torch.cat([basis, fresh])
        images = torch.cat([images, torch.stack([operator(v) for v in fresh])])
        values, residuals, vectors = _ritz(basis, images)
        counts = values > least
        settled = residuals <= TOLERANCE * (1.0 + values)
        complete = len(basis) == size
        # One block more than the interesting pairs has to be seen before none can be hidden.
        if complete or len(basis) >= rank or (bool((settled | ~counts).all()) and int((~counts).sum()) >= BLOCK):
            break
        block = images[-len(fresh) :][: rank - len(basis)]
    chosen = counts if complete else counts & settled
    left_out = values[~chosen]
    unresolved = 0.0 if complete or not len(left_out) else float(left_out.max().clamp(min=0.0))
    if not complete and not len(left_out):
        unresolved = float(values.min())
    return values[chosen], vectors[chosen], unresolved


def _ritz(basis: Tensor, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return Ritz values, largest first, the sizes of their residuals, and their vectors."""
    small = basis.double() @ images.double().T
    values, shares = torch.linalg.eigh(0.5 * (small + small.T))
    values, shares = values.flip(0).to(basis), shares.flip(1).T.to(basis)
    vectors = shares @ basis
    residuals = (shares @ images - values[:, None] * vectors).norm(dim=1)
    return values, residuals, vectors


def _orthonormal(block: Tensor, basis: Tensor, draw: torch.Generator) -> Tensor:
    """Return an orthonormal block, orthogonal to the basis; a direction that adds nothing is drawn anew."""
    rows: list[Tensor] = []
    for candidate in block:
        vector, size = candidate, float(candidate.norm())
        while True:
            for _ in range(2):  # twice is enough (Parlett)
                vector = vector - basis.T @ (basis @ vector)
                for row in rows:
                    vector = vector - (row @ vector) * row
            norm = float(vector.norm())
            if norm > 1e-6 * size and norm > 0.0:
                break
            vector = torch.randn(block.shape[1], generator=draw, dtype=torch.float64).to(block)
            size = float(vector.norm())
        rows.append(vector / norm)
    return torch.stack(rows)
