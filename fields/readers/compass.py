"""Read wind directions written as words: points of the compass in English, and words for no direction at all.

The 32 points have names of their own (``NbE`` lies between ``N`` and ``NNE``); the 16 and 8 of most reports are among
them. Other languages are not guessed: ``O`` is west in Portuguese and east in German.
"""

from __future__ import annotations

import re

from fields.units import COMPASS_UNITS

__all__ = ["NO_DIRECTION", "advised_unit", "is_compass", "point_of"]

# Wind that keeps no direction, and no wind: both are missing directions. Air is still only where the speed says so.
NO_DIRECTION = frozenset({"vrb", "variable", "var", "calm", "clm"})
_POINTS = (
    "n", "nbe", "nne", "nebn", "ne", "nebe", "ene", "ebn", "e", "ebs", "ese", "sebe", "se", "sebs", "sse", "sbe",
    "s", "sbw", "ssw", "swbs", "sw", "swbw", "wsw", "wbs", "w", "wbn", "wnw", "nwbw", "nw", "nwbn", "nnw", "nbw",
)  # fmt: skip
_DEGREES = {name: 360.0 * number / len(_POINTS) for number, name in enumerate(_POINTS)}
_LETTERS = {"north": "n", "east": "e", "south": "s", "west": "w", "by": "b"}
_WORD = re.compile("|".join(_LETTERS))
_BETWEEN = re.compile(r"[\s._/-]+|erly")
_LONGEST = 40  # characters; "north-west by north" has 19


def is_compass(unit: str) -> bool:
    """Return whether a unit of direction says that the cells are words."""
    return unit.strip() in COMPASS_UNITS


def point_of(text: str) -> float | None:
    """Return the degrees clockwise from north of a point, ``NNW`` or ``north-northwest``; None for any other text."""
    if len(text) > _LONGEST:
        return None
    joined = _BETWEEN.sub("", text.strip().lower())
    return _DEGREES.get(_WORD.sub(lambda word: _LETTERS[word[0]], joined))


def advised_unit(texts: list[str], odd: str, unit: str) -> str:
    """Advise the unit under which directions can be read; empty where the odd one is neither a point nor a number."""
    points = [text for text in texts if point_of(text) is not None]
    numbers = [text for text in texts if text.strip().replace(".", "").replace(",", "").isdigit()]
    if odd not in points and odd not in numbers:
        return ""
    if points and numbers:
        return "write all directions as points of the compass, or all in degrees"
    units = COMPASS_UNITS if points else ("degrees", "towards")
    return f"--unit dd={units[unit.strip().endswith('towards')]}"
