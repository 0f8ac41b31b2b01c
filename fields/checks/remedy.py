"""What to do about single stations: correct them, or leave them out by a command that can be typed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fields.checks.values import Subject

__all__ = ["mend_or_drop"]

Array = np.ndarray[Any, Any]

# Stations that an advised command still names, and names that need no quotes in it.
_MOST_NAMED = 50
_PLAIN_IDS = re.compile(r"\w[\w.@,-]*")


def mend_or_drop(odd: Array, subject: Subject, options: str = "") -> str:
    """Advise to correct stations, or to leave them out where they are few enough to be named."""
    ids = ",".join(map(str, subject.ids(odd)))
    can_be_typed = odd.sum() <= _MOST_NAMED and not odd.all() and _PLAIN_IDS.fullmatch(ids)
    leave_out = f", or leave them out: {subject.command} --drop {ids}{options}" if can_be_typed else ""
    return f"correct them in the list of stations{leave_out}"
