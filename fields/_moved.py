"""Keep documented module paths importable after a module has moved to its room.

``from fields.lift_methods import StationLift`` keeps working, with a `DeprecationWarning` that names the new path.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "keep_old_paths"]

MOVED: dict[str, str] = {}
"""Old module path to new one, of all packages that have called `keep_old_paths`."""


class _Alias(Loader):
    """Loads a module under its old path: the very module object of the new path."""

    def __init__(self, new: str) -> None:
        self.new = new
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.new)
        self.spec = module.__spec__
        _stand_in_for_function(spec.name, module)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has written the old path into the module; it goes by its new one.
        module.__spec__ = self.spec


def _stand_in_for_function(old: str, module: ModuleType) -> None:
    """Let a module be called where its old path is also the name of a function of the package.

    The import system makes the module an attribute of its package, in place of ``stationpde.training.dry_run``, say.
    """
    package, _, name = old.rpartition(".")
    room = sys.modules[package]
    exported = getattr(room, name) if name in getattr(room, "__all__", ()) else None
    if callable(exported):
        call = staticmethod(exported)
        module.__class__ = type("CallableModule", (ModuleType,), {"__call__": lambda _, *a, **k: call(*a, **k)})


class _Finder(MetaPathFinder):
    """Finds modules of `MOVED` under their old paths; searched last, so that a real module of that path comes first."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = MOVED.get(fullname)
        if new is None:
            return None
        # Level 2 is the import system; the frames between it and the import statement are skipped by warnings itself.
        warnings.warn(f"{fullname} is now {new}", DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, _Alias(new))


def keep_old_paths(moved: Mapping[str, str]) -> None:
    """Make modules importable under the old paths that ``moved`` maps to new ones."""
    MOVED.update(moved)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
