"""Learnable positive coefficients: one vector of raw numbers, reported back in the units they were declared in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pint
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from .arguments import finite_number
from .errors import DeclarationError, UnknownNameError
from .symbols import Positive
from .units import from_si, registry, show, to_si

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Coefficients", "weight_decay_groups"]


class Coefficients(nn.Module):
    r"""Positive coefficients of a system, in SI, as one vector.

    .. math:: c = F + (C - F)\left(1 - e^{-s/(C - F)}\right), \qquad s = s_0 \,\mathrm{softplus}(r)

    with :math:`r` learnable, :math:`s_0` a fixed scale, :math:`C` the cap and :math:`F` the floor. Far below the cap
    :math:`c = F + s`; near it the gradient fades but never jumps, which a hard clamp would do. Without bounds
    :math:`C = \infty` and :math:`F = 0`.

    Parameters
    ----------
    symbols : the declared coefficients, in program order
    caps : upper bounds by name, SI, from stability limits; they only ever lower a declared cap
    floors : lower bounds by name, SI, from stability limits
    """

    scale: Tensor
    cap: Tensor
    floor: Tensor
    learnable: Tensor

    def __init__(
        self,
        symbols: Sequence[Positive],
        caps: Mapping[str, float] | None = None,
        floors: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.symbols = tuple(symbols)
        scales, bounds, lows, raws = [], [], [], []
        for symbol in self.symbols:
            cap = min(symbol.cap or math.inf, (caps or {}).get(symbol.name, math.inf))
            floor = (floors or {}).get(symbol.name, 0.0)
            if not cap > symbol.init:
                unit = symbol.declared_unit
                raise DeclarationError(
                    f"Positive('{symbol.name}'): the initial value {from_si(symbol.init, unit):.4g~P} is not below its "
                    f"cap {from_si(cap, unit):.4g~P}",
                    do="start lower, use a coarser grid, or allow more sub-steps",
                )
            if not symbol.init > floor:
                unit = symbol.declared_unit
                raise DeclarationError(
                    f"Positive('{symbol.name}'): the initial value {from_si(symbol.init, unit):.4g~P} is not above the "
                    f"{from_si(floor, unit):.4g~P} that keep a turning wind from growing",
                    do="start higher, or compile with exact_flows=True and take integrators['strang']",
                )
            # softplus(r) = 1 at the start, so that every raw number lives on the same scale.
            scales.append(_before_cap(symbol.init - floor, cap - floor))
            bounds.append(cap)
            lows.append(floor)
            raws.append(math.log(math.expm1(1.0)))
        self.raw = nn.Parameter(torch.tensor(raws))
        self.register_buffer("scale", torch.tensor(scales), persistent=False)
        self.register_buffer("cap", torch.tensor(bounds), persistent=False)
        self.register_buffer("floor", torch.tensor(lows), persistent=False)
        mask = [symbol.learnable for symbol in self.symbols]
        self.register_buffer("learnable", torch.tensor(mask, dtype=torch.bool), persistent=False)
        self._all_learnable = all(mask)
        self._any_cap = any(math.isfinite(bound) for bound in bounds)
        self._any_floor = any(low > 0.0 for low in lows)

    def forward(self) -> Float[Tensor, " coefficient"]:
        """Return the values in SI."""
        raw = self.raw if self._all_learnable else torch.where(self.learnable, self.raw, self.raw.detach())
        value = self.scale * softplus(raw)
        if self._any_cap:
            span = self.cap - self.floor
            bounded = torch.isfinite(span)
            # The branch that is not taken has a gradient too: an infinite span would make it NaN.
            span = torch.where(bounded, span, torch.ones_like(span))
            value = torch.where(bounded, -span * torch.expm1(-value / span), value)
        return self.floor + value if self._any_floor else value

    def in_units(self) -> dict[str, Any]:
        """Return the values as quantities in the declared units."""
        return {s.name: from_si(v, s.declared_unit) for s, v in zip(self.symbols, self._values(), strict=True)}

    @torch.no_grad()
    def assign(self, **values: float | Any) -> None:
        """Set coefficients by name: quantities, or numbers in the declared unit."""
        raw = self.raw.double().clone()
        names = [s.name for s in self.symbols]
        for name, quantity in values.items():
            if name not in names:
                raise UnknownNameError(f"no coefficient '{name}'", do=f"known: {', '.join(names)}")
            index = names.index(name)
            symbol = self.symbols[index]
            if isinstance(quantity, pint.Quantity):
                quantity = quantity.to(symbol.declared_unit).magnitude
            number = finite_number(f"`{name}`", quantity)
            value, cap, floor = to_si(number, symbol.declared_unit), float(self.cap[index]), float(self.floor[index])
            if not floor < value < cap:
                low, high = (from_si(bound, symbol.declared_unit) for bound in (floor, cap))
                raise DeclarationError(
                    f"`{name}` must lie between {low:.4g~P} and {high:.4g~P}, not {number:g} "
                    f"[{show(symbol.declared_unit)}]"
                )
            ratio = _before_cap(value - floor, cap - floor) / float(self.scale[index])
            # softplus inverse; expm1 overflows above 700, where softplus is the identity to double precision
            raw[index] = ratio if ratio > 30.0 else math.log(math.expm1(ratio))
        self.raw.copy_(raw)

    def get_extra_state(self) -> Tensor:
        """Return what the raw numbers count from, by name: scale, cap (None for none) and floor, as bytes of JSON."""
        columns = (self.scale.tolist(), self.cap.tolist(), self.floor.tolist())
        bounds = {
            symbol.name: [scale, cap if math.isfinite(cap) else None, floor]
            for symbol, scale, cap, floor in zip(self.symbols, *columns, strict=True)
        }
        return torch.tensor(list(json.dumps(bounds).encode()), dtype=torch.uint8)

    @torch.no_grad()
    def set_extra_state(self, state: Any) -> None:
        """Count the loaded numbers from the starts and bounds of this system: the values stay those that were saved.

        Raises
        ------
        DeclarationError
            If other coefficients were saved, or a value that this system's bounds do not allow.
        """
        saved, present = _bounds(state), _bounds(self.get_extra_state())
        if list(saved) == list(present) and all(_is_close(saved[name], present[name]) for name in present):
            return
        if set(saved) != set(present):
            raise DeclarationError(
                f"the state dict holds the coefficients {', '.join(saved) or 'none'}, the system has "
                f"{', '.join(present) or 'none'}",
                do="load it into the system that it was saved from",
            )
        raw = dict(zip(saved, self.raw.double().tolist(), strict=True))
        values = {}
        for symbol in self.symbols:
            scale, cap, floor = saved[symbol.name]
            value = scale * float(softplus(torch.tensor(raw[symbol.name], dtype=torch.float64)))
            if cap is not None:
                value = -(cap - floor) * math.expm1(-value / (cap - floor))
            values[symbol.name] = registry.Quantity(floor + value, symbol.unit)
        self.assign(**values)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        key = prefix + "_extra_state"
        raw = state_dict.get(prefix + "raw")
        if isinstance(raw, Tensor) and raw.shape != self.raw.shape:  # torch refuses it: nothing to convert
            state_dict = {name: value for name, value in state_dict.items() if name != key}
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if key in missing_keys:  # saved by a version that did not save it
            missing_keys.remove(key)

    def _values(self) -> list[float]:
        with torch.no_grad():
            return [float(v) for v in self.forward()]

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:.4g~P}" for name, value in self.in_units().items())


Bounds = tuple[float, float | None, float]


def _bounds(state: Any) -> dict[str, Bounds]:
    """Read what `Coefficients.get_extra_state` wrote."""
    try:
        read = json.loads(bytes(state.tolist()))
        bounds = {str(name): (float(s), None if c is None else float(c), float(f)) for name, (s, c, f) in read.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise DeclarationError(
            "the state dict of coefficients is damaged: what its numbers count from cannot be read",
            do="save it again, or leave out the key that ends in _extra_state to load the numbers as they are",
        ) from None
    return bounds


def _is_close(saved: Bounds, present: Bounds) -> bool:
    pairs = zip(saved, present, strict=True)
    return all(math.isclose(math.inf if a is None else a, math.inf if b is None else b) for a, b in pairs)


def _before_cap(value: float, cap: float) -> float:
    """Return what the smooth cap turns into ``value``."""
    return value if math.isinf(cap) else -cap * math.log1p(-value / cap)


def weight_decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return optimiser groups in which coefficients, and what a module lists as ``undecayed``, are not decayed.

    Decay pulls a raw number to 0, that is every coefficient to 0.69 of its start: a prior nobody asked for.
    """
    skipped = {id(p) for m in model.modules() if isinstance(m, Coefficients) for p in m.parameters()}
    skipped |= {id(getattr(m, name)) for m in model.modules() for name in getattr(m, "undecayed", ())}
    decayed = [p for p in model.parameters() if id(p) not in skipped]
    undecayed = [p for p in model.parameters() if id(p) in skipped]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
