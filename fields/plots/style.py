"""Colours, fonts, axes and saving that the maps of this room share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fields import atomic
from fields.errors import UsageError, printable

__all__ = [
    "FAINT", "FONT", "INK", "check_picture", "degrees_label", "finish_map", "relief_light", "rgb", "save_picture",
]  # fmt: skip

FORMATS = (".png", ".svg", ".pdf")
INK, FAINT = "#1d2733", "#51606e"
FONT: Any = {"font.family": "DejaVu Sans", "font.size": 9, "axes.edgecolor": FAINT, "text.color": INK}
# Factor by which relief is made steeper for the eye.
_STEEPER = 15.0


def rgb(colour: str) -> NDArray[np.float64]:
    """Convert ``#rrggbb`` to red, green and blue, 0 to 1."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def degrees_label(value: float, letters: str) -> str:
    """Write a coordinate with its hemisphere: -124 with the letters ``EW`` gives ``124°W``."""
    letter = "" if abs(value) < 1e-9 else letters[0] if value > 0 else letters[1]
    return f"{abs(value):g}°{letter}"


def finish_map(axes: Any, ratio: float, lon: tuple[float, float], lat: tuple[float, float]) -> None:
    """Set aspect, limits and labels of a map in degrees.

    Parameters
    ----------
    axes : of matplotlib
    ratio : length of a degree of latitude over one of longitude
    lon, lat : ends of the map [degrees]
    """
    axes.set_aspect(ratio)
    axes.set_xlim(*lon)
    axes.set_ylim(*lat)
    axes.xaxis.set_major_formatter(lambda x, _: degrees_label((x + 180.0) % 360.0 - 180.0, "EW"))
    axes.yaxis.set_major_formatter(lambda y, _: degrees_label(y, "NS"))
    axes.tick_params(length=3, color=FAINT, labelcolor=FAINT, labelsize=8)
    for side in axes.spines.values():
        side.set_linewidth(0.6)


def relief_light(metres: NDArray[np.float64], pixel_m: float, blur: float = 0.0) -> NDArray[np.float64]:
    """Return the light from the north-west on a relief, made steeper for the eye: 0 on level ground, within ±0.35.

    Parameters
    ----------
    metres : altitudes [m], ``[y, x]``
    pixel_m : size of a pixel [m]
    blur : standard deviation of the smoothing before slopes are taken [pixels]
    """
    from scipy.ndimage import gaussian_filter

    relief = gaussian_filter(metres, blur, mode="nearest") * _STEEPER
    north, east = np.gradient(relief, pixel_m)
    sun = np.sin(np.radians(45.0))
    # The sun stands half-way up in the north-west: its direction is (-1/2, 1/2, sun).
    lit = (0.5 * east - 0.5 * north + sun) / np.sqrt(1.0 + east**2 + north**2)
    return np.clip(0.8 * (lit - sun), -0.35, 0.35)


def check_picture(path: str | os.PathLike[str]) -> Path:
    """Check, before any work, that the ending of a picture is known.

    Raises
    ------
    UsageError
        If it is not; the advice names the endings.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise UsageError(
            f"'{printable(target.name)}' has no ending of a picture", code="SPDE-D093",
            do=f"end the name in one of {', '.join(FORMATS)}",
        )  # fmt: skip
    return target


def save_picture(figure: Any, target: Path) -> Path:
    """Write a figure in the format of its ending, whole or not at all."""
    atomic.write_probe(target.parent)
    kind = target.suffix.lower().removeprefix(".")
    with atomic.machine_faults(target), atomic.staged_file(target) as scratch:
        figure.savefig(scratch, format=kind, bbox_inches="tight", pad_inches=0.12)
    return target
