"""Learned coefficients of the equations as numbers with units, for people and reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Coefficient", "coefficients_of"]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A learned number of the equations with its unit; factors have the unit 1."""

    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.value:.4g} {self.unit}" if self.unit != "1" else f"{self.value:.4g}"


class _HasPhysics(Protocol):
    def physics(self) -> dict[str, Any]: ...


def coefficients_of(model: _HasPhysics) -> dict[str, Coefficient]:
    """Collect learned coefficients and update factors by name, of a model or of a learner that has some."""
    coefficients: dict[str, Coefficient] = {}
    for name, value in model.physics().items():
        if hasattr(value, "units"):
            coefficients[name] = Coefficient(float(value.magnitude), f"{value.units:~P}" or "1")
        else:
            coefficients[name] = Coefficient(float(value), "1")
    return coefficients
