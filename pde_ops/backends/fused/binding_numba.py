"""Call a kernel that numba compiled.

Source and machine code lie in a folder of the kernel cache, with the digests of what numba wrote. numba's files are
pickles: they are read only if this user alone may write them and they are what was noted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.abc import SourceLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .binding import Arguments
from .cache import private_folder, publish
from .emit_c import SEPARATE
from .emit_numba import emit_numba
from .joins import join_after_adjoint, join_after_step, join_before_adjoint, of_step
from .plan import Kernel

__all__ = ["NumbaKernel", "SourceAlone"]

log = logging.getLogger(__name__)

LAYOUT = "modules by name"  # of the stored files; another one makes new folders


class NumbaKernel:
    """A kernel compiled by numba; one thread."""

    def __init__(self, kernel: Kernel, ny: int, nx: int, dtype: torch.dtype) -> None:
        source = emit_numba(kernel, nx, double=dtype == torch.float64)
        self._directory = _stored(source)
        self._module = _imported(self._directory)
        self._ny = ny
        self._dtype = dtype
        self._scalars, self._seeded = kernel.derivatives, kernel.seeded
        infos = [kernel.traced.arrays[a] for a in kernel.arrays()]
        self._places: list[tuple[str, Any]] = [(i.kind, i.name if i.kind in SEPARATE[1:] else i.index) for i in infos]
        self._signatures = -1  # as many as are noted in the cache; arrays of another layout make a new one

    def __call__(self, arguments: Arguments) -> Tensor:
        """Run it; return the derivatives by the scalars."""
        total = torch.zeros(self._scalars, dtype=torch.float64)
        for step in range(arguments.steps):
            now = of_step(arguments, step)
            if self._seeded:
                join_before_adjoint(arguments, step)
            total += self._run(now)
            join_after_adjoint(arguments, step) if self._seeded else join_after_step(arguments, step)
        signatures = len(getattr(self._module.run, "signatures", ()))
        if signatures != self._signatures:
            _seal(self._directory)
            self._signatures = signatures
        return total.to(self._dtype)

    def _run(self, arguments: Arguments) -> Tensor:
        derivatives = torch.zeros(self._scalars, dtype=torch.float64)
        self._module.run(
            tuple(self._array(arguments, kind, index).detach().numpy() for kind, index in self._places),
            arguments.batch,
            self._ny,
            arguments.coefficients.detach().numpy(),
            arguments.factor.detach().numpy(),
            arguments.dt,
            arguments.rows[0],
            derivatives.numpy(),
        )
        return derivatives

    def _array(self, arguments: Arguments, kind: str, index: Any) -> Tensor:
        if kind == "closure":
            closure: Tensor = arguments.closures[index]
            return closure
        if kind in SEPARATE:
            plane: Tensor = arguments.planes[kind, index]
            return plane.expand(arguments.batch, -1, -1)
        block = arguments.blocks[kind]
        return block[index] if kind == "gradient closure" else block[:, index]


def _stored(source: str) -> Path:
    """Return the folder of a module with this source in the cache; compiled files that were changed are dropped."""
    key = hashlib.sha256(f"{LAYOUT}\n{source}".encode()).hexdigest()[:32]
    directory = private_folder(f"numba-{key}")
    module = directory / "kernel.py"
    try:
        same = module.read_text(encoding="utf-8") == source
    except (OSError, UnicodeDecodeError):
        same = False
    if not same:
        publish(module, source.encode())
    compiled = directory / "__pycache__"
    if compiled.exists() and _digests(directory) != _sealed(directory):
        log.warning("compiled files of %s in the kernel cache are damaged and will be rebuilt", directory.name)
        shutil.rmtree(compiled, ignore_errors=True)
    compiled.mkdir(mode=0o700, exist_ok=True)
    return directory


class SourceAlone(SourceLoader):
    """Loads a module from its source, never from compiled Python that lies beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:
        return Path(os.fsdecode(path)).read_bytes()


@functools.cache
def _imported(directory: Path) -> ModuleType:
    name = f"pde_ops_{directory.name.replace('-', '_')}"
    loader = SourceAlone(directory / "kernel.py")
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # stored machine code names the module that it belongs to, and is not loaded without
    with _cache_beside_the_source():
        loader.exec_module(module)
    return module


@contextlib.contextmanager
def _cache_beside_the_source() -> Iterator[None]:
    """Have numba keep what it compiles in the folder of the module, whatever its environment variables say."""
    config = importlib.import_module("numba").config
    changes = {name: "" for name in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES") if hasattr(config, name)}
    before = {name: getattr(config, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(config, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def _digests(directory: Path) -> dict[str, str]:
    digests = {}
    for path in sorted((directory / "__pycache__").glob("*.nb*")):
        try:
            digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue  # another process is replacing it
    return digests


def _sealed(directory: Path) -> dict[str, str]:
    try:
        noted: dict[str, str] = json.loads((directory / "sealed.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted


def _seal(directory: Path) -> None:
    """Note what numba has written, and take it from the group, which an open umask had let in."""
    for path in (directory / "__pycache__").glob("*.nb*"):
        with contextlib.suppress(FileNotFoundError):  # another process is replacing it
            path.chmod(0o600)
    publish(directory / "sealed.json", json.dumps(_digests(directory)).encode())
