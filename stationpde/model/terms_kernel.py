r"""What drives the equations over one interval, closure and extending terms, as one function of torch; see ``terms.c``.

.. math:: \mathrm{added} = f\tanh S + l + Q\,\mathrm{radiation}(X) + G\,\mathrm{differences}(X), \qquad
          \mathrm{decay} = p + \Lambda\,\mathrm{clamp}(\mathrm{regime}(X))

Against matrix products of joined channels, nothing is joined or kept: the way back differs fields again.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

import pde_ops.backends.fused as fused
from pde_ops.backends.fused.build import load_library
from pde_ops.backends.fused.engine import choose_engine
from stationpde.model.network_kernel import addresses, dense
from stationpde.model.slopes import Slopes

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "Scale", "Surroundings", "apply_terms", "by_torch", "counts_of", "kernel_of", "run_backward", "run_forward",
]  # fmt: skip

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

    @property
    def geometry(self) -> tuple[Tensor, Tensor]:
        """Stretch and turn of the grid, as the kernel takes them."""
        return self.slopes.stretch, self.slopes.turn


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
    surroundings: Surroundings | None,
) -> tuple[Tensor, Tensor | None]:
    """Return what a sub-step adds beside the equations, and the share of the state that decays.

    Parameters
    ----------
    fields : scaled
    closure, factor : closure before it is bounded, and the factor of the bounded one
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
    surroundings: Surroundings | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Compute the same from operations of torch, which have derivatives of any order."""
    added = torch.zeros_like(fields)
    if closure is not None and factor is not None:
        added = added + torch.tanh(closure) * factor[:, None, None]
    if lasting is not None:
        added = added + lasting.view_as(fields)
    if light is not None and radiation is not None:
        speed = (fields[:, :2].square().sum(dim=1, keepdim=True) + 1e-6).sqrt()
        lit = torch.cat([(light[:, :, None] * fields[:, None, 3:]).flatten(1, 2), light[:, 1:] * speed], dim=1)
        added = added + torch.einsum("oi,biyx->boyx", radiation, lit)
    if around is not None:
        assert surroundings is not None
        added = added + surroundings.slopes.weighted(fields, around)
    if regime is None or passing is None:
        return added, None
    assert surroundings is not None
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
        self.forward.argtypes = [pointer, pointer, number, pointer]
        self.backward.argtypes = [pointer, pointer, number, pointer, pointer]
        self.end, self.begin_back = library.terms_end, library.terms_begin_back
        self.end.argtypes = [pointer, pointer, pointer, pointer, pointer]
        self.begin_back.argtypes = [pointer, pointer, pointer, pointer]
        self.end.restype = self.begin_back.restype = None


_kernel = functools.cache(_Kernel)


def counts_of(fields: Tensor, surroundings: Surroundings | None, side: int) -> bytes:
    """Return the sizes that the kernel takes, for ``side`` samples side by side."""
    batch, _, ny, nx = fields.shape
    middle, radii = (0, (1,)) if surroundings is None else (surroundings.middle, surroundings.slopes.radii)
    return struct.pack(f"{5 + len(radii)}q", batch, ny, nx, middle, side, *radii)


def kernel_of(fields: Tensor, surroundings: Surroundings | None) -> _Kernel:
    """Return the kernel for the dtype of fields and the radii of their surroundings."""
    return _kernel(fields.dtype == torch.float64, 1 if surroundings is None else len(surroundings.slopes.radii))


Scale = tuple[Tensor, Tensor]  # by which fields are multiplied, and what is added, [channel]


def _geometry(surroundings: Surroundings | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if surroundings is None else surroundings.geometry


def run_forward(
    inputs: Sequence[Tensor | None], surroundings: Surroundings | None, side: int, results: Sequence[Tensor | None],
    scale: Scale | tuple[None, None] = (None, None),
) -> None:  # fmt: skip
    """Write what is added, what decays and the fields in SI, laid out; ``inputs`` are those of `apply_terms`, dense."""
    fields = inputs[0]
    assert fields is not None
    read = addresses([*inputs, *_geometry(surroundings), *scale])
    counts, largest = counts_of(fields, surroundings, side), 0.0 if surroundings is None else surroundings.largest
    if kernel_of(fields, surroundings).forward(read, counts, largest, addresses(results)):
        raise MemoryError("no memory for the rows of the terms")


def run_backward(
    inputs: Sequence[Tensor | None], surroundings: Surroundings | None, side: int, seeds: Sequence[Tensor | None],
    by_lasting: Tensor | None, scale: Scale | tuple[None, None] = (None, None),
) -> list[Tensor | None]:  # fmt: skip
    """Return derivatives by all ``inputs`` from those by what `run_forward` wrote; those by ``lasting`` are written."""
    fields, closure, factor, _, _, radiation, around, regime, passing = inputs
    assert fields is not None
    by_fields, by_closure, by_factor, by_radiation, by_around, by_regime, by_passing = results = [
        None if tensor is None else torch.empty_like(tensor)
        for tensor in (fields, closure, factor, radiation, around, regime, passing)
    ]
    read = addresses([*inputs, *_geometry(surroundings), *scale])
    write = addresses([*results[:3], by_lasting, *results[3:]])
    counts, largest = counts_of(fields, surroundings, side), 0.0 if surroundings is None else surroundings.largest
    if kernel_of(fields, surroundings).backward(read, counts, largest, addresses(seeds), write):
        raise MemoryError("no memory for the derivatives of the terms")
    return [
        by_fields, by_closure, by_factor, by_lasting, None, by_radiation, by_around, by_regime, by_passing
    ]  # fmt: skip


class _Terms(Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *tensors, surroundings = arguments
        here = [dense(tensor) for tensor in tensors]
        fields, regime = here[0], here[7]
        assert fields is not None
        added = torch.empty_like(fields)
        decay = None if regime is None else torch.empty_like(fields)
        run_forward(here, surroundings, 1, (added, decay, None))
        ctx.surroundings = surroundings
        here[_LASTING] = None  # only added: the way back does not read it
        ctx.save_for_backward(*here)
        return added, decay

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        inputs, surroundings = list(ctx.saved_tensors), ctx.surroundings
        by_added, by_decay = (dense(gradient) for gradient in gradients)
        needed = ctx.needs_input_grad
        assert by_added is not None  # torch gives zeros where nothing depends on an output
        if torch.is_grad_enabled():
            return _again(inputs, surroundings, gradients, needed)
        by_lasting = by_added.flatten(2) if needed[_LASTING] else None
        results = run_backward(inputs, surroundings, 1, (by_added, by_decay, None), None)
        results[_LASTING] = by_lasting
        return *results, None


def _again(
    inputs: list[Tensor | None],
    surroundings: Surroundings | None,
    seeds: Sequence[Tensor | None],
    needed: Sequence[bool],
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
