"""Semi-Lagrangian transport: every cell takes the value from where its air was a step ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import DeclarationError
from ..parity import product
from ..tendency import Tendency
from .base import Closures, Integrator, integrators, register
from .interpolation import METHODS, Method, interpolate

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["SemiLagrangian"]


@register("semi_lagrangian")
class SemiLagrangian(Integrator):
    r"""Transport along trajectories, and the remaining terms explicitly half before and half after it: second order.

    .. math::

       \mathbf x_d = \mathbf x - \tfrac{\Delta t}2\left(\mathbf V^n(\mathbf x_d) + \mathbf V^{n+1}(\mathbf x)\right),
       \qquad a^{n+1}(\mathbf x) = a^n(\mathbf x_d)

    The departure points :math:`\mathbf x_d` are found by fixed-point iteration, first with :math:`\mathbf V^{n+1}
    \approx \mathbf V^n`, then with the wind of the state so predicted. The wind sets no limit to the time step; the
    remaining terms do, and stability limits for them are made with ``max_wind=0.0``. Amounts are not conserved.
    Compile with ``semi_lagrangian=True``.

    Parameters
    ----------
    interpolation : ``"bilinear"`` (monotone, diffusive) or ``"cubic"`` (sharper, may overshoot)
    iterations : fixed-point iterations; they converge while neighbouring trajectories do not cross in a step
    inner : name of the integrator of the remaining terms; by default Strang splitting if closed-form flows were taken
        out (``exact_flows=True``), else Heun

    References
    ----------
    Staniforth & Côté (1991), Mon. Weather Rev. 119, 2206-2223, Sect. 2
    """

    order = 2
    treats = frozenset({"transport"})

    def __init__(
        self,
        tendency: Tendency,
        dt: float,
        *,
        interpolation: Method = "bilinear",
        iterations: int = 3,
        inner: str | None = None,
        handled: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(tendency, dt, handled=handled)
        if interpolation not in METHODS:
            raise DeclarationError(
                f"{self.name}: unknown interpolation {interpolation!r}", do=f"choose one of {', '.join(METHODS)}"
            )
        if iterations < 1:
            raise DeclarationError(f"{self.name}: `iterations` must be at least 1, not {iterations}")
        self.interpolation: Method = interpolation
        self.iterations = iterations
        name = inner or ("strang" if tendency.flows else "heun")
        half = 0.5 * self.dt
        self.inner = None if _at_rest(tendency) else integrators[name](tendency, half, handled=handled | self.treats)
        assert tendency.transport is not None
        carried = {field.name for field in tendency.transport.fields}
        self._carried = [index for index, field in enumerate(tendency.fields) if field.name in carried]
        # Only where walls stand: one sign for all fields costs less than one for each.
        walls = tendency.grid.boundary.walls
        odd = tuple(product(f.component or "") for f in tendency.fields if f.name in carried)
        self._odd = odd if any(parity and parity in walls for parity in odd) else None

    def forward(
        self, state: Float[Tensor, "batch field y x"], closures: Closures | None = None
    ) -> Float[Tensor, "batch field y x"]:
        """Return the state ``dt`` seconds later."""
        state = state if self.inner is None else self.inner(state, closures)
        wind = self._cells_per_second(state, closures)
        later = self._cells_per_second(self._transport(state, self._departures(wind, wind)), closures)
        state = self._transport(state, self._departures(wind, later))
        return state if self.inner is None else self.inner(state, closures)

    def _cells_per_second(self, state: Tensor, closures: Closures | None) -> Float[Tensor, "batch 2 y x"]:
        """Return the wind in cells per second (rows, then columns), so that a row's width does not matter."""
        u, v = self.tendency.wind(state, closures)
        grid = self.tendency.inputs(state, closures).grid
        return torch.stack([v / grid.dy, u / grid.dx], dim=1)

    def _departures(self, now: Tensor, later: Tensor) -> Float[Tensor, "batch 2 y x"]:
        """Return row and column that the air of each cell comes from."""
        ny, nx = now.shape[-2:]
        row = torch.arange(ny, dtype=now.dtype, device=now.device)[:, None].expand(ny, nx)
        column = torch.arange(nx, dtype=now.dtype, device=now.device).expand(ny, nx)
        here = torch.stack([row, column])
        there = here - self.dt * now
        for _ in range(self.iterations):
            upstream = interpolate(now, there, self.tendency.grid.boundary, odd=("y", "x"))
            there = here - 0.5 * self.dt * (upstream + later)
        return there

    def _transport(self, state: Tensor, departures: Tensor) -> Tensor:
        border = self.tendency.grid.boundary
        if len(self._carried) == state.shape[1]:
            return interpolate(state, departures, border, method=self.interpolation, odd=self._odd)
        moved = interpolate(state[:, self._carried], departures, border, method=self.interpolation, odd=self._odd)
        channels = list(state.unbind(1))
        for index, value in zip(self._carried, moved.unbind(1), strict=True):
            channels[index] = value
        return torch.stack(channels, dim=1)

    def _check_split(self, handled: frozenset[str]) -> None:
        """Let the inner integrator put closed-form flows back, or refuse to lose them."""
        super()._check_split(handled | {"flows"})

    def _check_limits(self) -> None:
        """Leave the wind without a limit; the inner integrator checks its own."""

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.interpolation}, {self.iterations} iterations"


def _at_rest(tendency: Tendency) -> bool:
    """Return whether nothing is left of the equations but transport."""
    nodes, outputs = tendency.program.nodes, tendency.program.outputs
    empty = all(nodes[i].kind == "constant" and nodes[i].value == 0.0 for i in outputs)
    return empty and not tendency.flows
