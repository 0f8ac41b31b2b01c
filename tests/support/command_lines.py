"""Command lines of the documentation: collected from pages, and parsed by the command's own parser without running."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from cli._globals import take_globals
from cli._renamed import present_names
from cli.main import app

PACKAGES = ("pde_ops", "fields", "stationpde", "cli")
# At the start of a line, behind the times of cron, or as advice; a placeholder for the command is no command.
_COMMAND = re.compile(r"^([\d*]+ [\d* ]+| *do +| *)stationpde (?!\[)(?!.*(-completion|COMMAND))[-a-z]")
_ENDS = re.compile(r"^(\||\|\||&&?|;|>|\)|\{|\})$")


def leaves(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command that is no group, with its path."""
    command = command or get_command(app)
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), (*path, name))


LEAVES = dict(leaves())


def fences(text: str) -> tuple[list[tuple[str, str]], str]:
    """Split a page into its fenced blocks, each with its language, and the rest."""
    blocks: list[tuple[str, str]] = []
    prose: list[str] = []
    language, lines = None, []
    for line in text.splitlines():
        fence = re.match(r"\s*```(\S*)", line)
        if fence and language is None:
            language, lines = fence[1], []
        elif fence:
            blocks.append((str(language), "\n".join(lines)))
            language = None
        else:
            (prose if language is None else lines).append(line)
    return blocks, "\n".join(prose)


def typed_lines(page: Path) -> Iterator[str]:
    """Yield the command lines that a page shows to be typed: in blocks that are no Python, or indented."""
    blocks, prose = fences(page.read_text(encoding="utf-8"))
    for language, block in blocks:
        if language not in ("python", "py"):
            yield from (line for line in block.replace("\\\n", " ").splitlines() if _COMMAND.match(line))
    yield from (line.strip() for line in prose.splitlines() if line.startswith("    stationpde "))


def mentioned_lines(page: Path) -> Iterator[str]:
    """Yield the command lines that a page mentions in backticks; they may lack required arguments."""
    for line in re.findall(r"`(stationpde [^`]+)`", fences(page.read_text(encoding="utf-8"))[1]):
        # `…` stands for a command, WHAT for one of a group; completion is set up when its option is parsed.
        if not re.search(r"^stationpde …| WHAT |-completion", line):
            yield " ".join(line.replace("…", "").split())


def words_of(line: str) -> list[str]:
    """Return the words after ``stationpde``, up to the end of this command; optional parts are taken as given."""
    words = shlex.split(re.sub(r"(\s)\[|\]", r"\1", line), comments=True)
    words = words[words.index("stationpde") + 1 :]
    end = next((n for n, word in enumerate(words) if _ENDS.match(word)), len(words))
    return words[:end]


def parse(words: list[str], *, complete: bool = True) -> tuple[tuple[str, ...], list[str]]:
    """Parse a command line without running it; return the command's path, and the warnings about old names.

    Parameters
    ----------
    complete : whether all required arguments must be there

    Raises
    ------
    typer.TyperException
        If the command, an option or a value is not accepted.
    """
    _, rest = take_globals([word for word in words if word != "--help"])
    rest, warnings = present_names(rest)
    command: Any = get_command(app)
    path: tuple[str, ...] = ()
    context = typer.Context(command, info_name="stationpde")
    while hasattr(command, "list_commands"):
        if not rest and not complete:
            return path, warnings
        name, command, rest = command.resolve_command(context, rest)
        path = (*path, str(name))
        if hasattr(command, "list_commands"):
            context = typer.Context(command, parent=context, info_name=name)
    try:
        command.make_context(path[-1], list(rest), parent=context)
    except typer.TyperException as problem:
        if complete or type(problem).__name__ != "MissingParameter":
            raise
    return path, warnings


def documented_names(page: Path) -> set[str]:
    """Collect the dotted names of our packages on a page: imports, references and names in backticks."""
    blocks, prose = fences(page.read_text(encoding="utf-8"))
    names = set(re.findall(r"^::: (\S+)", prose, re.MULTILINE))
    names |= set(re.findall(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`", prose))
    for language, block in blocks:
        for node in ast.walk(ast.parse(block)) if language in ("python", "py") else ():
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.partition(".")[0] in PACKAGES and not name.endswith(".py")}
