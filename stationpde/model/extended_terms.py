r"""Terms of the extended equations beyond the printed ones: each optional, each zero at the start.

.. math::

   G_\varphi = \sum_r\sum_\psi (A_r \cdot \nabla_r\psi + D_r\nabla^2_r\psi), \qquad
   M_\varphi = \sum_\psi M_{\varphi\psi}\pi_\psi, \quad \partial_t\pi = -\pi/\tau, \qquad
   \lambda_\varphi = \lambda_\varphi(X), \qquad Q_\varphi = Q_\varphi(X, \cos z)

``surroundings``: gradients and curvature at three scales, for what moves with the flow aloft, the pressure gradient
among them. ``memory``: the tendencies of the lifted field over the last 3, 6 and 24 h, fading. ``relaxation``:
decay of anomalies by regime (wind, pressure slope, dryness, hour). ``radiation``: insolation by day and loss by night,
with dryness and warmth as proxies of cloud. All are linear in their coefficients, computed from registered operators on
scaled fields, and held over a forecast interval as the closure is; `physics.equations.extended` has them in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pde_ops import Grid2D
from pde_ops.ops import gradient_scale_x, gradient_scale_y, laplacian_scale
from stationpde.physics import STATE, SUN_CHANNEL, THETA, TIME_CHANNELS, WIND, P, Q, U, V, steps_back

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["ExtendedTerms", "tendencies_of"]

RADII_KM = (105.0, 315.0, 630.0)
MEMORY_H = (3, 6, 24)
C = len(STATE)
_LARGEST = 4.0


def tendencies_of(
    scaled: Float[Tensor, "batch time channel y x"], step_seconds: int
) -> Float[Tensor, "batch memory y x"]:
    """Return π(0): the changes of the field over the last 3, 6 and 24 h."""
    last = scaled.shape[1] - 1
    backs = [steps_back(hours, step_seconds, scaled.shape[1]) for hours in MEMORY_H]
    return torch.cat([scaled[:, last] - scaled[:, last - back] for back in backs], dim=1)


class ExtendedTerms(nn.Module):
    """Extending terms for scaled fields, per forecast interval.

    Parameters
    ----------
    terms : those of `stationpde.physics.equations.TERMS` that are used
    grid : of the fields
    step_seconds : length of the forecast interval
    """

    undecayed = ("fading",)

    def __init__(self, terms: tuple[str, ...], grid: Grid2D, step_seconds: int) -> None:
        super().__init__()
        self.terms, self.grid, self.step_seconds = terms, grid, step_seconds
        self.memories = C * len(MEMORY_H)
        cells = min(grid.ny, grid.nx) - 1
        self.radii = sorted({min(max(1, round(km * 1e3 / grid.dy)), cells) for km in RADII_KM})
        counts = {"surroundings": 3 * C * len(self.radii), "memory": C * len(MEMORY_H), "radiation": 8}
        self.coefficients = nn.ParameterDict({
            name: nn.Parameter(torch.zeros(C, counts[name])) for name in terms if name in counts
        })  # fmt: skip
        if "memory" in terms:
            # τ as a number of days, one for each span; a tendency of three hours is soon gone.
            self.fading = nn.Parameter(torch.tensor([0.25, 0.5, 1.0]).repeat_interleave(C))
        if "relaxation" in terms:
            self.coefficients["relaxation"] = nn.Parameter(torch.zeros(C, 10))

    def forward(
        self,
        state: Float[Tensor, "batch channel y x"],
        conditions: Float[Tensor, "batch condition y x"],
        tendencies: Float[Tensor, "batch memory y x"],
        lead: int | Tensor,
    ) -> dict[str, Float[Tensor, "batch channel y x"]]:
        """Return the terms by name over an interval that ends at a lead: gains of the scaled state, rates of decay."""
        dryness = (state[:, THETA] - state[:, Q])[:, None]
        inputs = {}
        if "surroundings" in self.terms:
            inputs["surroundings"] = self._slopes(state)
        if "memory" in self.terms:
            elapsed = (lead - 1) * (self.step_seconds / 86400.0)
            fading = torch.exp(-elapsed / self.fading.abs().clamp(min=0.02))
            inputs["memory"] = tendencies * fading[:, None, None]
        if "relaxation" in self.terms:
            inputs["relaxation"] = self._regime(state, dryness, conditions)
        if "radiation" in self.terms:
            inputs["radiation"] = self._radiation(state, dryness, conditions)
        return {name: torch.einsum("of,bfyx->boyx", self.coefficients[name], inputs[name]) for name in self.terms}

    def _slopes(self, state: Tensor) -> Tensor:
        """Return differences over each radius: slopes and curvature without their unit of length."""
        differences = []
        for radius in self.radii:
            length = radius * self.grid.dy
            differences += [gradient_scale_x(state, grid=self.grid, radius=radius) * length]
            differences += [gradient_scale_y(state, grid=self.grid, radius=radius) * length]
            differences += [laplacian_scale(state, grid=self.grid, radius=radius) * length**2]
        return torch.cat(differences, dim=1)

    def _regime(self, state: Tensor, dryness: Tensor, conditions: Tensor) -> Tensor:
        pressure, radius = state[:, P : P + 1], self.radii[len(self.radii) // 2]
        length = radius * self.grid.dy
        slopes = [op(pressure, grid=self.grid, radius=radius) * length for op in (gradient_scale_x, gradient_scale_y)]
        parts = [torch.ones_like(dryness), state[:, WIND], *slopes, dryness, conditions[:, TIME_CHANNELS]]
        return torch.cat(parts, dim=1).clamp(-_LARGEST, _LARGEST)

    def _radiation(self, state: Tensor, dryness: Tensor, conditions: Tensor) -> Tensor:
        sun = conditions[:, SUN_CHANNEL, None]
        day, night = sun.clamp(min=0.0), (sun < 0.0).to(sun.dtype)
        speed = (state[:, U, None].square() + state[:, V, None].square() + 1e-6).sqrt()
        one, warmth = torch.ones_like(dryness), state[:, THETA, None]
        by_day = day * torch.cat([one, dryness, warmth, state[:, Q, None]], dim=1)
        return torch.cat([by_day, night * torch.cat([one, speed, dryness, warmth], dim=1)], dim=1)
