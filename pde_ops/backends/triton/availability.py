"""Whether Triton is here, without importing it."""

from __future__ import annotations

import importlib.util
import os
from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed", "interpreted", "missing"]


def missing() -> str | None:
    """Say why kernels cannot be generated here; None if they can."""
    return None if importlib.util.find_spec("triton") is not None else "triton is not installed"


def installed() -> str | None:
    """Return the version that is installed."""
    try:
        return version("triton")
    except PackageNotFoundError:
        return None


def interpreted() -> bool:
    """Tell whether Triton runs kernels in Python, on CPU tensors; it reads the variable when it is imported."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"
