"""Checks of how an operator treats tensors: shapes, dtype, device, batches, in-place writes, gradients, compilation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from ..errors import BackendError
from ..operator import Operator
from .fake_cuda import fake_cuda
from .results import CheckFailure, CheckSkipped
from .samples import constant_inputs, difference, inputs, latlon

__all__ = [
    "check_batches",
    "check_compilation",
    "check_device",
    "check_gradients",
    "check_inputs_kept",
    "check_kinks",
    "check_nan",
    "check_scalars",
    "check_shapes",
    "check_stacking",
]

# The same operations in another order or on other lengths of vector differ by a few units in the last place.
_ROUND_OFF = 1e-12


def check_shapes(record: Operator) -> str:
    """Check that the result has the shape and dtype of the inputs, for any leading axes."""
    grid = latlon()
    for dtype in (torch.float32, torch.float64):
        for lead in ((), (2,), (2, 3)):
            arrays = inputs(record, grid, lead=lead, dtype=dtype)
            result = record(*arrays, grid=grid)
            if result.shape != arrays[0].shape or result.dtype != dtype:
                raise CheckFailure(
                    f"inputs {list(arrays[0].shape)} {dtype} gave {list(result.shape)} {result.dtype}: "
                    "let shape and dtype follow the inputs"
                )
            if not bool(torch.isfinite(result).all()):
                raise CheckFailure(f"the result is not finite on inputs within the domain, {dtype}")
    return "float32 and float64, 0 to 2 leading axes"


def check_device(record: Operator) -> str:
    """Check that every tensor follows the device of the inputs: run on fake cuda tensors."""
    grid = latlon()
    try:
        with fake_cuda():
            arrays = [torch.empty(2, grid.ny, grid.nx) for _ in record.inputs]
            result = record(*arrays, grid=grid)
    except BackendError as problem:
        raise CheckSkipped(str(problem)) from None
    if result.device.type != "cuda":
        raise CheckFailure(f"cuda inputs gave a result on {result.device}: make tensors on the device of the inputs")
    return "fake cuda tensors stay on cuda"


def check_inputs_kept(record: Operator) -> str:
    """Inputs and the grid are not written to."""
    grid = latlon()
    arrays = inputs(record, grid, lead=(2,))
    bound = grid.bind(torch.float64, "cpu")
    watched = {**dict(zip(record.inputs, arrays, strict=True)), "grid.dx": bound.dx, "grid.curvature": bound.curvature}
    before = {name: (array.clone(), array._version) for name, array in watched.items()}
    record(*arrays, grid=grid)
    for name, array in watched.items():
        copy, version = before[name]
        if array._version != version or not torch.equal(array, copy):
            raise CheckFailure(f"`{name}` is changed in place: build a new tensor instead")
    return "inputs and grid unchanged"


def check_gradients(record: Operator, border: str) -> str:
    """Derivatives agree with finite differences in float64."""
    grid = latlon(border, ny=5, nx=6)
    centre = [array.mean() for array in inputs(record, grid)]
    start = inputs(record, grid, seed=3)
    spread = [max(float((a - c).abs().max()), 1e-300) for a, c in zip(start, centre, strict=True)]
    scale = float(record(*start, grid=grid).abs().max()) or 1.0

    def normalised(*unit: Tensor) -> Tensor:
        arrays = [c + s * z for c, s, z in zip(centre, spread, unit, strict=True)]
        result: Tensor = record(*arrays, grid=grid) / scale
        return result

    # Of order one on both sides, so that the step and the tolerances of gradcheck mean the same for Pa and kg/kg.
    unit = [((a - c) / s).requires_grad_() for a, c, s in zip(start, centre, spread, strict=True)]
    try:
        gradcheck(normalised, unit, fast_mode=True, check_undefined_grad=False)
    except GradcheckError as problem:
        words = " ".join(str(problem).split())[:200]
        raise CheckFailure(f"the derivative differs from finite differences: {words}") from None
    return "gradcheck in float64"


def check_kinks(record: Operator) -> str:
    """Check that value and derivatives are finite where kinks are met: uniform inputs, zeros, domain ends."""
    grid = latlon()
    for label, arrays in constant_inputs(record, grid).items():
        leaves = [array.requires_grad_() for array in arrays]
        result = record(*leaves, grid=grid)
        gradients = torch.autograd.grad(result.sum(), leaves, allow_unused=True)
        if not bool(torch.isfinite(result).all()):
            raise CheckFailure(f"the result is not finite with every input at its {label} value")
        for name, gradient in zip(record.inputs, gradients, strict=True):
            if gradient is not None and not bool(torch.isfinite(gradient).all()):
                raise CheckFailure(
                    f"the derivative by `{name}` is not finite with every input at its {label} value: "
                    "shield both branches of `where`"
                )
    return "finite derivatives at the ends, the middle and zero"


def check_nan(record: Operator, border: str) -> str:
    """Check that a NaN in any input is seen in the result."""
    grid = latlon(border)
    for k, name in enumerate(record.inputs):
        arrays = inputs(record, grid)
        arrays[k][3, 4] = torch.nan
        if not bool(torch.isnan(record(*arrays, grid=grid)).any()):
            raise CheckFailure(f"a NaN in `{name}` vanishes: put what may be NaN first in maximum and minimum")
    return "NaN propagates from every input"


def check_batches(record: Operator) -> str:
    """Check that a sample does not depend on its batch mates."""
    grid = latlon()
    arrays = inputs(record, grid, lead=(3,))
    whole = record(*arrays, grid=grid)
    for k in range(3):
        alone = record(*(array[k : k + 1] for array in arrays), grid=grid)
        if (off := difference(alone[0], whole[k])) > _ROUND_OFF:
            raise CheckFailure(f"sample {k} of a batch of 3 differs from itself alone by {off:.1e}")
    return "samples independent of each other"


def check_stacking(record: Operator) -> str:
    """Calls stacked over ``batch_over`` equal separate calls."""
    if record.batch_over is None:
        return "no batch_over"
    grid = latlon()
    position = tuple(record.inputs).index(record.batch_over)
    arrays = [array.unsqueeze(1) for array in inputs(record, grid, lead=(2,))]
    several = [inputs(record, grid, lead=(2,), seed=s)[position] for s in (5, 6, 7)]
    arrays[position] = torch.stack(several, dim=1)
    together = record(*arrays, grid=grid)
    for k, one in enumerate(several):
        separate = [array[:, 0] for array in arrays]
        separate[position] = one
        if (off := difference(record(*separate, grid=grid), together[:, k])) > _ROUND_OFF:
            raise CheckFailure(f"stacked over `{record.batch_over}`, call {k} differs by {off:.1e}")
    return f"stacked over `{record.batch_over}`"


def check_scalars(record: Operator) -> str:
    """Check that a number, a coefficient or one value per row gives the same as the array it stands for."""
    grid = latlon()
    for k, name in enumerate(record.inputs):
        arrays = inputs(record, grid)
        value, row = arrays[k][2, 3].clone(), arrays[k][:, :1].clone()
        stand_ins = {"a coefficient": value, "a row value": row}
        if len(record.inputs) > 1:
            stand_ins["a number"] = float(value)  # type: ignore[assignment]
        for label, short in stand_ins.items():
            full = [*arrays[:k], torch.as_tensor(short, dtype=torch.float64).expand(grid.ny, grid.nx), *arrays[k + 1 :]]
            result = torch.as_tensor(record(*arrays[:k], short, *arrays[k + 1 :], grid=grid), dtype=torch.float64)
            expected = record(*full, grid=grid)
            if (off := difference(result.expand(grid.ny, grid.nx), expected)) > _ROUND_OFF:
                raise CheckFailure(f"`{name}` as {label} gives another result than the same as an array, by {off:.1e}")
    return "numbers, coefficients and row values accepted"


def check_compilation(record: Operator) -> str:
    """Check that ``torch.compile`` traces it as one graph, with the same result and gradients."""
    grid = latlon()
    bound = grid.bind(torch.float64, "cpu")
    leaves = [array.requires_grad_() for array in inputs(record, grid, lead=(2,))]
    options = record.complete({})
    compiled = torch.compile(record.body, fullgraph=True, backend="aot_eager", dynamic=False)
    pairs = []
    for body in (record.body, compiled):
        result = body(*leaves, grid=bound, **options)
        pairs.append((result, *torch.autograd.grad(result.sum(), leaves, allow_unused=True)))
    for eager, traced in zip(*pairs, strict=True):
        if eager is not None and (off := difference(eager.detach(), traced.detach())) > _ROUND_OFF:
            raise CheckFailure(f"the compiled operator differs by {off:.1e}")
    return "one graph through aot_eager"
