r"""Terms of the extended equations beyond the printed ones: each optional, each zero at the start.

.. math::

   G_\varphi = \sum_r\sum_\psi (A_r \cdot \nabla_r\psi + D_r\nabla^2_r\psi), \qquad
   M_\varphi = \sum_\psi M_{\varphi\psi}\pi_\psi, \quad \partial_t\pi = -\pi/\tau, \qquad
   \lambda_\varphi = \lambda_\varphi(X), \qquad Q_\varphi = Q_\varphi(X, \cos z)

``surroundings``: gradients and curvature at three scales, for what moves with the flow aloft, the pressure gradient
among them. ``memory``: the tendencies of the lifted field over the last 3, 6 and 24 h, fading. ``relaxation``:
decay of anomalies by regime (wind, pressure slope, dryness, hour). ``radiation``: insolation by day and loss by night,
with dryness and warmth as proxies of cloud. All are linear in their coefficients, computed on scaled fields, and held
over a forecast interval as the closure is; `physics.equations.extended` has them in place.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pde_ops import Grid2D
from stationpde.model.first_layers import Ahead
from stationpde.model.prepared_drive import PreparedTerms
from stationpde.model.slopes import Slopes
from stationpde.model.terms_kernel import Surroundings
from stationpde.physics import DAY, STATE, SUN_CHANNEL, TIME_CHANNELS, equations, steps_back

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["ExtendedTerms", "tendencies_of"]

RADII_KM = (105.0, 315.0, 630.0)
MEMORY_H = (3, 6, 24)
C = len(STATE)
_LARGEST = 4.0
_PARTS = (2, 1, 1, 1)  # channels of the wind, pressure, temperature and humidity
# Radiation depends on these by day: 1, dryness θ − q, warmth θ, q; by night: 1, wind speed, dryness, warmth. Both are
# mixtures of 1, θ, q and the speed, so coefficients are mixed instead of fields.
_BY_DAY = ((1.0, 0.0, 0.0), (0.0, 1.0, -1.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_BY_NIGHT = ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (0.0, 1.0, -1.0, 0.0), (0.0, 1.0, 0.0, 0.0))


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
    without : names of terms of single equations that are left out, such as ``G_p``
    """

    undecayed = ("fading",)
    mixture: Tensor
    present: Tensor

    def __init__(self, terms: tuple[str, ...], grid: Grid2D, step_seconds: int, without: Collection[str] = ()) -> None:
        super().__init__()
        self.terms, self.step_seconds = terms, step_seconds
        self.memories = C * len(MEMORY_H)
        cells = min(grid.ny, grid.nx) - 1
        self.radii = sorted({min(max(1, round(km * 1e3 / grid.dy)), cells) for km in RADII_KM})
        self.slopes = Slopes(grid, self.radii)
        counts = {"surroundings": 3 * C * len(self.radii), "memory": C * len(MEMORY_H), "radiation": 8}
        self.coefficients = nn.ParameterDict({
            name: nn.Parameter(torch.zeros(C, counts[name])) for name in terms if name in counts
        })  # fmt: skip
        if "memory" in terms:
            # τ as a number of days, one for each span; a tendency of three hours is soon gone.
            self.fading = nn.Parameter(torch.tensor([0.25, 0.5, 1.0]).repeat_interleave(C))
        if "relaxation" in terms:
            self.coefficients["relaxation"] = nn.Parameter(torch.zeros(C, 10))
        mixture = torch.block_diag(torch.tensor(_BY_DAY), torch.tensor(_BY_NIGHT))
        self.register_buffer("mixture", mixture, persistent=False)
        there = [[equations.term_of(term, name) not in without for name in STATE] for term in terms]
        self.register_buffer("present", torch.tensor(there).reshape(-1, C, 1), persistent=False)
        self.whole = bool(self.present.all())

    def forward(
        self,
        state: Float[Tensor, "batch channel y x"],
        conditions: Float[Tensor, "batch condition y x"],
        tendencies: Float[Tensor, "batch memory y x"],
        lead: int | Tensor,
    ) -> tuple[Float[Tensor, "batch channel y x"] | None, Float[Tensor, "batch channel y x"] | None]:
        """Return what the scaled state gains over an interval that ends at a lead, and the rates of its decay."""
        gain = None
        parts = state.split(_PARTS, dim=1)  # one call, and one on the way back
        if "memory" in self.terms or "radiation" in self.terms:
            gain = self._remembered_and_radiated(parts, conditions, tendencies, lead)
        if "surroundings" in self.terms:
            around = self.slopes.weighted(state, self._weights("surroundings"))
            gain = around if gain is None else gain + around
        decay = None
        if "relaxation" in self.terms:
            decay = _mixed(self._weights("relaxation"), self._regime(parts, conditions))
        return gain, decay

    def prepare(self, ahead: Ahead, tendencies: Tensor | None, gain: Tensor, decay: Tensor) -> PreparedTerms:
        """Prepare the terms for all leads of a forecast, times factors ``[channel]`` of gain and decay."""
        lasting = light = radiation = around = regime = passing = None
        if "memory" in self.terms:
            assert tendencies is not None
            lasting = self._remembered_ahead(tendencies, ahead.fields.shape[0], gain)
        if "radiation" in self.terms:
            sun = ahead.fields[:, :, SUN_CHANNEL]
            light = torch.stack([sun.clamp(min=0.0), (sun < 0.0).to(sun.dtype)], dim=2)
            weights = gain[:, None] * (self._weights("radiation") @ self.mixture)
            of_zero = weights[:, [0, 3]] @ light.flatten(3)
            lasting = of_zero if lasting is None else lasting + of_zero
            radiation = weights[:, [1, 2, 4, 5, 6]]
        if "surroundings" in self.terms:
            around = gain[:, None] * self._weights("surroundings")
        if "relaxation" in self.terms:
            weights = decay[:, None] * self._weights("relaxation")
            time = ahead.passing[..., :-1].clamp(-_LARGEST, _LARGEST)
            passing = weights[:, 0] + time @ weights[:, 6:].T
            regime = weights[:, 1:6]
        by_lead = (None if values is None else values.unbind(0) for values in (lasting, light, passing))
        lasting_ahead, light_ahead, passing_ahead = by_lead
        surroundings = Surroundings(self.slopes, len(self.radii) // 2, _LARGEST)
        return PreparedTerms(surroundings, lasting_ahead, light_ahead, radiation, around, regime, passing_ahead)

    def _remembered_ahead(
        self, tendencies: Float[Tensor, "batch memory y x"], leads: int, gain: Float[Tensor, " channel"]
    ) -> Float[Tensor, "lead batch channel cell"]:
        """Return the term ``memory`` of all leads."""
        elapsed = torch.arange(leads, device=gain.device)[:, None] * (self.step_seconds / DAY)
        fading = torch.exp(-elapsed / self.fading.abs().clamp(min=0.02))
        weights = (gain[:, None] * self._weights("memory")) * fading[:, None]
        by_sample = weights.flatten(0, 1).expand(tendencies.shape[0], -1, -1)
        return torch.bmm(by_sample, tendencies.flatten(2)).unflatten(1, (leads, C)).transpose(0, 1)

    def _weights(self, term: str) -> Tensor:
        coefficients: Tensor = self.coefficients[term]
        return coefficients if self.whole else coefficients * self.present[self.terms.index(term)]

    def _remembered_and_radiated(
        self, parts: tuple[Tensor, ...], conditions: Tensor, tendencies: Tensor, lead: int | Tensor
    ) -> Tensor:
        inputs, weights = [], []
        if "memory" in self.terms:
            elapsed = (lead - 1) * (self.step_seconds / DAY)
            fading = torch.exp(-elapsed / self.fading.abs().clamp(min=0.02))
            inputs.append(tendencies)
            weights.append(self._weights("memory") * fading)
        if "radiation" in self.terms:
            sun = conditions[:, SUN_CHANNEL, None]
            day, night = sun.clamp(min=0.0), (sun < 0.0).to(sun.dtype)
            wind, _, theta, q = parts
            speed = (wind.square().sum(dim=1, keepdim=True) + 1e-6).sqrt()
            plain = torch.cat([torch.ones_like(speed), theta, q], dim=1)
            inputs += [day * plain, night * plain, night * speed]
            weights.append(self._weights("radiation") @ self.mixture)
        return _mixed(torch.cat(weights, dim=1), torch.cat(inputs, dim=1))

    def _regime(self, parts: tuple[Tensor, ...], conditions: Tensor) -> Tensor:
        wind, pressure, theta, q = parts
        slopes = self.slopes.gradient(pressure[:, 0], self.radii[len(self.radii) // 2])
        regime = [torch.ones_like(q), wind, slopes, theta - q, conditions[:, TIME_CHANNELS]]
        return torch.cat(regime, dim=1).clamp(-_LARGEST, _LARGEST)


def _mixed(weights: Tensor, fields: Tensor) -> Tensor:
    """Return weighted sums of fields: ``[output, field]`` times ``[batch, field, y, x]``."""
    # bmm: `matmul` of a matrix and a batch copies the batch, forward and back.
    return torch.bmm(weights.expand(fields.shape[0], -1, -1), fields.flatten(2)).unflatten(2, fields.shape[2:])
