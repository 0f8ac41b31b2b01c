"""Source of a Python module with a Triton kernel for each sweep.

A program computes a piece of one row of one sample: ``BLOCK`` columns. What belongs to the row (metric terms, Coriolis
parameter, coefficients) is one number there, as it is outside the inner loop of the C kernel, and a border in y is
one decision. Every address lies in the domain, whatever the lane, so loads need no mask; stores have one.

Offsets within a row are 32 bits wide, where rows and samples begin is computed in 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..fused.emit_c import SEPARATE, block_kinds
from ..fused.trace import ArrayInfo
from .cells import CellWriter
from .gather import GatherKernel, GatherSweep, Tap
from .templates import HEAD, SWEEP

__all__ = ["Emitted", "SweepNotes", "emit"]


@dataclass(frozen=True, slots=True)
class SweepNotes:
    """What one kernel takes and does.

    Attributes
    ----------
    name : of the function
    blocks : kinds of the blocks whose addresses it takes, in order
    separate : (kind, index or name) of the arrays that come with strides of their own
    loads : (array, east, north) of its direct part
    arrays_read, arrays_written, arrays_added : arrays, each once
    slots : scalars whose derivative it sums
    """

    name: str
    blocks: tuple[str, ...]
    separate: tuple[tuple[str, int | str], ...]
    loads: tuple[tuple[int, int, int], ...]
    arrays_read: tuple[int, ...]
    arrays_written: tuple[int, ...]
    arrays_added: tuple[int, ...]
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Emitted:
    """A module and what the one who calls it has to know."""

    source: str
    sweeps: tuple[SweepNotes, ...]


def emit(kernel: GatherKernel, *, double: bool) -> Emitted:
    """Return the source of the kernels of all sweeps."""
    sources, notes = [HEAD.format(real="tl.float64" if double else "tl.float32")], []
    for k, sweep in enumerate(kernel.sweeps):
        writer = _Sweep(kernel, k, sweep)
        sources.append(writer.text())
        notes.append(writer.notes())
    return Emitted("\n".join(sources), tuple(notes))


class _Sweep:
    def __init__(self, kernel: GatherKernel, k: int, sweep: GatherSweep) -> None:
        self.kernel, self.sweep, self.name = kernel, sweep, f"sweep{k}"
        traced = kernel.traced
        self.borders = (traced.boundary.x, traced.boundary.y)
        used = {read.array for read in sweep.reads()} | {s.array for s in sweep.stores}
        self.infos: dict[int, ArrayInfo] = {a: traced.arrays[a] for a in sorted(used)}
        self.blocks = block_kinds(list(self.infos.values()))
        self.separate = [a for a, info in self.infos.items() if info.kind in SEPARATE]
        self.slots = kernel.summed_slots()
        self.counts = traced.counts()
        self.direct = self.writer("", "x", "y")

    def writer(self, prefix: str, x: str, y: str) -> CellWriter:
        return CellWriter(prefix, x, y, self.borders, self.place, self.leaf)

    def notes(self) -> SweepNotes:
        return SweepNotes(
            self.name,
            tuple(self.blocks),
            tuple(
                (i.kind, i.index if i.kind == "closure" else i.name) for i in map(self.infos.get, self.separate) if i
            ),
            tuple(self.direct.loads),
            tuple(dict.fromkeys(array for array, *_ in self.direct.loads)),
            tuple(store.array for store in self.sweep.stores),
            tuple(store.array for store in self.sweep.stores if store.accumulate),
            tuple(total.slot for total in self.sweep.sums),
        )

    def place(self, array: int) -> tuple[str, str]:
        """Return the text of the first value of an array in this sample, and of the stride of its rows."""
        info = self.infos[array]
        if info.kind in SEPARATE:
            n = self.separate.index(array)
            return f"(one{n} + b * sample{n})", f"line{n}"
        block = f"block{self.blocks.index(info.kind)}"
        if info.kind == "gradient closure":
            return f"({block} + ({info.index} * batch + b) * plane)", "nx"
        together = self.counts[info.kind.removeprefix("gradient ")]
        return f"({block} + (b * {together} + {info.index}) * plane)", "nx"

    def leaf(self, slot: int) -> str:
        info = self.kernel.traced.scalars[slot]
        return {"dt": "tl.load(step)", "coefficient": f"tl.load(coefficient + {info.index})"}.get(
            info.kind, f"tl.load(factor + {info.index})"
        )

    def text(self) -> str:
        arguments = [f"block{n}" for n in range(len(self.blocks))]
        arguments += [
            part for n in range(len(self.separate)) for part in (f"one{n}", f'sample{n}: "i64"', f'line{n}: "i64"')
        ]
        body = [*self.direct_part(), *self.images(), *self.stores(), *self.sums()]
        return SWEEP.format(
            name=self.name,
            arguments=", ".join(arguments),
            body="\n".join(f"    {line}" for line in body),
        )

    def direct_part(self) -> Iterator[str]:
        stores, sums = self.sweep.stores, self.sweep.sums
        names = self.direct.values([*(s.node for s in stores), *(s.fast for s in sums), *(s.slow for s in sums)])
        yield from self.direct.lines
        for n, name in enumerate(names[: len(stores)]):
            yield f"total{n} = {name} + tl.zeros((BLOCK,), REAL)"
        self.sum_names = list(
            zip(names[len(stores) : len(stores) + len(sums)], names[len(stores) + len(sums) :], strict=True)
        )

    def stores(self) -> Iterator[str]:
        for n, store in enumerate(self.sweep.stores):
            base, stride = self.place(store.array)
            yield f"to{n} = {base} + y.to(tl.int64) * {stride} + x"
            if store.accumulate:
                yield f"total{n} += tl.load(to{n})"
            elif self.infos[store.array].kind == "gradient closure":
                yield "if not FIRST:"
                yield f"    total{n} += tl.load(to{n})"
            yield f"tl.store(to{n}, total{n}, mask=live)"

    def sums(self) -> Iterator[str]:
        for n, total in enumerate(self.sweep.sums):
            fast, slow = self.sum_names[n]
            place = self.kernel.traced.position(total.slot)
            yield f"part{n} = tl.sum(tl.where(live, {fast}, 0.0).to(tl.float64), 0) * {slow}.to(tl.float64)"
            yield f"at{n} = sums + {place} * programs + program"
            yield "if not FIRST:" if self.is_fresh(total.slot) else "if True:"
            yield f"    part{n} += tl.load(at{n})"
            yield f"tl.store(at{n}, part{n})"

    def is_fresh(self, slot: int) -> bool:
        """Return whether no earlier sweep has written a part of this sum."""
        earlier = self.kernel.sweeps[: self.kernel.sweeps.index(self.sweep)]
        return not any(total.slot == slot for sweep in earlier for total in sweep.sums)

    def images(self) -> Iterator[str]:
        for t, tap in enumerate(self.sweep.taps):
            in_x, in_y = self.along("x", tap.east), self.along("y", tap.north)
            for i, x in enumerate(in_x):
                for j, y in enumerate(in_y):
                    if x.is_image or y.is_image:
                        yield from self.image(f"t{t}_{i}_{j}_", tap, x, y)

    def image(self, prefix: str, tap: Tap, x: _Position, y: _Position) -> Iterator[str]:
        """Add what a cell near the border gives, in programs that hold cells which may get it."""
        guards = [guard for guard in (x.guard, y.guard, y.condition) if guard]
        writer = self.writer(prefix, f"{prefix}x", f"{prefix}y")
        names = writer.values([node for *_, node in tap.shares])
        yield f"if {' & '.join(f'({guard})' for guard in guards)}:"
        yield f"    {prefix}x = tl.minimum(tl.maximum({x.place}, 0), nx - 1)"
        yield f"    {prefix}y = tl.minimum(tl.maximum({y.place}, 0), ny - 1)"
        yield from (f"    {line}" for line in writer.lines)
        condition = f"({x.condition}) & live" if x.condition else "live"
        for (array, odd, _), name in zip(tap.shares, names, strict=True):
            n = next(n for n, store in enumerate(self.sweep.stores) if store.array == array)
            turned = sum(
                p.is_image and self.borders[a == "y"] == "reflecting" and a in odd for a, p in (("x", x), ("y", y))
            )
            yield f"    total{n} {'-' if turned % 2 else '+'}= tl.where({condition}, {name}, 0.0)"

    def along(self, axis: str, offset: int) -> list[_Position]:
        """Return positions along an axis whose neighbour ``offset`` away is this cell: the direct one, then images."""
        border = self.borders[axis == "y"]
        at, count, low, high = ("x", "nx", "first", "first + BLOCK") if axis == "x" else ("y", "ny", "y", "y + 1")
        if border == "periodic":
            place = f"wrapped({at} - ({offset}), {count})" if offset else at
            return [_Position(place, "", "", False)]
        direct = f"{at} - ({offset}) >= 0" if offset > 0 else f"{at} - ({offset}) < {count}" if offset < 0 else ""
        positions = [_Position(f"{at} - ({offset})", direct, "", False)]
        reach = abs(offset)
        guard = f"{low} < {reach}" if offset < 0 else f"{high} > {count} - {reach}"
        if border == "reflecting" and offset:
            place = f"{reach} - 1 - {at}" if offset < 0 else f"2 * {count} - 1 - {offset} - {at}"
            valid = f"{place} >= 0" if offset < 0 else f"{place} < {count}"
            positions.append(_Position(place, valid, guard, True))
        elif offset:
            guard = f"{low} == 0" if offset < 0 else f"{high} >= {count}"
            for ghost in range(1, reach + 1):
                place = f"{reach - ghost}" if offset < 0 else f"{count} - 1 + {ghost - reach}"
                edge = f"{at} == 0" if offset < 0 else f"{at} == {count} - 1"
                fits = f"{reach - ghost} < {count}" if offset < 0 else f"{count} > {reach - ghost}"
                positions.append(_Position(place, f"({edge}) & ({fits})", guard, True))
        return positions


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a cell may lie that used this one: place, for which cells it counts, and which programs hold such cells."""

    place: str
    condition: str
    guard: str
    is_image: bool
