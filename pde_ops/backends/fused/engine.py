"""Which generator turns a plan into something that runs, and why."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ...errors import BackendError
from ...grid import Grid2D
from .binding import CKernel, Launch
from .build import Compiler, find_compiler
from .ir import Node
from .plan import Kernel, Seeded, backward_kernel, forward_kernel
from .scaled import Scaler, scale_kernel
from .trace import Traced

__all__ = ["Engine", "choose_engine"]

log = logging.getLogger(__name__)

VARIABLE = "PDE_OPS_FUSED"  # forces an engine: c, numba or torch
Name = Literal["c", "numba", "torch", "triton"]


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to run plans; ``torch`` means that there is none and the baseline takes over."""

    name: Name
    reason: str
    compiler: Compiler | None = None

    @property
    def saves(self) -> bool:
        """Whether the forward kernel leaves values for its adjoint."""
        return True

    def plan_forward(self, traced: Traced, outputs: Sequence[Node], saved: Sequence[Node]) -> Any:
        """Return what `make` compiles of a traced program."""
        return forward_kernel(traced, outputs, saved)

    def plan_backward(self, traced: Traced, seeded: Seeded, wants: frozenset[str], saved: Sequence[Node]) -> Any:
        """Return what `make` compiles of its adjoint."""
        return backward_kernel(traced, seeded, wants, saved)

    @property
    def adds(self) -> bool:
        """Whether adjoint kernels add derivatives by closures to what is there, from the first step on."""
        return True

    @property
    def scales(self) -> bool:
        """Whether it has a kernel of the scale rules; where it has none the baseline computes them."""
        return self.compiler is not None

    def scaler(self, dtype: torch.dtype) -> Scaler:
        """Return the kernel of the scale rules."""
        assert self.compiler is not None
        return scale_kernel(dtype, self.compiler)

    def make(self, kernel: Kernel, grid: Grid2D, dtype: torch.dtype, side: int = 1) -> Launch:
        """Compile a kernel; in C for ``side`` samples side by side."""
        if self.name == "c":
            assert self.compiler is not None
            return CKernel(kernel, grid.ny, grid.nx, dtype, self.compiler, side)
        if self.name == "numba":
            from .binding_numba import NumbaKernel

            return NumbaKernel(kernel, grid.ny, grid.nx, dtype)
        raise BackendError("no generator of fused kernels is available here")

    def describe(self) -> str:
        """Return one line for :meth:`pde_ops.backends.Runner.describe`."""
        return f"{'C by ' + repr(self.compiler) if self.compiler else self.name} ({self.reason})"


def choose_engine() -> Engine:
    """C with the system's compiler, else numba, else the torch baseline; ``$PDE_OPS_FUSED`` forces one of them."""
    return _choose(os.environ.get(VARIABLE, ""))


@functools.cache
def _choose(forced: str) -> Engine:
    if forced and forced not in ("c", "numba", "torch"):
        raise BackendError(f"${VARIABLE} is '{forced}'", do="set it to c, numba or torch, or unset it")
    reason = f"${VARIABLE}" if forced else "the first choice"
    if forced in ("", "c"):
        compiler = find_compiler()
        if compiler is not None:
            return Engine("c", reason, compiler)
        if forced:
            raise BackendError(f"${VARIABLE}=c but no C compiler runs here", do="install gcc or clang, or set CC")
        reason = "no C compiler was found"
    if forced in ("", "numba"):
        problem = _numba_fault()
        if problem is None:
            return _noted(Engine("numba", reason))
        if forced:
            raise BackendError(f"${VARIABLE}=numba but {problem}", do="pip install numba")
        reason = f"no C compiler was found, and {problem}"
    return _noted(Engine("torch", reason))


def _numba_fault() -> str | None:
    """Say why numba cannot be used: it may be installed and yet refuse the numpy beside it."""
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    try:
        importlib.import_module("numba")
    except (ImportError, OSError, SystemError) as problem:
        return f"numba cannot be imported ({problem})"
    return None


def _noted(engine: Engine) -> Engine:
    log.info("backend 'fused' uses %s: %s", engine.name, engine.reason)
    return engine
