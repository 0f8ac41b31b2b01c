"""The classical four-stage Runge-Kutta scheme."""

from __future__ import annotations

from torch import Tensor

from .base import Closures, Integrator, register

__all__ = ["RK4"]


@register("rk4")
class RK4(Integrator):
    r"""Classical Runge-Kutta: four evaluations, fourth order.

    .. math::

       k_1 &= F(x^n), \quad k_2 = F(x^n + \tfrac{\Delta t}2 k_1), \quad k_3 = F(x^n + \tfrac{\Delta t}2 k_2), \quad
       k_4 = F(x^n + \Delta t\, k_3) \\
       x^{n+1} &= x^n + \tfrac{\Delta t}6 (k_1 + 2k_2 + 2k_3 + k_4)

    References
    ----------
    Durran (2010), Numerical Methods for Fluid Dynamics, Sec. 2.3
    """

    order = 4
    polynomial = (1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0)

    def forward(self, state: Tensor, closures: Closures | None = None) -> Tensor:
        dt = self.dt
        k1 = self.tendency(state, closures)
        k2 = self.tendency(state + 0.5 * dt * k1, closures)
        k3 = self.tendency(state + 0.5 * dt * k2, closures)
        k4 = self.tendency(state + dt * k3, closures)
        advanced: Tensor = state + dt / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
        return advanced
