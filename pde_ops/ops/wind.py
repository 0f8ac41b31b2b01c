"""Speed of the wind, and the factor that bounds it, both with finite derivatives in calm air."""

from __future__ import annotations

from typing import Any

from ..elementwise import sqrt, where
from ..operator import operator

__all__ = ["speed_limit", "speed_of", "wind_speed"]

_WIND: dict[str, Any] = {"components": {"x": ("u",), "y": ("v",)}, "parity": {"x": "even", "y": "even"}}


def speed_of(u: Any, v: Any) -> Any:
    """Length of the vector (u, v), with derivative 0 where it is 0; NaN propagates."""
    squared = u * u + v * v
    moving = squared > 0.0
    # The square root never sees 0, whose infinite derivative would turn a gradient into NaN even if not selected.
    return where(moving, sqrt(where(moving, squared, 1.0)), squared)


@operator(
    "wind_speed",
    inputs={"u": "m/s", "v": "m/s"},
    output="m/s",
    latex=r"\left|({u},{v})\right|",
    text="|({u},{v})|",
    references=["Holton & Hakim (2013), An Introduction to Dynamic Meteorology, 5th ed., Sect. 3.2"],
    properties={**_WIND, "pointwise": True, "sign": "nonnegative"},
    domain={"u": (-40.0, 40.0), "v": (-40.0, 40.0)},
)
def wind_speed(u: Any, v: Any, *, grid: Any) -> Any:
    r"""Speed of the horizontal wind.

    .. math:: |\mathbf V| = \sqrt{u^2 + v^2}

    Parameters
    ----------
    u, v : eastward and northward wind, m/s

    Returns
    -------
    m/s
    """
    return speed_of(u, v)


@operator(
    "speed_limit",
    inputs={"u": "m/s", "v": "m/s", "limit": "m/s"},
    output="dimensionless",
    latex=r"\min\left(1, {limit} / \left|({u},{v})\right|\right)",
    text="min(1, {limit}/|({u},{v})|)",
    references=["Courant, Friedrichs & Lewy (1928), Math. Ann. 100, 32-74"],
    properties={**_WIND, "pointwise": True, "bounds": (0.0, 1.0)},
    domain={"u": (-100.0, 100.0), "v": (-100.0, 100.0), "limit": (1.0, 60.0)},
)
def speed_limit(u: Any, v: Any, limit: Any, *, grid: Any) -> Any:
    r"""Factor that shortens the wind to a largest speed and leaves slower wind untouched.

    .. math:: s = \min\left(1, U / |\mathbf V|\right)

    Parameters
    ----------
    u, v : eastward and northward wind, m/s
    limit : largest speed U, m/s, not negative

    Returns
    -------
    dimensionless, 0 to 1
    """
    squared = u * u + v * v
    within = squared <= limit * limit
    return where(within, 1.0, limit / sqrt(where(within, 1.0, squared, like=limit)))
