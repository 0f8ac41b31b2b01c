"""One registry for everything that is looked up by name: operators, integrators, and what others add.

An entry is registered by decorator or found through an entry point. Entry points are listed without being
imported and imported on first look-up; one that fails is skipped with a warning and harms nothing else.
"""

from __future__ import annotations

import difflib
import fnmatch
import logging
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from .errors import DuplicateNameError, UnknownNameError

__all__ = ["Registry"]

T = TypeVar("T")
log = logging.getLogger(__name__)


class Registry(Generic[T]):
    """Names to entries, with suggestions, wildcards and lazy plug-ins.

    Parameters
    ----------
    kind : what an entry is called in messages, e.g. ``"operator"``
    group : entry-point group that third parties publish under
    """

    def __init__(self, kind: str, group: str | None = None) -> None:
        self.kind = kind
        self.group = group
        self._entries: dict[str, T] = {}
        self._owners: dict[str, str] = {}
        self._plugins: dict[str, EntryPoint] | None = None

    def add(self, name: str, entry: T, owner: str) -> T:
        """Register ``entry``; a second owner of the same name is an error that names both."""
        first_owner = self._owners.get(name)
        if first_owner is not None:
            raise DuplicateNameError(
                f"{self.kind} '{name}' is registered by both `{first_owner}` and `{owner}`", do="rename one of them"
            )
        self._entries[name] = entry
        self._owners[name] = owner
        return entry

    def remove(self, name: str) -> None:
        """Forget an entry (used by tests and notebooks that redefine one)."""
        self._entries.pop(name, None)
        self._owners.pop(name, None)

    def owner(self, name: str) -> str:
        """Return the module that registered ``name``."""
        self[name]
        return self._owners[name]

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str):
            raise self.unknown(str(name))
        if name not in self._entries and name in self._discovered():
            self._load(name)
        try:
            return self._entries[name]
        except KeyError:
            raise self.unknown(name) from None

    def unknown(self, name: str, among: Sequence[str] | None = None) -> UnknownNameError:
        """Return the error for an unknown name, with the nearest of ``among`` (by default of all entries)."""
        return UnknownNameError(f"no {self.kind} '{name}'", do=self._suggest(name, among))

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._discovered()

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self.list())

    def list(self, pattern: str = "*") -> list[str]:
        """Sorted names matching a shell wildcard; plug-ins are listed without being imported."""
        return sorted(fnmatch.filter({*self._entries, *self._discovered()}, pattern))

    def _discovered(self) -> dict[str, EntryPoint]:
        if self._plugins is None:
            points = entry_points(group=self.group) if self.group else ()
            self._plugins = {}
            for point in points:
                earlier = self._plugins.get(point.name)
                if earlier is not None and earlier.value != point.value:
                    log.warning("%s '%s' is published by both `%s` and `%s`; the first is used",
                                self.kind, point.name, earlier.value, point.value)  # fmt: skip
                    continue
                self._plugins[point.name] = point
        return self._plugins

    def _load(self, name: str) -> None:
        point = self._discovered()[name]
        try:
            entry = point.load()
        # A plug-in is foreign code: whatever it raises on import must not take the library down.
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt | SystemExit):
                raise
            del self._discovered()[name]
            log.warning("%s plug-in '%s' (%s) failed to load and is skipped: %r",
                        self.kind, name, point.value, problem)  # fmt: skip
            return
        # A module that registers by decorator has already added itself while it was imported.
        if name not in self._entries:
            self.add(name, entry, owner=point.value)

    def _suggest(self, name: str, among: Sequence[str] | None = None) -> str:
        candidates = self.list() if among is None else among
        close = difflib.get_close_matches(name, candidates, n=1)
        return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(candidates)}"
