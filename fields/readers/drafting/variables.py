"""Choose the columns of the variables by name and content."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fields.readers.compass import NO_DIRECTION
from fields.readers.drafting.cells import Cells
from fields.readers.drafting.names import WHOLE, Name, is_called, meanings
from fields.readers.drafting.units import UnitGuess, guess_unit

__all__ = ["VariableGuess", "guess_variables", "marks_of"]

# Compound cells of NOAA's global hourly tables: value in tenths, code of its quality; wind as direction, …, speed.
_COMPOUND = {
    "tmp": (r"[+-]\d{4},\w", [("t", "degC", 0, 0.1, ("+9999",))]),
    "dew": (r"[+-]\d{4},\w", [("td", "degC", 0, 0.1, ("+9999",))]),
    "slp": (r"\d{5},\w", [("psl", "hPa", 0, 0.1, ("99999",))]),
    "wnd": (r"\d{3},\w,\w,\d{4},\w", [("dd", "degrees", 0, 1.0, ("999",)), ("ff", "m/s", 3, 0.1, ("9999",))]),
}
_ALTIMETER = frozenset({"alti", "altim", "altimeter", "qnh", "altimeter_setting"})
_MOST_MARKS = 4


@dataclass(frozen=True, slots=True)
class VariableGuess:
    """Column of a variable with its unit; ``split`` and ``part`` as in a map, ``missing`` codes as they are written.
    One without a value in the first rows is proposed and not mapped."""

    column: int
    unit: UnitGuess
    split: str = ""
    part: int = 0
    missing: tuple[str, ...] = ()
    is_empty: bool = False


@dataclass(slots=True)
class _Choice:
    chosen: dict[str, VariableGuess] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)


def guess_variables(
    names: Sequence[Name], cells: Sequence[Cells], texts: Sequence[Sequence[str]], excluded: Collection[int]
) -> tuple[dict[str, VariableGuess], list[str]]:
    """Choose a column for each variable that a table has, with what is unsure beyond the units."""
    choice = _Choice()
    free = [i for i in range(len(names)) if i not in excluded]
    _compound(choice, names, texts, free)
    free = [i for i in free if i not in {guess.column for guess in choice.chosen.values()}]
    listed = [(not _is_whole(variable, names[i]), rank, i, variable)
              for i in free for rank, variable in enumerate(_readings(i, names, cells))]  # fmt: skip
    for _, _, i, variable in sorted(listed):
        if variable in choice.chosen or any(guess.column == i for guess in choice.chosen.values()):
            continue
        unit = guess_unit(variable, names[i], cells[i])
        if unit is None:
            if cells[i].filled:
                choice.unsure.append(f"{variable}: a column of this name holds nothing of the kind and is not read")
            continue
        missing = cells[i].codes if unit.scale != 1.0 else ()
        is_empty = not cells[i].numbers.size and unit.unit != "compass"
        choice.chosen[variable] = VariableGuess(i, unit, missing=missing, is_empty=is_empty)
    if {"ff", "dd", "u", "v"} <= choice.chosen.keys():
        del choice.chosen["u"], choice.chosen["v"]
        choice.unsure.append("u and v stand beside speed and direction: these are read")
    if len({"ff", "dd"} & choice.chosen.keys()) == 1 and not {"u", "v"} <= choice.chosen.keys():
        lost = "a direction" if "ff" in choice.chosen else "a speed"
        choice.unsure.append(f"wind: no column was recognised as {lost}")
    if any(name.joined in _ALTIMETER for name in names) and "p" not in choice.chosen:
        choice.unsure.append("the altimeter setting (QNH) is not read: it is no pressure at the station or the sea")
    return choice.chosen, choice.unsure


def _is_whole(variable: str, name: Name) -> bool:
    return is_called(name, WHOLE[variable])


def _readings(i: int, names: Sequence[Name], cells: Sequence[Cells]) -> list[str]:
    """List the variables that a column may hold, with the letters that are clear only beside others."""
    there = {name.joined for name in names}
    word = names[i].joined
    if {"p", "p0"} <= there and word in ("p", "p0"):  # the German service: reduced to the sea, and at the station
        return ["psl"] if word == "p" else ["p"]
    if {"f", "d"} <= there and word in ("f", "d"):
        return ["ff"] if word == "f" else ["dd"]
    if {"u", "v"} <= there and word in ("u", "v") and _has_negatives("u", names, cells):
        return [word]
    if word == "u" and ({"td", "t"} & there or {"ff", "dd"} & there):  # humidity in the tables of several services
        return ["rh"]
    return meanings(names[i])


def _has_negatives(word: str, names: Sequence[Name], cells: Sequence[Cells]) -> bool:
    column = next(cells[i] for i, name in enumerate(names) if name.joined == word)
    return bool(column.numbers.size) and float(column.numbers.min()) < 0


def _compound(choice: _Choice, names: Sequence[Name], texts: Sequence[Sequence[str]], free: Sequence[int]) -> None:
    for i in free:
        pattern, entries = _COMPOUND.get(names[i].joined, ("", []))
        filled = [text for text in texts[i] if text]
        if not pattern or not filled or not all(re.fullmatch(pattern, text) for text in filled):
            continue
        for variable, unit, part, scale, missing in entries:
            guess = UnitGuess(unit, scale, "compound cells of NOAA's global hourly tables")
            choice.chosen[variable] = VariableGuess(i, guess, ",", part, missing)


def marks_of(chosen: dict[str, VariableGuess], cells: Sequence[Cells]) -> tuple[str, ...]:
    """List words that stand among numbers and have no digits: marks for missing that the reader does not know."""
    marks: dict[str, int] = {}
    for variable, guess in chosen.items():
        if guess.split or guess.is_empty or guess.unit.unit == "compass":
            continue
        for word, count in cells[guess.column].words.items():
            is_calm = variable == "dd" and word.lower() in NO_DIRECTION
            if not is_calm and not any(c.isdigit() for c in word) and len(word) <= 12:
                marks[word] = marks.get(word, 0) + count
    return tuple(sorted(marks, key=lambda word: -marks[word])) if len(marks) <= _MOST_MARKS else ()
