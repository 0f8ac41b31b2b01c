"""Circumstances of a run: recorded with every checkpoint, compared at every resumption.

Results repeat bit for bit only with the same versions, threads, number of ranks and kind of device.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import stationpde

__all__ = ["differences", "facts"]

# Facts that must be equal for results to be bit-equal, by their names in warnings.
_DECIDING = {
    "torch version": ("versions", "torch"),
    "stationpde version": ("versions", "stationpde"),
    "threads": ("threads",),
    "world size": ("world",),
    "device": ("device",),
    "machine": ("machine",),
    "networks": ("networks",),
}


def facts(
    *, config_hash: str, data_fingerprint: str, trained: tuple[int, int], seed: int, world: int, device: str,
    networks: str,
) -> dict[str, Any]:
    """Return versions, threads, world size, device, machine, mode of networks, seed, fingerprints and period.

    ``trained`` is the first and last time, seconds since 1970, that training and validation see.
    """
    return {
        "versions": {
            "stationpde": stationpde.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
        "world": world,
        "device": device,
        "machine": platform.machine(),
        "networks": networks,
        "seed": seed,
        "config_hash": config_hash,
        "data_fingerprint": data_fingerprint,
        "trained_from": trained[0],
        "trained_until": trained[1],
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the changed facts that decide the last bits, as ``name: before -> now``."""
    changes = []
    for name, keys in _DECIDING.items():
        old, new = _at(before, keys), _at(now, keys)
        if old != new and not (name == "networks" and old is None):  # versions before did not note it
            changes.append(f"{name}: {old} -> {new}")
    return changes


def _at(tree: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = tree
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
