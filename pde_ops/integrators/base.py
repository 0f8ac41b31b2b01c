"""What every integrator shares: the registry, the check of what it is given, and the look of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, TypeVar

from torch import Tensor, nn

from ..errors import DeclarationError, StabilityError
from ..registry import Registry
from ..splitting import take_flows
from ..stability import transport_growth, transports, wave_fields
from ..tendency import Tendency

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Closures", "Integrator", "integrators", "register"]

Closures = Mapping[str, Tensor]

integrators: Registry[type[Integrator]] = Registry("integrator", group="pde_ops.integrators")

I = TypeVar("I", bound="type[Integrator]")


class Integrator(nn.Module):
    """One time step of a compiled system: ``step = integrators[name](tendency, dt)``, ``state = step(state)``.

    Closures are held constant over the step. A step is a plain function of its arguments: nothing in it depends on
    the values it meets, so it traces into one graph, and every sample of a batch is advanced by itself unless
    ``batch_independent`` says otherwise.

    Parameters
    ----------
    tendency : the compiled system
    dt : s, finite and positive
    handled : what an enclosing integrator takes care of (``"flows"``, ``"transport"``); for inner integrators

    Attributes
    ----------
    order : temporal order of accuracy, as the tests observe it
    treats : what it does beside the tendency: closed-form ``"flows"``, semi-Lagrangian ``"transport"``
    polynomial : its stability polynomial, constant first, if it is one explicit scheme
    batch_independent : whether a sample's result is its own alone
    undecayed : names of parameters that weight decay must leave alone
    """

    name: ClassVar[str] = ""
    order: ClassVar[int] = 0
    treats: ClassVar[frozenset[str]] = frozenset()
    polynomial: ClassVar[tuple[float, ...] | None] = None
    batch_independent: bool = True
    undecayed: ClassVar[tuple[str, ...]] = ()
    tendency: Tendency
    dt: float

    def __init__(self, tendency: Tendency, dt: float, *, handled: frozenset[str] = frozenset()) -> None:
        super().__init__()
        if not isinstance(tendency, Tendency):
            raise DeclarationError(
                f"{self.name}: expected a compiled system, got {type(tendency).__name__}",
                do="pass system.compile(grid)",
            )
        if not (isinstance(dt, Real) and math.isfinite(dt) and dt > 0):
            raise StabilityError(
                f"{self.name}: the time step must be finite and positive seconds, not {dt!r}", do="pass dt=1800.0"
            )
        if handled:  # the enclosing integrator owns it: a parameter has one place in a state dict
            self.__dict__["tendency"] = tendency
        else:
            self.tendency = tendency
        self.dt = float(dt)
        self._check_split(self.treats | handled)
        self._check_limits()

    def forward(
        self, state: Float[Tensor, "batch field y x"], closures: Closures | None = None
    ) -> Float[Tensor, "batch field y x"]:
        """Return the state ``dt`` seconds later."""
        raise NotImplementedError

    @property
    def longest_step(self) -> float:
        """Longest ``dt`` that the limits of the tendency allow this integrator, s."""
        limits = self.tendency.limits
        return math.inf if limits is None else limits.dt / limits.substeps

    def _check_split(self, handled: frozenset[str]) -> None:
        """Check that what was taken out is put back, and that what is to be treated was taken out."""
        flows, transport = bool(self.tendency.flows), self.tendency.transport is not None
        if flows and "flows" not in handled:
            raise DeclarationError(
                f"{self.name}: the tendency was compiled with exact_flows=True, its closed-form terms would be lost",
                do="take integrators['strang'], or compile without exact_flows",
            )
        if transport and "transport" not in handled:
            raise DeclarationError(
                f"{self.name}: the tendency was compiled with semi_lagrangian=True, its advection would be lost",
                do="take integrators['semi_lagrangian'], or compile without semi_lagrangian",
            )
        if "flows" in self.treats and not flows:
            has_flows = bool(take_flows(self.tendency.system.equations)[1])
            raise DeclarationError(
                f"{self.name}: no term with a closed-form update was taken out of '{self.tendency.system.name}'",
                do="compile(grid, exact_flows=True)"
                if has_flows
                else "none of its terms has one: take integrators['heun']",
            )
        if "transport" in self.treats and not transport:
            raise DeclarationError(
                f"{self.name}: the advection was not taken out of '{self.tendency.system.name}'",
                do="compile(grid, semi_lagrangian=True)",
            )

    def _check_limits(self) -> None:
        limits = self.tendency.limits
        # 1e-9: dt and limits.dt / substeps may be the same number reached by different divisions
        if limits is not None and self.dt > self.longest_step * (1.0 + 1e-9):
            raise StabilityError(
                f"{self.name}: dt = {self.dt:g} s is beyond {self.longest_step:g} s, the limit of the tendency "
                f"({limits.dt:g} s in {limits.substeps} sub-steps)",
                do=f"pass dt={self.longest_step:g}, or sub-step: integrators['range_scaled_euler'](…, rule='none')",
            )
        if limits is not None and self.polynomial is not None:
            self._check_transport(self.polynomial)
            self._check_waves()

    def _check_waves(self) -> None:
        """Refuse limits that say nothing of waves which fields carry together, and would seem to."""
        ringing = wave_fields(self.tendency.equations)
        if ringing:
            raise StabilityError(
                f"{self.name}: the limits of the tendency do not bound the waves of {', '.join(ringing)}",
                do="compile without limits, with a step below stability.stable_time_step(tendency, state=…, "
                "scheme='rk4')",
            )

    def _check_transport(self, polynomial: tuple[float, ...]) -> None:
        """Limits promise stability up to a Courant number of 1: the scheme must keep that for what advects here."""
        for operator in transports(self.tendency):
            factor = transport_growth(operator, polynomial)
            if factor > 1.0 + 1e-6:  # round-off of a Fourier transform is not growth
                raise StabilityError(
                    f"{self.name}: a step within the limits lets `{operator.name}` grow up to x {factor:.3g}",
                    do="take 'ssprk3' or 'rk4', use advection_upwind1, or compile without limits at your own risk",
                )

    def extra_repr(self) -> str:
        return f"dt={self.dt:g} s, order {self.order}"


def register(name: str) -> Callable[[I], I]:
    """Register an integrator class under a name."""

    def declare(cls: I) -> I:
        cls.name = name
        integrators.add(name, cls, owner=cls.__module__)
        return cls

    return declare
