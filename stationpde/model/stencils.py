r"""3 × 3 convolutions of few channels as matrix products, border replicated.

A convolution is a matrix product either with the nine neighbours of every input, or followed by a sum over nine
neighbours of the products:

.. math:: y = W\,\mathrm{neighbours}(x) \qquad\text{or}\qquad y = \mathrm{summed}(W'x)

The first suits few inputs, the second few outputs; between them the hidden features stay a matrix ``[channel, cell]``,
whose columns are all cells of all samples. On grids of some thousand cells either takes a third to a half of the time
of a general convolution, forward and backward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["neighbours", "run_here", "summed"]

_TAPS = 9
_COMPILED = (torch.float32, torch.float64)


def run_here(fields: Tensor) -> bool:
    """Return whether the compiled loops take these fields: in main memory, and not while a program is traced."""
    on_cpu = fields.device.type == "cpu" and fields.dtype in _COMPILED
    return on_cpu and fields.shape[-1] > 1 and not torch.compiler.is_compiling()


def neighbours(fields: Float[Tensor, "batch channel y x"]) -> Float[Tensor, "tap cell"]:
    """Return the nine neighbours of every cell, ``[channel * 9, batch * y * x]``."""
    columns: Tensor = _Gather.apply(fields)
    return columns


def summed(
    products: Float[Tensor, "tap cell"], batch: int, grid: tuple[int, int] | torch.Size
) -> Float[Tensor, "batch channel y x"]:
    """Add up ``[channel * 9, batch * y * x]``, each tap taken from its neighbour; fields of a ``grid`` result."""
    fields: Tensor = _Total.apply(products, batch, grid)
    return fields


def _as_taps(columns: Tensor, batch: int, grid: Any) -> Any:
    return columns.detach().contiguous().view(-1, 3, 3, batch, *grid).numpy()


def _as_fields(fields: Tensor) -> Any:
    return fields.detach().contiguous().numpy()


def _from_fields(fields: Tensor, kernel: Any) -> Tensor:
    batch, channels, *grid = fields.shape
    columns = fields.new_empty((channels * _TAPS, fields[:, 0].numel()))
    kernel(_as_fields(fields), _as_taps(columns, batch, grid))
    return columns


def _to_fields(taps: Tensor, batch: int, grid: Any, kernel: Any) -> Tensor:
    fields = taps.new_empty((batch, taps.shape[0] // _TAPS, *grid))
    kernel(_as_taps(taps, batch, grid), _as_fields(fields))
    return fields


# Each pair is linear and its own transpose backwards, so that derivatives of any order exist. Numba is imported where
# it is used: commands without a model do not load it.


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, fields: Tensor) -> Tensor:
        from stationpde.model.stencil_kernels import gather

        ctx.batch, ctx.grid = fields.shape[0], fields.shape[-2:]
        return _from_fields(fields, gather)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Scatter.apply(gradients[0], ctx.batch, ctx.grid)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, taps: Tensor, batch: int, grid: Any) -> Tensor:
        from stationpde.model.stencil_kernels import scatter

        return _to_fields(taps, batch, grid, scatter)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return neighbours(gradients[0]), None, None


class _Total(Function):
    @staticmethod
    def forward(ctx: Any, taps: Tensor, batch: int, grid: Any) -> Tensor:
        from stationpde.model.stencil_kernels import total

        return _to_fields(taps, batch, grid, total)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Spread.apply(gradients[0]), None, None


class _Spread(Function):
    @staticmethod
    def forward(ctx: Any, fields: Tensor) -> Tensor:
        from stationpde.model.stencil_kernels import spread

        ctx.batch, ctx.grid = fields.shape[0], fields.shape[-2:]
        return _from_fields(fields, spread)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Total.apply(gradients[0], ctx.batch, ctx.grid)
