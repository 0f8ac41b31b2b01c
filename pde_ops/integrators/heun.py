"""Heun's method: the two-stage Runge-Kutta scheme that preserves strong stability."""

from __future__ import annotations

from torch import Tensor

from .base import Closures, Integrator, register

__all__ = ["Heun"]


@register("heun")
class Heun(Integrator):
    r"""Heun (SSP-RK2): two evaluations, second order, monotone wherever Euler is.

    .. math::

       x_1 &= x^n + \Delta t\, F(x^n) \\
       x^{n+1} &= \tfrac12 x^n + \tfrac12\left(x_1 + \Delta t\, F(x_1)\right)

    References
    ----------
    Shu & Osher (1988), J. Comput. Phys. 77, 439-471; Gottlieb & Shu (1998), Math. Comp. 67, 73-85
    """

    order = 2
    polynomial = (1.0, 1.0, 1.0 / 2.0)

    def forward(self, state: Tensor, closures: Closures | None = None) -> Tensor:
        first = self.tendency.advance(state, closures, self.dt)
        return 0.5 * (state + self.tendency.advance(first, closures, self.dt))
