r"""What a reflecting wall makes of a quantity: its mirror image, or its mirror image turned round.

A *parity* names the axes along which a quantity changes sign in a mirror: ``""`` for a scalar, ``"x"`` for the
eastward component of a vector, ``"y"`` for the northward one, ``"xy"`` for a product of the two. Products multiply
parities, terms of a sum share one, a difference eastwards turns it along x.

An operator is declared for scalars, but for the arguments it names as ``components``: ``laplacian(a)`` mirrors ``a``
evenly. Where ``a`` is a wind component after all, everything linear in it has the other sign behind the wall,
whatever the operator makes of it. That difference is carried through the body by :class:`Turned`, beside the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .boundaries import Parity
from .elementwise import where
from .operator import Operator
from .stencils import Surroundings, around

__all__ = ["Turned", "call_parity", "plain", "product", "shared", "turned"]

_PARITIES: tuple[Parity, ...] = ("", "x", "y", "xy")


def _torch_functions(*names: str) -> tuple[Any, ...]:
    """Functions and methods of those names, operators and reflected operators included."""
    spelled = [*names, *(f"__{name}__" for name in names), *(f"__r{name}__" for name in names)]
    return tuple(getattr(owner, n) for owner in (torch, Tensor) for n in spelled if hasattr(owner, n))


_PRODUCTS = _torch_functions("mul", "multiply", "div", "divide", "truediv", "true_divide")
_SUMS = _torch_functions("add", "sub", "rsub", "subtract", "neg", "negative", "pos", "positive")
_CHOICES = (torch.where,)


def product(*parities: str) -> Parity:
    """Parity of a product or quotient: an axis that turns both factors turns neither."""
    x, y = (sum(axis in parity for parity in parities) % 2 for axis in ("x", "y"))
    return _PARITIES[x + 2 * y]


def shared(*parities: str) -> Parity:
    """Parity of a sum: that of its terms, and none where they differ."""
    return product(parities[0]) if len(set(parities)) == 1 else ""


def call_parity(operator: Operator, parities: Mapping[str, str]) -> tuple[dict[str, Parity], Parity]:
    """Return, for arguments of given parity, how each differs from what the operator expects, and the result's parity.

    The result follows from what the operator declares: ``parity`` for arguments as expected, ``components`` and
    ``linear_in``.
    """
    facts = operator.properties
    expected = {name for names in facts.get("components", {}).values() for name in names}
    flips: dict[str, Parity] = {n: "" if n in expected else product(parity) for n, parity in parities.items()}
    result = product(*(axis for axis, parity in facts.get("parity", {}).items() if parity == "odd"))
    linear = facts.get("linear_in", ())
    for entry in (linear,) if isinstance(linear, str) else linear:
        names = (entry,) if isinstance(entry, str) else entry
        result = product(result, shared(*(flips[name] for name in names)))
    return flips, result


def turned(value: Any, parity: str) -> Any:
    """Return an array that knows how a wall turns it, or the array itself if it does not."""
    return Turned(value, product(parity)) if parity and isinstance(value, Tensor) else value


def plain(value: Any) -> Any:
    """Return the array without its parity."""
    return value.value if isinstance(value, Turned) else value


def _parity(value: Any) -> Parity | None:
    """Parity of what stands in a formula; None for zero, which has every parity."""
    if isinstance(value, Turned):
        return value.parity
    return None if isinstance(value, (int, float)) and value == 0 else ""


def _of_sum(*terms: Any) -> Parity:
    return shared(*(parity for parity in map(_parity, terms) if parity is not None))


def _of_product(*factors: Any) -> Parity:
    return product(*(_parity(factor) or "" for factor in factors))


class Turned:
    """A tensor with the parity it has beyond what the operator expects; a symbol to :mod:`pde_ops.elementwise`."""

    __slots__ = ("parity", "value")

    def __init__(self, value: Tensor, parity: Parity) -> None:
        self.value = value
        self.parity = parity

    def around(self, grid: Any, radius: int, odd: str | None) -> _Slices:
        """Surroundings behind whose walls the sign is that of the body's ``odd``, turned by this parity."""
        return _Slices(around(self.value, grid, radius, product(odd or "", self.parity)), self.parity)

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        """Return ``a`` where the condition holds, ``b`` elsewhere."""
        return turned(where(plain(condition), plain(a), plain(b)), _of_sum(a, b))

    def __add__(self, other: Any) -> Any:
        return turned(self.value + plain(other), _of_sum(self, other))

    def __radd__(self, other: Any) -> Any:
        return turned(plain(other) + self.value, _of_sum(self, other))

    def __sub__(self, other: Any) -> Any:
        return turned(self.value - plain(other), _of_sum(self, other))

    def __rsub__(self, other: Any) -> Any:
        return turned(plain(other) - self.value, _of_sum(self, other))

    def __mul__(self, other: Any) -> Any:
        return turned(self.value * plain(other), _of_product(self, other))

    def __rmul__(self, other: Any) -> Any:
        return turned(plain(other) * self.value, _of_product(self, other))

    def __truediv__(self, other: Any) -> Any:
        return turned(self.value / plain(other), _of_product(self, other))

    def __rtruediv__(self, other: Any) -> Any:
        return turned(plain(other) / self.value, _of_product(self, other))

    def __pow__(self, exponent: Any) -> Any:
        odd_power = isinstance(exponent, (int, float)) and exponent % 2 == 1
        return turned(self.value ** plain(exponent), self.parity if odd_power else "")

    def __neg__(self) -> Any:
        return turned(-self.value, self.parity)

    def __lt__(self, other: Any) -> Any:
        return self.value < plain(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= plain(other)

    def __gt__(self, other: Any) -> Any:
        return self.value > plain(other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= plain(other)

    def __abs__(self) -> Tensor:
        return self.value.abs()

    def sin(self) -> Any:
        """Sine, odd where its argument is."""
        return turned(self.value.sin(), self.parity)

    def tanh(self) -> Any:
        """Hyperbolic tangent, odd where its argument is."""
        return turned(self.value.tanh(), self.parity)

    def __getattr__(self, name: str) -> Any:
        if name in Turned.__slots__ or name.startswith("__"):  # not set yet, or not ours to answer
            raise AttributeError(name)
        attribute = getattr(self.value, name)
        if not callable(attribute):
            return attribute
        method = getattr(torch.Tensor, name)
        return lambda *args, **options: Turned.__torch_function__(method, (), (self, *args), options)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Answer torch functions, for bodies written with them; one that is not linear gives a scalar."""
        result = function(*map(plain, args), **{key: plain(value) for key, value in (kwargs or {}).items()})
        if function in _PRODUCTS:
            return turned(result, _of_product(*args[:2]))
        if function in _SUMS:
            return turned(result, _of_sum(*args[:2]))
        return turned(result, _of_sum(*args[1:])) if function in _CHOICES else result


class _Slices:
    def __init__(self, around_value: Surroundings, parity: Parity) -> None:
        self._around = around_value
        self._parity = parity

    def __getitem__(self, offset: tuple[int, int]) -> Any:
        return turned(self._around[offset], self._parity)
