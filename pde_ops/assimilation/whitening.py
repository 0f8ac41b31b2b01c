"""Errors of observations: what a departure from the model weighs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..errors import ObservationError, ShapeError

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

__all__ = ["Whitening", "whitening_of_covariance", "whitening_of_errors"]


class Whitening:
    r"""Multiplication by :math:`R^{-1/2}`: departures become numbers of variance 1 that are independent.

    Attributes
    ----------
    scale : 1/SI, ``[obs]``, or None
    factor : lower Cholesky factor of :math:`R`, SI, ``[obs, obs]``, or None
    """

    def __init__(self, scale: Tensor | None, factor: Tensor | None) -> None:
        self.scale, self.factor = scale, factor

    def apply(self, departures: Float[Tensor, " obs"]) -> Float[Tensor, " obs"]:
        """Return the departures in standard deviations of their errors."""
        if self.scale is not None:
            return self.scale * departures
        assert self.factor is not None
        solved: Tensor = torch.linalg.solve_triangular(self.factor, departures[:, None], upper=False)
        return solved[:, 0]


def whitening_of_errors(
    owner: str, errors: NDArray[np.float64], shape: tuple[int, ...], present: NDArray[np.bool_], like: Tensor
) -> Whitening:
    """Return the whitening of independent errors, given as standard deviations in SI."""
    try:
        full = np.broadcast_to(errors, shape)[present]
    except ValueError:
        raise ShapeError(
            f"{owner}: `error` must be one number or as many as values, {list(shape)}, not {list(errors.shape)}"
        ) from None
    broken = ~(np.isfinite(full) & (full > 0.0))
    if broken.any():
        raise ObservationError(
            f"{owner}: {int(broken.sum())} of {full.size} errors are not finite and above 0, the first is "
            f"{full[np.argmax(broken)]:g}",
            do="give the standard deviation of instrument and place; where it is unknown, leave the value out",
        )
    return Whitening(torch.as_tensor(1.0 / full).to(like), None)


def whitening_of_covariance(
    owner: str, covariance: NDArray[np.float64], present: NDArray[np.bool_], like: Tensor
) -> Whitening:
    """Return the whitening of errors that are correlated, given as their covariance in SI."""
    count = present.size
    if covariance.shape != (count, count):
        raise ShapeError(f"{owner}: `covariance` must be [{count}, {count}], not {list(covariance.shape)}")
    chosen = covariance[np.ix_(present.ravel(), present.ravel())]
    if not np.isfinite(chosen).all() or np.abs(chosen - chosen.T).max() > 1e-9 * np.abs(chosen).max():
        raise ObservationError(f"{owner}: `covariance` is not finite and symmetric")
    try:
        factor = np.linalg.cholesky(chosen)
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(chosen)[0])
        raise ObservationError(
            f"{owner}: `covariance` is singular: its least eigenvalue is {least:.3g}",
            do="add the variance of each instrument to its diagonal",
        ) from None
    if factor.diagonal().min() < 1e-7 * factor.diagonal().max():  # the root of double precision: nothing but round-off
        raise ObservationError(
            f"{owner}: `covariance` is singular to round-off", do="add the variance of each instrument to its diagonal"
        )
    return Whitening(None, torch.as_tensor(factor).to(like))
