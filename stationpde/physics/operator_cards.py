"""Cards of the registered operators, which the command line lists, shows and checks."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pde_ops import BackendError, Field, Grid2D, Operator, operators
from pde_ops.catalogue import entry
from pde_ops.errors import UnknownNameError
from pde_ops.lowering import lower
from pde_ops.units import parse_unit, signature

__all__ = ["CheckReport", "OperatorCard", "card", "cards", "check", "select"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorCard:
    """Facts of one operator: units, equation, references, properties, options, backends, owner and source."""

    name: str
    family: str
    summary: str
    description: str
    inputs: Mapping[str, str]
    output: str
    latex: str
    references: Sequence[str]
    properties: Mapping[str, Any]
    domain: Mapping[str, tuple[float, float]]
    options: Mapping[str, Any]
    backends: Sequence[str]
    owner: str
    source: str | None

    @property
    def signature(self) -> str:
        """Units in, units out: ``(a: A, u: m/s, v: m/s) → A / s``."""
        inputs = ", ".join(f"{name}: {unit.lstrip('=')}" for name, unit in self.inputs.items())
        return f"({inputs}) → {self.output.lstrip('=')}"

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain values."""
        return {**asdict(self), "signature": self.signature}

    def to_markdown(self) -> str:
        """Return the card as the documentation shows it."""
        return entry(operators[self.name])

    def to_text(self) -> str:
        """Return the card as text for a terminal."""
        facts = [("units", self.signature), ("equation", self.latex), *self._facts()]
        if self.domain:
            ranges = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in self.domain.items())
            facts.insert(2, ("domain", f"{ranges} (SI)"))
        head = f"{self.name}: {self.summary}"
        body = self.description.partition("\n")[2].strip()
        return "\n".join([head, *([f"\n{body}\n"] if body else []), *(f"  {k:<12}{v}" for k, v in facts)])

    def _facts(self) -> list[tuple[str, str]]:
        options = ", ".join(f"{name} = {value!r}" for name, value in self.options.items())
        properties = ", ".join(f"{name}: {_readable(value)}" for name, value in self.properties.items())
        facts = [
            ("family", self.family),
            ("options", options),
            ("properties", properties),
            ("references", "; ".join(self.references)),
            ("backends", ", ".join(self.backends)),
            ("owner", self.owner),
            ("source", self.source or ""),
        ]
        return [(label, value) for label, value in facts if value]


def card(name: str) -> OperatorCard:
    """Return the card of one operator; an unknown name is an error that suggests the nearest."""
    record = operators[name]
    return OperatorCard(
        name=record.name,
        family=record.family,
        summary=record.summary,
        description=(inspect.getdoc(record.body) or "").strip(),
        inputs=dict(record.inputs),
        output=record.output,
        # An operator called on its own argument names prints its equation.
        latex=record.print_latex(list(record.inputs), record.options),
        references=tuple(record.references),
        properties=dict(record.properties),
        domain=dict(record.domain),
        options=dict(record.options),
        backends=_backends(record),
        owner=operators.owner(name),
        source=_source(record),
    )


def cards(pattern: str = "*") -> list[OperatorCard]:
    """List cards of the operators whose name matches; a plug-in that fails to load is left out with a warning."""
    matching = []
    for name in operators.list(pattern):
        try:
            matching.append(card(name))
        except UnknownNameError:
            log.debug("'%s' is published but could not be loaded", name)
    return matching


def select(names: Sequence[str]) -> list[str]:
    """Resolve names and wildcards to operator names; none means all. A word that matches nothing is an error."""
    if not names:
        return operators.list()
    chosen: list[str] = []
    for word in names:
        matches = operators.list(word)
        # A plain word that is not registered goes through the look-up for its suggestion.
        chosen += matches or [operators[word].name]
    return list(dict.fromkeys(chosen))


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Outcome of the generic suite: how many operators and checks ran, and what failed."""

    operators: int
    checks: int
    failed: Sequence[Mapping[str, str]]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return asdict(self)


def check(names: Sequence[str] = (), progress: Callable[[str, int], None] | None = None) -> CheckReport:
    """Run the public operator suite of ``pde_ops.testing``.

    Parameters
    ----------
    names : names or wildcards; none means every registered operator
    progress : called with each operator's name and its number of failures
    """
    from pde_ops.testing import check_operator

    chosen, checks, failed = select(names), 0, []
    for name in chosen:
        results = check_operator(operators[name])
        wrong = [r for r in results if not r.passed]
        failed += [{"operator": name, "check": r.check, "detail": r.detail} for r in wrong]
        checks += len(results)
        if progress is not None:
            progress(name, len(wrong))
    return CheckReport(len(chosen), checks, failed)


def _backends(record: Operator) -> list[str]:
    """List the backends that can run an operator; it is traced to find out whether it has a fused form."""
    from pde_ops.backends.fused.trace import trace

    bound = dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", parse_unit("K"))
    arguments = [Field(name, signature(unit).resolve(bound)) for name, unit in record.inputs.items()]
    try:
        trace(lower([record(*arguments)], arguments), Grid2D.plane(6, 7, dx=1.0), {})
    except BackendError:
        return ["torch", "inductor"]
    return ["torch", "inductor", "fused", "triton"]


def _source(record: Operator) -> str | None:
    try:
        return f"{inspect.getsourcefile(record.body)}:{inspect.getsourcelines(record.body)[1]}"
    except (OSError, TypeError):
        # Declared in a notebook or a frozen application: there is no file to show.
        return None


def _readable(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)
