r"""Coefficients as functions of standard normal numbers.

.. math:: s = s_b\, q'^{\,\chi}, \qquad c = F + (C - F)\left(1 - e^{-s/(C - F)}\right)

with :math:`C` the cap and :math:`F` the floor of :class:`pde_ops.parameters.Coefficients`. Without bounds :math:`c = s`
is log-normal; :math:`q'` is such that one standard deviation is the factor that was asked for, to first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import softplus

from ..errors import DeclarationError, UnknownNameError
from .controls import Coefficient

if TYPE_CHECKING:
    from jaxtyping import Float

    from ..tendency import Tendency

__all__ = ["LatentCoefficients"]


class LatentCoefficients:
    """The coefficients that are sought, about the values that they have when this is built.

    Attributes
    ----------
    index : of each among all coefficients of the system
    """

    def __init__(self, tendency: Tendency, sought: Sequence[Coefficient]) -> None:
        self.module = tendency.coefficients
        names = [symbol.name for symbol in self.module.symbols]
        for control in sought:
            if control.name not in names:
                raise UnknownNameError(
                    f"Coefficient: '{tendency.system.name}' has no coefficient '{control.name}'",
                    do=f"it has {', '.join(names) or 'none'}",
                )
            if not self.module.symbols[names.index(control.name)].learnable:
                raise DeclarationError(
                    f"Coefficient: '{control.name}' is declared with learnable=False", do="declare it as learnable"
                )
        self.names = [control.name for control in sought]
        self.start = self.module.raw.detach().clone()
        self.index = torch.tensor([names.index(name) for name in self.names], dtype=torch.long).to(self.start.device)
        self.scale = self.module.scale[self.index]
        self.amount = self.scale * softplus(self.start[self.index])  # s_b
        factors = torch.tensor([control.factor for control in sought], dtype=torch.float64).to(self.start)
        self.spread = factors.log() / self._elasticity()

    def raw(self, chi: Float[Tensor, " sought"]) -> Float[Tensor, " coefficient"]:
        """Return the raw numbers of all coefficients."""
        if not self.names:
            return self.start
        ratio = self.amount * torch.exp(self.spread * chi) / self.scale
        # Inverse of softplus, x + ln(1 - e^-x), which is exact for small and for large numbers.
        changed = ratio + torch.log(-torch.expm1(-ratio))
        return self.start.index_copy(0, self.index, changed)

    def values(self, raw: Float[Tensor, " coefficient"]) -> Float[Tensor, " coefficient"]:
        """Return the coefficients in SI."""
        values: Tensor = functional_call(self.module, {"raw": raw}, ())
        return values

    def _elasticity(self) -> Tensor:
        """Return d ln c / d ln s at the start, 1 far below a cap and above no floor."""
        cap, floor = self.module.cap[self.index], self.module.floor[self.index]
        span = cap - floor
        bounded = torch.isfinite(span)
        span = torch.where(bounded, span, torch.ones_like(span))
        slope = torch.where(bounded, torch.exp(-self.amount / span), torch.ones_like(span))
        value = torch.where(bounded, -span * torch.expm1(-self.amount / span), self.amount)
        return slope * self.amount / (floor + value)
