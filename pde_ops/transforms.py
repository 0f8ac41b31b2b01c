"""Whether torch is transforming what runs: ``torch.func``, forward-mode derivatives, batched gradients.

A transformed tensor has no memory that a kernel could read, and a tensor made meanwhile ends with the transform: who
runs kernels takes plain torch instead, and nobody keeps what was made.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import forward_ad

__all__ = ["is_batched", "is_transforming"]


def is_transforming() -> bool:
    """Tell whether the caller runs under ``torch.func`` (grad, jvp, vmap, …) or with dual numbers."""
    if torch.compiler.is_compiling():  # transforms are then part of the graph that torch traces
        return False
    return _functorch.maybe_current_level() is not None or forward_ad._current_level >= 0


def is_batched(gradient: Tensor) -> bool:
    """Tell whether a gradient stands for many at once: ``is_grads_batched``, ``vectorize=True``, or vmap."""
    return bool(_functorch.is_legacy_batchedtensor(gradient)) or is_transforming()
