"""Which fields of a system answer one another through their neighbours, and so carry waves of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..expr import Call, Expr
from ..symbols import Field
from .modes import carries_its_wind

__all__ = ["wave_fields"]


def wave_fields(equations: Mapping[Field, Expr]) -> tuple[str, ...]:
    """Return the names of fields that drive one another in a ring, by gradients or divergences; empty if none do.

    Advection by a field counts where it is in flux form: about a uniform state, what is carried is not changed by
    the wind otherwise.
    """
    names = [field.name for field in equations]
    drives = {(field.name, by, far) for field, right in equations.items() for by, far in _sources(right)}
    reach = {(of, by) for of, by, _ in drives}
    for middle in names:
        reach |= {(a, b) for a in names for b in names if (a, middle) in reach and (middle, b) in reach}
    rings = {(of, by) for of, by, far in drives if far and of != by and (by, of) in reach}
    return tuple(name for name in names if any(name in ring for ring in rings))


def _sources(node: Expr, far: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the fields that an expression depends on, and whether through their neighbours."""
    if isinstance(node, Field):
        yield node.name, far
    if not isinstance(node, Call):
        for child in node.children:
            yield from _sources(child, far)
        return
    wind = node.operator.wind or ()
    reads_neighbours = not node.operator.properties.get("pointwise", False)
    for name, argument in zip(node.operator.inputs, node.arguments, strict=True):
        if name not in wind or carries_its_wind(node.operator):
            yield from _sources(argument, far or reads_neighbours)
