"""Checks of what a compiled system is called with.

A fused kernel is handed addresses: a tensor on another device, or of fewer numbers than the kernel reads, would end the
process or give numbers of other memory. So everything is looked at here, whatever the backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from .errors import DeclarationError, GridError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .backends import March

__all__ = [
    "check_count",
    "check_factor",
    "check_like",
    "check_mapping",
    "check_march",
    "expanded_closure",
    "finite_number",
    "static_values",
]


def expanded_closure(name: str, tensor: Any, shape: tuple[int, ...], state: Tensor) -> Tensor:
    """Return a closure at its full shape, of real numbers and on the device of the state."""
    if not isinstance(tensor, Tensor):
        raise ShapeError(
            f"closure '{name}' must be a torch tensor, not {type(tensor).__module__}.{type(tensor).__qualname__}",
            do="make one with torch.as_tensor(…)",
        )
    if tensor.device != state.device:
        raise ShapeError(
            f"closure '{name}' is on {tensor.device} but the state is on {state.device}",
            do="move one of them with .to(…)",
        )
    if tensor.is_complex():
        raise ShapeError(f"closure '{name}' is {tensor.dtype}, not of real numbers", do="pass its real part")
    if tensor.dtype != state.dtype:
        # Each backend would round at another place: torch gives float64, a fused kernel float32.
        raise ShapeError(
            f"closure '{name}' is {tensor.dtype} but the state is {state.dtype}", do="move it with .to(state)"
        )
    values: Tensor = tensor.resolve_neg()
    if values.shape == shape:
        return values
    try:
        return values.expand(shape)
    except RuntimeError:
        raise ShapeError(f"closure '{name}' must broadcast to {list(shape)}, not {list(tensor.shape)}") from None


def check_factor(factor: Tensor | None, fields: int, state: Tensor) -> None:
    """Refuse a factor on increments that is not one number a field, or lies on another device."""
    if factor is not None:
        check_like("factor", factor, (fields,), state)


def check_march(march: March, fields: int, state: Tensor) -> None:
    """Refuse a march whose tensors do not fit the state, or whose counts are none."""
    check_count("march", "steps", march.steps, 0)
    check_count("march", "every", march.every, 1)
    check_factor(march.factor, fields, state)
    for name, tensor in (("added", march.added), ("decay", march.decay)):
        if tensor is not None:
            check_like(name, tensor, tuple(state.shape), state)


def check_count(owner: str, name: str, count: Any, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``."""
    if not isinstance(count, int | np.integer) or count < least:
        raise DeclarationError(f"{owner}: `{name}` must be a whole number of {least} or more, not {count!r}")


def finite_number(owner: str, value: Any) -> float:
    """Return a number of Python, numpy or a tensor of one element as a float; others are refused."""
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.item()
    if not isinstance(value, Real):
        raise DeclarationError(f"{owner} must be a number, not {value!r}")
    if not np.isfinite(float(value)):
        raise DeclarationError(f"{owner} must be finite, not {float(value)}")
    return float(value)


def static_values(name: str, array: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return the values of a static in float64; they must be real numbers that broadcast to the grid."""
    plain = array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asarray(array)
    if plain.dtype.kind not in "fiub":
        raise GridError(
            f"Static '{name}' must hold real numbers, not {type(array).__name__} of {plain.dtype}",
            do="pass an array of floats in SI",
        )
    values = np.array(plain, np.float64)
    try:
        np.broadcast_to(values, shape)
    except ValueError:
        raise GridError(f"Static '{name}' must broadcast to {list(shape)}, not {list(values.shape)}") from None
    return values


def check_mapping(owner: str, name: str, value: Any) -> None:
    """Refuse what is not a table from names to values."""
    if not isinstance(value, Mapping):
        raise ShapeError(f"{owner}: `{name}` must be a dict by name, not {type(value).__name__}")


def check_like(name: str, tensor: Any, shape: tuple[int, ...], state: Tensor) -> None:
    """Refuse what is not a tensor of a shape on the device of the state."""
    if not isinstance(tensor, Tensor) or tensor.shape != shape or tensor.device != state.device:
        came = f"{list(tensor.shape)} on {tensor.device}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ShapeError(f"`{name}` must be a tensor {list(shape)} on {state.device}, not {came}")
