r"""Ψ and its inverse: observed variables to the physical state and back.

.. math:: \Psi(u, v, p, T, RH) = (u, v, p, \theta, q), \qquad
          \theta = T\,(p_0/p)^{R_d/c_p}, \qquad q = \frac{\epsilon e}{p - (1 - \epsilon) e}, \quad e = RH\,e_s(T)

Channels are last, in these orders, everywhere. All values are SI and relative humidity is a fraction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from fields.constants import epsilon
from fields.variables import STATE_VARIABLES
from pde_ops import thermo
from stationpde.equations import STATE

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["OBSERVED", "PRESSURE_RANGE", "STATE", "Saturation", "clipped", "to_observed", "to_state"]

OBSERVED = STATE_VARIABLES
Saturation = Literal["ambaum", "bolton"]

# Beyond any surface air: they keep the formulas defined while a model is still wild, and act on nothing else.
TEMPERATURE_RANGE = (180.0, 340.0)  # K
PRESSURE_RANGE = (30_000.0, 110_000.0)  # Pa
LARGEST_VAPOUR_SHARE = 0.9  # of the pressure
LARGEST_HUMIDITY = epsilon * LARGEST_VAPOUR_SHARE / (1.0 - (1.0 - epsilon) * LARGEST_VAPOUR_SHARE)  # kg/kg, the same


def to_state(
    observed: Float[Tensor, "... channel"], reference_pressure: Tensor, saturation: Saturation = "ambaum"
) -> Float[Tensor, "... channel"]:
    """Ψ: ``u, v, p, t, rh`` to ``u, v, p, theta, q``; NaN where an ingredient is missing.

    Parameters
    ----------
    reference_pressure : Pa, broadcastable to the observations without their channel: what θ and q are computed with
        where the barometer is silent. One hPa of error is 0.08 K in θ, so that a station's mean serves
    """
    u, v, p, t, rh = _single_or_double(observed).unbind(-1)
    column = torch.where(torch.isnan(p), reference_pressure.to(p.dtype), p).clamp(*PRESSURE_RANGE)
    warmth = t.clamp(*TEMPERATURE_RANGE)
    vapour = torch.minimum((rh * _saturation(saturation)(warmth)).clamp(min=0.0), LARGEST_VAPOUR_SHARE * column)
    theta = thermo.potential_temperature(warmth, column)
    q = thermo.specific_humidity_from_vapour_pressure(vapour, column)
    return torch.stack([u, v, p, theta, q], dim=-1)


def to_observed(state: Float[Tensor, "... channel"], saturation: Saturation = "ambaum") -> Float[Tensor, "... channel"]:
    """Ψ⁻¹: the state to observed variables; relative humidity may pass 1 (see `clipped`)."""
    u, v, p, theta, q = _single_or_double(state).unbind(-1)
    column = p.clamp(*PRESSURE_RANGE)
    warmth = thermo.temperature(theta, column).clamp(*TEMPERATURE_RANGE)
    vapour = thermo.vapour_pressure(q.clamp(0.0, LARGEST_HUMIDITY), column)
    return torch.stack([u, v, p, warmth, vapour / _saturation(saturation)(warmth)], dim=-1)


def clipped(observed: Float[Tensor, "... channel"]) -> Float[Tensor, "... channel"]:
    """Relative humidity within 0 to 1, as forecasts are given and scored; never in a loss, which it would blind."""
    return torch.cat([observed[..., :4], observed[..., 4:].clamp(0.0, 1.0)], dim=-1)


def _saturation(name: Saturation):  # type: ignore[no-untyped-def]
    return thermo.saturation_vapour_pressure if name == "ambaum" else thermo.saturation_vapour_pressure_bolton


def _single_or_double(values: Tensor) -> Tensor:
    """Never half precision: pressure in Pa overflows the one, and three digits of the other are 300 Pa."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
