"""Waiting for observations: look at a path now and then, and say when something there has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fields.manifest import MANIFEST

__all__ = ["changes", "signature"]

_MOST_FILES = 10_000


def signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """What tells one state of a path from the next: names, sizes and times of its files; empty while it is absent.

    A store is replaced as a whole, so that its manifest stands for it.
    """
    manifest = path / MANIFEST
    if manifest.is_file():
        return _entries([manifest])
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file())
        return _entries(found[:_MOST_FILES])
    return _entries([path])


def changes(
    path: Path, every: float, *, wait: Callable[[float], None] = time.sleep
) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """Yield at once, and then whenever the path has changed and has come to rest.

    Parameters
    ----------
    every : seconds between looks; a file that still grows from one look to the next is not touched
    """
    told: tuple[tuple[str, int, int], ...] | None = None
    before = signature(path)
    while True:
        now = signature(path)
        if now and now == before and now != told:
            told = now
            yield now
        else:
            before = now
            wait(every)


def _entries(files: list[Path]) -> tuple[tuple[str, int, int], ...]:
    made = []
    for file in files:
        try:
            about = os.stat(file)
        except FileNotFoundError:  # gone since it was listed
            continue
        made.append((file.name, about.st_size, about.st_mtime_ns))
    return tuple(made)
