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

import torch
from torch import Tensor

from stationpde.model.first_layers import LeadConditions, PreparedNetwork
from stationpde.model.interval_kernel import Course, apply_interval
from stationpde.model.terms_kernel import Surroundings, apply_terms

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["PreparedDrive", "PreparedTerms"]

Optional = Tensor | None
LeadTerms = tuple[Optional, Optional, Optional, Optional, Optional, Optional]


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

    def at(self, number: int) -> LeadTerms:
        """Return what `apply_terms` takes behind the closure's factor, of one lead."""
        lasting, light, passing = (
            None if by_lead is None else by_lead[number] for by_lead in (self.lasting, self.light, self.passing)
        )
        return lasting, light, self.radiation, self.around, self.regime, passing


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDrive:
    """Closure and extending terms of a forecast, the rates of its equations, and how they march.

    Attributes
    ----------
    closure : factor of the bounded closure, ``[channel]``
    course : None where no compiled kernel marches
    aloft : what the upper layer is supplied with, of every lead; None without one
    """

    rates: tuple[Tensor, Tensor]
    closure: Tensor | None
    terms: PreparedTerms | None
    course: Course | None
    aloft: Sequence[Float[Tensor, "batch supplied y x"]] | None = None

    def drive(self, field: Tensor, closure: Tensor | None, number: int) -> tuple[Tensor | None, Tensor | None]:
        """Return what a sub-step adds beside the equations, and the share of the state that decays.

        ``closure`` is not bounded yet, ``number`` that of the lead, from 0.
        """
        factor = None if closure is None else self.closure
        if self.terms is not None:
            return apply_terms(field, closure, factor, *self.terms.at(number), self.terms.surroundings)
        return None if closure is None or factor is None else torch.tanh(closure) * factor[:, None, None], None

    def march(
        self, course: Course, field: Tensor, network: PreparedNetwork | None, conditions: LeadConditions
    ) -> Tensor:
        """Return the scaled field at the end of an interval, closure network included."""
        number = conditions.number
        weights = (None,) * 8 if network is None else (conditions.sun, *network.weights(number))
        terms = (None,) * 6 if self.terms is None else self.terms.at(number)
        factor = None if network is None else self.closure
        return apply_interval(course, number, field, weights, (factor, *terms), self.rates)
