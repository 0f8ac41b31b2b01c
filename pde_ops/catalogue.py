"""The page of operators in the documentation, written from the registry.

``python -m pde_ops.catalogue docs/operators.md`` writes it; a test compares the file with the registry.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .operator import Operator, operators

__all__ = ["entry", "operators_page"]

# How argument names are set in formulas.
_SYMBOLS = {"kappa": r"\kappa", "theta": r"\theta", "rho": r"\rho", "lam": r"\lambda", "target": "a^*", "limit": "U"}
_MATH = re.compile(r"^\.\. math::[ \t]*(.*)\n((?:[ \t]+\S.*\n|\n(?=[ \t]))*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`([^`]+)`")
_INTRODUCTION = """# Operators

Every process that `pde_ops` knows, with its units, formula, scheme, promises and references. This page is written from
the registry by `python -m pde_ops.catalogue docs/operators.md`. `stationpde ops show NAME` shows the same for one
operator, also for those that other packages add.

`A` stands for any unit. The promises are proved by `pde_ops.testing` for every border; `pde_ops.testing` says what each
word means. An operator's *family* is what `system.without("…")` takes out together.
"""


def operators_page() -> str:
    """Return the whole page, as Markdown: the operators of this library, one section per module."""
    modules: dict[str, list[Operator]] = {}
    for name in operators.list():
        record = operators[name]
        if record.owner.startswith("pde_ops."):
            modules.setdefault(record.owner, []).append(record)
    parts = [_INTRODUCTION, _contents(modules)]
    for module in sorted(modules):
        about = _ROLE.sub(r"`\1`", (inspect.getdoc(import_module(module)) or "").partition("\n")[0])
        parts += [f"## `{module}`", about, *(entry(record) for record in modules[module])]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def entry(record: Operator) -> str:
    """Return one operator, as Markdown."""
    symbols = [_SYMBOLS.get(name, name) for name in record.inputs]
    lines = [f"### {record.name}", "", record.summary, "", "$$", record.print_latex(symbols, record.options), "$$", ""]
    for scheme in _formulas(record):
        lines += ["$$", scheme, "$$", ""]
    lines += ["| argument | unit | sensible values, SI |", "|---|---|---|"]
    for name, unit in record.inputs.items():
        low_high = record.domain.get(name)
        sensible = f"{low_high[0]:g} to {low_high[1]:g}" if low_high else "any"
        lines.append(f"| `{name}` | {_unit(unit)} | {sensible} |")
    lines += [f"| *result* | {_unit(record.output)} | |", ""]
    lines += [f"* {label}: {value}" for label, value in _facts(record)]
    return "\n".join(lines)


def _contents(modules: Mapping[str, Sequence[Operator]]) -> str:
    rows = ["| operator | result | what |", "|---|---|---|"]
    for record in sorted((r for records in modules.values() for r in records), key=lambda r: r.name):
        rows.append(f"| [`{record.name}`](#{record.name}) | {_unit(record.output)} | {record.summary} |")
    return "\n".join(rows)


def _facts(record: Operator) -> list[tuple[str, str]]:
    facts = [("family", f"`{record.family}`")] if record.family != record.name else []
    facts += [("option", f"`{name}`, by default {value!r}") for name, value in record.options.items()]
    promises = [f"{name.replace('_', ' ')} {_readable(value)}".strip() for name, value in record.properties.items()]
    if promises:
        facts.append(("promises", "; ".join(promises)))
    if record.flow is not None:
        facts.append(("closed form over a time step", "yes"))
    if record.wind is not None:
        facts.append(("advecting wind, bounded by stability limits", ", ".join(f"`{name}`" for name in record.wind)))
    return [*facts, ("reference", "; ".join(record.references))]


def _formulas(record: Operator) -> list[str]:
    """Display formulas of the docstring: the scheme, or the equation it stands in."""
    formulas = _MATH.findall((inspect.getdoc(record.body) or "") + "\n")
    return ["\n".join(filter(None, [first.strip(), textwrap.dedent(rest).strip()])) for first, rest in formulas]


def _unit(text: str) -> str:
    return "1" if text == "dimensionless" else re.sub(r"\*\*(\d)", r"<sup>\1</sup>", text.replace("=", ""))


def _readable(value: Any) -> str:
    if value is True:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_readable(one)}" for key, one in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(f"({_readable(one)})" if isinstance(one, tuple) else _readable(one) for one in value)
    return str(value)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(operators_page(), encoding="utf-8")
