"""Call a kernel that numba compiled."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import logging
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .binding import Arguments
from .cache import cache_directory, publish
from .emit_c import SEPARATE
from .emit_numba import emit_numba
from .plan import Kernel

__all__ = ["NumbaKernel"]

log = logging.getLogger(__name__)


class NumbaKernel:
    """A kernel compiled by numba; one thread."""

    def __init__(self, kernel: Kernel, ny: int, nx: int, dtype: torch.dtype) -> None:
        source = emit_numba(kernel, nx, double=dtype == torch.float64)
        self._directory = _stored(source)
        self._module = _imported(self._directory)
        self._ny = ny
        self._dtype = dtype
        self._scalars = kernel.derivatives
        infos = [kernel.traced.arrays[a] for a in kernel.arrays()]
        self._places: list[tuple[str, Any]] = [(i.kind, i.name if i.kind in SEPARATE[1:] else i.index) for i in infos]
        self._is_new = True

    def __call__(self, arguments: Arguments) -> Tensor:
        """Run it; return the derivatives by the scalars."""
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
        if self._is_new:
            _seal(self._directory)
            self._is_new = False
        return derivatives.to(self._dtype)

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
    """Directory of a module with this source in the cache; compiled files that were tampered with are dropped."""
    key = hashlib.sha256(source.encode()).hexdigest()[:32]
    directory = cache_directory() / f"numba-{key}"
    directory.mkdir(mode=0o700, exist_ok=True)
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
    return directory


@functools.cache
def _imported(directory: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"pde_ops_{directory.name.replace('-', '_')}", directory / "kernel.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _digests(directory: Path) -> dict[str, str]:
    found = {}
    for path in sorted((directory / "__pycache__").glob("*.nb*")):
        try:
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue  # another process is replacing it
    return found


def _sealed(directory: Path) -> dict[str, str]:
    try:
        noted: dict[str, str] = json.loads((directory / "sealed.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted


def _seal(directory: Path) -> None:
    publish(directory / "sealed.json", json.dumps(_digests(directory)).encode())
