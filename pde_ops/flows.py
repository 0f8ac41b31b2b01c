"""Closed-form updates over a time step, for the processes that have one.

A tendency does not know the time step; relaxation, friction, rotation and condensation can be advanced exactly
once it is known. An operator declares such an update as a :class:`Flow` (one field) or a :class:`Rotation` (two
fields turning into each other); a system compiled with ``exact_flows=True`` takes those terms out of the tendency
and the splitting integrators apply them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Flow", "Rotation"]


@dataclass(frozen=True, slots=True)
class Flow:
    """Exact update of one field.

    Attributes
    ----------
    evolves : input that must be the field whose equation the term stands in
    sign : sign of the term in that equation for which the update holds
    update : ``update(*arrays, dt=seconds)``, arrays in the order of the operator's inputs; returns the new field
    """

    evolves: str
    update: Callable[..., Any]
    sign: float = -1.0


@dataclass(frozen=True, slots=True)
class Rotation:
    r"""Exact rotation of a pair: :math:`\dot a = +r b,\ \dot b = -r a`.

    Attributes
    ----------
    partner : input that holds the other field of the pair
    rate : input that holds the angular rate :math:`r`, 1/s
    """

    partner: str
    rate: str
