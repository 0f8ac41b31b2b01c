"""Random numbers that depend on where training is, not on how it got there.

Every draw derives from (seed, purpose, epoch, step, rank). Nothing of a generator's state has to be saved, and a run
that was killed repeats its own draws.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch

__all__ = ["derive", "generator", "seed_everything"]


def derive(seed: int, *parts: int | str) -> int:
    """A number of 63 bits that stands for its arguments: different ones for all practical purposes."""
    text = "/".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *parts: int | str) -> np.random.Generator:
    """A numpy generator for one purpose and place."""
    return np.random.Generator(np.random.PCG64(derive(seed, *parts)))


def seed_everything(seed: int, *parts: int | str) -> None:
    """Set the global generators of torch, numpy and Python: what a learner draws from them repeats."""
    value = derive(seed, *parts)
    torch.manual_seed(value)
    # A plug-in may use the old global generator of numpy; our own code has generators of its own.
    np.random.seed(value % 2**32)
    random.seed(value)
