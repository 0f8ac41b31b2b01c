"""A compiled system: the module that computes tendencies, and the last place where a unit exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .arguments import check_factor, check_like, check_mapping, check_march, expanded_closure, static_values
from .backends import Inputs, March, make_runner
from .backends.eager import EagerRunner
from .errors import DeclarationError, ShapeError, UnitError
from .expr import Call, Constant, Expr, replace, walk
from .grid import Grid2D
from .lowering import lower
from .operator import operators
from .parameters import Coefficients
from .splitting import FlowTerm, RotationTerm, take_flows, take_transport
from .stability import Limits
from .stability.bounds import static_sizes
from .symbols import Closure, Field, Static
from .units import parse_unit, registry, same_dimension, show

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float
    from numpy.typing import ArrayLike, NDArray

    from .system import PDESystem

__all__ = ["Tendency"]

GRID_STATICS = {"dx": "m", "lat": "rad", "f": "1/s", "curvature": "1/m", "rim_rate": "1/s"}  # and their units


class Tendency(nn.Module):
    """Right-hand side of a system on a grid; made by :meth:`pde_ops.PDESystem.compile`.

    Attributes
    ----------
    coefficients : the learnable positives
    closure_names : what ``closures`` must hold at every call
    limits : stability limits it was compiled with, or None
    geometry : the grid's tensors, of this module's dtype and on its device
    equations : what it computes: the system's, without what was taken out, with the rim and the limits added
    flows : closed-form terms that were taken out, for the splitting integrators
    transport : advection that was taken out, for the semi-Lagrangian integrator
    """

    def __init__(
        self,
        system: PDESystem,
        grid: Grid2D,
        *,
        backend: str,
        limits: Limits | None,
        exact_flows: bool,
        semi_lagrangian: bool,
        statics: Mapping[str, ArrayLike],
    ) -> None:
        super().__init__()
        if not isinstance(grid, Grid2D):
            raise DeclarationError(
                f"'{system.name}': expected a grid, got {type(grid).__name__}",
                do="pass Grid2D.from_latlon(…) or Grid2D.plane(…)",
            )
        self.system, self.grid, self.limits, self.backend = system, grid, limits, backend
        if limits is not None:
            limits.check_grid(grid)
        equations: dict[Field, Expr] = dict(system.equations)
        self.flows: list[FlowTerm | RotationTerm] = []
        if exact_flows:
            equations, self.flows = take_flows(equations)
        self.transport = None
        if semi_lagrangian:
            equations, self.transport = take_transport(equations)
        rim = grid.boundary.rim is not None
        if rim:
            equations = {f: _nudged(f, right) for f, right in equations.items()}
        if limits is not None:
            equations = {f: _wind_limited(right, limits) for f, right in equations.items()}
        self.equations = equations
        self.fields = system.fields
        self._closures = (*system.closures, *(_rim_target(f) for f in self.fields if rim))
        self._masters = self._gather_statics(system, statics)
        caps = None if limits is None else limits.caps(equations, self.static_sizes())
        floors = None if limits is None else limits.floors(equations)
        self.coefficients = Coefficients(system.coefficients, caps, floors)
        self.program = self._lower(list(equations.values()))
        self.runner = make_runner(backend, self.program, grid)
        self._flow_runners = [EagerRunner(self._lower(_flow_arguments(term)), grid) for term in self.flows]
        self._wind_runner = None
        if self.transport is not None:
            self._wind_runner = EagerRunner(self._lower([self.transport.u, self.transport.v]), grid)
        self.closure_names = tuple(c.name for c in self._closures)
        self._closure_set = frozenset(self.closure_names)
        self._expected = (len(self.fields), grid.ny, grid.nx)
        self._bind()

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the channels of the state, in order."""
        return tuple(f.name for f in self.fields)

    def forward(
        self, state: Float[Tensor, "batch field y x"], closures: Mapping[str, Tensor] | None = None
    ) -> Float[Tensor, "batch field y x"]:
        """Return the tendency of every field, in SI units per second."""
        return self.runner.tendency(self.inputs(state, closures))

    def advance(
        self,
        state: Float[Tensor, "batch field y x"],
        closures: Mapping[str, Tensor] | None,
        dt: float,
        factor: Float[Tensor, " field"] | None = None,
    ) -> Float[Tensor, "batch field y x"]:
        """Return ``state + factor · dt · F(state)``, which a fused backend does in one pass."""
        inputs = self.inputs(state, closures)
        check_factor(factor, self._expected[0], state)
        return self.runner.advance(inputs, dt, factor)

    def march(
        self, state: Float[Tensor, "batch field y x"], closures: Mapping[str, Tensor] | None, march: March
    ) -> Float[Tensor, "batch field y x"]:
        """Return the state after several such steps with closures and coefficients held, which are read but once."""
        inputs = self.inputs(state, closures, march.coefficients)
        check_march(march, self._expected[0], state)
        return self.runner.march(inputs, march)

    def wind(
        self, state: Float[Tensor, "batch field y x"], closures: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the wind that carries the fields, for a system compiled with ``semi_lagrangian=True``."""
        if self._wind_runner is None:
            raise DeclarationError(
                "this system was not compiled for semi-Lagrangian transport", do="compile with semi_lagrangian=True"
            )
        shape = state[:, 0].shape
        u, v = self._wind_runner.evaluate(self.inputs(state, closures))
        # A constant wind arrives as a plain number.
        u, v = (torch.as_tensor(part, dtype=state.dtype, device=state.device) for part in (u, v))
        return u.expand(shape), v.expand(shape)

    def apply_flow(self, index: int, state: Tensor, closures: Mapping[str, Tensor] | None, dt: float) -> Tensor:
        """Return the state after the closed-form update of one flow over ``dt`` seconds."""
        term, arguments = self.flows[index], self._flow_runners[index].evaluate(self.inputs(state, closures))
        channels = list(state.unbind(1))
        names = self.field_names
        if isinstance(term, FlowTerm):
            channels[names.index(term.field.name)] = term.flow.update(*arguments, dt=dt)
        else:
            first, second = names.index(term.first.name), names.index(term.second.name)
            angle = torch.as_tensor(arguments[0], dtype=state.dtype, device=state.device) * dt
            cosine, sine = angle.cos(), angle.sin()
            a, b = channels[first], channels[second]
            channels[first], channels[second] = a * cosine + b * sine, b * cosine - a * sine
        return torch.stack(channels, dim=1)

    def parameters_in_units(self) -> dict[str, Any]:
        """Return the learnable coefficients as quantities in the units they were declared in."""
        return self.coefficients.in_units()

    def static_sizes(self) -> dict[str, tuple[float, float]]:
        """Return the least and largest amount of each static, SI: what a budget of stability counts."""
        return static_sizes(self.grid, self._masters)

    def inputs(
        self, state: Tensor, closures: Mapping[str, Tensor] | None, coefficients: Tensor | None = None
    ) -> Inputs:
        """Check what came and bundle it for a runner, with the coefficients of now or those that came."""
        if not isinstance(state, Tensor):
            raise ShapeError(
                f"`state` must be a torch tensor, not {type(state).__module__}.{type(state).__qualname__}",
                do="make one with torch.as_tensor(…)",
            )
        if state.ndim != 4 or state.shape[1:] != self._expected:
            fields, ny, nx = self._expected
            raise ShapeError(
                f"`state` must be [batch, {fields}, {ny}, {nx}] for fields ({', '.join(self.field_names)}), "
                f"not {list(state.shape)}"
            )
        current = self.coefficients  # a module looks its parts up the long way: once is enough
        raw = current.raw
        if state.dtype != raw.dtype or state.device != raw.device:
            raise ShapeError(
                f"`state` is {state.dtype} on {state.device} but the compiled system is {raw.dtype} on {raw.device}",
                do="move one of them with .to(…)",
            )
        state = state.resolve_neg()  # a kernel reads memory, where a negated view has the other sign
        if coefficients is None:
            coefficients = current()
        else:
            check_like("coefficients", coefficients, tuple(raw.shape), state)
        return Inputs(state, self._ordered(state, closures or {}), coefficients, self._statics, self.geometry)

    def _ordered(self, state: Tensor, closures: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        names = self.closure_names
        check_mapping(f"'{self.system.name}'", "closures", closures)
        if closures.keys() != self._closure_set:
            missing, extra = sorted(set(names) - set(closures)), sorted(set(closures) - set(names))
            words = [f"missing {', '.join(missing)}"] * bool(missing) + [f"unknown {', '.join(extra)}"] * bool(extra)
            raise ShapeError(
                f"`closures` of '{self.system.name}': {'; '.join(words)}", do=f"pass {', '.join(names) or 'none'}"
            )
        if not names:
            return ()
        shape = (state.shape[0], *self._expected[1:])
        return tuple(expanded_closure(name, closures[name], shape, state) for name in names)

    def _lower(self, outputs: list[Expr]) -> Any:
        return lower(outputs, self.fields, self._closures, self.system.coefficients, self.grid.boundary.walls)

    def _gather_statics(self, system: PDESystem, statics: Mapping[str, ArrayLike]) -> dict[str, NDArray[np.float64]]:
        grid, gathered = self.grid, {}
        check_mapping(f"'{system.name}'", "statics", statics)
        unknown = set(statics) - {s.name for s in system.statics}
        if unknown:
            raise DeclarationError(f"no Static is called {', '.join(sorted(unknown))} in '{system.name}'")
        for symbol in system.statics:
            if symbol.name in statics:
                gathered[symbol.name] = static_values(symbol.name, statics[symbol.name], (grid.ny, grid.nx))
            elif symbol.name not in GRID_STATICS:
                raise DeclarationError(
                    f"Static '{symbol.name}' is not supplied by the grid",
                    do=f"pass compile(grid, statics={{'{symbol.name}': array}}); "
                    f"the grid has {', '.join(GRID_STATICS)}",
                )
            elif not same_dimension(symbol.unit, parse_unit(GRID_STATICS[symbol.name])):
                raise UnitError(
                    f"Static '{symbol.name}' is declared in [{show(symbol.unit)}], but the grid supplies it in "
                    f"[{GRID_STATICS[symbol.name]}]",
                    do="give it another name, or pass your own array in compile(grid, statics=…)",
                )
        return gathered

    def _bind(self) -> None:
        """Copy geometry and statics from their float64 originals to this module's dtype and device."""
        raw = self.coefficients.raw
        self.geometry = self.grid.bind(raw.dtype, raw.device)
        self._statics = {name: getattr(self.geometry, name) for name in GRID_STATICS}
        for name, master in self._masters.items():
            self._statics[name] = torch.tensor(master, dtype=raw.dtype, device=raw.device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Tendency:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._bind()  # from the originals: converting float32 copies to float64 would keep float32 round-off
        return self

    def extra_repr(self) -> str:
        size = f"{self.grid.ny} x {self.grid.nx}"
        return f"{self.system.name}: {', '.join(self.field_names)} on {size}, backend={self.backend}"


def _rim_target(field: Field) -> Closure:
    return Closure(f"rim_{field.name}", field.unit, latex=rf"{field.latex()}^{{\mathrm{{rim}}}}")


def _nudged(field: Field, right: Expr) -> Expr:
    """Add Davies relaxation of the rim; where the rate is zero the term is zero."""
    rate = Static("rim_rate", "1/s", latex=r"\alpha_{\mathrm{rim}}")
    return right + rate * (_rim_target(field) - field)


def _wind_limited(right: Expr, limits: Limits) -> Expr:
    """Replace the advecting wind V of every call by V·min(1, U/|V|)."""
    table: dict[Expr, Expr] = {}
    for node in walk(right):
        if isinstance(node, Call) and node.operator.wind is not None:
            u, v = (node.argument(name) for name in node.operator.wind)
            share = operators["speed_limit"](u, v, Constant(limits.max_wind, registry.meter / registry.second))
            names = tuple(node.operator.inputs)
            swapped = dict(zip(names, node.arguments, strict=True))
            swapped[node.operator.wind[0]], swapped[node.operator.wind[1]] = u * share, v * share
            table[node] = node.rebuild(tuple(swapped[name] for name in names))
    return replace(right, table)


def _flow_arguments(term: FlowTerm | RotationTerm) -> list[Expr]:
    return list(term.call.arguments) if isinstance(term, FlowTerm) else [term.rate]
