"""What a turning, round Earth does to the wind: Coriolis acceleration and curvature (metric) terms."""

from __future__ import annotations

from typing import Any

from ..flows import Rotation
from ..operator import operator

__all__ = ["coriolis", "metric_x", "metric_y"]

_WIND = (-40.0, 40.0)
_MOMENTUM = "Holton & Hakim (2013), An Introduction to Dynamic Meteorology, 5th ed."


@operator(
    "coriolis",
    inputs={"b": "=A", "f": "1/s"},
    output="=A / s",
    latex=r"{f}\,{b}",
    text="{f} {b}",
    references=[f"{_MOMENTUM}, Sect. 2.4"],
    properties={"pointwise": True, "linear_in": ("b", "f")},
    batch_over="b",
    domain={"f": (-1.5e-4, 1.5e-4)},
    flow=Rotation(partner="b", rate="f"),
)
def coriolis(b: Any, f: Any, *, grid: Any) -> Any:
    r"""Deflection of the wind by the rotation of the Earth.

    .. math:: \partial_t u = \ldots + f v, \qquad \partial_t v = \ldots - f u

    Parameters
    ----------
    b : the other component of the wind, m/s (or of any pair [A])
    f : Coriolis parameter 2Ω sin φ, 1/s

    Returns
    -------
    A/s

    Notes
    -----
    Write ``+ coriolis(v, f)`` in the equation of ``u`` and ``- coriolis(u, f)`` in that of ``v``; such a pair is
    advanced exactly, as a rotation, by the splitting integrators. Forward Euler makes it grow.
    """
    return f * b


@operator(
    "metric_x",
    inputs={"u": "m/s", "v": "m/s"},
    output="m/s**2",
    family="metric",
    latex=r"\frac{{u}\,{v}\tan\varphi}{R}",
    text="{u} {v} tanφ/R",
    references=[f"{_MOMENTUM}, Sect. 2.3"],
    properties={
        "pointwise": True,
        "linear_in": ("u", "v"),
        "components": {"x": ("u",), "y": ("v",)},
        "parity": {"x": "odd", "y": "even"},
    },
    domain={"u": _WIND, "v": _WIND},
)
def metric_x(u: Any, v: Any, *, grid: Any) -> Any:
    r"""Eastward acceleration of air that moves towards the pole, where parallels are shorter.

    .. math:: \partial_t u = \ldots + \frac{u v \tan\varphi}{R}

    Parameters
    ----------
    u, v : eastward and northward wind, m/s

    Returns
    -------
    m/s²

    Notes
    -----
    Add it to the equation of ``u``. Together with :func:`metric_y` it does no work: u·(uv) - v·(u²) = 0. Zero on a
    plane grid.
    """
    return u * v * grid.curvature


@operator(
    "metric_y",
    inputs={"u": "m/s"},
    output="m/s**2",
    family="metric",
    latex=r"\frac{{u}^2\tan\varphi}{R}",
    text="{u}² tanφ/R",
    references=[f"{_MOMENTUM}, Sect. 2.3"],
    properties={"pointwise": True, "components": {"x": ("u",)}, "parity": {"x": "even", "y": "odd"}},
    domain={"u": _WIND},
)
def metric_y(u: Any, *, grid: Any) -> Any:
    r"""Equatorward acceleration of air that moves along a parallel.

    .. math:: \partial_t v = \ldots - \frac{u^2 \tan\varphi}{R}

    Parameters
    ----------
    u : eastward wind, m/s

    Returns
    -------
    m/s², northward; **subtract** it in the equation of ``v``
    """
    return u * u * grid.curvature
