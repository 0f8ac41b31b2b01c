"""Forward Euler."""

from __future__ import annotations

from torch import Tensor

from .base import Closures, Integrator, register

__all__ = ["Euler"]


@register("euler")
class Euler(Integrator):
    r"""Forward Euler: one evaluation, first order.

    .. math:: x^{n+1} = x^n + \Delta t\, F(x^n)

    Amplifies rotation by :math:`\sqrt{1 + f^2\Delta t^2}` a step and every centred transport; suits upwind transport
    and diffusion within :func:`pde_ops.stability.limits`.

    References
    ----------
    Durran (2010), Numerical Methods for Fluid Dynamics, Sec. 2.1
    """

    order = 1
    polynomial = (1.0, 1.0)

    def forward(self, state: Tensor, closures: Closures | None = None) -> Tensor:
        return self.tendency.advance(state, closures, self.dt)
