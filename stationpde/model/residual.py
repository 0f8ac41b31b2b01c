r"""Measure how far fields are from solving equations: the physics residual of a loss.

For fields :math:`X_0, X_1, \dots` an interval :math:`\Delta t` apart and the terms :math:`\Phi_i` of a system, the
residual of a channel :math:`\varphi` over an interval is

.. math:: r_\varphi = \frac{\Delta t}{s_\varphi} \Bigl( \frac{X_{k+1} - X_k}{\Delta t}
          - \sum_i \lambda_{\varphi i}\,\Phi_{\varphi i}\bigl(\tfrac12 (X_k + X_{k+1})\bigr) - Q_\varphi \Bigr)

in parts of :math:`s_\varphi`, the standard deviation of the field in training: what an interval changes and the
equations do not explain. Each term of each equation has a coefficient :math:`\lambda \ge 0` of its own, in its unit;
:math:`Q`, a mean and two harmonics of the local day for each channel, stands for the forces that no term describes. The
loss is the mean of :math:`r^2` over channels, intervals and all cells but the outer ring, where the border would answer
for the weather beyond.

:math:`\lambda` and :math:`Q` are learned on the lifted observations alone and are held for the forecast: it is drawn to
equations that the observations follow, and cannot buy a small residual by switching terms off.

Reference: Luo et al., "Physics-guided learning of meteorological dynamics for weather downscaling and forecasting",
KDD 2025 (arXiv 2505.14555), second stage. What differs: the residual is squared (public code takes the mean with its
sign, which errors of both signs satisfy), in SI through `pde_ops` (there: standardised data with dx = dt = 1), and both
stages run at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pde_ops import DeclarationError, Grid2D, PDESystem, Positive
from pde_ops.expr import Call, Constant, Expr, Sum, replace, walk
from pde_ops.units import from_si, parse_unit
from stationpde.model.base_state import BaseState
from stationpde.model.learner import Reducer
from stationpde.model.scaling import Scaling
from stationpde.physics import DAY

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Course", "PhysicsResidual", "ResidualSums", "course_of", "with_coefficients"]

# Mean, and cosine and sine of one and two turns a day.
_HARMONICS = 2
# λ and Q see one residual a step: at the rate of the networks they would not arrive within two epochs.
RATE_SCALE = 10.0
# Intervals count where at least this share of the network stands behind both ends.
_LEAST_COVERAGE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Fields one interval apart, as the equations evolve them.

    Attributes
    ----------
    fields : SI
    base : base state at the same times, SI; None where the equations need none
    times : seconds since 1970, UTC
    coverage : share of the network behind each value; None where every field counts
    """

    fields: Float[Tensor, "batch time field y x"]
    base: Float[Tensor, "batch time field y x"] | None
    times: Int64[Tensor, "batch time"]
    coverage: Float[Tensor, "batch time field y x"] | None = None


def course_of(
    scaled: Float[Tensor, "batch time field y x"],
    times: Int64[Tensor, "batch time"],
    scaling: Scaling,
    base: BaseState | None,
    coverage: Float[Tensor, "batch time field y x"] | None = None,
) -> Course:
    """Return scaled fields as the equations evolve them, with the base state of their times, if there is one."""
    fields = scaling.inverse(scaled)
    return Course(fields, None if base is None else base.on_grid(times, fields.shape), times, coverage)


@dataclass(frozen=True, slots=True, eq=False)
class ResidualSums:
    """Sum of squared residuals by channel, and how many there are."""

    squares: Float[Tensor, " field"]
    count: Float[Tensor, " field"]

    def mean(self, weights: Float[Tensor, " field"], reducer: Reducer) -> Tensor:
        """Return the weighted mean over channels of the mean square over the whole batch."""
        squares, count = reducer.sum(self.squares), reducer.sum(self.count)
        seen = (count > 0).to(weights.dtype) * weights
        return (seen * squares / count.clamp(min=1.0)).sum() / seen.sum().clamp(min=torch.finfo(seen.dtype).tiny)


def with_coefficients(system: PDESystem) -> PDESystem:
    """Return the system with a coefficient λ of its own before each term of each equation.

    ``lambda_laplacian_u`` takes the unit and the first value of the coefficient that the term has; a term without one
    gets a factor that starts at 1.
    """
    equations: dict[Any, Expr | float] = {}
    for field, right in system.equations.items():
        names: set[str] = set()
        total: Expr | float = 0.0
        for term in right.terms if isinstance(right, Sum) else (right,):
            if not isinstance(term, Constant):
                total = total + _with_own(term, field.name, names)
        equations[field] = total
    return PDESystem(f"{system.name}, each term with a coefficient", equations)


def _with_own(term: Expr, field: str, names: set[str]) -> Expr:
    calls = [node for node in walk(term) if isinstance(node, Call)]
    about = calls[-1].operator.family if calls else "term"  # parents come last: the operator around the others
    name = next(
        text for text in (f"lambda_{about}{number}_{field}" for number in ("", *range(2, 100))) if text not in names
    )
    names.add(name)
    present = [node for node in walk(term) if isinstance(node, Positive)]
    if not present:
        return Positive(name, "1", init=1.0, latex=_latex(about, field)) * term
    symbol = present[0]
    unit = symbol.declared_unit
    first = float(from_si(symbol.init, unit).magnitude)
    return replace(term, {symbol: Positive(name, unit, init=first, latex=_latex(about, field))})


def _latex(about: str, field: str) -> str:
    return rf"\lambda_{{\mathrm{{{about.replace('_', ' ')}}},{field}}}"


class PhysicsResidual(nn.Module):
    """Residual of a composed system on fields.

    Parameters
    ----------
    system : any system whose closures, if it has any, are base states ``u_b``, ``v_b`` … of its fields
    grid : of the fields
    scale : s of each field, SI
    step_seconds : Δt
    backend : implementation of the equations
    """

    scale: Tensor
    longitude: Tensor

    def __init__(
        self, system: PDESystem, grid: Grid2D, scale: Float[Tensor, " field"], step_seconds: float,
        longitude: Float[Tensor, " x"] | None = None, backend: str = "torch",
    ) -> None:  # fmt: skip
        super().__init__()
        bases = {f"{field.name}_b" for field in system.fields}
        others = [closure.name for closure in system.closures if closure.name not in bases]
        if others:
            raise DeclarationError(
                f"the residual of '{system.name}' has no value for {', '.join(others)}",
                do="take the terms out: system.without(…)",
            )
        self.step_seconds = float(step_seconds)
        self.tendency = with_coefficients(system).compile(grid, backend=backend)
        self.force = nn.Parameter(torch.zeros(len(system.fields), 1 + 2 * _HARMONICS))
        turns = torch.zeros(grid.nx) if longitude is None else longitude / 360.0
        self.register_buffer("scale", scale.detach().clone().to(torch.float32)[:, None, None], persistent=False)
        self.register_buffer("longitude", turns.to(torch.float32), persistent=False)
        self._fields = self.tendency.field_names

    def forward(self, course: Course, *, held: bool) -> Float[Tensor, "batch interval field y x"]:
        """Return the residual of each interval in parts of ``scale``; ``held``: no gradient reaches λ and Q."""
        fields = course.fields
        change, middle = fields[:, 1:] - fields[:, :-1], 0.5 * (fields[:, 1:] + fields[:, :-1])
        closures = {}
        if course.base is not None and self.tendency.closure_names:
            base = (0.5 * (course.base[:, 1:] + course.base[:, :-1])).flatten(0, 1)
            closures = {name: base[:, self._fields.index(name.removesuffix("_b"))] for name in
                        self.tendency.closure_names}  # fmt: skip
        coefficients = self.tendency.coefficients()
        coefficients = coefficients.detach() if held else coefficients
        inputs = self.tendency.inputs(middle.flatten(0, 1).contiguous(), closures, coefficients)
        rate = self.tendency.runner.tendency(inputs).unflatten(0, middle.shape[:2])
        explained = (change - self.step_seconds * rate) / self.scale
        return explained - self._forced(course.times, held)[:, :, :, None, :]

    def _forced(self, times: Int64[Tensor, "batch time"], held: bool) -> Float[Tensor, "batch interval field x"]:
        """Return Q over each interval in parts of ``scale``, by local solar time at its middle."""
        seconds = torch.remainder(times[:, :-1] + round(self.step_seconds / 2), int(DAY)).to(self.scale.dtype)
        angle = 2.0 * math.pi * (seconds[..., None] / DAY + self.longitude)
        basis = [torch.ones_like(angle)]
        for number in range(1, _HARMONICS + 1):
            basis += [(number * angle).cos(), (number * angle).sin()]
        force = self.force.detach() if held else self.force
        return torch.einsum("bkxh,ch->bkcx", torch.stack(basis, dim=-1), force)

    def sums(self, course: Course, *, held: bool) -> ResidualSums:
        """Return the sums of squared residuals over intervals and cells, without the outer ring."""
        squares = self(course, held=held)[..., 1:-1, 1:-1].square()
        if course.coverage is None:
            count = squares.new_tensor(float(squares[:, :, 0].numel())).expand(squares.shape[2])
            return ResidualSums(squares.sum(dim=(0, 1, 3, 4)), count)
        share = course.coverage.mean(dim=(-2, -1))
        there = (torch.minimum(share[:, 1:], share[:, :-1]) >= _LEAST_COVERAGE).to(squares.dtype)
        cells = float(squares.shape[-1] * squares.shape[-2])
        return ResidualSums((squares.sum(dim=(-2, -1)) * there).sum(dim=(0, 1)), cells * there.sum(dim=(0, 1)))

    def loss(
        self, forecast: Course, observed: Course, weights: Float[Tensor, " field"], reducer: Reducer
    ) -> tuple[Tensor, Tensor]:
        """Return the residual of a forecast, λ and Q held, and that of the observations, which trains them alone."""
        detached = Course(observed.fields.detach(), observed.base, observed.times, observed.coverage)
        return (
            self.sums(forecast, held=True).mean(weights, reducer),
            self.sums(detached, held=False).mean(weights, reducer),
        )

    @torch.no_grad()
    def physics(self) -> dict[str, Any]:
        """Return λ of each term in its unit, and the root mean square of Q of each field over a day, an hour."""
        power = self.force[:, 0].square() + 0.5 * self.force[:, 1:].square().sum(dim=1)
        rates = power.sqrt() * self.scale.flatten() / self.step_seconds
        forces = {
            f"force_{field.name}": from_si(float(rate), field.unit / parse_unit("hour"))
            for field, rate in zip(self.tendency.fields, rates, strict=True)
        }
        return {**self.tendency.parameters_in_units(), **forces}

    def parameter_group(self) -> dict[str, Any]:
        """Return the group of λ and Q for an optimiser: not decayed, and learned faster than networks."""
        return {"params": list(self.parameters()), "weight_decay": 0.0, "lr_scale": RATE_SCALE}
