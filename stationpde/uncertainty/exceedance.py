"""Thresholds in words, such as ``wind_speed > 15 m/s``, and the probability that a forecast exceeds them."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import Any

from fields.errors import DataError, printable
from fields.units import conversion
from fields.variables import to_display, variable
from stationpde.errors import UsageError
from stationpde.uncertainty.marginal import BOUNDS
from stationpde.uncertainty.signals import VARIABLES

__all__ = ["Threshold", "checked_levels"]

_FORM = re.compile(r"\s*([A-Za-z_][\w ]*?)\s*(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S.*?)?\s*")
_NAMES = {
    **{name: name for name in VARIABLES},
    **{variable(name).standard_name: name for name in VARIABLES},
    "temperature": "t", "pressure": "p", "humidity": "rh", "wind": "ff",
}  # fmt: skip
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold of a variable: ``value`` in display units; ``is_above`` for what lies above it, else below.

    The distributions are continuous, so that > and ≥ are alike but at a bound of the variable: no speed is below 0.
    """

    name: str
    is_above: bool
    value: float
    text: str

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """Read a threshold with its unit.

        Raises
        ------
        UsageError
            If it is of another form, or its variable or unit is unknown or does not fit.
        """
        form = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
        if form is None:
            raise UsageError(
                f"'{printable(str(text)[:80])}' is no threshold", code="SPDE-Q011",
                do='write variable, sign, number and unit: --exceed "wind_speed>15 m/s"',
            )  # fmt: skip
        word, sign, number, unit = form.groups()
        name = _NAMES.get(word.strip().replace(" ", "_"))
        if name is None:
            near = difflib.get_close_matches(word, _NAMES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"there is no distribution of '{printable(word[:40])}'", code="SPDE-Q011",
                do=f"{hint}there are {', '.join((*VARIABLES, *(variable(name).standard_name for name in VARIABLES)))}",
            )  # fmt: skip
        units = ", ".join(variable(name).file_units)
        if unit is None:
            raise UsageError(
                f"'{printable(text.strip()[:80])}' has no unit", code="SPDE-Q011",
                do=f"add one of {units} to the number",
            )  # fmt: skip
        try:
            si = conversion(name, unit).to_si(float(number))
            value = float(to_display(name, si))
        except DataError as problem:
            raise UsageError(
                f"[{printable(unit[:40])}] does not measure {variable(name).standard_name.replace('_', ' ')}",
                code="SPDE-Q011", do=f"write one of {units} after the number",
            ) from problem  # fmt: skip
        if not math.isfinite(value):
            raise UsageError(
                f"the number of '{printable(text.strip()[:80])}' is too large", code="SPDE-Q011",
                do='write a number that the variable may have: --exceed "wind_speed>15 m/s"',
            )  # fmt: skip
        return cls(name, sign[0] == ">", value, f"{word.strip()} {sign} {number} {unit}")

    def certain(self) -> float | None:
        """Return the probability where the bounds of the variable decide it: 0 or 1; None where they do not."""
        low, high = BOUNDS.get(self.name, (-math.inf, math.inf))
        is_included = "=" in self.text
        if self.is_above:
            is_sure, is_never = self.value < low, self.value > high
            is_sure |= is_included and self.value == low
            is_never |= not is_included and self.value == high
        else:
            is_sure, is_never = self.value > high, self.value < low
            is_sure |= is_included and self.value == high
            is_never |= not is_included and self.value == low
        return 1.0 if is_sure else (0.0 if is_never else None)

    @property
    def key(self) -> str:
        """Name of its probability in a forecast: ``ff_above_15_m_s``."""
        amount, unit = self.text.split(maxsplit=2)[2].split(maxsplit=1)
        words = f"{self.name} {'above' if self.is_above else 'below'} {amount.replace('-', 'minus ')} {unit}"
        return re.sub(r"\W+", "_", words.replace("%", "percent").replace(".", "p")).strip("_")


def checked_levels(levels: Any) -> tuple[float, ...]:
    """Return levels of quantiles, each once and in order.

    Raises
    ------
    UsageError
        If one does not lie between 0 and 1, or there is none.
    """
    values: list[float] = []
    for level in levels if isinstance(levels, list | tuple) else [levels]:
        try:
            number = float(level)
        except (TypeError, ValueError):
            number = float("nan")
        if not 0.0 < number < 1.0:
            raise UsageError(
                f"a quantile has a level between 0 and 1, not {printable(str(level)[:40])}", code="SPDE-Q010",
                do="--quantiles 0.05,0.5,0.95",
            )  # fmt: skip
        values.append(number)
    names = {f"{number:g}" for number in values}
    if len(names) < len(set(values)) or names & {"0", "1"}:
        raise UsageError(
            "two levels of quantiles, or one and 0 or 1, are the same in six digits, which name them", code="SPDE-Q010",
            do="--quantiles 0.05,0.5,0.95",
        )  # fmt: skip
    if not values:
        raise UsageError("there is no level of a quantile", code="SPDE-Q010", do="--quantiles 0.05,0.5,0.95")
    return tuple(sorted(set(values)))
