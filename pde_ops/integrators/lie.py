"""Lie splitting: everything else explicitly, then the closed-form flows."""

from __future__ import annotations

from torch import Tensor

from ..tendency import Tendency
from .base import Closures, Integrator, integrators, register

__all__ = ["Lie"]


@register("lie")
class Lie(Integrator):
    r"""One explicit step followed by the exact flows: first order, half the flows of Strang splitting.

    .. math:: x^{n+1} = \Phi_m^{\Delta t} \circ \dots \circ \Phi_1^{\Delta t} \circ E^{\Delta t}\,(x^n)

    with :math:`\Phi_i` the closed-form updates that the operators declare and :math:`E` an explicit integrator of
    everything else. Compile with ``exact_flows=True``.

    Parameters
    ----------
    inner : name of the explicit integrator

    References
    ----------
    Hundsdorfer & Verwer (2003), Time-Dependent Advection-Diffusion-Reaction Equations, Sect. IV.1
    """

    order = 1
    treats = frozenset({"flows"})

    def __init__(
        self, tendency: Tendency, dt: float, *, inner: str = "euler", handled: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(tendency, dt, handled=handled)
        self.inner = integrators[inner](tendency, self.dt, handled=handled | self.treats)

    def forward(self, state: Tensor, closures: Closures | None = None) -> Tensor:
        state = self.inner(state, closures)
        for index in range(len(self.tendency.flows)):
            state = self.tendency.apply_flow(index, state, closures, self.dt)
        return state

    def _check_limits(self) -> None:
        """Flows have no limit; the inner integrator checks its own."""
