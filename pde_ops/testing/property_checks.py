"""Checks of declared properties, on random inputs within the domain. The vocabulary is documented in the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..grid import Grid2D
from ..operator import Operator
from .manufactured import SETTINGS, observed_order, scheme_errors
from .results import CheckFailure
from .samples import BORDERS, difference, inputs, latlon, plane, typical

__all__ = ["PROPERTY_CHECKS", "check_order", "check_translation", "check_vocabulary"]

_EXACT = 1e-9  # differences of neighbours of 1e5 Pa carry 1e-11 of relative round-off; two digits of room
_GRIDS: tuple[Callable[[str], Grid2D], ...] = (plane, latlon)


def check_vocabulary(record: Operator) -> str:
    """Check that every declared property is one that the suite knows how to prove."""
    unknown = sorted(set(record.properties) - _KNOWN)
    if unknown:
        raise CheckFailure(f"unknown property {', '.join(unknown)}: known are {', '.join(sorted(_KNOWN))}")
    return ", ".join(record.properties) or "no property declared"


def check_order(record: Operator) -> str:
    """Check that errors against the declared limit fall at the declared order, within 0.1, in every setting."""
    order = record.properties.get("order")
    if order is None:
        return "no order declared"
    if record.limit is None:
        raise CheckFailure("an order is declared but no `limit`: say what the scheme converges to")
    seen = []
    for name in SETTINGS:
        errors = scheme_errors(record, name)
        observed = observed_order(errors)
        if errors[-1] > 0.2:
            raise CheckFailure(f"it does not approach its limit ({name}): still off by {errors[-1]:.0%} on a fine mesh")
        if abs(observed - order) > 0.1:
            raise CheckFailure(f"observed order {observed:.2f} ({name}), declared {order}")
        seen.append(f"{observed:.2f} {name}")
    return f"observed {', '.join(seen)}"


def check_translation(record: Operator) -> str:
    """Moving the inputs moves the result, on a periodic grid (along x only where rows differ)."""
    for grid, axes in ((plane("periodic"), (-1, -2)), (latlon("periodic"), (-1,))):
        arrays = inputs(record, grid)
        for axis in axes:
            moved = record(*(a.roll(2, axis) for a in arrays), grid=grid)
            if (off := difference(moved, record(*arrays, grid=grid).roll(2, axis))) > _EXACT:
                raise CheckFailure(f"moved along {'x' if axis == -1 else 'y'} the result differs by {off:.1e}")
    return "commutes with shifts"


def _listed(names: str | tuple[Any, ...]) -> tuple[Any, ...]:
    """Wrap a single name that was declared without brackets."""
    return (names,) if isinstance(names, str) else tuple(names)


def _linear_in(record: Operator, border: str, entries: str | tuple[Any, ...]) -> None:
    names = tuple(record.inputs)
    grid = latlon(border)
    one, two = inputs(record, grid, seed=1), inputs(record, grid, seed=2)
    for entry in _listed(entries):
        together = {entry} if isinstance(entry, str) else set(entry)
        other = [b if name in together else a for name, a, b in zip(names, one, two, strict=True)]
        mixed = [2.0 * a - 3.0 * b if name in together else a for name, a, b in zip(names, one, other, strict=True)]
        expected = 2.0 * record(*one, grid=grid) - 3.0 * record(*other, grid=grid)
        if (off := difference(record(*mixed, grid=grid), expected)) > _EXACT:
            raise CheckFailure(f"not linear in {', '.join(sorted(together))}: off by {off:.1e}")


def _annihilates(record: Operator, border: str, what: str) -> None:
    for make in _GRIDS:
        grid = make(border)
        arrays = inputs(record, grid)
        first = next(iter(record.inputs))
        low, high = record.domain.get(first, (-1.0, 1.0))
        arrays[0] = torch.full_like(arrays[0], low + 0.3 * (high - low))
        if (off := difference(record(*arrays, grid=grid), torch.zeros(()), typical(record, grid))) > _EXACT:
            raise CheckFailure(f"a constant `{first}` gives {off:.1e} of a typical result instead of 0")
    if what == "linear":
        grid = plane(border, 15, 16)
        east, north = torch.arange(16.0)[None, :], torch.arange(15.0)[:, None]
        arrays = inputs(record, grid)
        arrays[0] = (0.2 + 0.03 * east - 0.02 * north).double()
        inner = record(*arrays, grid=grid)[5:-5, 5:-5]
        if (off := difference(inner, torch.zeros(()), typical(record, grid))) > _EXACT:
            raise CheckFailure(f"a linear `{first}` gives {off:.1e} of a typical result instead of 0")


def _conserves(record: Operator, border: str, kinds: str | tuple[str, ...]) -> None:
    boundary = BORDERS[border]
    if boundary.rim is not None or not {boundary.x, boundary.y} <= set(_listed(kinds)):
        return
    for make in _GRIDS:
        grid = make(border)
        area = torch.tensor(grid.cell_area)[:, None]
        amount = record(*inputs(record, grid), grid=grid) * area
        if abs(share := float(amount.sum() / amount.abs().sum())) > 1e-12:
            raise CheckFailure(f"the sum over cell areas is {share:.1e} of the sum of magnitudes instead of 0")


def _dissipates(record: Operator, border: str, name: str) -> None:
    if BORDERS[border].rim is not None:
        return
    for make in _GRIDS:
        grid = make(border)
        area = torch.tensor(grid.cell_area)[:, None]
        position = tuple(record.inputs).index(name)
        for seed in range(4):
            arrays = inputs(record, grid, seed=seed)
            # Both signs, because a term of even degree feeds one of them and drains the other.
            for signed in (arrays[position], -arrays[position]):
                arrays[position] = signed
                if float((signed * record(*arrays, grid=grid) * area).sum()) > 0.0:
                    raise CheckFailure(f"the variance of `{name}` grows")


def _parity(record: Operator, border: str, parities: Mapping[str, str]) -> None:
    components = record.properties.get("components", {})
    grid = latlon(border)
    arrays = inputs(record, grid)
    # The mirror image of a northern grid lies on the southern hemisphere.
    southern = Grid2D.from_latlon(
        -np.rad2deg(grid.lat)[::-1], 2.0 * np.arange(grid.nx), boundary=grid.boundary
    )  # fmt: skip
    for axis, parity in parities.items():
        dim, mirror = (-1, grid) if axis == "x" else (-2, southern)
        turned = set(components.get(axis, ()))
        flipped = [-a.flip(dim) if n in turned else a.flip(dim) for n, a in zip(record.inputs, arrays, strict=True)]
        sign = {"even": 1.0, "odd": -1.0}[parity]
        if (off := difference(record(*flipped, grid=mirror), sign * record(*arrays, grid=grid).flip(dim))) > _EXACT:
            raise CheckFailure(f"mirrored along {axis} the result is not {parity}: off by {off:.1e}")


def _components(record: Operator, border: str, components: Mapping[str, tuple[str, ...]]) -> None:
    unknown = {name for names in components.values() for name in names} - set(record.inputs)
    if unknown or set(components) - {"x", "y"}:
        raise CheckFailure(f"`components` maps x and y to inputs, not {dict(components)}")


def _pointwise(record: Operator, border: str, claimed: bool) -> None:
    grid = latlon(border)
    arrays, others = inputs(record, grid), inputs(record, grid, seed=1)
    before = record(*arrays, grid=grid)
    for k, name in enumerate(record.inputs):
        for row, column in ((3, 4), (0, 0), (grid.ny - 1, grid.nx - 1)):
            changed = arrays[k].clone()
            changed[row, column] = others[k][row, column]
            after = record(*arrays[:k], changed, *arrays[k + 1 :], grid=grid)
            elsewhere = (after != before).nonzero().tolist()
            if any(cell != [row, column] for cell in elsewhere):
                raise CheckFailure(f"`{name}` at cell ({row}, {column}) changes the result at {elsewhere[:3]}")


def _values(record: Operator, border: str, accepted: Callable[[Tensor], Tensor], claim: str) -> None:
    grid = latlon(border)
    result = record(*inputs(record, grid, lead=(20,)), grid=grid)
    if not bool(accepted(result).all()):
        raise CheckFailure(f"not {claim}: results from {float(result.min()):.3g} to {float(result.max()):.3g}")


def _sign(record: Operator, border: str, sign: str) -> None:
    _values(record, border, (lambda r: r >= 0.0) if sign == "nonnegative" else (lambda r: r <= 0.0), sign)


def _bounds(record: Operator, border: str, bounds: tuple[float, float]) -> None:
    low, high = bounds
    _values(record, border, lambda r: (r >= low) & (r <= high), f"within {low:g} to {high:g}")


def _monotone(direction: float) -> Callable[[Operator, str, Any], None]:
    def check(record: Operator, border: str, names: str | tuple[str, ...]) -> None:
        grid = latlon(border)
        leaves = [array.requires_grad_() for array in inputs(record, grid, lead=(20,))]
        gradients = torch.autograd.grad(record(*leaves, grid=grid).sum(), leaves)
        for name, gradient in zip(record.inputs, gradients, strict=True):
            if name in _listed(names) and bool((direction * gradient < 0.0).any()):
                raise CheckFailure(f"does not {'increase' if direction > 0 else 'decrease'} with `{name}` everywhere")

    return check


PROPERTY_CHECKS: dict[str, Callable[[Operator, str, Any], None]] = {
    "linear_in": _linear_in,
    "annihilates": _annihilates,
    "conserves": _conserves,
    "dissipates": _dissipates,
    "components": _components,
    "parity": _parity,
    "pointwise": _pointwise,
    "sign": _sign,
    "bounds": _bounds,
    "increasing_in": _monotone(1.0),
    "decreasing_in": _monotone(-1.0),
}
"""Property to its check, ``check(record, border, declared value)``."""

_KNOWN = {*PROPERTY_CHECKS, "order", "constants"}
