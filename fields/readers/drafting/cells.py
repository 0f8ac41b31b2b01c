"""Look at the cells of a column: numbers, words among them, marks for missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.variables import NUMERIC_SENTINELS, TEXT_SENTINELS

__all__ = ["Cells", "look_at"]

Array = np.ndarray[Any, Any]
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Cells:
    """Content of a column: distinct numbers that occur with their order lost, words that are none, codes for missing.

    ``codes`` are numbers that files write for missing and that stand far from the rest of the column.
    """

    numbers: Array
    words: Counter[str]
    codes: tuple[str, ...]
    filled: int

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers, with at most a few words among them."""
        return self.numbers.size > 0 and sum(self.words.values()) <= max(1, 0.9 * self.filled) and (
            self.numbers.size >= sum(self.words.values()) or len(self.words) <= 2
        )  # fmt: skip

    @property
    def is_whole(self) -> bool:
        """Whether every number is whole."""
        return bool(self.numbers.size) and bool(np.all(self.numbers == np.round(self.numbers)))


def look_at(cells: Sequence[str], decimal: str) -> Cells:
    """Sort the cells of a column."""
    numbers: list[float] = []
    words: Counter[str] = Counter()
    texts: dict[float, str] = {}
    filled = 0
    for cell in cells:
        if cell == "":
            continue
        filled += 1
        if _NUMBER.fullmatch(cell):
            try:
                number = float(cell.replace(decimal, ".") if decimal != "." else cell)
            except ValueError:
                words[cell] += 1
                continue
            numbers.append(number)
            texts.setdefault(number, cell)
        elif cell.lower() not in TEXT_SENTINELS:
            words[cell] += 1
    values = np.asarray(numbers, np.float64)
    codes = _codes(values)
    rest = values[~np.isin(values, codes)]
    return Cells(rest, words, tuple(texts[code] for code in codes), filled)


def _codes(values: Array) -> list[float]:
    """Return the codes for missing among numbers: known ones, far outside the others."""
    here = [code for code in NUMERIC_SENTINELS if np.any(values == code)]
    rest = values[~np.isin(values, here)]
    if rest.size == 0:
        return here if len(set(values.tolist())) == 1 and here and abs(here[0]) > 900 else []
    low, high = float(rest.min()), float(rest.max())
    room = max(high - low, 10.0)
    return [code for code in here if code < low - room or code > high + room]
