"""Newtonian relaxation: a field drawn towards a reference."""

from __future__ import annotations

from typing import Any

from ..elementwise import exp
from ..flows import Flow
from ..operator import operator

__all__ = ["relaxation"]


def _approach(a: Any, target: Any, rate: Any, *, dt: float) -> Any:
    return target + (a - target) * exp(-rate * dt)


@operator(
    "relaxation",
    inputs={"a": "=A", "target": "=A", "rate": "1/s"},
    output="=A / s",
    latex=r"{rate}\,\left({target} - {a}\right)",
    text="{rate} ({target} - {a})",
    references=["Hoke & Anthes (1976), Mon. Weather Rev. 104, 1551-1556"],
    properties={"pointwise": True, "linear_in": (("a", "target"), "rate")},
    domain={"rate": (0.0, 1e-3)},
    flow=Flow(evolves="a", update=_approach, sign=1.0),
)
def relaxation(a: Any, target: Any, rate: Any, *, grid: Any) -> Any:
    r"""Newtonian relaxation (nudging) of a field towards a reference.

    .. math:: \partial_t a = \ldots + r\,(a^* - a), \qquad
       a(t + \Delta t) = a^* + \left(a(t) - a^*\right) e^{-r\Delta t}

    Parameters
    ----------
    a : any unit [A]
    target : reference, same unit
    rate : inverse of the relaxation time, 1/s

    Returns
    -------
    A/s; **add** it
    """
    return rate * (target - a)
