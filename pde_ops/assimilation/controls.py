"""What an assimilation may change, and how far the background is trusted: initial state, coefficients, sources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real

from ..errors import DeclarationError
from .covariances import Covariance
from .quantities import Amount

__all__ = ["Coefficient", "Control", "Source", "State"]


@dataclass(frozen=True, slots=True)
class State:
    """The initial state; fields that are not named are held.

    Attributes
    ----------
    errors : background errors of each field, by name
    """

    errors: Mapping[str, Covariance]

    def __post_init__(self) -> None:
        if not isinstance(self.errors, Mapping) or not self.errors:
            raise DeclarationError(
                f"State: expected background errors by field, not {self.errors!r:.80}",
                do="State({'T': Gaussian('2 K', length='50 km')})",
            )
        for name, covariance in self.errors.items():
            _check_covariance(f"State: '{name}'", covariance)


@dataclass(frozen=True, slots=True)
class Coefficient:
    r"""A coefficient of the system, log-normal about its present value.

    .. math:: \ln c \sim \mathcal N\left(\ln c_b, (\ln q)^2\right)

    Attributes
    ----------
    name : of a `Positive`
    factor : :math:`q`, larger than 1: two thirds of the belief lie between :math:`c_b / q` and :math:`c_b q`. Below a
        cap the bell is pressed together, and the cap is never reached
    """

    name: str
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not (isinstance(self.factor, Real) and math.isfinite(self.factor) and self.factor > 1.0):
            raise DeclarationError(
                f"Coefficient('{self.name}'): `factor` must be finite and above 1, not {self.factor!r}",
                do="factor=2.0 says: within a factor of two, one standard deviation",
            )


@dataclass(frozen=True, slots=True)
class Source:
    r"""A correction of a closure, added to what it is: constant over the window, or in pieces.

    Attributes
    ----------
    name : of a `Closure`; where no closure of that name is given, it is added to zero
    error : background error of a piece
    every : length of a piece, a span of time that is a multiple of the step; None for one piece
    memory : :math:`\tau` of the correlation :math:`\exp(-t^2/2\tau^2)` of pieces; None for independent ones
    """

    name: str
    error: Covariance
    every: Amount | int | None = None
    memory: Amount | None = field(default=None)

    def __post_init__(self) -> None:
        _check_covariance(f"Source('{self.name}')", self.error)
        if self.memory is not None and self.every is None:
            raise DeclarationError(
                f"Source('{self.name}'): `memory` needs pieces to correlate", do="pass every='1 hour' too"
            )


Control = State | Coefficient | Source


def _check_covariance(owner: str, covariance: object) -> None:
    if not hasattr(covariance, "root"):
        raise DeclarationError(
            f"{owner}: expected a covariance, not {covariance!r:.80}",
            do="pass Gaussian('2 K', length='50 km'), or Diagonal('2 K')",
        )
