"""Device of a training: the processor or a GPU, one for each rank."""

from __future__ import annotations

import os
import re

import torch

from stationpde.errors import UsageError

__all__ = ["resolve_device"]


def resolve_device(name: str) -> str:
    """Resolve a device name: ``auto`` is the first GPU if there is one; under torchrun each rank has its own GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    absent = name.startswith("cuda") and not torch.cuda.is_available()
    if absent or not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise UsageError(f"there is no device '{name}' here", code="SPDE-T001", do="--device cpu")
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return name
