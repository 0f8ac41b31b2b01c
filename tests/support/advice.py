"""Hold the advice of errors against the real command line.

An advice may hold whole commands (``stationpde data info STORE``) and options by themselves (``--force``). A command
ends at the end of the text, at ``; ``, at three blanks, at a backtick or at a bracket; it is parsed by the command's
own parser. An option by itself is one of the command that is running, or of any where none runs. Keys such as
``train.lr`` are those of the configuration, extras of ``pip install`` those of the package.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import lru_cache
from pathlib import Path

import typer

from command_lines import LEAVES, parse

_COMMAND = re.compile(r"\bstationpde (?=[a-z-])(.*?)(?=; |   |`|\)| \(|$)")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
_KEY = re.compile(
    r"(?<![\w./-])((?:data|grid|lift|model|pde|loss|train)\.(?!zarr|np[yz]|nc|csv|toml|json)[a-z_]+)(?:=([^\s`;,)]+))?"
)
_EXTRA = re.compile(r"pip install ['\"]?stationpde\[([a-z,]+)\]")
# The options of pip are its own.
_PIP = re.compile(r"pip (?:un)?install [^;,`]*")
_PLACEHOLDER = re.compile(r"(?:--[a-z-]+=)?(?!UTC)(?:[A-Z]{2,}(?:\.[a-z]+)?|Area/City|.*….*)")
_INSTEAD = re.compile(r"the same as now with (\S+) in place of (\S+)$")
# Options that an advice begins with, or adds.
_BARE = re.compile(r"(?:add )?(--[a-z][a-z-]*(?: [^\s(-][^\s;]*)?)(?=$|   |;| \(| or )")
_GLOBAL = {"--json", "--debug", "--verbose", "--quiet", "--help", "--version"}
_ROOT = Path(__file__).parents[2]
# Stands for words that the user knows.
BLANK = "…"


def commands_in(text: str) -> list[list[str]]:
    """Return the words of every whole command in a text, without ``stationpde``."""
    return [_words(match[1]) for match in _COMMAND.finditer(text)]


def _words(text: str) -> list[str]:
    return [word for word in shlex.split(text.rstrip(" .,:")) if word != BLANK]


def options_in(text: str) -> list[str]:
    """Return the options that stand by themselves, outside whole commands."""
    return _OPTION.findall(_PIP.sub(" ", _COMMAND.sub(" ", text)))


def next_line(words: list[str], do: str | None) -> list[list[str]]:
    """Return the command lines to type after ``words`` failed with an advice; none where it is one for people alone.

    What stands for something that the user knows (``SRC``, ``FILE.toml``) cannot be typed.
    """
    text = do or ""
    for line in commands_in(text):
        if any(_PLACEHOLDER.fullmatch(word) for word in line) or not _is_complete(line):
            continue
        replaced = _INSTEAD.search(text)
        again = [replaced[1] if word == replaced[2] else word for word in words] if replaced else []
        return [line, again] if again else [line]
    options = _BARE.match(text)
    if options is None:
        return []
    added = shlex.split(options[1])
    return [] if any(_PLACEHOLDER.fullmatch(word) for word in added) else [[*words, *added]]


def _is_complete(words: list[str]) -> bool:
    """Return whether a command line shows more than where to look, and lacks no argument."""
    try:
        return words[:2] != ["data", "where"] and bool(parse(words)[0])
    except typer.TyperException:
        return False


@lru_cache(maxsize=1)
def options_of() -> dict[tuple[str, ...], frozenset[str]]:
    """Return the options of every command, those that hold for all included."""
    return {
        path: frozenset(_GLOBAL).union(*(parameter.opts for parameter in command.params))
        for path, command in LEAVES.items()
    }


def running_command(words: list[str]) -> tuple[str, ...] | None:
    """Return the path of the command that a line calls; None where it calls none."""
    plain = [word for word in words if not word.startswith("-")]
    return next((path for n in (2, 1) if (path := tuple(plain[:n])) in LEAVES), None)


@lru_cache(maxsize=4096)
def faults_of(text: str, running: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return what is wrong with an advice, each as a sentence.

    Parameters
    ----------
    running : path of the command during which it is given; None accepts options of any command
    """
    faults = []
    for words in _lines(text, faults):
        if not words:
            continue
        try:
            _, warnings = parse(words, complete=False)
        except typer.TyperException as problem:
            faults.append(f"`stationpde {shlex.join(words)}` cannot be typed: {problem.format_message()}")
        else:
            faults += warnings
    allowed = options_of().get(running) if running else None
    everywhere = frozenset().union(*options_of().values()) if allowed is None else allowed
    where = f"stationpde {' '.join(running)}" if running else "any command"
    faults += [f"{option} is no option of {where}" for option in options_in(text) if option not in everywhere]
    return (*faults, *_wrong_keys(text), *_wrong_extras(text))


def _lines(text: str, faults: list[str]) -> list[list[str]]:
    try:
        return commands_in(text)
    except ValueError as problem:
        faults.append(f"{problem}: {text}")
        return []


def _wrong_keys(text: str) -> list[str]:
    from stationpde.config import Config
    from stationpde.errors import ConfigError

    faults = []
    for key, value in _KEY.findall(text):
        section, _, name = key.partition(".")
        keys = getattr(getattr(Config.model_fields.get(section), "annotation", None), "model_fields", {})
        if name not in keys:
            faults.append(f"there is no key {key}")
        elif value and BLANK not in value and not value[0].isupper():
            try:
                Config.preset("demo").with_overrides([f"{key}={value.rstrip('.,;')}"])
            except ConfigError as problem:
                faults.append(f"--set {key}={value}: {problem}")
    return faults


def _wrong_extras(text: str) -> list[str]:
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {extra for group in _EXTRA.findall(text) for extra in group.split(",")}
    return [f"there is no extra {extra}" for extra in sorted(named - set(extras))]
