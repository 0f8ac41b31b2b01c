"""C source of a kernel: for each sweep an inner loop over cells, a driver over rows, and the entry that runs them all.

A task is one sample and a block of its rows. Arrays whose neighbours are read are copied, row by row, into a small
window with ghost cells: inside it every neighbour is at a fixed distance from one pointer, so the inner loop has no
borders and needs no address arithmetic. The number of columns is fixed at generation time for the same reason.

A row of a narrow grid is little more than its ends. There ``side`` samples lie side by side, value by value, and make
one long row in which a cell's neighbour is ``side`` values away, and rows are padded to whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from .emit_cells import SlowTable, VectorWriter, literal, slow_statements
from .ir import Node
from .plan import Carry, Kernel, Sweep, View
from .schedule import loops
from .templates import BACKWARD_JOINS, DISPATCH, ENTRY, FORWARD_JOINS, JOB, NO_JOINS, TASK, WINDOW
from .trace import ArrayInfo

__all__ = ["SEPARATE", "block_kinds", "emit_c", "row_values"]

BORDERS = {"zero_gradient": 0, "periodic": 1, "reflecting": 2}
WINDOW_BYTES = 65536  # more than a first-level cache: three rows are in use at a time, and moving rows up costs more
SEPARATE = ("closure", "static", "grid")  # kinds of arrays that come one by one, with strides of their own
WIDEST_VECTOR = 16  # values
CHUNK = 64  # columns of a long row that are computed together, ...
CHUNK_BYTES = 32768  # ... and as much as their temporaries may take of the nearest cache where a whole row is
TASK_CELLS = 49152  # rows are dealt out in blocks of about this many cells, whatever the number of threads


def emit_c(kernel: Kernel, nx: int, *, double: bool, side: int = 1) -> str:
    """Return the source of a shared library with one function, ``run``, for ``side`` samples side by side."""
    return _Source(kernel, nx, double, side).text()


def row_values(nx: int, side: int) -> int:
    """Return the values from one row to the next: with samples side by side rows are padded to whole vectors."""
    return nx if side == 1 else -(-nx * side // WIDEST_VECTOR) * WIDEST_VECTOR


def block_kinds(infos: Sequence[ArrayInfo]) -> list[str]:
    """Kinds of arrays that lie one behind the other, in the order in which ``run`` takes their addresses."""
    return list(dict.fromkeys(info.kind for info in infos if info.kind not in SEPARATE))


def _width(infos: Sequence[ArrayInfo]) -> int:
    """Return how many numbers ``run`` takes for one step: an address for each block, strides too for the others."""
    return len(block_kinds(infos)) + 3 * sum(info.kind in SEPARATE for info in infos)


class _Source:
    def __init__(self, kernel: Kernel, nx: int, double: bool, side: int) -> None:
        self.kernel = kernel
        self.nx, self.row = nx * side, row_values(nx, side)
        self.side = side
        self.double = double
        self.arrays = kernel.arrays()
        self.table = SlowTable(kernel.slow_nodes())
        self.slots = kernel.summed_slots()

    def text(self) -> str:
        boundary = self.kernel.traced.boundary
        defines = {
            "REAL_IS_DOUBLE": int(self.double),
            "NX": self.nx,
            "SIDE": self.side,
            "ROW": self.row,
            "BORDER_X": BORDERS[boundary.x],
            "BORDER_Y": BORDERS[boundary.y],
        }
        parts = [f"#define {name} {value}" for name, value in defines.items()]
        parts.append(Path(__file__).with_name("prelude.h").read_text(encoding="utf-8"))
        parts.append(JOB)
        for k, sweep in enumerate(self.kernel.sweeps):
            parts += _SweepSource(self, k, sweep).parts()
        parts += [self.slow_tables(), self.joins(), self.dispatch(), self.entry()]
        return "\n".join(parts) + "\n"

    def slot_of(self, array: int) -> int:
        return self.arrays.index(array)

    def slow_tables(self) -> str:
        """Function that computes everything that does not change along a row."""
        traced = self.kernel.traced

        def leaf(node: Node) -> str:
            if node.op == "scalar":
                info = traced.scalars[node.data]
                return "dt" if info.kind == "dt" else f"{info.kind}[{info.index}]"
            return f"rows[{node.data.row} * ny + source_y(y + ({node.data.north}), ny)]"

        scalars, scalar_names = slow_statements(self.table.scalars, leaf)
        rows, row_names = slow_statements(self.table.rows, leaf)
        lines = [
            "static void slow_values(const real *coefficient, const real *factor, double dt, const double *rows,",
            "                        long ny, vf *sc, vf *table)",
            "{",
            *(f"    {line}" for line in scalars),
            *(f"    sc[{k}] = bc((real)({scalar_names[n]}));" for k, n in enumerate(self.table.scalars)),
            "    for (long y = 0; y < ny; y++) {",
            f"        vf *row = table + y * {max(1, len(self.table.rows))};",
            *(f"        {line}" for line in rows),
            *(f"        row[{k}] = bc((real)({row_names[n]}));" for k, n in enumerate(self.table.rows)),
            "        (void)row;",
            "    }",
            "    (void)coefficient; (void)factor; (void)dt; (void)rows; (void)sc;",
            "}",
        ]
        return "\n".join(lines)

    def dispatch(self) -> str:
        """Functions that run a range of tasks, of one sweep or of all of them."""
        count = len(self.kernel.sweeps)
        cases = "\n".join(
            f"            if (sweep == {k}) failed |= task{k}(job, b, r0, r1, work, sums);" for k in range(count)
        )
        whole = "\n".join(f"            failed |= task{k}(&here, b, r0, r1, work, sums);" for k in range(count))
        work = " + ".join(["64", *(f"WORK{k}" for k in range(count))])
        sums, arrays = max(1, len(self.slots)), len(self.arrays)
        return DISPATCH.format(cases=cases, all=whole, work=work, sums=sums, arrays=arrays)

    def joins(self) -> str:
        """Functions that put what is added, or decays, on the state between steps, and carry derivatives back."""
        infos = [self.kernel.traced.arrays[a] for a in self.arrays]
        blocks = block_kinds(infos)
        needed = ["field", "seed", "gradient field"] if self.kernel.seeded else ["field", "output"]
        if not set(needed) <= set(blocks):
            return NO_JOINS
        places = {kind.partition(" ")[0]: blocks.index(kind) for kind in needed}
        joins = BACKWARD_JOINS if self.kernel.seeded else FORWARD_JOINS
        return joins.format(width=_width(infos), fields=len(self.kernel.traced.outputs), **places)

    def array_table(self) -> Iterator[str]:
        """Address and strides of every array, from the addresses of the blocks and what comes separately."""
        traced = self.kernel.traced
        infos = [traced.arrays[a] for a in self.arrays]
        counts = {**traced.counts(), "saved": self.kernel.saved}
        blocks = block_kinds(infos)
        separate = len(blocks)
        for info in infos:
            if info.kind in SEPARATE:
                yield f"{{(real *)given[{separate}], given[{separate + 1}], given[{separate + 2}]}}"
                separate += 3
                continue
            start = f"(real *)given[{blocks.index(info.kind)}]"
            if info.kind == "gradient closure":
                yield f"{{{start} + {info.index} * batch * plane, plane, ROW}}"
            else:
                together = counts[info.kind.removeprefix("gradient ")]
                yield f"{{{start} + {info.index} * plane, {together} * plane, ROW}}"

    def entry(self) -> str:
        position = self.kernel.traced.position
        writes = "\n".join(
            f"        gradients[{position(slot)}] = (real)total(sums + {k}, {max(1, len(self.slots))}, tasks);"
            for k, slot in enumerate(self.slots)
        )
        return ENTRY.format(
            rows=max(1, len(self.table.rows)),
            scalars=max(1, len(self.table.scalars)),
            sums=max(1, len(self.slots)),
            sweeps=len(self.kernel.sweeps),
            target=max(32, TASK_CELLS // self.nx),
            writes=writes,
            derivatives=self.kernel.derivatives,
            count=len(self.arrays),
            width=_width([self.kernel.traced.arrays[a] for a in self.arrays]),
            arrays="\n".join(f"                {line}," for line in self.array_table()),
        )


class _SweepSource:
    """The functions of one sweep."""

    def __init__(self, source: _Source, k: int, sweep: Sweep) -> None:
        self.source = source
        self.k = k
        self.sweep = sweep
        self.views = sweep.views()
        self.radius_x, self.radius_y = sweep.radius()
        self.reach, self.side = sweep.reach(), source.side
        windowed = {v.array for v in self.views}
        self.direct = list(dict.fromkeys(r.array for r in sweep.reads() if r.array not in windowed))
        self.here = [c for c in sweep.carries if c.here is not None]
        self.folded = [c for c in sweep.carries if c.taps]
        self.outputs = len(self.here) + len(sweep.stores)

    def parts(self) -> Iterator[str]:
        yield self.sizes()
        if self.views:
            yield self.fill()
        yield self.cells()
        for index, carry in enumerate(self.folded):
            yield self.fold(index, carry)
        yield self.task()

    def sizes(self) -> str:
        k, size = self.k, 8 if self.source.double else 4
        ghosts = self.radius_x * self.side
        left = -(-ghosts // 16) * 16
        tail = 16 if self.source.nx % 16 else 0  # the last vector of a row reads beyond its end
        pitch = left + -(-(self.source.nx + tail + ghosts) // 16) * 16
        pitch += 16 if pitch * size % 4096 == 0 else 0
        rows = 2 * self.radius_y + max(2, min(32, WINDOW_BYTES // max(1, len(self.views) * pitch * size)))
        edge = -(-max(1, self.reach * self.side) // 16) * 16
        buffer = 2 * edge + -(-(self.source.nx + 16) // 16) * 16
        values = {
            "VIEWS": len(self.views),
            "RADIUS": self.radius_y,
            "LEFT": left,
            "PITCH": pitch,
            "ROWS": rows,
            "EDGE": edge,
            "BUFFER": buffer,
            "WINDOW": len(self.views) * pitch * rows,
            "WORK": f"(WINDOW{k} + {len(self.sweep.buffers)} * BUFFER{k} + BUFFER{k})",
        }
        return "\n" + "\n".join(f"#define {name}{k} {value}" for name, value in values.items())

    def turned(self, view: View, axis: str) -> bool:
        boundary = self.source.kernel.traced.boundary
        return axis in view.odd and getattr(boundary, axis) == "reflecting"

    def fill(self) -> str:
        """Function that copies one row of every view into the window, with its ghost columns."""
        k = self.k
        lines = [
            f"static void fill{k}(const Job *job, long b, long y, real *row)",
            "{",
            "    const long s = source_y(y, job->ny);",
        ]
        for v, view in enumerate(self.views):
            a = f"job->arrays[{self.source.slot_of(view.array)}]"
            sign = "-" if self.turned(view, "x") else ""
            lines += [
                f"    {{ const real *from = {a}.p + b * {a}.batch + s * {a}.row; real *to = row + {v} * PITCH{k};",
                "      copy_row(to, from);",
            ]
            if self.turned(view, "y"):
                lines.append("      if (y < 0 || y >= job->ny) turn_row(to);")
            for ghost in range(1, self.radius_x + 1):
                lines.append(
                    "      for (int s = 0; s < SIDE; s++) { "
                    f"to[s - {ghost} * SIDE] = {sign}to[WEST({ghost}) * SIDE + s]; "
                    f"to[NX + {ghost - 1} * SIDE + s] = {sign}to[EAST({ghost}) * SIDE + s]; }}"
                )
            lines.append("    }")
        return "\n".join([*lines, "}"])

    def read(self, node: Node) -> str:
        """Return the text that loads a stored value."""
        r = node.data
        if r.array in self.direct:
            return f"load(i{self.direct.index(r.array)} + x)"
        matching = [v for v, view in enumerate(self.views) if view.array == r.array]
        here = r.east == 0 and r.north == 0
        v = matching[0] if here else self.views.index(View(r.array, r.odd))
        return f"load(win + x + ({r.north * len(self.views) + v}) * PITCH{self.k} + ({r.east * self.side}))"

    def cells(self) -> str:
        """Return the loops over the cells of a row, chunk by chunk."""
        k, sweep = self.k, self.sweep
        texts: list[str] = []
        loaded: dict[Node, str] = {}
        writes = list(self.writes())
        for loop in loops(sweep.roots, sweep.seeds):
            mine = [writes[i] for i in loop.writes]
            writer = VectorWriter(
                [*loop.keeps, *(node for node, _ in mine)], self.source.table, self.read, self.source.double, loaded
            )
            fresh = {node: f"tmp + {len(loaded) + i} * CHUNK{k} + x - c" for i, node in enumerate(loop.keeps)}
            for node, place in fresh.items():
                writer.lines.append(f"store({place}, {writer.value(node)});")
            for node, text in mine:
                writer.lines.append(text.format(writer.value(node)))
            loaded |= {node: f"load({place})" for node, place in fresh.items()}
            # The barrier keeps the compiler from fetching the constants of all loops at once, and spilling them.
            texts += [
                '{ __asm__("" : "+r"(row), "+r"(sc));',
                *(f"  {line}" for line in writer.hoisted.values()),
                "  for (long x = c; x < stop; x += LANES) {",
                *(f"    {line}" for line in writer.lines),
                "  } }",
            ]
        lines = [
            f"#define CHUNK{k} {self.chunk(len(loaded))}",
            f"static __attribute__((noinline)) void cells{k}(const real *restrict win, real *restrict buf,",
            "    const real *const *in, real *const *out, const vf *restrict row, const vf *restrict sc,",
            "    const real *restrict sign, vi mask, long count, double *sums)",
            "{",
            f"    real tmp[{max(1, len(loaded))} * CHUNK{k}] __attribute__((aligned(64)));",
            *(f"    const real *restrict i{i} = in[{i}];" for i in range(len(self.direct))),
            # Two carries may meet in one row (at a border, or in a spare one): those pointers are not `restrict`.
            *(f"    real *{'' if o < len(self.here) else 'restrict '}o{o} = out[{o}];" for o in range(self.outputs)),
            *(f"    vf s{s} = {{0}};" for s in range(len(sweep.sums))),
            f"    for (long c = 0; c < count; c += CHUNK{k}) {{",
            f"        const long stop = c + CHUNK{k} < count ? c + CHUNK{k} : count;",
            *(f"        {line}" for line in texts),
            "    }",
            *(f"    sums[{s}] += vsum(s{s});" for s in range(len(sweep.sums))),
            "    (void)win; (void)buf; (void)in; (void)out; (void)row; (void)sc; (void)sign; (void)mask; (void)sums;",
            "    (void)tmp;",
            "}",
        ]
        return "\n".join(lines)

    def chunk(self, temporaries: int) -> int:
        """Return how many columns are computed together: a whole row if its temporaries fit."""
        whole = -(-self.source.nx // WIDEST_VECTOR) * WIDEST_VECTOR
        return whole if temporaries * whole * (8 if self.source.double else 4) <= CHUNK_BYTES else CHUNK

    def writes(self) -> Iterator[tuple[Node, str]]:
        """Return each output of the inner loop, in the order of the sweep's roots, with its writing statement."""
        k, sweep = self.k, self.sweep
        for b, node in enumerate(sweep.buffers):
            yield node, f"store(buf + x + {b} * BUFFER{k}, MASKED({{}}));"
        for o, carry in enumerate(self.here):
            assert carry.here is not None
            sign = f" * bc(sign[{o}])" if self.turned(carry.view, "y") else ""
            yield carry.here, f"store(o{o} + x, load(o{o} + x) + {{}}{sign});"
        for o, item in enumerate(sweep.stores, start=len(self.here)):
            before = f"load(o{o} + x) + " if item.accumulate else ""
            yield item.node, f"store(o{o} + x, {before}{{}});"
        for s, total in enumerate(sweep.sums):
            yield total.fast, f"s{s} += MASKED({{}});"

    def fold(self, index: int, carry: Carry) -> str:
        """Function that adds buffered derivatives to a row of the result, ghost columns to their sources."""
        k, odd_y = self.k, self.turned(carry.view, "y")

        def total(at: str, taps: list[int], vector: bool) -> str:
            text = ""
            for t in taps:
                tap = carry.taps[t]
                place = f"buf + {tap.buffer} * BUFFER{k} + ({at}) - ({tap.east * self.side})"
                value = f"load({place})" if vector else f"(*({place}))"
                slow = tap.coefficient
                if slow.op == "const" and abs(slow.data) == 1.0:
                    text += f" {'-' if slow.data < 0 else '+'} {value}"
                else:
                    number = slow.op == "const"
                    entry = literal(slow.data, self.source.double) if number else self.source.table.place(slow)
                    factor = entry if number or vector else f"{entry}[0]"
                    text += f" + {factor} * {value}"
            return f"sign * ({text})" if odd_y else f"({text})"

        everything = list(range(len(carry.taps)))
        lines = [
            f"static void fold{k}_{index}(real *restrict g, const real *restrict buf, const vf *restrict row,",
            "    const vf *restrict sc, real sign)",
            "{",
            f"    for (long x = 0; x < NXV; x += LANES) store(g + x, load(g + x) + {total('x', everything, True)});",
            f"    for (long x = NXV; x < NX; x++) g[x] += {total('x', everything, False)};",
        ]
        sign = "-" if self.turned(carry.view, "x") else "+"
        for ghost in range(1, self.reach + 1):
            west = [t for t in everything if carry.taps[t].east <= -ghost]
            east = [t for t in everything if carry.taps[t].east >= ghost]
            if west:
                text = total(f"s - {ghost} * SIDE", west, False)
                lines.append(f"    for (int s = 0; s < SIDE; s++) g[WEST({ghost}) * SIDE + s] {sign}= {text};")
            if east:
                text = total(f"NX + {ghost - 1} * SIDE + s", east, False)
                lines.append(f"    for (int s = 0; s < SIDE; s++) g[EAST({ghost}) * SIDE + s] {sign}= {text};")
        return "\n".join([*lines, "    (void)row; (void)sc; (void)sign;", "}"])

    def target(self, carry: Carry) -> str:
        """Return row ``s`` of the array that derivatives are carried to, cleared when first touched."""
        array, fresh = carry.view.array, self.sweep.cleared
        row = f"ROW_OF({self.source.slot_of(array)}, s)"
        return f"cleared({row}, touched + {fresh.index(array)} * (r1 - r0) + s - r0)" if array in fresh else row

    def task(self) -> str:
        """Return the driver: one sample, one block of rows."""
        k, sweep = self.k, self.sweep
        slot = self.source.slot_of
        loop = [
            *(f"        in[{i}] = ROW_OF({slot(a)}, y);" for i, a in enumerate(self.direct)),
            *(
                f"        out[{o}] = own ? ROW_OF({slot(s.array)}, y) : spare;"
                for o, s in enumerate(sweep.stores, start=len(self.here))
            ),
        ]
        for o, carry in enumerate(self.here):
            loop += [
                f"        {{ const long t = y + ({carry.north}), s = source_y(t, ny);",
                f"          out[{o}] = s >= r0 && s < r1 ? {self.target(carry)} : spare;",
                f"          sign[{o}] = t < 0 || t >= ny ? -1 : 1; }}",
            ]
        folds = []
        for index, carry in enumerate(self.folded):
            folds += [
                f"        {{ const long t = y + ({carry.north}), s = source_y(t, ny);",
                f"          if (s >= r0 && s < r1) fold{k}_{index}({self.target(carry)}, buf, row, sc, "
                "t < 0 || t >= ny ? -1 : 1); }",
            ]
        norths = sorted({c.north for c in sweep.carries} | {0})
        needed = " || ".join(f"IS_MINE(y + ({n}))" for n in norths) if sweep.carries else "y >= r0 && y < r1"
        slots = self.source.slots
        sums = [
            f"        if (own) sums[{slots.index(s.slot)}] += "
            + (literal(s.slow.data, True) if s.slow.op == "const" else f"(double){self.source.table.place(s.slow)}[0]")
            + f" * part[{i}];"
            for i, s in enumerate(sweep.sums)
        ]
        return TASK.format(
            k=k,
            inputs=max(1, len(self.direct)),
            outputs=max(1, self.outputs),
            carried=len(self.here),
            parts=max(1, len(sweep.sums)),
            rows=max(1, len(self.source.table.rows)),
            buffers=len(sweep.buffers),
            window=WINDOW.format(k=k) if self.views else "",
            win=f"window + LEFT{k} + centre * VIEWS{k} * PITCH{k}" if self.views else "work",
            fresh=len(sweep.cleared),
            untouched="\n".join(
                f"    for (long y = r0; y < r1; y++) cleared(ROW_OF({slot(a)}, y), touched + {c} * (r1 - r0) + y - r0);"
                for c, a in enumerate(sweep.cleared)
            ),
            first="0" if sweep.carries else "r0",
            last="ny" if sweep.carries else "r1",
            needed=needed,
            loop="\n".join(loop),
            folds="\n".join(folds),
            sums="\n".join(sums),
        )
