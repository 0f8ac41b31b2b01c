"""The three-stage, third-order Runge-Kutta scheme that preserves strong stability."""

from __future__ import annotations

from torch import Tensor

from .base import Closures, Integrator, register

__all__ = ["SSPRK3"]


@register("ssprk3")
class SSPRK3(Integrator):
    r"""SSP-RK3: three evaluations, third order, monotone wherever Euler is; also stable for centred transport.

    .. math::

       x_1 &= x^n + \Delta t\, F(x^n) \\
       x_2 &= \tfrac34 x^n + \tfrac14\left(x_1 + \Delta t\, F(x_1)\right) \\
       x^{n+1} &= \tfrac13 x^n + \tfrac23\left(x_2 + \Delta t\, F(x_2)\right)

    References
    ----------
    Shu & Osher (1988), J. Comput. Phys. 77, 439-471; Gottlieb & Shu (1998), Math. Comp. 67, 73-85
    """

    order = 3
    polynomial = (1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0)

    def forward(self, state: Tensor, closures: Closures | None = None) -> Tensor:
        first = self.tendency.advance(state, closures, self.dt)
        second = 0.75 * state + 0.25 * self.tendency.advance(first, closures, self.dt)
        return (state + 2.0 * self.tendency.advance(second, closures, self.dt)) / 3.0
