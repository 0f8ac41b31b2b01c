"""What a figure depends on: processor, cores, and the versions of what was measured. No names, no paths."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from shutil import which
from typing import Any

__all__ = ["facts"]

PACKAGES = ("torch", "numpy", "numba", "pint", "metpy", "py-pde", "devito", "gt4py")


def facts() -> dict[str, Any]:
    """Return the machine and versions behind a run."""
    return {
        "processor": _processor(),
        "vector_units": _vector_units(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "compiler": _compiler(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _cpuinfo(field: str) -> str:
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return ""
    lines = (line.partition(":") for line in file.read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _vector_units() -> list[str]:
    flags = set(_cpuinfo("flags").split())
    return [name for name in ("avx2", "fma", "avx512f") if name in flags]


def _compiler() -> str | None:
    compiler = which("cc") or which("gcc") or which("clang")
    if compiler is None:
        return None
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
