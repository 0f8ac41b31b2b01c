r"""Ψ and its inverse: observed variables to the physical state and back.

.. math:: \Psi(u, v, p, T, RH) = (u, v, p, \theta, q), \qquad
          \theta = T\,(p_0/p)^{R_d/c_p}, \qquad q = \frac{\epsilon e}{p - (1 - \epsilon) e}, \quad e = RH\,e_s(T)

Channels are last, in these orders, everywhere; `U`, `V`, `P`, `THETA`, `Q` and, of observed variables, `T` and `RH` are
their numbers. All values are SI and relative humidity is a fraction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.constants import epsilon
from fields.variables import STATE_VARIABLES
from pde_ops import thermo
from stationpde.physics.equations import STATE

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "OBSERVED",
    "PRESSURE_RANGE",
    "RH",
    "STATE",
    "THETA",
    "WIND",
    "P",
    "Q",
    "T",
    "U",
    "V",
    "clipped",
    "to_observed",
    "to_state",
]  # fmt: skip

OBSERVED = STATE_VARIABLES
# Channel numbers: of the state (u, v, p, theta, q), and of observed variables (u, v, p, t, rh) where they differ.
U, V, P, THETA, Q = (STATE.index(name) for name in ("u", "v", "p", "theta", "q"))
T, RH = OBSERVED.index("t"), OBSERVED.index("rh")
WIND = slice(U, V + 1)

# Beyond any surface air: they keep the formulas defined for an untrained model's output, and change nothing else.
TEMPERATURE_RANGE = (180.0, 340.0)  # K
PRESSURE_RANGE = (30_000.0, 110_000.0)  # Pa
LARGEST_VAPOUR_SHARE = 0.9  # of the pressure
LARGEST_HUMIDITY = epsilon * LARGEST_VAPOUR_SHARE / (1.0 - (1.0 - epsilon) * LARGEST_VAPOUR_SHARE)  # kg/kg, the same


def to_state(observed: Float[Tensor, "... channel"], reference_pressure: Tensor) -> Float[Tensor, "... channel"]:
    """Apply Ψ: ``u, v, p, t, rh`` to ``u, v, p, theta, q``; NaN where an ingredient is missing.

    Parameters
    ----------
    reference_pressure : Pa, broadcastable to the observations without their channel: replaces a missing pressure in
        the formulas of θ and q. One hPa of error is 0.08 K in θ, so that a station's mean is close enough
    """
    u, v, p, t, rh = _single_or_double(observed).unbind(-1)
    column = torch.where(torch.isnan(p), reference_pressure.to(p.dtype), p).clamp(*PRESSURE_RANGE)
    warmth = t.clamp(*TEMPERATURE_RANGE)
    vapour = (rh * thermo.saturation_vapour_pressure(warmth)).clamp(min=0.0)
    vapour = torch.minimum(vapour, LARGEST_VAPOUR_SHARE * column)
    theta = thermo.potential_temperature(warmth, column)
    q = thermo.specific_humidity_from_vapour_pressure(vapour, column)
    return torch.stack([u, v, p, theta, q], dim=-1)


def to_observed(state: Float[Tensor, "... channel"]) -> Float[Tensor, "... channel"]:
    """Apply Ψ⁻¹: the state to observed variables; relative humidity may exceed 1 (see `clipped`)."""
    u, v, p, theta, q = _single_or_double(state).unbind(-1)
    column = p.clamp(*PRESSURE_RANGE)
    warmth = thermo.temperature(theta, column).clamp(*TEMPERATURE_RANGE)
    vapour = thermo.vapour_pressure(q.clamp(0.0, LARGEST_HUMIDITY), column)
    return torch.stack([u, v, p, warmth, vapour / thermo.saturation_vapour_pressure(warmth)], dim=-1)


def clipped(observed: Float[Tensor, "... channel"]) -> Float[Tensor, "... channel"]:
    """Clip relative humidity to 0 to 1, as forecasts are issued and scored; never in a loss: no gradient passes it."""
    return torch.cat([observed[..., :RH], observed[..., RH:].clamp(0.0, 1.0)], dim=-1)


def _single_or_double(values: Tensor) -> Tensor:
    """Convert half precision to float32: pressure in Pa overflows float16, and bfloat16 rounds it to 300 Pa."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
