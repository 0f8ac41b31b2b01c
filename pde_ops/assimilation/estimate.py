"""What an assimilation gives: the estimate in the units of the declaration, and how it came about."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..arguments import check_count
from ..units import from_si
from .descent import Descent
from .layout import Inputs
from .problem import FourDVar, Linearisation
from .uncertainty import Uncertainty, uncertainty_of

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

__all__ = ["Estimate"]


class Estimate:
    """The most likely initial state, coefficients and sources, given background and observations.

    Attributes
    ----------
    problem : what was solved
    descent : how: costs, decrements, whether it converged
    """

    def __init__(self, problem: FourDVar, descent: Descent) -> None:
        self.problem, self.descent = problem, descent

    @property
    def has_converged(self) -> bool:
        """Whether a further step would be small beside the uncertainty of the estimate."""
        return self.descent.has_converged

    @cached_property
    def inputs(self) -> Inputs:
        """State, coefficients and sources, in SI."""
        with torch.no_grad():
            return self.problem.inputs(self.descent.chi)

    @property
    def state(self) -> Float[Tensor, "1 field y x"]:
        """Initial state, SI."""
        return self.inputs.state

    @cached_property
    def coefficients(self) -> dict[str, Any]:
        """The coefficients that were sought, as quantities in their declared units."""
        module, names = self.problem.step.tendency.coefficients, self.problem.layout.coefficients.names
        values = dict(zip((s.name for s in module.symbols), self.inputs.coefficients.tolist(), strict=True))
        return {s.name: from_si(values[s.name], s.declared_unit) for s in module.symbols if s.name in names}

    @cached_property
    def sources(self) -> dict[str, Float[Tensor, "piece y x"]]:
        """The closures that were corrected, correction included, as they are at the first step of each piece, SI."""
        simulation, result = self.problem.simulation, {}
        for name, correction in self.inputs.sources.items():
            steps = range(0, self.problem.window.steps, simulation.every[name])
            pieces = [simulation.closures_at(step, self.inputs.sources)[name] for step in steps]
            result[name] = torch.cat([piece.detach().expand(1, *correction.shape[1:]) for piece in pieces])
        return result

    def trajectory(self, keep: int = 1) -> Float[Tensor, "time 1 field y x"]:
        """Return every ``keep``-th state of the window, the initial one included."""
        check_count("trajectory", "keep", keep, 1)
        with torch.no_grad():
            return self.problem.simulation.states(self.inputs, keep)

    def equivalents(self) -> dict[str, NDArray[Any]]:
        """Return what the model says where observations are, by name, in the units in which they came."""
        with torch.no_grad():
            values = self.problem.simulation.equivalents(self.descent.chi)
        return {bound.name: bound.in_units(v) for bound, v in zip(self.problem.observations, values, strict=True)}

    @property
    def consistency(self) -> float:
        """Twice the cost over the number of observations: about 1 where the declared errors are right."""
        return 2.0 * self.descent.costs[-1] / self.problem.count

    def assign(self) -> None:
        """Give the coefficients to the model that was assimilated into."""
        self.problem.step.tendency.coefficients.assign(**self.coefficients)

    @cached_property
    def _linearisation(self) -> Linearisation:
        return self.problem.linearise(self.descent.chi)

    def uncertainty(self, *, rank: int = 200, resolution: float = 0.01, seed: int = 0) -> Uncertainty:
        """Compute how well the estimate is known, see :mod:`pde_ops.assimilation.uncertainty`.

        Parameters
        ----------
        rank : largest number of directions that observations are said to know
        resolution : stop when what is left out would lower no variance by more than this share
        seed : of the random first directions
        """
        return uncertainty_of(self, self._linearisation, rank, resolution, seed)

    def __str__(self) -> str:
        descent = self.descent
        ended = "converged" if self.has_converged else "NOT converged"
        lines = [
            repr(self.problem),
            f"  {descent.method}: {ended} after {descent.iterations} iterations, J from {descent.costs[0]:.4g} to "
            f"{descent.costs[-1]:.4g}, 2J/observations = {self.consistency:.2f} (about 1 if the errors are right)",
        ]
        lines += [f"  {name} = {value:.4g~P}" for name, value in self.coefficients.items()]
        return "\n".join(lines)
