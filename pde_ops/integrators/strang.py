"""Strang splitting: closed-form flows for half a step, the rest explicitly, the flows again in reverse."""

from __future__ import annotations

from torch import Tensor

from ..tendency import Tendency
from .base import Closures, Integrator, integrators, register

__all__ = ["Strang"]


@register("strang")
class Strang(Integrator):
    r"""Symmetric splitting of exact flows and an explicit remainder: second order.

    .. math::

       x^{n+1} = \Phi_1^{\Delta t/2} \circ \dots \circ \Phi_m^{\Delta t/2} \circ E^{\Delta t}
       \circ \Phi_m^{\Delta t/2} \circ \dots \circ \Phi_1^{\Delta t/2}\,(x^n)

    with :math:`\Phi_i` the closed-form updates that the operators declare (rotation, friction, relaxation,
    condensation) and :math:`E` an explicit integrator of everything else. Rotation keeps the energy of the wind and
    condensation never passes saturation, whatever the time step. Compile with ``exact_flows=True``.

    Parameters
    ----------
    inner : name of the explicit integrator; the splitting is second order if it is at least that

    References
    ----------
    Strang (1968), SIAM J. Numer. Anal. 5, 506-517
    """

    order = 2
    treats = frozenset({"flows"})

    def __init__(
        self, tendency: Tendency, dt: float, *, inner: str = "heun", handled: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(tendency, dt, handled=handled)
        self.inner = integrators[inner](tendency, self.dt, handled=handled | self.treats)

    def forward(self, state: Tensor, closures: Closures | None = None) -> Tensor:
        flows = range(len(self.tendency.flows))
        for index in flows:
            state = self.tendency.apply_flow(index, state, closures, 0.5 * self.dt)
        state = self.inner(state, closures)
        for index in reversed(flows):
            state = self.tendency.apply_flow(index, state, closures, 0.5 * self.dt)
        return state

    def _check_limits(self) -> None:
        """Flows have no limit; the inner integrator checks its own."""
