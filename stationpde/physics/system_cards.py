"""Cards of the model's systems of equations, for the command that also shows operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pde_ops import PDESystem
from pde_ops.symbols import Positive, Symbol
from pde_ops.units import from_si, show
from stationpde.physics import equations, upper_air

__all__ = ["SYSTEMS", "SystemCard", "card"]

SYSTEMS: Mapping[str, Callable[[], PDESystem]] = {
    "surface": equations.surface,
    "anomaly": equations.anomaly,
    "extended": lambda: equations.extended(equations.anomaly()),
    "upper": upper_air.upper,
}


@dataclass(frozen=True, slots=True)
class SystemCard:
    """Equations, symbols with units, and references of a system.

    Attributes
    ----------
    equations : right-hand sides as LaTeX, by the field they drive
    symbols : name, role, unit and, for learnable ones, initial value
    """

    name: str
    title: str
    latex: str
    markdown: str
    equations: Mapping[str, str]
    symbols: Sequence[Mapping[str, str]]
    references: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain values."""
        return asdict(self)

    def to_markdown(self) -> str:
        """Return the card as the documentation shows it."""
        return self.markdown

    def to_text(self) -> str:
        """Return the card as text for a terminal: LaTeX, then every symbol with its unit."""
        rows = [f"  {s['name']:<14}{s['unit']:<14}{s['start']:<10}{s['role']}".rstrip() for s in self.symbols]
        references = [f"  {reference}" for reference in self.references]
        head = [f"{self.name}: {self.title}", "", self.latex, ""]
        return "\n".join([*head, "symbols", *rows, "references", *references])


def card(name: str) -> SystemCard:
    """Return the card of one of :data:`SYSTEMS`, with initial coefficients."""
    system = SYSTEMS[name]()
    every = [*system.fields, *system.statics, *system.closures, *system.coefficients]
    return SystemCard(
        name=name,
        title=system.name,
        latex=system.to_latex(),
        markdown=system.to_markdown(),
        equations={field.name: right.latex() for field, right in system.equations.items()},
        symbols=[_symbol(symbol) for symbol in every],
        references=list(system.citations()),
    )


def _symbol(symbol: Symbol) -> dict[str, str]:
    unit, start = show(symbol.unit), ""
    if isinstance(symbol, Positive):
        unit = show(symbol.declared_unit)
        start = f"{from_si(symbol.init, symbol.declared_unit).magnitude:g}"
    return {"name": symbol.name, "role": symbol.role, "unit": unit, "start": start}
