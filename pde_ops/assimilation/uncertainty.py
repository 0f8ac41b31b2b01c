r"""Uncertainty of an estimate, from the Gauss-Newton Hessian.

About the estimate, and where the model is nearly linear over that uncertainty, the control vector is normal with
covariance

.. math:: A^{-1} = (I + G^\top G)^{-1} = I - \sum_k \frac{\lambda_k}{1 + \lambda_k} v_k v_k^\top

with :math:`\lambda_k, v_k` the eigenpairs of :math:`G^\top G`: each says how much better than the background the
observations know one direction. There are at most as many as observations, and mostly a few tens matter.

Up to 512 observations, :math:`G` is computed row by row, each by one adjoint, and its singular values are exact. Beyond
that, pairs are found by a block Krylov method with full orthogonalisation, in the smaller of the spaces of controls and
of observations. A pair that has not converged is left out, which errs on the safe side: no variance comes out too
small, and none too large by more than the factor :math:`1 + \lambda` of the largest pair left out, which is reported.

References
----------
Fisher & Courtier (1995), ECMWF Tech. Memo. 220; Bui-Thanh et al. (2013), SIAM J. Sci. Comput. 35, A2494-A2523
(low-rank posterior); Golub & Van Loan (2013), Matrix Computations, 4th ed., Sect. 10.3.6 (block Lanczos)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..arguments import check_count
from ..errors import DeclarationError
from ..units import registry
from .krylov import leading_pairs
from .layout import Inputs, Maps
from .problem import Linearisation

if TYPE_CHECKING:
    from jaxtyping import Float

    from .estimate import Estimate

__all__ = ["Uncertainty", "uncertainty_of"]

DIRECT = 512  # observations: so many adjoints take no longer than Krylov's products, each an adjoint and a tangent
MOST_NUMBERS = 50_000_000  # of G in memory


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Standard deviations of an estimate, and draws from its distribution.

    Attributes
    ----------
    estimate : whose uncertainty it is
    gains : eigenvalues, ``[pair]``: how many times better than the background a direction is known, in variance
    directions : orthonormal, ``[pair, control]``
    unresolved : largest eigenvalue left out, 0 if none was
    """

    estimate: Estimate
    gains: Float[Tensor, " pair"]
    directions: Float[Tensor, "pair control"]
    unresolved: float

    @property
    def state(self) -> Float[Tensor, "1 field y x"]:
        """Standard deviation of the initial state, SI; 0 for fields that are held."""
        background = self.estimate.problem.background
        channels = [torch.zeros_like(channel) for channel in background.unbind(1)]
        for part, where in self.estimate.problem.layout.maps:
            if part.channel is not None:
                channels[part.channel] = self._deviation(part, where)
        return torch.stack(channels, dim=1)

    @property
    def sources(self) -> dict[str, Float[Tensor, "piece y x"]]:
        """Standard deviations of the sources, SI."""
        maps = self.estimate.problem.layout.maps
        return {part.name: self._deviation(part, where) for part, where in maps if part.channel is None}

    @property
    def coefficients(self) -> dict[str, Any]:
        """Standard deviations of the coefficients, as quantities in their declared units."""
        module, problem = self.estimate.problem.step.tendency.coefficients, self.estimate.problem
        if not problem.layout.coefficients.names:
            return {}
        index = problem.layout.coefficients.index
        spread = self.of(lambda inputs: inputs.coefficients[index]).tolist()
        deviations: dict[str, Any] = {}
        for name, deviation in zip(problem.layout.coefficients.names, spread, strict=True):
            symbol = next(s for s in module.symbols if s.name == name)
            deviations[name] = registry.Quantity(deviation, symbol.unit).to(symbol.declared_unit)
        return deviations

    def of(self, function: Callable[[Inputs], Tensor]) -> Tensor:
        """Return the standard deviation of each number that a function computes from the estimate, to first order.

        Parameters
        ----------
        function : of state, coefficients and sources (SI; sources as corrections); returns numbers, for instance
            ``lambda inputs: inputs.sources["S"].sum()``
        """
        chi = self.estimate.descent.chi.detach().clone().requires_grad_()
        with torch.enable_grad():
            values = function(self.estimate.problem.inputs(chi))
            if not isinstance(values, Tensor) or not values.requires_grad:
                raise DeclarationError(
                    "the function must return a tensor that depends on what is estimated",
                    do="compute it from inputs.state, inputs.coefficients or inputs.sources by torch",
                )
            slopes = [torch.autograd.grad(v, chi, retain_graph=True)[0] for v in values.reshape(-1)]
        variances = torch.stack([slope @ self.covariance(slope) for slope in slopes])
        return variances.clamp(min=0.0).sqrt().reshape(values.shape)

    def covariance(self, vector: Float[Tensor, " control"]) -> Float[Tensor, " control"]:
        """Return the covariance of the control vector times a vector."""
        share = self.gains / (1.0 + self.gains)
        return vector - self.directions.T @ (share * (self.directions @ vector))

    def draws(self, count: int, *, seed: int = 0) -> list[Inputs]:
        """Return draws of state, coefficients and sources: members for a forecast ensemble."""
        check_count("draws", "count", count, 1)
        chi, draw = self.estimate.descent.chi, torch.Generator().manual_seed(seed)
        share = 1.0 - (1.0 + self.gains).rsqrt()
        members = []
        for _ in range(count):
            normal = torch.randn(chi.shape[0], generator=draw, dtype=torch.float64).to(chi)
            change = normal - self.directions.T @ (share * (self.directions @ normal))
            with torch.no_grad():
                members.append(self.estimate.problem.inputs(chi + change))
        return members

    def _deviation(self, part: Maps, where: slice) -> Tensor:
        """Return the standard deviation of each number of one map."""
        variance = part.variance()
        for gain, direction in zip(self.gains.tolist(), self.directions, strict=True):
            variance = variance - gain / (1.0 + gain) * part.increment(direction[where]).square()
        return variance.clamp(min=0.0).sqrt()

    def __str__(self) -> str:
        better = int((self.gains >= 1.0).sum())
        lines = [
            f"{len(self.gains)} directions, {better} of which the observations know better than the background; "
            f"largest gain left out: {self.unresolved:.2g}"
        ]
        values = self.estimate.coefficients
        lines += [f"  {name} = {values[name]:.4g~P} ± {error:.2g~P}" for name, error in self.coefficients.items()]
        return "\n".join(lines)


def uncertainty_of(
    estimate: Estimate, linearisation: Linearisation, rank: int, resolution: float, seed: int
) -> Uncertainty:
    """Compute the eigenpairs that matter."""
    check_count("uncertainty", "rank", rank, 1)
    if not 0.0 < resolution < 1.0:
        raise DeclarationError(f"uncertainty: `resolution` must lie between 0 and 1, not {resolution!r}")
    like = linearisation.chi.detach()
    count, size = linearisation.departures.shape[0], like.shape[0]
    # λ/(1 + λ) below the resolution is not worth a direction.
    least = resolution / (1.0 - resolution)
    if count <= min(DIRECT, size) and count * size <= MOST_NUMBERS:
        gains, vectors, unresolved = _by_rows(linearisation, rank, least)
    elif size <= count:
        gains, vectors, unresolved = leading_pairs(
            lambda v: linearisation.adjoint(linearisation.tangent(v)), size, like, rank, least, seed
        )
    else:
        gains, in_observations, unresolved = leading_pairs(
            lambda w: linearisation.tangent(linearisation.adjoint(w)), count, like, rank, least, seed
        )
        # GᵀG v = λ v for v = Gᵀw / √λ
        pulled = [linearisation.adjoint(w) / gain.sqrt() for w, gain in zip(in_observations, gains, strict=True)]
        vectors = torch.stack(pulled) if pulled else like.new_zeros(0, size)
    return Uncertainty(estimate, gains, vectors, unresolved)


def _by_rows(linearisation: Linearisation, rank: int, least: float) -> tuple[Tensor, Tensor, float]:
    """Return the eigenpairs from G itself, one adjoint for each observation."""
    units = torch.eye(linearisation.departures.shape[0], dtype=linearisation.departures.dtype)
    rows = torch.stack([linearisation.adjoint(unit.to(linearisation.departures)) for unit in units])
    _, singular, directions = torch.linalg.svd(rows, full_matrices=False)
    gains = singular.square()
    present = min(rank, int((gains > least).sum()))
    unresolved = float(gains[present]) if present < len(gains) else 0.0
    return gains[:present], directions[:present], unresolved
