r"""Strong-constraint 4D-Var: the model is exact, and what drives it is sought.

.. math::

   J(\chi) = \tfrac12 \chi^\top \chi + \tfrac12 \left\| R^{-1/2}\left(y - h(\chi)\right) \right\|^2, \qquad
   x = x_b + U \chi, \quad B = U U^\top

with :math:`h` the observation operators after the model. The control vector :math:`\chi` is dimensionless: in it the
background errors are independent and of size 1, so that every unit is settled by the errors that are declared.

References
----------
Le Dimet & Talagrand (1986), Tellus A 38, 97-110; Courtier, Thépaut & Hollingsworth (1994), Q. J. R. Meteorol. Soc.
120, 1367-1387; Lorenc (2003), Q. J. R. Meteorol. Soc. 129, 3183-3203 (control variables)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..arguments import check_mapping
from ..errors import DeclarationError, ShapeError
from ..integrators.base import Closures, Integrator
from ..integrators.replay import Stretch, stretch_length
from .binding import bind_all
from .controls import Control
from .layout import Inputs, Layout
from .observations import Observations
from .quantities import Amount
from .simulation import Simulation
from .window import Window, steps_of

if TYPE_CHECKING:
    from jaxtyping import Float

    from .estimate import Estimate

__all__ = ["FourDVar", "Linearisation"]


class Linearisation:
    r"""The problem about one control vector: whitened departures, and :math:`G = R^{-1/2} H M U` both ways.

    Attributes
    ----------
    cost : J
    departures : :math:`R^{-1/2}(y - h(\chi))`, ``[obs]``
    gradient : of J, ``[control]``
    """

    def __init__(self, problem: FourDVar, chi: Tensor) -> None:
        self.problem = problem
        self.chi = chi.detach().clone().requires_grad_()
        with torch.enable_grad():
            self._departures = problem.departures(self.chi)
        self.departures = self._departures.detach()
        self.cost = 0.5 * float(self.departures.double().square().sum() + self.chi.detach().double().square().sum())
        self.gradient = self.chi.detach() - self.adjoint(self.departures)

    def tangent(self, direction: Float[Tensor, " control"], *, forward_mode: bool = False) -> Float[Tensor, " obs"]:
        """Return G v; by forward-mode differentiation the result owes nothing to the adjoint, and takes longer."""
        changes = self.problem.simulation.tangent(self.chi.detach(), direction, forward_mode)
        return self.problem.whitened(changes)

    def adjoint(self, weights: Float[Tensor, " obs"]) -> Float[Tensor, " control"]:
        """Return Gᵀ w; computed again from stored states, as often as asked."""
        (slope,) = torch.autograd.grad(self._departures, self.chi, -weights, retain_graph=True, materialize_grads=True)
        return slope

    def hessian(self, direction: Float[Tensor, " control"]) -> Float[Tensor, " control"]:
        """Return the Gauss-Newton Hessian times a direction, (I + GᵀG) v."""
        return direction + self.adjoint(self.tangent(direction))


class FourDVar:
    """Estimate initial state, coefficients and sources of a model from observations in a window.

    The background is what the model has: `state`, the present coefficients of the system, the given closures.

    Parameters
    ----------
    step : one step of a compiled system, by any integrator
    state : background of the initial state, ``[1, field, y, x]`` in SI
    window : number of steps, or a span of time such as ``"3 hours"``
    controls : what is sought, and how far the background is trusted
    observations : one set or several
    closures : constant, or a function of the step's number; those that a `Source` corrects may be left out
    checkpoint : steps between the states that a gradient stores, see `integrate`

    Raises
    ------
    ObservationError
        If there are no observations, or they lie outside grid or window, are not finite or have no error.
    DeclarationError, UnknownNameError, UnitError, ShapeError
        If controls, names, units or shapes do not fit the system.
    """

    def __init__(
        self,
        step: Integrator,
        state: Float[Tensor, "1 field y x"],
        *,
        window: int | Amount,
        controls: Sequence[Control],
        observations: Sequence[Observations],
        closures: Closures | Callable[[int], Closures] | None = None,
        checkpoint: Stretch = "auto",
    ) -> None:
        if not isinstance(step, Integrator):
            raise DeclarationError(
                f"expected a step of a model, got {type(step).__name__}",
                do="pass integrators['heun'](system.compile(grid), dt=60.0)",
            )
        self.step = step
        self.background = _checked_state(step, state)
        self.window = Window(step.dt, steps_of("`window`", window, step.dt))
        if isinstance(controls, Mapping) or not isinstance(controls, Sequence):
            controls = [controls]  # type: ignore[list-item]  # Layout says what is wrong with it
        self.layout = Layout(controls, step.tendency, self.window, self.background)
        self.observations = bind_all(observations, step.tendency, self.window, self.background)
        if closures is not None and not callable(closures):
            check_mapping("FourDVar", "closures", closures)
        length = stretch_length("FourDVar", checkpoint, self.window.steps)
        self.simulation = Simulation(
            step, self.window.steps, _by_number(closures), self.layout, self.observations, length
        )

    @property
    def size(self) -> int:
        """Number of control variables."""
        return self.layout.size

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(len(bound) for bound in self.observations)

    def start(self) -> Float[Tensor, " control"]:
        """Return the control vector of the background: zeros."""
        return torch.zeros(self.size, dtype=self.background.dtype, device=self.background.device)

    def inputs(self, chi: Float[Tensor, " control"]) -> Inputs:
        """Return what a control vector stands for, in SI; differentiable."""
        return self.layout.inputs(chi)

    def departures(self, chi: Float[Tensor, " control"]) -> Float[Tensor, " obs"]:
        """Return observation minus model in standard deviations of the observation errors; differentiable."""
        equivalents = self.simulation.equivalents(chi)
        return self.whitened([bound.values - e for bound, e in zip(self.observations, equivalents, strict=True)])

    def whitened(self, parts: Sequence[Tensor]) -> Float[Tensor, " obs"]:
        """Return numbers of all observations, SI, divided by the root of their errors' covariance."""
        pairs = zip(self.observations, parts, strict=True)
        return torch.cat([bound.whitening.apply(part) for bound, part in pairs])

    def cost(self, chi: Float[Tensor, " control"]) -> float:
        """Return J, added up in double precision."""
        with torch.no_grad():
            misfit = self.departures(chi).double().square().sum()
            return 0.5 * float(misfit + chi.double().square().sum())

    def linearise(self, chi: Float[Tensor, " control"]) -> Linearisation:
        """Return cost, gradient, tangent and adjoint about a control vector."""
        return Linearisation(self, chi)

    def solve(self, method: str = "lbfgs", **options: Any) -> Estimate:
        """Minimise J from the background.

        Parameters
        ----------
        method : ``"lbfgs"``, which needs gradients alone, or ``"gauss_newton"``, whose steps are found by conjugate
            gradients with Hessian-vector products: fewer steps, each much dearer, and a decrement that is no estimate
        options : see :mod:`pde_ops.assimilation.descent`

        Raises
        ------
        DivergedError
            If the model leaves the finite numbers from the background itself.
        """
        from .descent import METHODS
        from .estimate import Estimate

        if method not in METHODS:
            raise DeclarationError(f"unknown method {method!r}", do=f"choose one of {', '.join(METHODS)}")
        return Estimate(self, METHODS[method](self, **options))

    def __repr__(self) -> str:
        names = [part.name for part, _ in self.layout.maps] + self.layout.coefficients.names
        sets = ", ".join(f"{len(bound)} {bound.name}" for bound in self.observations)
        return (
            f"FourDVar of '{self.step.tendency.system.name}': {self.size} control variables ({', '.join(names)}), "
            f"{sets}, {self.window.steps} steps of {self.window.dt:g} s"
        )


def _checked_state(step: Integrator, state: Any) -> Tensor:
    tendency = step.tendency
    shape = (1, len(tendency.fields), tendency.grid.ny, tendency.grid.nx)
    if not isinstance(state, Tensor) or tuple(state.shape) != shape:
        came = list(state.shape) if isinstance(state, Tensor) else type(state).__name__
        raise ShapeError(
            f"`state` must be a tensor {list(shape)} for fields ({', '.join(tendency.field_names)}), not {came}"
        )
    raw = tendency.coefficients.raw
    if state.dtype != raw.dtype or state.device != raw.device:
        raise ShapeError(
            f"`state` is {state.dtype} on {state.device} but the compiled system is {raw.dtype} on {raw.device}",
            do="move one of them with .to(…); double precision, tendency.double(), suits an assimilation",
        )
    if not torch.isfinite(state).all():
        raise ShapeError("`state` is not finite: a background has a value in every cell", do="fill it first")
    return state.detach()


def _by_number(closures: Closures | Callable[[int], Closures] | None) -> Callable[[int], Closures]:
    if callable(closures):
        return closures
    constant: Closures = closures or {}
    return lambda number: constant
