"""Make what readers and checks advise typeable: whole commands, on the source's clock, about what the source holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fields.errors import DataError, FieldsError, locate, printable
from fields.readers import Command, ReadOptions, Source
from fields.times import Zone
from fields.units import COMPASS_UNITS

__all__ = ["check_declared", "on_this_clock", "whole_commands"]


def on_this_clock(do: str, zone: str) -> str:
    """Express an advised clock, guessed relative to UTC, relative to the clock that the source was read with."""
    guess = re.search(r"--time-zone UTC([+-]\d+)", do)
    offset = Zone.parse(zone).offset
    if guess is None or not offset:
        return do
    hours = int(guess[1]) + offset // 3600
    return do.replace(guess[0], f"--time-zone UTC{hours:+d}" if hours else "--time-zone UTC")


@contextmanager
def whole_commands(command: Command) -> Iterator[None]:
    """Complete the options that a reader advises to the whole command to type."""
    try:
        yield
    except FieldsError as problem:
        if problem.do:
            problem.do = command.completed(problem.do)
        problem.problems = tuple(replace(one, do=command.completed(one.do)) for one in problem.problems)
        raise


def check_declared(source: Source, options: ReadOptions) -> None:
    """Refuse a unit of what the source does not hold, and points of the compass where it holds numbers."""
    renamed = {"p"} if "psl" in source.units else set()  # `--pressure sea-level` makes p the pressure at the sea
    for name, unit in options.units.items():
        if name not in {*source.units, *renamed}:
            raise DataError(f"the unit of {printable(name)} is declared, and the data have none", code="SPDE-D007",
                            where=locate(source.label, ", ".join(source.units)),
                            do="leave it out, or declare one of these")  # fmt: skip
        if unit.strip() in COMPASS_UNITS and not source.reads_words:
            raise DataError(f"`{name}` is declared in [{unit}], and the data hold numbers", code="SPDE-D007",
                            where=locate(source.label, name), do="--unit dd=degrees")  # fmt: skip
