"""Print a system: LaTeX, Markdown, and the references of exactly what is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .symbols import Positive, Symbol
from .units import from_si, show

if TYPE_CHECKING:
    from .system import PDESystem

__all__ = ["citations", "to_latex", "to_markdown"]


def to_latex(system: PDESystem) -> str:
    """Return the equations as an ``align`` environment."""
    lines = [
        rf"  \frac{{\partial {field.latex()}}}{{\partial t}} &= {right.latex()}"
        for field, right in system.equations.items()
    ]
    return "\\begin{align}\n" + " \\\\\n".join(lines) + "\n\\end{align}"


def citations(system: PDESystem) -> list[str]:
    """Return the references of the operators used, once each, in order of appearance."""
    return list(dict.fromkeys(reference for call in system.calls() for reference in call.operator.references))


def to_markdown(system: PDESystem) -> str:
    """Return equations, symbols with units, operators and references."""
    operators = {call.operator.name: call.operator for call in system.calls()}
    parts = [f"## {system.name}", "", "$$", to_latex(system).replace("align", "aligned"), "$$", ""]
    parts += ["| symbol | role | unit | start |", "|---|---|---|---|"]
    symbols: list[Symbol] = [*system.fields, *system.statics, *system.closures, *system.coefficients]
    for symbol in symbols:
        start, unit = "", show(symbol.unit)
        if isinstance(symbol, Positive):
            unit = show(symbol.declared_unit)
            start = f"{from_si(symbol.init, symbol.declared_unit).magnitude:g}"
        parts.append(f"| ${symbol.latex()}$ `{symbol.name}` | {_role(symbol)} | {unit} | {start} |")
    parts += ["", "| operator | what | reference |", "|---|---|---|"]
    for name, operator in operators.items():
        parts.append(f"| `{name}` | {operator.summary} | {'; '.join(operator.references)} |")
    return "\n".join(parts) + "\n"


def _role(symbol: Symbol) -> str:
    return f"{symbol.role}, {symbol.component}-component" if symbol.component else symbol.role
