"""Fit a configuration to a network that observes only some of the state variables.

What is not there is replaced by a reference (`fields.stand_ins`), is not scored, and takes the terms of the equations
that need it with it. The key ``data.missing`` says so, in every saved run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fields.stand_ins import STAND_INS

if TYPE_CHECKING:
    from stationpde.config.sections import DataSection

__all__ = ["absences", "tree_for_record", "unneeded_terms"]

_TERMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "u": ("advection", "coriolis", "friction", "pressure_gradient_x", "pressure_gradient_y"),
        "rh": ("condensation",),
    }
)
"""Operators, or families of them, that say nothing without a variable: all of the wind, and what vapour does."""


def tree_for_record(tree: dict[str, Any], reference: Collection[str]) -> dict[str, Any]:
    """Return a configuration's tree with stand-ins for variables of a record that are no observations."""
    data = dict(tree["data"])
    data["missing"] = {**data["missing"], **{name: STAND_INS[name] for name in STAND_INS if name in reference}}
    data["scored"] = [name for name in data["scored"] if name not in data["missing"]]
    return {**tree, "data": data}


def unneeded_terms(missing: Collection[str], names: Collection[str]) -> tuple[str, ...]:
    """Return which of the terms ``names`` of a system need a variable that is not observed."""
    return tuple(term for name in missing for term in _TERMS.get(name, ()) if term in names)


def absences(data: DataSection) -> list[str]:
    """Write a sentence for each variable that is not observed: what stands in, and which terms are off."""
    sentences = []
    for name, what in data.missing.items():
        if name == "v":
            continue
        shown = "u, v" if name == "u" else name
        off = ", ".join(dict.fromkeys(term.removesuffix("_x").removesuffix("_y") for term in _TERMS.get(name, ())))
        equations = f"; not in the equations: {off.replace('_', ' ')}" if off else ""
        sentences.append(f"{shown} ({what}): not scored, not forecast{equations}")
    return sentences
