"""Mutations of valid JSON trees: values of other types, ranges and depths, keys that are gone, new or exchanged."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from fields.errors import FieldsError

_DEEP: Any = []
for _ in range(200):
    _DEEP = [_DEEP]

ODD = (
    None, True, False, 0, -1, 1, 7, 1 << 31, 1 << 63, 10**40, -(10**40), 0.5, -0.0, 1e-320, 1e308, "", "x", "0", "-1",
    "nan", "\ud800", "\x1b[2J", "a\0b", "../../x", "/etc/passwd", "step-1", "step-9999999999999999999", "é" * 300,
    "0" * 64, [], {}, [[]], [None], {"": None}, {"x": {"y": [1, "z"]}}, list(range(50)), _DEEP,
)  # fmt: skip


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value below the root."""
    items: Any = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutated(tree: Any, seed: int) -> tuple[Any, str]:
    """Return a copy of a tree with one change, and what was changed."""
    draw = random.Random(seed)
    changed = copy.deepcopy(tree)
    path = draw.choice(list(places(tree)))
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    key, kind = path[-1], draw.randrange(8)
    old = parent[key]
    if kind == 0:
        del parent[key]
        change = "removed"
    elif kind == 1 and isinstance(parent, dict):
        parent[draw.choice(("extra", "", "\ud800", "__class__", "config", "sha256"))] = draw.choice(ODD)
        change = "a key added"
    elif kind == 2 and isinstance(parent, dict):
        parent[f"{key}_"] = parent.pop(key)
        change = "renamed"
    elif kind == 3:
        parent[key] = [old]
        change = "put into a list"
    elif kind == 4:
        other = draw.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        parent[key], parent[other] = parent[other], parent[key]
        change = f"exchanged with {other!r}"
    elif kind == 5 and isinstance(old, int | float):
        parent[key] = draw.choice((str(old), -old, old + 1, old * 2, float(old), old != 0))
        change = f"{old!r} is {parent[key]!r}"
    elif kind == 5 and isinstance(old, str) and old:
        at = draw.randrange(len(old))
        parent[key] = old[:at] + draw.choice("09afx/. ") + old[at + 1 :]
        change = f"{old!r} is {parent[key]!r}"
    else:
        parent[key] = copy.deepcopy(draw.choice(ODD))
        change = f"is {str(parent[key])[:60]!r}"
    return changed, f"{'.'.join(map(str, path))[:120]}: {change} (seed {seed})"


def outcome(load: Callable[[], Any], change: str) -> tuple[FieldsError | None, Any]:
    """Return the typed error of a load, or its result.

    Raises
    ------
    AssertionError
        If it ends in any other error, or in one whose text would move a cursor.
    """
    try:
        return None, load()
    except FieldsError as problem:
        if not all(line.isprintable() for line in str(problem).splitlines()):
            raise AssertionError(f"a text that is not printable for {change}") from problem
        return problem, None
    except BaseException as problem:
        raise AssertionError(f"{type(problem).__name__} for {change}: {problem}") from problem
