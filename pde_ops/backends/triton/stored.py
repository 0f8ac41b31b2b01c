"""Generated modules in the kernel cache, and beside each what Triton compiled of it.

A module lies in a folder of its own, which this user alone may write. Its text is compared with what was generated just
now before it is loaded, so a planted or truncated one is written again. Triton keeps machine code in a folder below it;
the digests of all of that are noted, and what does not match them is dropped before Triton looks there.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import json
import logging
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import BackendError
from ..fused.binding_numba import SourceAlone
from ..fused.cache import foreign, private_folder, publish

__all__ = ["StoredModule", "stored_module"]

log = logging.getLogger(__name__)


class StoredModule:
    """A loaded module, and the folder that Triton keeps its machine code in."""

    def __init__(self, source: str) -> None:
        triton = imported_triton()
        key = hashlib.sha256(f"{triton.__version__}\n{source}".encode()).hexdigest()[:32]
        self.folder = private_folder(f"triton-{key}", owners_alone=True)
        self._compiled = self.folder / "compiled"
        try:
            _settle(self.folder, source)
            self.module = _loaded(f"pde_ops_triton_{key}", self.folder / "kernel.py")
        except OSError as problem:
            raise BackendError(
                f"a generated kernel cannot be stored in {self.folder}: {problem}",
                do="delete what is there, or set STATIONPDE_CACHE to another directory",
            ) from None
        self._noted = -1

    def function(self, name: str) -> Any:
        """Return a kernel."""
        return getattr(self.module, name)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Have Triton keep machine code here, and note what it wrote."""
        cache = imported_triton().knobs.cache
        before = cache.dir
        cache.dir = str(self._compiled)
        try:
            yield
        finally:
            cache.dir = before
        count = sum(1 for _ in self._compiled.iterdir())
        if count != self._noted:
            self._noted = count
            publish(self.folder / "sealed.json", json.dumps(_digests(self._compiled)).encode())


def imported_triton() -> Any:
    """Return the package; a typed error says how to get it."""
    try:
        return importlib.import_module("triton")
    except (ImportError, OSError) as problem:
        raise BackendError(
            f"backend 'triton' needs the package triton, which cannot be imported ({problem})",
            do="pip install triton, or use backend 'inductor' or 'torch'",
        ) from None


@functools.cache
def stored_module(source: str) -> StoredModule:
    """Return the module of a source, loaded once a process."""
    return StoredModule(source)


def _settle(folder: Path, source: str) -> None:
    """Have the source in the folder, and of what was compiled only what was noted."""
    path, compiled = folder / "kernel.py", folder / "compiled"
    for file in (path, folder / "sealed.json"):
        problem = foreign(file)
        if problem is not None:
            log.warning("a file in the kernel cache will be written again: %s", problem)
            file.unlink()
    try:
        same = path.read_text(encoding="utf-8") == source
    except (OSError, UnicodeDecodeError):
        same = False
    if not same:
        publish(path, source.encode())
    if compiled.is_symlink():
        compiled.unlink()
    if compiled.exists() and _digests(compiled) != _sealed(folder):
        log.warning("machine code of %s in the kernel cache is damaged and will be compiled again", folder.name)
        shutil.rmtree(compiled, ignore_errors=True)
    compiled.mkdir(mode=0o700, exist_ok=True)


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_loader(name, SourceAlone(path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Triton looks up the module of a function by its name
    spec.loader.exec_module(module)
    return module


def _digests(compiled: Path) -> dict[str, str]:
    digests = {}
    for path in sorted(compiled.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # another process is replacing it
            if not path.is_dir() and not stat.S_ISREG(path.lstat().st_mode):
                digests[str(path.relative_to(compiled))] = "no regular file"
            elif path.is_file():
                digests[str(path.relative_to(compiled))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def _sealed(folder: Path) -> dict[str, str]:
    try:
        noted: dict[str, str] = json.loads((folder / "sealed.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted
