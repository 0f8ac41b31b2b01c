"""Run code on CUDA tensors without a GPU: shapes, dtypes and devices are real, numbers are not.

Under :class:`torch._subclasses.fake_tensor.FakeTensorMode` an operation that mixes a CPU and a CUDA tensor fails, which
is what a device-cleanliness test wants to see. A build of torch with CUDA can do that as it is. A CPU-only build has no
CUDA device guard, and Python indexing or autograd of a fake CUDA tensor would abort; there a guard that does nothing is
compiled once (two seconds) and loaded. Backward passes stay out of reach on such a build: the engine asks for a
real accelerator.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..errors import BackendError

__all__ = ["fake_cuda"]

_GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace c10::impl { C10_REGISTER_GUARD_IMPL(CUDA, NoOpDeviceGuardImpl<DeviceType::CUDA>) }
"""


@contextmanager
def fake_cuda() -> Iterator[None]:
    """Make new tensors fake ones on CUDA, as if a GPU were there.

    Raises
    ------
    BackendError
        On a CPU-only build of torch without a C++ compiler; the message says so, for a test to skip with.
    """
    _ensure_guard()
    with FakeTensorMode(), torch.device("cuda"):
        yield


@lru_cache(maxsize=1)
def _ensure_guard() -> None:
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        return
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise BackendError("fake CUDA tensors need a C++ compiler on a CPU-only build of torch", do="install g++")
    root = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "guard.cpp", Path(folder) / "guard.so"
        source.write_text(_GUARD)
        command = [compiler, "-std=c++20", "-O0", "-fPIC", "-shared", f"-I{root / 'include'}", str(source)]
        command += ["-o", str(library), f"-L{root / 'lib'}", "-lc10"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise BackendError(f"the CUDA device guard did not compile: {done.stderr.strip()[:300]}")
        ctypes.CDLL(str(library))  # stays mapped after its file is gone
