"""A system of surface PDEs: one expression for the tendency of each field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from .describe import citations, to_latex, to_markdown
from .errors import DeclarationError, UnitError, UnknownNameError
from .expr import Call, Constant, Expr, Product, Sum, as_expr, replace, walk
from .symbols import Closure, Field, Positive, Static, Symbol, check_names
from .units import registry, same_dimension, show

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .grid import Grid2D
    from .stability import Limits
    from .tendency import Tendency

__all__ = ["PDESystem"]


class PDESystem:
    r"""Evolution equations :math:`\partial_t a = \ldots`, checked for units as they are put together.

    Parameters
    ----------
    name : what the documentation calls it
    equations : field to the expression of its tendency; their order is the channel order of the state
    """

    def __init__(self, name: str, equations: Mapping[Field, Expr | float]) -> None:
        if not equations:
            raise DeclarationError(f"system '{name}' has no equation")
        self.name = name
        self.equations: dict[Field, Expr] = {}
        for field, right in equations.items():
            if not isinstance(field, Field):
                raise DeclarationError(f"system '{name}': the key {field!r} is not a Field")
            self.equations[field] = self._checked(field, as_expr(right))
        nodes = (node for right in self.equations.values() for node in walk(right))
        check_names([*self.equations, *(node for node in nodes if isinstance(node, Symbol))])

    @staticmethod
    def _checked(field: Field, right: Expr) -> Expr:
        need = field.unit / registry.second
        if isinstance(right, Constant) and right.value == 0.0:
            return Constant(0.0, need)
        if not same_dimension(need, right.unit):
            raise UnitError(
                f"d{field.name}/dt needs [{show(need)}] but the right-hand side has "
                f"[{show(right.unit)}]: {right.text()}",
                do="check the coefficients in it",
            )
        return right

    @property
    def fields(self) -> tuple[Field, ...]:
        """The evolving fields, in channel order."""
        return tuple(self.equations)

    @property
    def closures(self) -> tuple[Closure, ...]:
        """Closures in order of appearance."""
        return tuple(s for s in self._symbols() if isinstance(s, Closure))

    @property
    def statics(self) -> tuple[Static, ...]:
        """Statics in order of appearance."""
        return tuple(s for s in self._symbols() if isinstance(s, Static))

    @property
    def coefficients(self) -> tuple[Positive, ...]:
        """Learnable positives in order of appearance."""
        return tuple(s for s in self._symbols() if isinstance(s, Positive))

    @property
    def term_names(self) -> frozenset[str]:
        """Everything by which `without` may call a term: operators, their families, closures and coefficients."""
        return frozenset(t for right in self.equations.values() for term in _terms(right) for t in _names(term))

    def calls(self) -> Iterator[Call]:
        """Return every operator call in the system."""
        for right in self.equations.values():
            yield from (node for node in walk(right) if isinstance(node, Call))

    def _symbols(self) -> Iterator[Symbol]:
        seen: dict[str, Symbol] = {}
        for right in self.equations.values():
            for node in walk(right):
                if isinstance(node, Symbol):
                    seen.setdefault(node.name, node)
        return iter(seen.values())

    def with_(self, changes: Mapping[Field, Expr | float], *, name: str | None = None) -> PDESystem:
        """Return a system with equations replaced or added."""
        return PDESystem(name or self.name, {**self.equations, **changes})

    def without(self, *targets: str) -> PDESystem:
        """Return the system without the terms that contain an operator, closure or coefficient: an ablation.

        Of an advecting wind that is a sum, a coefficient takes out its summand alone: what remains of it still carries.

        Parameters
        ----------
        targets : names of operators, operator families (``"advection"`` takes every scheme), closures or coefficients
        """
        term_names = self.term_names
        for target in targets:
            if target not in term_names:
                raise UnknownNameError(
                    f"system '{self.name}' has no term with '{target}'", do=f"it has: {', '.join(sorted(term_names))}"
                )
        remaining = {
            field: _drop(_thinned(right, set(targets)), lambda term: bool(_names(term) & set(targets)))
            for field, right in self.equations.items()
        }
        return PDESystem(
            f"{self.name} without {', '.join(targets)}", {f: e if e is not None else 0.0 for f, e in remaining.items()}
        )

    def to_latex(self) -> str:
        """Return the equations as a LaTeX ``align`` environment."""
        return to_latex(self)

    def to_markdown(self) -> str:
        """Return the equations, symbols with units, operators and references as Markdown."""
        return to_markdown(self)

    def citations(self) -> list[str]:
        """References of exactly the operators used."""
        return citations(self)

    def compile(
        self,
        grid: Grid2D,
        *,
        backend: str = "torch",
        limits: Limits | None = None,
        exact_flows: bool = False,
        semi_lagrangian: bool = False,
        statics: Mapping[str, ArrayLike] | None = None,
    ) -> Tendency:
        """Turn the equations into a module of plain float operations on a grid.

        Parameters
        ----------
        backend : ``"torch"``, ``"inductor"``, ``"fused"``, ``"triton"``, ``"auto"`` or one that a plug-in publishes
        limits : stability limits of the step to come (:func:`pde_ops.stability.limits`): caps the coefficients and
            bounds the advecting wind
        exact_flows : take the terms that have a closed-form update out of the tendency, for a splitting integrator
        semi_lagrangian : take the advection terms out, for the semi-Lagrangian integrator
        statics : arrays ``[y, x]`` for the statics that the grid does not supply
        """
        from .tendency import Tendency

        return Tendency(
            self,
            grid,
            backend=backend,
            limits=limits,
            exact_flows=exact_flows,
            semi_lagrangian=semi_lagrangian,
            statics=statics or {},
        )

    def __repr__(self) -> str:
        lines = [f"  d{f.name}/dt = {right.text()}" for f, right in self.equations.items()]
        return "\n".join([f"PDESystem '{self.name}'", *lines])


def _terms(right: Expr) -> tuple[Expr, ...]:
    return right.terms if isinstance(right, Sum) else (right,)


def _names(term: Expr) -> set[str]:
    """Return everything by which ``without`` may call a term."""
    names = set()
    for node in walk(term):
        if isinstance(node, Call):
            names |= {node.operator.name, node.operator.family}
        elif isinstance(node, Closure | Positive):
            names.add(node.name)
    return names


def _thinned(right: Expr, targets: set[str]) -> Expr:
    """Take the summands of advecting winds that hold a coefficient of these names out, where others remain."""
    table: dict[Expr, Expr] = {}
    for node in walk(right):
        if not isinstance(node, Call) or node.operator.wind is None:
            continue
        parts = {name: node.argument(name) for name in node.operator.wind}
        if not any(_coefficients(part) & targets for part in parts.values()):
            continue
        thinned = {name: _drop(part, lambda term: bool(_coefficients(term) & targets)) for name, part in parts.items()}
        if all(part is not None for part in thinned.values()):
            named = zip(node.operator.inputs, node.arguments, strict=True)
            arguments = tuple(argument if (part := thinned.get(name)) is None else part for name, argument in named)
            table[node] = node.rebuild(arguments)
    return replace(right, table)


def _coefficients(term: Expr) -> set[str]:
    return {node.name for node in walk(term) if isinstance(node, Positive)}


def _drop(right: Expr, gone: Callable[[Expr], bool]) -> Expr | None:
    """Remove matching terms, also inside a product with a sum, e.g. κ·(∇²a + …)."""
    if isinstance(right, Sum):
        remaining = [t for t in (_drop(term, gone) for term in right.terms) if t is not None]
        return None if not remaining else remaining[0] if len(remaining) == 1 else Sum(tuple(remaining))
    if isinstance(right, Product) and any(isinstance(f, Sum) for f in right.factors):
        factors = [_drop(f, gone) if isinstance(f, Sum) else (None if gone(f) else f) for f in right.factors]
        return None if any(f is None for f in factors) else right.rebuild(tuple(f for f in factors if f is not None))
    return None if gone(right) else right
