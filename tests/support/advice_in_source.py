"""Find the advice that the source of all packages writes: every text that is given as ``do``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("fields", "stationpde", "cli", "pde_ops")
# Position of the advice in a call that gives it without a name.
_POSITION = {"Problem": 4, "fail": 1}
# Words in the names of functions that return advice.
_ADVISERS = ("advice", "advised", "mend", "ask_", "command_with", "other_form", "with_next")
# Stands for a name or a number that is filled in.
FILLED = "1"
_INGEST = "stationpde data ingest SRC -o OUT.zarr"
# What is filled in whole, by the name of the variable.
_SAMPLES = {"command": _INGEST, "typed": _INGEST, "_INGEST": _INGEST, "_EXCHANGE": "--exchange lat,lon"}


@dataclass(frozen=True)
class WrittenAdvice:
    """One text of advice and the place in the source that writes it."""

    file: str
    line: int
    text: str


@lru_cache(maxsize=1)
def written_advice() -> tuple[WrittenAdvice, ...]:
    """Collect every advice that the packages write."""
    return tuple(
        advice
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for advice in advice_in(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    )


def advice_in(source: str, file: str) -> Iterator[WrittenAdvice]:
    """Yield the texts that a module gives as advice: by keyword, by position, or assigned to ``do``."""
    tree = ast.parse(source)
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        for value in _values(node):
            named = constants.get(value.id, value) if isinstance(value, ast.Name) else value
            for text in texts_of(named):
                if text.strip(f"{FILLED} .:,;"):
                    yield WrittenAdvice(file, node.lineno, text)


def _values(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        position = _POSITION.get(name)
        placed = node.args[position : position + 1] if position is not None else []
        return [*placed, *(word.value for word in node.keywords if word.arg == "do")]
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", "") for t in targets}
        return [node.value] if names & {"do", "hint", "advice", "remedy", "leave_out"} else []
    if isinstance(node, ast.FunctionDef) and any(word in node.name for word in _ADVISERS):
        return [part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value is not None]
    return []


def texts_of(node: ast.expr) -> list[str]:
    """Return the texts that an expression may become; a tuple's parts each."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        text = "".join(_part(part) for part in node.values)
        # The name of a command, which its caller gives.
        return [text.replace(f"stationpde {_INGEST}", "stationpde report")]
    if isinstance(node, ast.IfExp):
        return [*texts_of(node.body), *texts_of(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in texts_of(value)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = texts_of(node.left) or [_sample(node.left)], texts_of(node.right) or [_sample(node.right)]
        return [a + b for a in left for b in right]
    if isinstance(node, ast.Tuple):
        return [text for value in node.elts for text in texts_of(value)]
    return []


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return _sample(part.value) if isinstance(part, ast.FormattedValue) else FILLED


def _sample(node: ast.expr) -> str:
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return _SAMPLES.get(last, FILLED)
