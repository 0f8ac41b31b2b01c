"""Whether torch is transforming what runs: ``torch.func``, forward-mode derivatives, batched gradients, fake tensors.

A transformed tensor has no memory that a kernel could read, and a tensor made meanwhile ends with the transform: who
runs kernels takes plain torch instead, and nobody keeps what was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch._C import _functorch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.autograd import forward_ad

__all__ = ["has_numbers", "is_batched", "is_transforming", "on_real_tensors"]


@contextmanager
def on_real_tensors() -> Iterator[None]:
    """Compute numbers on the CPU even while a model is laid out with fake tensors or on another default device."""
    with unset_fake_temporarily(), torch.device("cpu"), torch.no_grad():
        yield


def is_transforming() -> bool:
    """Tell whether the caller runs under ``torch.func`` (grad, jvp, vmap, …) or with dual numbers."""
    if torch.compiler.is_compiling():  # transforms are then part of the graph that torch traces
        return False
    return _functorch.maybe_current_level() is not None or forward_ad._current_level >= 0


def has_numbers(state: Tensor) -> bool:
    """Tell whether a kernel may read a tensor: it is not fake, and torch transforms nothing."""
    return not (isinstance(state, FakeTensor) or is_transforming())


def is_batched(gradient: Tensor) -> bool:
    """Tell whether a gradient stands for many at once: ``is_grads_batched``, ``vectorize=True``, or vmap."""
    return bool(_functorch.is_legacy_batchedtensor(gradient)) or is_transforming()
