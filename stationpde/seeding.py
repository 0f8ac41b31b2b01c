"""Random numbers that depend on the position in training, not on the steps that led to it.

Every draw derives from (seed, purpose, epoch, step, rank). Nothing of a generator's state has to be saved, and a run
that was killed repeats the same draws.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch

__all__ = ["derive", "generator", "seed_everything"]


def derive(seed: int, *parts: int | str) -> int:
    """Return a 63-bit number derived from the arguments by SHA-256; different arguments give different numbers."""
    text = "/".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *parts: int | str) -> np.random.Generator:
    """Return a numpy generator for one purpose and position, seeded by `derive`."""
    return np.random.Generator(np.random.PCG64(derive(seed, *parts)))


def seed_everything(seed: int, *parts: int | str) -> None:
    """Set the global generators of torch, numpy and Python, so that the draws of a learner repeat."""
    value = derive(seed, *parts)
    torch.manual_seed(value)
    # A plug-in may use the old global generator of numpy; this project uses `generator`.
    np.random.seed(value % 2**32)
    random.seed(value)
