"""Bits of a quality flag, their meaning, and which of them mask a value.

A ``<name>_flag`` beside a variable keeps the outcome of every test; the variable keeps what was observed.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any

__all__ = ["GROSS", "MASKING", "Flag", "flag_attributes"]


class Flag(IntFlag):
    """One bit for each test that a value can fail."""

    RANGE = 1  # outside what is physically possible
    STEP = 2  # a jump that the atmosphere does not make
    PERSISTENCE = 4  # the sensor shows the same value for too long
    BUDDY = 8  # the neighbours disagree
    DRIFT = 16  # the sensor wanders away from its neighbours over weeks
    TIME = 32  # taken from a duplicate or from beside the declared time; kept
    CODE = 64  # the source's code for missing, or not a finite number
    DOUBTFUL = 128  # possible but unlikely (air a little above saturation); kept


# A value with any of these is read as NaN by `store.open_store(masked=True)`.
MASKING = Flag.RANGE | Flag.STEP | Flag.PERSISTENCE | Flag.BUDDY | Flag.DRIFT | Flag.CODE
# Those that no sensor can have measured, told from the value alone.
GROSS = Flag.RANGE | Flag.CODE


def flag_attributes(name: str) -> dict[str, Any]:
    """Return the CF attributes of the flag that belongs to a variable."""
    return {
        "long_name": f"quality flag of {name}",
        "standard_name": "quality_flag",
        "flag_masks": [int(flag) for flag in Flag],
        "flag_meanings": " ".join(str(flag.name).lower() for flag in Flag),
    }
