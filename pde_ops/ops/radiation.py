"""What the height of the sun gives to a surface."""

from __future__ import annotations

from typing import Any

from ..elementwise import minimum, positive_part
from ..operator import operator

__all__ = ["daylight"]


@operator(
    "daylight",
    inputs={"sun": "dimensionless"},
    output="dimensionless",
    latex=r"\max({sun}, 0)",
    text="max({sun}, 0)",
    references=["Iqbal (1983), An Introduction to Solar Radiation, Sect. 1.5"],
    properties={"pointwise": True, "bounds": (0.0, 1.0), "increasing_in": ("sun",)},
    domain={"sun": (-1.0, 1.0)},
)
def daylight(sun: Any, *, grid: Any) -> Any:
    r"""Share of the sun's beam that falls on level ground: none at night.

    .. math:: \max(\cos z, 0)

    Parameters
    ----------
    sun : cosine of the zenith angle z

    Returns
    -------
    dimensionless, 0 to 1
    """
    return minimum(positive_part(sun), 1.0)
