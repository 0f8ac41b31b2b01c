"""The named quantities of a system: fields that evolve, statics, closures, and learnable positives."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .boundaries import Axis
from .errors import DeclarationError, UnitError
from .expr import Expr
from .units import Unit, coherent_unit, parse_unit, registry, show, to_si

LEAST, MOST = 1.2e-38, 3.4e38  # that single precision holds in full

__all__ = ["Closure", "Field", "Positive", "Static", "Symbol", "check_names"]


class Symbol(Expr):
    """A named leaf of an expression.

    Parameters
    ----------
    name : identifier, unique within a system
    unit : coherent SI, in pint's or CF's spelling
    latex : how the documentation prints it; the name otherwise
    component : ``"x"`` or ``"y"`` if it is that component of a vector: a reflecting wall across that axis turns it
        round, in whatever operator it stands
    """

    __slots__ = ("component", "label", "name")
    role = "symbol"

    def __init__(self, name: str, unit: str | Unit, *, latex: str | None = None, component: Axis | None = None) -> None:
        owner = f"{type(self).__name__}('{name}')"
        if not isinstance(name, str) or not name.isidentifier():
            raise DeclarationError(f"{owner}: the name must be an identifier such as 'theta'")
        if component not in (None, "x", "y"):
            raise DeclarationError(f"{owner}: `component` is 'x', 'y' or None, not {component!r}")
        self.name = name
        self.component = component
        self.label = latex or _greek(name)
        unit = self._unit(unit)
        super().__init__(unit, (self.role, name, str(unit.dimensionality), component))

    def _unit(self, unit: str | Unit) -> Unit:
        return coherent_unit(unit, owner=f"{type(self).__name__}('{self.name}')")

    def text(self) -> str:
        return self.name

    def latex(self) -> str:
        return self.label


class Field(Symbol):
    """A quantity that evolves: one channel of the state, ``[batch, y, x]``."""

    __slots__ = ()
    role = "field"


class Static(Symbol):
    """A quantity fixed in time: supplied by the grid (``f``, ``lat``, ``dx``) or given to ``compile``."""

    __slots__ = ()
    role = "static"


class Closure(Symbol):
    """A quantity supplied at every call, for instance by a neural network: ``[batch, y, x]``."""

    __slots__ = ()
    role = "closure"


class Positive(Symbol):
    """A learnable coefficient that stays positive, declared and reported in any unit.

    .. math:: c = c_0 \\, \\mathrm{softplus}(r), \\qquad r \\text{ learnable, } c(r_0) = \\mathtt{init}

    Parameters
    ----------
    name, unit : as for every symbol, but any unit is allowed
    init : value at the start, in ``unit``
    cap : largest value it may reach, in ``unit``; stability limits given to ``compile`` may lower it
    learnable : False keeps the value fixed
    """

    __slots__ = ("cap", "declared_unit", "init", "learnable")
    role = "positive"

    def __init__(
        self,
        name: str,
        unit: str | Unit,
        *,
        init: float,
        cap: float | None = None,
        latex: str | None = None,
        learnable: bool = True,
    ) -> None:
        self.declared_unit = parse_unit(unit)
        self.learnable = learnable
        super().__init__(name, unit, latex=latex)
        if to_si(0.0, self.declared_unit) != 0.0:
            raise UnitError(f"Positive('{name}'): [{show(self.declared_unit)}] has an offset; use a difference unit")
        if not (math.isfinite(_number(init)) and _number(init) > 0.0):
            raise DeclarationError(f"Positive('{name}'): `init` must be finite and above 0, not {init}")
        init = _number(init)
        if cap is not None and not _number(cap) > init:
            raise DeclarationError(f"Positive('{name}'): `cap` {cap} must exceed `init` {init}")
        self.init = to_si(init, self.declared_unit)
        if not LEAST <= self.init <= MOST:
            raise DeclarationError(
                f"Positive('{name}'): {init:g} {show(self.declared_unit)} is {self.init:g} in SI, beyond what single "
                f"precision holds ({LEAST:.1g} to {MOST:.1g})",
                do="check its unit, or move a constant factor into the equation",
            )
        self.cap = None if cap is None else to_si(cap, self.declared_unit)

    def _unit(self, unit: str | Unit) -> Unit:
        # Any unit may be declared; the expression carries its coherent equivalent and the value is folded at compile.
        # (Not `Unit(…)`: pint's bare class belongs to no registry and multiplies with none.)
        coherent: Unit = registry.Quantity(1.0, parse_unit(unit)).to_base_units().units
        return coherent


def _number(value: object) -> float:
    """Return a number, also one of numpy or torch, as a float; NaN for anything else."""
    if isinstance(value, str):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return math.nan


def check_names(symbols: Iterable[Symbol]) -> None:
    """Refuse two symbols of one name that are not declared alike: only one of them would count."""
    first: dict[str, Symbol] = {}
    for symbol in symbols:
        other = first.setdefault(symbol.name, symbol)
        if other is symbol:
            continue
        if other != symbol:
            raise DeclarationError(
                f"two symbols are called '{symbol.name}': {_words(other)} and {_words(symbol)}",
                do="rename one of them, or declare it once",
            )
        if isinstance(symbol, Positive) and isinstance(other, Positive):
            _check_values(other, symbol)


def _check_values(first: Positive, second: Positive) -> None:
    pairs = {
        "initial values": (first.init, second.init),
        "caps": (first.cap or math.inf, second.cap or math.inf),
        "answers to `learnable`": (first.learnable, second.learnable),
    }
    for what, (left, right) in pairs.items():
        if not math.isclose(left, right):  # the same value in two units differs by round-off
            raise DeclarationError(
                f"Positive('{first.name}') is declared with two {what}: {left} and {right} [{show(first.unit)}]",
                do="declare it once, or give one of them another name",
            )


def _words(symbol: Symbol) -> str:
    return f"{symbol.role} {symbol!r}" + (f", {symbol.component}-component" if symbol.component else "")


# fmt: off
_GREEK = frozenset((
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
))
# fmt: on


def _greek(name: str) -> str:
    """LaTeX of a plain name: ``kappa_u`` becomes :math:`\\kappa_{u}`."""
    stem, *indices = [rf"\{part}" if part.lower() in _GREEK else part for part in name.split("_") if part] or [name]
    return f"{stem}_{{{','.join(indices)}}}" if indices else stem
