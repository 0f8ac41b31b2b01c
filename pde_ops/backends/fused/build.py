"""Compile generated C and keep the result.

A library is stored under the hash of everything that shaped it: source, flags, compiler version and processor. It
appears by an atomic rename, with a side file that holds its SHA-256; both are checked before it is loaded, so that a
truncated or damaged file, one that somebody else owns or may write, or a process that died half way, only costs a
rebuild. Any number of processes may build the same kernel at once.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import BackendError
from .cache import cache_directory, foreign, publish

__all__ = ["Compiler", "find_compiler", "load_library"]

log = logging.getLogger(__name__)

# -O3 for loops that are not written in vectors: copies, borders, what a march puts on the state.
# Never -ffast-math: at link time it turns on flush-to-zero for the whole process. No reassociation either, which the
# explicit vector code does not need and the rounding tricks of `vexp` do not survive.
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-w")
TIMEOUT = 300.0  # s
SHOWN_LINES = 8


class Compiler:
    """A C compiler that is installed here."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self.version = _run([*command, "--version"]).stdout.partition("\n")[0].strip()

    def __repr__(self) -> str:
        return f"{' '.join(self.command)} ({self.version})"

    def attempts(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Compile and link flags to try, the best first."""
        for machine in (("-march=native",), ("-mcpu=native",), ()):
            # torch brings an OpenMP runtime; a second one in the process would fight it for the cores, so it is
            # left to the loader to bind to the one that is there.
            if _has_symbol("GOMP_parallel") and "clang" not in self.version:
                yield (*FLAGS, *machine, "-fopenmp"), ("-shared", "-lm")
            yield (*FLAGS, *machine, "-fopenmp"), ("-shared", "-fopenmp", "-lm")
            yield (*FLAGS, *machine), ("-shared", "-lm")


@functools.lru_cache(maxsize=1)
def find_compiler() -> Compiler | None:
    """Return the first compiler that runs: ``$CC``, cc, gcc, clang."""
    words = shlex.split(os.environ.get("CC", ""))
    for command in ([words] if words else []) + [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]) is not None:
            try:
                return Compiler(command)
            except BackendError as problem:
                log.warning("%s", problem)
    return None


def library_path(source: str, compiler: Compiler) -> Path:
    """Return the path at which the library of a source is kept."""
    key = hashlib.sha256("\0".join([source, *compiler.command, compiler.version, *FLAGS, _processor()]).encode())
    return cache_directory() / f"kernel-{key.hexdigest()[:32]}.so"


def load_library(source: str, compiler: Compiler) -> ctypes.CDLL:
    """Return the loaded library of a source, built now if it is not in the cache."""
    path = library_path(source, compiler)
    for _ in range(2):
        if not is_sound(path):
            _build(source, compiler, path)
        try:
            return ctypes.CDLL(str(path))
        except OSError as problem:  # made for another system library, say: the hash cannot know everything
            log.warning("rebuilding a kernel that does not load: %s", problem)
            path.unlink(missing_ok=True)
    raise BackendError(f"the compiled kernel {path.name} does not load here", do="use backend 'inductor' or 'torch'")


def is_sound(path: Path) -> bool:
    """Tell whether a stored file is there and is what was written, by this user."""
    problem = foreign(path) or foreign(_side_file(path))
    if problem is not None:
        log.warning("a kernel in the cache will be rebuilt: %s", problem)
        return False
    try:
        expected = _side_file(path).read_text(encoding="ascii").strip()
        actual = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError) as error:
        log.warning("cannot read %s from the kernel cache: %s", path.name, error)
        return False
    if actual != expected:
        log.warning("%s in the kernel cache is damaged and will be rebuilt", path.name)
    return actual == expected


def _side_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _build(source: str, compiler: Compiler, path: Path) -> None:
    try:
        content = _compiled(source, compiler)
    except OSError as problem:
        message = f"a kernel cannot be compiled in {tempfile.gettempdir()}: {problem}"
        raise BackendError(message, do="make room there, or set TMPDIR to another directory") from None
    try:
        publish(path, content)
        publish(_side_file(path), hashlib.sha256(content).hexdigest().encode("ascii"))
    except OSError as problem:
        message = f"the compiled kernel {path} cannot be stored: {problem}"
        raise BackendError(message, do="delete what is there, or set STATIONPDE_CACHE to another directory") from None


def _compiled(source: str, compiler: Compiler) -> bytes:
    """Return the library of a source; the first set of flags that works is taken."""
    problems: list[BackendError] = []
    with tempfile.TemporaryDirectory(prefix="pde_ops-") as work:
        text, binary, result = (Path(work) / name for name in ("kernel.c", "kernel.o", "kernel.so"))
        text.write_text(source, encoding="utf-8")
        for compile_flags, link_flags in compiler.attempts():
            try:
                _run([*compiler.command, *compile_flags, "-c", str(text), "-o", str(binary)])
                _run([*compiler.command, str(binary), "-o", str(result), *link_flags])
                return result.read_bytes()
            except BackendError as problem:
                problems.append(problem)
    raise problems[0]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        message = f"the C compiler `{command[0]}` did not run: {problem}"
        raise BackendError(message, do="set CC to a working one") from None
    if result.returncode != 0:
        shown = "\n".join((result.stderr or result.stdout).splitlines()[:SHOWN_LINES])
        raise BackendError(
            f"the C compiler `{command[0]}` failed with code {result.returncode}:\n{shown}",
            do="mend or replace it (CC names another), or set PDE_OPS_FUSED=numba or PDE_OPS_FUSED=torch",
        )
    return result


def _has_symbol(name: str) -> bool:
    try:
        getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return False
    return True


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """Return what distinguishes this processor for ``-march=native``."""
    described = {platform.machine(), platform.processor(), sys.platform}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            described |= {line.strip() for line in lines if line.startswith(("model name", "flags", "Features"))}
    except OSError:
        pass
    return "\n".join(sorted(described))
