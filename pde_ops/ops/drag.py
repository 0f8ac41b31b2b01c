"""Drag: the ground slows the wind, in proportion to it or to its square."""

from __future__ import annotations

from typing import Any

from ..elementwise import exp
from ..flows import Flow
from ..operator import operator
from .wind import speed_of

__all__ = ["friction", "quadratic_drag"]


def _decay(a: Any, r: Any, *, dt: float) -> Any:
    return a * exp(-r * dt)


@operator(
    "friction",
    inputs={"a": "=A", "r": "1/s"},
    output="=A / s",
    latex=r"{r}\,{a}",
    text="{r} {a}",
    references=["Held & Suarez (1994), Bull. Amer. Meteor. Soc. 75, 1825-1830, p. 1826"],
    properties={"pointwise": True, "linear_in": ("a", "r")},
    batch_over="a",
    domain={"r": (0.0, 1e-3)},
    flow=Flow(evolves="a", update=_decay, sign=-1.0),
)
def friction(a: Any, r: Any, *, grid: Any) -> Any:
    r"""Rayleigh friction: the wind decays at a given rate.

    .. math:: \partial_t a = \ldots - r a, \qquad a(t + \Delta t) = a(t)\, e^{-r\Delta t}

    Parameters
    ----------
    a : any unit [A], usually a component of the wind
    r : rate, 1/s

    Returns
    -------
    A/s; **subtract** it
    """
    return r * a


@operator(
    "quadratic_drag",
    inputs={"a": "=A", "u": "m/s", "v": "m/s", "c": "1/m"},
    output="=A / s",
    latex=r"{c}\,\left|({u},{v})\right|\,{a}",
    text="{c} |({u},{v})| {a}",
    references=["Stull (1988), An Introduction to Boundary Layer Meteorology, Sect. 7.4.1"],
    properties={
        "pointwise": True,
        "linear_in": ("a", "c"),
        "components": {"x": ("u",), "y": ("v",)},
        "parity": {"x": "even", "y": "even"},
    },
    batch_over="a",
    domain={"u": (-40.0, 40.0), "v": (-40.0, 40.0), "c": (0.0, 1e-4)},
)
def quadratic_drag(a: Any, u: Any, v: Any, c: Any, *, grid: Any) -> Any:
    r"""Turbulent drag of the ground, growing with the square of the wind.

    .. math:: \partial_t a = \ldots - c\,|\mathbf V|\,a, \qquad c = C_D / h

    Parameters
    ----------
    a : any unit [A], usually a component of the wind
    u, v : eastward and northward wind, m/s
    c : drag coefficient over the depth of the layer, 1/m: about 1e-3 / 1000 m over the sea

    Returns
    -------
    A/s; **subtract** it
    """
    return c * speed_of(u, v) * a
