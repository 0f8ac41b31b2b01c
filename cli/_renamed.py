"""Old names of commands and options: still accepted, hidden in ``--help``, with a warning that names the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import typer

__all__ = ["COMMANDS", "OPTIONS", "OldOption", "present_names"]


class OldOption(NamedTuple):
    """The option that took an old one's place.

    ``words`` replace the old word on the line; None leaves it, because the command still takes it with a meaning of
    its own. ``takes`` are the values an old switch must not have: followed by one of them it is the new option.
    """

    new: str
    words: tuple[str, ...] | None
    takes: tuple[str, ...] = ()


def _renamed(new: str) -> OldOption:
    return OldOption(new, (new,))


COMMANDS = {("data", "qc"): ("data", "qc-score")}

OPTIONS: dict[tuple[str, ...], dict[str, OldOption]] = {
    ("train",): {"--data": _renamed("--obs")},
    ("evaluate",): {"--data": _renamed("--obs"), "--stride": OldOption("--windows", None)},
    ("demo",): {"--out": _renamed("--output"), "--stations": _renamed("--station-count")},
    ("data", "synth"): {"--stations": _renamed("--station-count")},
    ("data", "ingest"): {"--stations": _renamed("--station-list")},
    ("benchmark",): {
        "--out": _renamed("--output"),
        "--no-resume": OldOption("--resume never", ("--resume", "never")),
        "--resume": OldOption("--resume auto", ("--resume", "auto"), takes=("auto", "never")),
    },
    ("ablate",): {"--out": _renamed("--output")},
    ("forecast",): {"--every": _renamed("--poll")},
}
_SHORT = {"--output": "-o"}


def present_names(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line with the present names, and a warning for each old name on it.

    Raises
    ------
    typer.BadParameter
        If an option is given by its old and by its new name.
    """
    line, warnings = list(words), []
    for old, new in COMMANDS.items():
        if tuple(line[: len(old)]) == old:
            line[: len(old)] = new
            warnings.append(_warning(f"stationpde {' '.join(old)}", f"stationpde {' '.join(new)}"))
    table = next((OPTIONS[path] for path in (tuple(line[:2]), tuple(line[:1])) if path in OPTIONS), {})
    end = line.index("--") if "--" in line else len(line)
    rewritten: list[str] = []
    for position, word in enumerate(line[:end]):
        name, sign, value = word.partition("=")
        old_option = table.get(name)
        if old_option is None or _is_new(name, sign, line[position + 1 : position + 2], old_option):
            rewritten.append(word)
            continue
        _refuse_both(name, old_option, line[:end])
        warnings.append(_warning(name, old_option.new))
        if old_option.words is None:
            rewritten.append(word)
        else:
            *first, last = old_option.words
            rewritten += [*first, f"{last}{sign}{value}"]
    return [*rewritten, *line[end:]], warnings


def _is_new(name: str, sign: str, following: Sequence[str], option: OldOption) -> bool:
    """Return whether a word that is also an old switch is used as the new option, with a value."""
    return bool(option.takes) and (bool(sign) or (bool(following) and following[0] in option.takes))


def _refuse_both(name: str, option: OldOption, line: Sequence[str]) -> None:
    new = option.new.partition(" ")[0]
    short = _SHORT.get(new)
    is_there = any(word.partition("=")[0] == new or (short and word.startswith(short)) for word in line)
    if new != name and is_there:
        raise typer.BadParameter(f"{name} is the old name of {new}; give one of the two", param_hint=new)


def _warning(old: str, new: str) -> str:
    return f"warning: {old} is deprecated; use {new}"
