r"""What drives the equations over one interval, closure and extending terms, as one function of torch; see ``terms.c``.

.. math:: \mathrm{added} = f\,S + l + Q\,\mathrm{radiation}(X) + G\,\mathrm{differences}(X), \qquad
          \mathrm{decay} = p + \Lambda\,\mathrm{clamp}(\mathrm{regime}(X))

Against matrix products of joined channels, nothing is joined or kept: the way back differs fields again.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

import pde_ops.backends.fused as fused
from pde_ops.backends.fused.build import load_library
from pde_ops.backends.fused.engine import choose_engine
from stationpde.model.slopes import Slopes

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Surroundings", "apply_terms", "by_torch"]

_FIELDS = 5
_LASTING = 3  # place of the input whose derivative is that by what is added


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What the terms see of a cell's surroundings, and how far.

    Attributes
    ----------
    middle : number of the radius over which the regime's pressure slope is taken
    largest : bound of every input of the regime
    """

    slopes: Slopes
    middle: int
    largest: float


def apply_terms(
    fields: Float[Tensor, "batch 5 y x"],
    closure: Float[Tensor, "batch 5 y x"] | None,
    factor: Float[Tensor, " 5"] | None,
    lasting: Float[Tensor, "batch 5 cell"] | None,
    light: Float[Tensor, "batch 2 y x"] | None,
    radiation: Float[Tensor, "5 5"] | None,
    around: Float[Tensor, "5 difference"] | None,
    regime: Float[Tensor, "5 5"] | None,
    passing: Float[Tensor, "batch 5"] | None,
    surroundings: Surroundings,
) -> tuple[Tensor, Tensor | None]:
    """Return what a sub-step adds beside the equations, and the share of the state that decays.

    Parameters
    ----------
    fields : scaled
    closure, factor : bounded closure, and its factor
    lasting : memory, and radiation of the state zero
    light, radiation : height of the sun by day and 1 by night, which are data; weights of θ and q by day, of both by
        night, and of the wind speed by night
    around : weights of differences, in the order radius, kind, channel
    regime, passing : weights of both winds, both slopes of the pressure and dryness; the share of time and constant
    """
    inputs = (fields, closure, factor, lasting, light, radiation, around, regime, passing)
    for tensor in inputs:
        if tensor is not None and (tensor.dtype != fields.dtype or tensor.device.type != "cpu"):
            raise ValueError(f"terms take {fields.dtype} in main memory, not {tensor.dtype} on {tensor.device}")
    added, decay = _Terms.apply(*inputs, surroundings)
    return added, None if regime is None else decay


def by_torch(
    fields: Tensor, closure: Tensor | None, factor: Tensor | None, lasting: Tensor | None, light: Tensor | None,
    radiation: Tensor | None, around: Tensor | None, regime: Tensor | None, passing: Tensor | None,
    surroundings: Surroundings,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Compute the same from operations of torch, which have derivatives of any order."""
    added = torch.zeros_like(fields)
    if closure is not None and factor is not None:
        added = added + closure * factor[:, None, None]
    if lasting is not None:
        added = added + lasting.view_as(fields)
    if light is not None and radiation is not None:
        speed = (fields[:, :2].square().sum(dim=1, keepdim=True) + 1e-6).sqrt()
        lit = torch.cat([(light[:, :, None] * fields[:, None, 3:]).flatten(1, 2), light[:, 1:] * speed], dim=1)
        added = added + torch.einsum("oi,biyx->boyx", radiation, lit)
    if around is not None:
        added = added + surroundings.slopes.weighted(fields, around)
    if regime is None or passing is None:
        return added, None
    slopes = surroundings.slopes.gradient(fields[:, 2], surroundings.slopes.radii[surroundings.middle])
    seen = torch.cat([fields[:, :2], slopes, fields[:, 3:4] - fields[:, 4:]], dim=1)
    seen = seen.clamp(-surroundings.largest, surroundings.largest)
    return added, passing[..., None, None] + torch.einsum("oi,biyx->boyx", regime, seen)


class _Kernel:
    """The loaded kernel of a dtype and number of radii."""

    def __init__(self, double: bool, radii: int) -> None:
        compiler = choose_engine().compiler
        assert compiler is not None
        defines = {"REAL_IS_DOUBLE": int(double), "NX": 1, "BORDER_X": 0, "BORDER_Y": 0, "RADII": radii}
        parts = [f"#define {name} {value}" for name, value in defines.items()]
        prelude = Path(str(fused.__file__)).with_name("prelude.h")
        parts += [path.read_text(encoding="utf-8") for path in (prelude, Path(__file__).with_name("terms.c"))]
        library = load_library("\n".join(parts), compiler)
        pointer, number = ctypes.c_void_p, ctypes.c_double
        self.forward, self.backward = library.terms_forward, library.terms_backward
        self.forward.argtypes = [pointer, pointer, number, pointer, pointer]
        self.backward.argtypes = [pointer, pointer, number, pointer, pointer, pointer]


_kernel = functools.cache(_Kernel)
_Numbers = np.ndarray[Any, np.dtype[np.int64]]


def _addresses(tensors: Sequence[Tensor | None]) -> _Numbers:
    return np.array([0 if tensor is None else tensor.data_ptr() for tensor in tensors], np.int64)


def _counts(fields: Tensor, surroundings: Surroundings) -> _Numbers:
    batch, _, ny, nx = fields.shape
    return np.array([batch, ny, nx, surroundings.middle, *surroundings.slopes.radii], np.int64)


def _kernel_of(fields: Tensor, surroundings: Surroundings) -> _Kernel:
    return _kernel(fields.dtype == torch.float64, len(surroundings.slopes.radii))


def _dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.resolve_neg().contiguous()


class _Terms(Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *tensors, surroundings = arguments
        dense = [_dense(tensor) for tensor in tensors]
        fields, regime = dense[0], dense[7]
        assert fields is not None
        added = torch.empty_like(fields)
        decay = None if regime is None else torch.empty_like(fields)
        geometry = (surroundings.slopes.stretch, surroundings.slopes.turn)
        addresses, counts = _addresses([*dense, *geometry]), _counts(fields, surroundings)
        if _kernel_of(fields, surroundings).forward(
            addresses.ctypes.data, counts.ctypes.data, surroundings.largest, added.data_ptr(),
            0 if decay is None else decay.data_ptr(),
        ):  # fmt: skip
            raise MemoryError("no memory for the rows of the terms")
        ctx.surroundings, ctx.has_lasting = surroundings, dense[_LASTING] is not None
        dense[_LASTING] = None  # only added: the way back does not read it
        ctx.save_for_backward(*dense)
        return added, decay

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        inputs, surroundings = list(ctx.saved_tensors), ctx.surroundings
        by_added, by_decay = (_dense(gradient) for gradient in gradients)
        needed = ctx.needs_input_grad
        assert by_added is not None  # torch gives zeros where nothing depends on an output
        if torch.is_grad_enabled():
            return _again(inputs, surroundings, gradients, needed)
        fields, closure, factor, _, _, radiation, around, regime, passing = inputs
        results = [None if t is None else torch.empty_like(t)
                   for t in (fields, closure, factor, radiation, around, regime, passing)]  # fmt: skip
        geometry = (surroundings.slopes.stretch, surroundings.slopes.turn)
        read, write = _addresses([*inputs, *geometry]), _addresses(results)
        counts = _counts(fields, surroundings)
        if _kernel_of(fields, surroundings).backward(
            read.ctypes.data, counts.ctypes.data, surroundings.largest, by_added.data_ptr(),
            0 if by_decay is None else by_decay.data_ptr(), write.ctypes.data,
        ):  # fmt: skip
            raise MemoryError("no memory for the derivatives of the terms")
        by_lasting = by_added.flatten(2) if needed[_LASTING] else None
        return *results[:3], by_lasting, None, *results[3:], None


def _again(
    inputs: list[Tensor | None], surroundings: Surroundings, seeds: Sequence[Tensor | None], needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return derivatives that have derivatives."""
    assert seeds[0] is not None
    outputs = [out for out in by_torch(*inputs, surroundings) if out is not None]  # type: ignore[arg-type, call-arg]
    leaves = [t for t, want in zip(inputs, needed[:-1], strict=True) if want and t is not None]
    got = torch.autograd.grad(
        outputs, leaves, [s for s in seeds if s is not None], create_graph=True, allow_unused=True
    )
    derivatives = iter(got)
    results = [
        next(derivatives) if want and t is not None else None for t, want in zip(inputs, needed[:-1], strict=True)
    ]
    if needed[_LASTING]:
        results[_LASTING] = seeds[0].flatten(2)
    return (*results, None)
