r"""What drives the equations over all intervals of a forecast, prepared once: closure and extending terms.

All terms are linear in their coefficients, so factors, matrices and what does not depend on the state are computed for
all leads together:

.. math:: \mathrm{added} = \Delta t\,\gamma_S\,(S + G + M + Q), \qquad
          \mathrm{decay} = \Delta t\,\gamma_S\,\lambda
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from pde_ops.integrators.range_scaled_euler import Rates
from stationpde.model.terms_kernel import Surroundings, apply_terms

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["PreparedDrive", "PreparedTerms"]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTerms:
    """Extending terms, times their factors; None for those that are not used. Attributes as in `apply_terms`.

    ``lasting``, ``light`` and ``passing`` are those of every lead.
    """

    surroundings: Surroundings
    lasting: Sequence[Float[Tensor, "batch channel cell"]] | None
    light: Sequence[Float[Tensor, "batch 2 y x"]] | None
    radiation: Float[Tensor, "channel 5"] | None
    around: Float[Tensor, "channel difference"] | None
    regime: Float[Tensor, "channel 5"] | None
    passing: Sequence[Float[Tensor, "batch channel"]] | None

    def __call__(
        self, field: Tensor, closure: Tensor | None, factor: Tensor | None, number: int
    ) -> tuple[Tensor, Tensor | None]:
        """Return what is added, with a closure times its factor, and what decays."""
        lasting, light, passing = (
            None if by_lead is None else by_lead[number] for by_lead in (self.lasting, self.light, self.passing)
        )
        return apply_terms(
            field, closure, factor, lasting, light, self.radiation, self.around, self.regime, passing,
            self.surroundings,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDrive:
    """Closure and extending terms of a forecast, and the rates of its equations.

    Attributes
    ----------
    closure : factor of the bounded closure, ``[channel]``
    """

    rates: Rates
    closure: Tensor | None
    terms: PreparedTerms | None

    def drive(self, field: Tensor, closure: Tensor | None, number: int) -> tuple[Tensor | None, Tensor | None]:
        """Return what a sub-step adds beside the equations, and the share of the state that decays.

        ``closure`` is bounded to [-1, 1], ``number`` that of the lead, from 0.
        """
        if self.terms is not None:
            return self.terms(field, closure, None if closure is None else self.closure, number)
        return None if closure is None or self.closure is None else closure * self.closure[:, None, None], None
