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

from pde_ops.integrators.range_scaled_euler import Rates
from stationpde.model.slopes import Slopes, SlopeSums
from stationpde.physics import THETA, WIND, P, Q

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["PreparedDrive", "PreparedTerms", "Radiation", "Relaxation"]


@dataclass(frozen=True, slots=True, eq=False)
class Radiation:
    """The part of radiation that depends on the state.

    Attributes
    ----------
    light : height of the sun by day and 1 by night, of every lead
    weights : of θ and q by day, of both by night, and of the wind speed by night
    """

    light: Sequence[Float[Tensor, "batch 2 1 y x"]]
    weights: Float[Tensor, "channel 5"]

    def inputs(self, field: Tensor, number: int) -> Float[Tensor, "batch 5 y x"]:
        """Return what the weights belong to."""
        light = self.light[number]
        speed = (field[:, :2].square().sum(dim=1, keepdim=True) + 1e-6).sqrt()
        return torch.cat([(light * field[:, None, 3:]).flatten(1, 2), light[:, 1] * speed], dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """Decay by regime.

    Attributes
    ----------
    slopes : of the pressure, over one radius
    largest : bound of every input
    weights : of both winds, both slopes and dryness
    passing : the share of time and constant, of every lead
    """

    slopes: Slopes
    radius: int
    largest: float
    weights: Float[Tensor, "channel 5"]
    passing: Sequence[Float[Tensor, "batch channel 1"]]

    def __call__(self, field: Tensor, number: int) -> Float[Tensor, "batch channel y x"]:
        """Return the decay of every channel."""
        slopes = self.slopes.gradient(field[:, P], self.radius)
        regime = torch.cat([field[:, WIND], slopes, (field[:, THETA] - field[:, Q])[:, None]], dim=1)
        return _mixed(self.passing[number], self.weights, regime.clamp(-self.largest, self.largest))


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTerms:
    """Extending terms, times their factors; None for those that are not used.

    Attributes
    ----------
    lasting : memory, and radiation of the state zero, of every lead
    """

    lasting: Sequence[Float[Tensor, "batch channel cell"]] | None
    radiation: Radiation | None
    surroundings: SlopeSums | None
    relaxation: Relaxation | None

    def __call__(self, field: Tensor, gain: Tensor | None, number: int) -> tuple[Tensor | None, Tensor | None]:
        """Return what is added, on top of a ``gain``, and what decays."""
        lasting = None if self.lasting is None else self.lasting[number]
        if self.radiation is not None:
            assert lasting is not None
            radiated = _mixed(lasting, self.radiation.weights, self.radiation.inputs(field, number))
            gain = _sum(gain, radiated)
        elif lasting is not None:
            gain = _sum(gain, lasting.unflatten(2, field.shape[2:]))
        if self.surroundings is not None:
            gain = _sum(gain, self.surroundings(field))
        return gain, None if self.relaxation is None else self.relaxation(field, number)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDrive:
    """Closure and extending terms of a forecast, and the rates of its equations.

    Attributes
    ----------
    closure : factor of the bounded closure, ``[channel, 1, 1]``
    """

    rates: Rates
    closure: Tensor | None
    terms: PreparedTerms | None

    def drive(self, field: Tensor, closure: Tensor | None, number: int) -> tuple[Tensor | None, Tensor | None]:
        """Return what a sub-step adds beside the equations, and the share of the state that decays.

        ``closure`` is bounded to [-1, 1], ``number`` that of the lead, from 0.
        """
        gain = None if closure is None or self.closure is None else closure * self.closure
        return (gain, None) if self.terms is None else self.terms(field, gain, number)


def _sum(gain: Tensor | None, more: Tensor) -> Tensor:
    return more if gain is None else gain + more


def _mixed(start: Tensor, weights: Tensor, fields: Tensor) -> Tensor:
    """Return ``start`` and weighted sums of fields: ``[output, field]`` times ``[batch, field, y, x]``."""
    by_sample = weights.expand(fields.shape[0], -1, -1)
    return torch.baddbmm(start, by_sample, fields.flatten(2)).unflatten(2, fields.shape[2:])
