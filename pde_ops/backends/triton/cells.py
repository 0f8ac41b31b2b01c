"""Triton statements of expressions at one position: everything from a number to a neighbour's value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..fused.ir import Node, reachable

__all__ = ["CellWriter", "number"]

_INFIX = {"add": "+", "mul": "*", "lt": "<", "le": "<=", "eq": "==", "and": "&", "or": "|"}
_CALLS = {"exp": "tl.exp", "log": "tl.log", "sqrt": "tl.sqrt", "sin": "tl.sin", "cos": "tl.cos", "abs": "tl.abs"}


def number(value: float) -> str:
    """Return a number of the kernel's dtype; a bare literal would be rounded to float32 here and there."""
    text = repr(value) if math.isfinite(value) else f'float("{value}")'
    return f"tl.full((), {text}, REAL)"


class CellWriter:
    """Writes the statements that compute values at the position ``x``, ``y``; each value once.

    Parameters
    ----------
    prefix : of the names that are written
    x, y : text of the position, inside the domain; ``x`` may be a vector, ``y`` is one number
    borders : kind of border along x and y
    place : text of an array's first value in this sample, and of the stride of its rows
    leaf : text of a coefficient, factor or the time step
    """

    def __init__(
        self,
        prefix: str,
        x: str,
        y: str,
        borders: tuple[str, str],
        place: Callable[[int], tuple[str, str]],
        leaf: Callable[[int], str],
    ) -> None:
        self.lines: list[str] = []
        self.loads: list[tuple[int, int, int]] = []
        self._prefix, self._x, self._y = prefix, x, y
        self._borders, self._place, self._leaf = borders, place, leaf
        self._names: dict[Node, str] = {}
        self._texts: dict[str, str] = {}  # text of an address, a ghost condition or a load to the name that holds it

    def values(self, roots: Sequence[Node]) -> list[str]:
        """Write what the nodes need; return the name of each."""
        for node in reachable(roots, stop=self._names):
            self._names[node] = self._held(self._text(node), "v")
        return [self._names[root] for root in roots]

    def _held(self, text: str, kind: str) -> str:
        """Return the name that a text is held under, written now if it is new."""
        name = self._texts.get(text)
        if name is None:
            name = self._texts[text] = f"{self._prefix}{kind}{len(self._texts)}"
            self.lines.append(f"{name} = {text}")
        return name

    def _text(self, node: Node) -> str:
        args = [self._names[a] for a in node.args]
        if node.op in _INFIX:
            return f"{args[0]} {_INFIX[node.op]} {args[1]}"
        if node.op in _CALLS:
            return f"{_CALLS[node.op]}({args[0]})"
        match node.op:
            case "const":
                return number(node.data)
            case "truth":
                return f"tl.full((), {int(node.data)}, tl.int1)"
            case "scalar":
                return self._leaf(node.data)
            case "row":
                return f"tl.load(rows + {node.data.row} * ny + {self._at('y', node.data.north)})"
            case "cell":
                return self._cell(node)
            case "inside":
                return self._inside(*node.data)
            case "recip":
                return f"1.0 / {args[0]}"
            case "select":
                return f"tl.where({args[0]}, {args[1]}, {args[2]})"
            case "not":
                return f"{args[0]} == 0"
        assert node.op == "tanh"
        return f"hyperbolic_tangent({args[0]})"

    def _cell(self, node: Node) -> str:
        read = node.data
        base, stride = self._place(read.array)
        line = self._held(f"{base} + {self._at('y', read.north)}.to(tl.int64) * {stride}", "p")
        loaded = self._held(f"tl.load({line} + {self._at('x', read.east)})", "a")
        if (read.array, read.east, read.north) not in self.loads:
            self.loads.append((read.array, read.east, read.north))
        for axis, offset in (("x", read.east), ("y", read.north)):
            border = self._borders[axis == "y"]
            if axis in read.odd and offset and border == "reflecting":
                loaded = self._held(f"tl.where({self._is_ghost(axis, offset)}, -{loaded}, {loaded})", "a")
        return loaded

    def _is_ghost(self, axis: str, offset: int) -> str:
        position, count = (self._x, "nx") if axis == "x" else (self._y, "ny")
        test = f"{position} + {offset} >= {count}" if offset > 0 else f"{position} < {-offset}"
        return self._held(test, "g")

    def _inside(self, east: int, north: int) -> str:
        tests = []
        for axis, offset in (("x", east), ("y", north)):
            if offset:
                position, count = (self._x, "nx") if axis == "x" else (self._y, "ny")
                test = f"{position} + {offset} < {count}" if offset > 0 else f"{position} >= {-offset}"
                tests.append(self._held(test, "g"))
        return " & ".join(tests)

    def _at(self, axis: str, offset: int) -> str:
        """Return the place of a neighbour along an axis; whatever the position, it lies in the domain."""
        position, count = (self._x, "nx") if axis == "x" else (self._y, "ny")
        if offset == 0:
            return position
        there = f"({position} + {offset})"
        match self._borders[axis == "y"]:
            case "zero_gradient":
                edge = f"tl.minimum({there}, {count} - 1)" if offset > 0 else f"tl.maximum({there}, 0)"
                return self._held(edge, "i")
            case "periodic":
                return self._held(f"wrapped({there}, {count})", "i")
        return self._held(f"reflected({there}, {count})", "i")
