"""Python source for numba of a kernel: the same sweeps, written cell by cell over whole padded planes.

The fallback where there is no C compiler. It is simpler than the C and several times slower: planes are padded as a
whole, and derivatives are added to their neighbours one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .emit_cells import SlowTable
from .ir import CELL, Node, reachable
from .plan import Kernel, Sweep, View

__all__ = ["emit_numba"]

_FUNCTIONS = ("exp", "log", "sqrt", "sin", "cos", "tanh")
_INFIX = {"add": "+", "mul": "*", "lt": "<", "le": "<=", "eq": "==", "and": "and", "or": "or"}


def emit_numba(kernel: Kernel, nx: int, *, double: bool) -> str:
    """Return the source of a module with one function, ``run``."""
    return _Module(kernel, nx, double).text()


def _text(node: Node, args: list[str]) -> str:
    if node.op in _INFIX:
        return f"{args[0]} {_INFIX[node.op]} {args[1]}"
    match node.op:
        case "recip":
            return f"ONE / {args[0]}"
        case "select":
            return f"{args[1]} if {args[0]} else {args[2]}"
        case "not":
            return f"not {args[0]}"
        case "abs":
            return f"abs({args[0]})"
    assert node.op in _FUNCTIONS
    return f"np.{node.op}({args[0]})"


class _Module:
    def __init__(self, kernel: Kernel, nx: int, double: bool) -> None:
        self.kernel = kernel
        self.nx = nx
        self.real = "np.float64" if double else "np.float32"
        self.arrays = kernel.arrays()
        self.table = SlowTable(kernel.slow_nodes())
        self.slots = kernel.summed_slots()
        self.numbers: dict[float, str] = {}  # numbers are globals of the kernel's dtype: a literal would be a double

    def text(self) -> str:
        sweeps = [line for k, sweep in enumerate(self.kernel.sweeps) for line in self.sweep(k, sweep)]
        slow = list(self.slow_values())
        traced = self.kernel.traced
        names = ", ".join(f"a{k}" for k in range(len(self.arrays)))
        numbers = [f"{name} = {self.real}({_number(value)})" for value, name in self.numbers.items()]
        run = [
            "@JIT",
            f"def run(arrays, batch, ny, coefficient, factor, dt, rows, gradients):\n    ({names},) = arrays",
            f"    sc = np.zeros({max(1, len(self.table.scalars))}, REAL)",
            f"    table = np.zeros((ny, {max(1, len(self.table.rows))}), REAL)",
            f"    sums = np.zeros({max(1, len(self.slots))})",
            "    slow_values(coefficient, factor, dt, rows, ny, sc, table)",
            "    for b in range(batch):",
            *(f"        sweep{k}(b, ny, {names}, sc, table, sums)" for k in range(len(self.kernel.sweeps))),
            *(f"    gradients[{traced.position(slot)}] = sums[{k}]" for k, slot in enumerate(self.slots)),
        ]
        boundary = traced.boundary
        head = _HEAD.format(real=self.real, nx=self.nx, x=boundary.x, y=boundary.y)
        return "\n".join([head, *numbers, "", *slow, "", *sweeps, "", *run]) + "\n"

    def number(self, value: float) -> str:
        return self.numbers.setdefault(value, f"N{len(self.numbers)}") if not math.isnan(value) else "REAL(np.nan)"

    def slow_values(self) -> Iterator[str]:
        yield "@JIT"
        yield "def slow_values(coefficient, factor, dt, rows, ny, sc, table):"
        yield from self.slow_block(self.table.scalars, "    ", "sc[{}]")
        yield "    for y in range(ny):"
        yield from self.slow_block(self.table.rows, "        ", "table[y, {}]")
        yield "        pass"

    def slow_block(self, outputs: list[Node], indent: str, target: str) -> Iterator[str]:
        names: dict[Node, str] = {}
        for node in reachable(outputs):
            if node.op in ("const", "truth"):
                names[node] = _number(node.data)
                continue
            names[node] = name = f"d{len(names)}"
            text = _text(node, [names[a] for a in node.args]) if node.args else self.slow_leaf(node)
            yield f"{indent}{name} = {text}"
        for k, node in enumerate(outputs):
            yield f"{indent}{target.format(k)} = {names[node]}"

    def slow_leaf(self, node: Node) -> str:
        if node.op == "row":
            return f"rows[{node.data.row}, source(y + ({node.data.north}), ny, BORDER_Y)]"
        info = self.kernel.traced.scalars[node.data]
        return "dt" if info.kind == "dt" else f"{info.kind}[{info.index}]"

    def slow_place(self, node: Node) -> str:
        place = self.table.place(node).replace("row[", "table[y, ")
        return f"({place} != 0)" if node.op in ("lt", "le", "eq", "and", "or", "not") else place

    def sweep(self, k: int, sweep: Sweep) -> Iterator[str]:
        rx, ry = sweep.radius()
        reach_x = sweep.reach()
        reach_y = max((abs(c.north) for c in sweep.carries), default=0)
        views = sweep.views()
        slot = self.arrays.index
        yield "@JIT"
        yield f"def sweep{k}(b, ny, {', '.join(f'a{i}' for i in range(len(self.arrays)))}, sc, table, sums):"
        for v, view in enumerate(views):
            yield f"    p{v} = padded(a{slot(view.array)}[b], {rx}, {ry}, {self.turned(view)})"
        targets = list(dict.fromkeys(c.view for c in sweep.carries))
        for g in range(len(targets)):
            yield f"    g{g} = np.zeros((ny + {2 * reach_y}, NX + {2 * reach_x}), REAL)"
        yield "    for y in range(ny):"
        yield "        for x in range(NX):"
        yield from (f"            {line}" for line in self.cell(sweep, views, targets, (rx, ry), (reach_x, reach_y)))
        for array in sweep.cleared:
            yield f"    a{slot(array)}[b] = 0"
        for g, view in enumerate(targets):
            yield f"    fold(a{slot(view.array)}[b], g{g}, {reach_x}, {reach_y}, {self.turned(view)})"

    def turned(self, view: View) -> str:
        boundary = self.kernel.traced.boundary
        return ", ".join(
            "-1" if axis in view.odd and getattr(boundary, axis) == "reflecting" else "1" for axis in ("x", "y")
        )

    def cell(
        self, sweep: Sweep, views: list[View], targets: list[View], radius: tuple[int, int], reach: tuple[int, int]
    ) -> Iterator[str]:
        names: dict[Node, str] = {}
        windowed = {view.array for view in views}
        for node in reachable([*sweep.roots, *sweep.slow]):
            if node.op == "const":
                names[node] = self.number(node.data)
            elif node.level < CELL:
                if node in self.table.scalars or node in self.table.rows:
                    names[node] = self.slow_place(node)
            else:
                name = f"v{len(names)}"
                if node.op == "cell":
                    text = self.read(node, views, windowed, radius)
                else:
                    text = _text(node, [names[a] for a in node.args])
                yield f"{name} = {text}"
                names[node] = name
        for item in sweep.stores:
            yield f"a{self.arrays.index(item.array)}[b, y, x] {'+=' if item.accumulate else '='} {names[item.node]}"
        for carry in sweep.carries:
            g = f"g{targets.index(carry.view)}[y + {reach[1] + carry.north}, x + {reach[0]} + ({{}})]"
            if carry.here is not None:
                yield f"{g.format(0)} += {names[carry.here]}"
            for tap in carry.taps:
                yield f"{g.format(tap.east)} += {names[tap.coefficient]} * {names[sweep.buffers[tap.buffer]]}"
        for total in sweep.sums:
            yield f"sums[{self.slots.index(total.slot)}] += {names[total.slow]} * {names[total.fast]}"

    def read(self, node: Node, views: list[View], windowed: set[int], radius: tuple[int, int]) -> str:
        r = node.data
        if r.array not in windowed:
            return f"a{self.arrays.index(r.array)}[b, y, x]"
        here = r.east == 0 and r.north == 0
        v = next(i for i, view in enumerate(views) if view.array == r.array and (here or view.odd == r.odd))
        return f"p{v}[y + {radius[1] + r.north}, x + {radius[0] + r.east}]"


def _number(value: float) -> str:
    return {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(repr(value), repr(value))


_HEAD = """import numpy as np
from numba import njit

JIT = njit(cache=True, nogil=True, error_model="numpy", fastmath={{"contract"}})
REAL = {real}
NX = {nx}
BORDER_X, BORDER_Y = "{x}", "{y}"
ONE = REAL(1)


@JIT
def source(i, n, border):
    if 0 <= i < n:
        return i
    if border == "periodic":
        return i % n
    if border == "reflecting":
        return -1 - i if i < 0 else 2 * n - 1 - i
    return 0 if i < 0 else n - 1


@JIT
def sign(i, n, turn):
    return 1 if 0 <= i < n else turn


@JIT
def padded(a, rx, ry, turn_x, turn_y):
    ny, nx = a.shape
    wide = np.empty((ny + 2 * ry, nx + 2 * rx), REAL)
    for y in range(-ry, ny + ry):
        row = source(y, ny, BORDER_Y)
        for x in range(-rx, nx + rx):
            wide[y + ry, x + rx] = REAL(sign(y, ny, turn_y) * sign(x, nx, turn_x)) * a[row, source(x, nx, BORDER_X)]
    return wide


@JIT
def fold(a, wide, rx, ry, turn_x, turn_y):
    ny, nx = a.shape
    for y in range(-ry, ny + ry):
        row = source(y, ny, BORDER_Y)
        for x in range(-rx, nx + rx):
            turn = REAL(sign(y, ny, turn_y) * sign(x, nx, turn_x))
            a[row, source(x, nx, BORDER_X)] += turn * wide[y + ry, x + rx]

"""
