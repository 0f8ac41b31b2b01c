"""Checks that another backend computes what the torch baseline does, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import BackendError
from ..operator import Operator
from ..symbols import Field
from ..system import PDESystem
from ..units import registry
from .record_checks import argument_units
from .results import CheckFailure, CheckSkipped
from .samples import difference, inputs, latlon

__all__ = ["check_fused", "one_operator_system", "parity_error"]

# float32 with sums in another order and other elementary functions: 1e-5 of the largest value, gradients included.
PARITY = 1e-5


def one_operator_system(record: Operator) -> PDESystem:
    """Return a system that holds the inputs as fields at rest and one field that the operator alone drives."""
    units, output = argument_units(record)
    fields = [Field(f"argument_{name}", unit) for name, unit in zip(record.inputs, units, strict=True)]
    result = Field("result", output * registry.second)
    return PDESystem(f"{record.name} alone", {result: record(*fields), **dict.fromkeys(fields, 0.0)})


def parity_error(
    record: Operator,
    border: str,
    backend: str,
    dtype: torch.dtype = torch.float32,
    *,
    shape: tuple[int, int, int] = (2, 9, 10),
) -> float:
    """Return the largest relative distance of a backend from the torch baseline: of the result and of its gradients."""
    batch, ny, nx = shape
    grid = latlon(border, ny, nx)
    system = one_operator_system(record)
    arrays = inputs(record, grid, lead=(batch,), dtype=dtype)
    state = torch.stack([torch.zeros_like(arrays[0]), *arrays], dim=1)
    weights = torch.randn(state[:, 0].shape, generator=torch.Generator().manual_seed(4)).to(dtype)

    def run(name: str) -> tuple[Tensor, Tensor]:
        tendency = system.compile(grid, backend=name).to(dtype)
        leaf = state.clone().requires_grad_()
        # A nudged rim asks for its reference; at rest like the field itself, it adds nothing to the result.
        rim = dict.fromkeys(tendency.closure_names, torch.zeros_like(arrays[0]))
        result = tendency(leaf, rim)[:, 0]
        (gradient,) = torch.autograd.grad((result * weights).sum(), leaf)
        return result.detach(), gradient

    (expected, slope), (result, gradient) = run("torch"), run(backend)
    each = [difference(gradient[:, k], slope[:, k]) for k in range(1, len(arrays) + 1)]
    return max(difference(result, expected), *each)


def check_fused(record: Operator, border: str) -> str:
    """Check that the fused kernel and its adjoint agree with the torch baseline."""
    try:
        off = parity_error(record, border, "fused")
    except BackendError as problem:
        raise CheckSkipped(str(problem)) from None
    except ImportError as problem:
        raise CheckSkipped(f"the fused backend is not available: {problem}") from None
    if off > PARITY:
        raise CheckFailure(f"fused and torch differ by {off:.1e}")
    return f"fused within {off:.0e}"
