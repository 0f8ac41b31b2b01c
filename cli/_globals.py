"""Options that hold for every command and may stand anywhere on the line.

People type ``stationpde ops check --json`` as readily as ``stationpde --json ops check``. The global options
are therefore taken out of the line before it is parsed, which also lets a usage error know how to report
itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["GLOBAL_OPTIONS", "Globals", "take_globals"]

GLOBAL_OPTIONS = {
    "--json": "One JSON object on stdout; text for people goes to stderr.",
    "--debug": "Show the traceback of an error.",
    "-v, --verbose": "Print more; twice for everything.",
    "-q, --quiet": "Print only results and errors.",
}


@dataclass(frozen=True, slots=True)
class Globals:
    """Settings of a whole invocation; ``verbosity`` is -1 when quiet, 0, 1 or 2."""

    json: bool = False
    debug: bool = False
    verbosity: int = 0


def take_globals(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[Globals, list[str]]:
    """Split a command line into its global options and the rest.

    ``STATIONPDE_JSON``, ``STATIONPDE_DEBUG``, ``STATIONPDE_VERBOSE`` and ``STATIONPDE_QUIET`` set the same;
    what is typed after ``--`` is left alone.
    """
    environment = os.environ if environment is None else environment
    switches = {name for name in ("json", "debug") if _is_set(environment, name)}
    verbosity = int(_is_set(environment, "verbose")) - int(_is_set(environment, "quiet"))
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest: list[str] = []
    for word in arguments[:end]:
        if word in ("--json", "--debug"):
            switches.add(word[2:])
        elif letters := _letters(word):
            for letter in letters:
                verbosity = -1 if letter == "q" else max(verbosity, 0) + 1
        else:
            rest.append(word)
    settings = Globals(json="json" in switches, debug="debug" in switches, verbosity=min(verbosity, 2))
    return settings, [*rest, *arguments[end:]]


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(f"STATIONPDE_{name.upper()}", "").lower() not in ("", "0", "false", "no", "off")


def _letters(word: str) -> str:
    """Return the switches in ``-v``, ``-vv``, ``-q``, ``--verbose`` or ``--quiet``; empty for any other word."""
    if word in ("--verbose", "--quiet"):
        return word[2]
    return word[1:] if word.startswith("-") and not set(word[1:]) - {"v", "q"} else ""
