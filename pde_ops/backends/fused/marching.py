"""Several steps in one launch: where states, seeds and derivatives of all steps lie, and samples laid side by side.

On a narrow grid the ends of a row cost as much as the row. So samples of a batch are interleaved, value by value:
``[sample, y, x]`` becomes ``[group, y, x · side]``, and a kernel made for that sees rows ``side`` times as long. A
march is laid out once and runs all of its steps like that. Rows are then padded to whole vectors; nothing that is read
depends on what lies there.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from .binding import Arguments, Places
from .compiled import Call
from .emit_c import row_values
from .plan import wanted_kinds

__all__ = ["Gradients", "Pattern", "Record", "march_back", "march_forward", "samples_side_by_side"]

Pattern = tuple[int, int]  # how many steps, and after how many of them something is put on the state
LONG_ROW = 128  # values of a row beyond which its ends cost little


def samples_side_by_side(batch: int, nx: int) -> int:
    """Return how many samples make one long row: a power of two that divides the batch."""
    side = 1
    while side * nx < LONG_ROW and batch % (2 * side) == 0:
        side *= 2
    return side


def interleaved(tensor: Tensor, side: int) -> Tensor:
    """View ``[batch, …, y, x]`` as ``[group, …, y, x, side]``; with one sample a group as ``[batch, …, y, x]``."""
    return tensor if side == 1 else tensor.reshape(-1, side, *tensor.shape[1:]).movedim(1, -1)


def values_of(rows: Tensor, nx: int, side: int) -> Tensor:
    """View rows of values ``[…, y, x · side and padding]`` as ``[…, y, x, side]``; with one sample as they are."""
    return rows if side == 1 else rows[..., : nx * side].view(*rows.shape[:-1], nx, side)


def laid_out(tensor: Tensor, side: int) -> Tensor:
    """Copy ``[batch, …, y, x]`` to ``[group, …, y, x · side and padding]``, dense."""
    if side == 1:
        return tensor.contiguous()
    batch, *between, nx = tensor.shape
    rows = tensor.new_zeros(batch // side, *between, row_values(nx, side))
    values_of(rows, nx, side).copy_(interleaved(tensor, side))
    return rows


def taken_apart(rows: Tensor, nx: int, side: int) -> Tensor:
    """Undo `laid_out`, for a grid of ``nx`` columns."""
    return rows if side == 1 else values_of(rows, nx, side).movedim(-1, 1).flatten(0, 1)


@dataclass(slots=True)
class Record:
    """What the way back needs of a march, laid out side by side.

    Attributes
    ----------
    states : before each step, and after the last, ``[step, group, field, y, x · side and padding]``
    intermediates, values : of each step, see `compiled.Stored`
    closures : those that the adjoint reads, in order
    """

    side: int
    states: Tensor
    intermediates: Tensor | None
    values: Tensor | None
    closures: list[Tensor]
    decay: Tensor | None

    def tensors(self) -> list[Tensor | None]:
        """Return what is to be saved, in the order in which `of` takes it."""
        return [self.states, self.intermediates, self.values, self.decay, *self.closures]

    @classmethod
    def of(cls, side: int, tensors: Sequence[Tensor | None]) -> Record:
        """Rebuild a record."""
        states, intermediates, values, decay, *closures = tensors
        assert states is not None
        return cls(side, states, intermediates, values, [c for c in closures if c is not None], decay)


@dataclass(slots=True)
class Gradients:
    """Derivatives of a march; None by what they are not wanted by."""

    state: Tensor
    coefficients: Tensor | None
    factor: Tensor | None
    added: Tensor | None
    decay: Tensor | None
    closures: list[Tensor | None]


def march_forward(
    call: Call,
    pattern: Pattern,
    state: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    added: Tensor | None,
    decay: Tensor | None,
    closures: Sequence[Tensor],
    *,
    recording: bool,
) -> tuple[Tensor, Record]:
    """Return the last state, and what the way back needs if it is being recorded."""
    batch, _, _, nx = state.shape
    side = samples_side_by_side(batch, nx) if call.compiled.engine.name == "c" else 1
    states = new_states(pattern, state, side, decays=decay is not None, recording=recording)
    _lay_out(states[0], state, side)
    added, decay = (None if t is None else laid_out(t, side) for t in (added, decay))
    record = run_forward(
        call, pattern, side, states, coefficients, factor, added, decay, _held(closures, side), recording=recording
    )
    last = last_state(pattern, states)
    return last.clone() if side == 1 else taken_apart(last, nx, side), record  # never a view: the states are saved


def new_states(pattern: Pattern, like: Tensor, side: int, *, decays: bool, recording: bool) -> Tensor:
    """Return the place of all states of a march, laid out; the first is for the caller to write."""
    (steps, every), (batch, fields, ny, nx) = pattern, like.shape
    # What nobody asks for later lies in a ring: the state a step reads, and the one that decay refers to.
    ring = steps + 1 if recording else min(steps, every if decays else 1) + 1
    return like.new_empty(ring, batch // side, fields, ny, row_values(nx, side))


def last_state(pattern: Pattern, states: Tensor) -> Tensor:
    """Return the state that a march ended with."""
    return states[pattern[0] % states.shape[0]]


def run_forward(
    call: Call,
    pattern: Pattern,
    side: int,
    states: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    added: Tensor | None,
    decay: Tensor | None,
    closures: Sequence[Tensor],
    *,
    recording: bool,
) -> Record:
    """Take all steps from the first of the ``states``; all fields are laid out. Return what the way back needs."""
    (steps, every), (ring, *shape) = pattern, states.shape
    compiled = call.compiled
    launch, saved = compiled.forward_launch(call.kind, states.dtype, recording=recording, side=side)
    numbers, before, after = _forward_places(steps, ring)
    blocks, places = {"field": states, "output": states}, {"field": before, "output": after}
    stored: list[Tensor | None] = []
    for kind, count in (("stage", compiled.stored), ("saved", saved)):
        stored.append(states.new_empty(steps if recording else 1, shape[0], count, *shape[2:]) if count else None)
        if stored[-1] is not None:
            blocks[kind], places[kind] = stored[-1], numbers if recording else np.zeros_like(numbers)
    planes, joins = _wide_planes(call, side), (added, decay, None, None, None)
    launch(
        Arguments(
            shape[0], blocks, closures, planes, coefficients, factor, call.dt, call.rows, steps, every, places, joins
        )
    )
    read = compiled.to_save(call.kind)[1] if recording else ()
    return Record(side, states, stored[0], stored[1], [closures[k] for k in read], decay)


@functools.lru_cache(maxsize=64)
def _forward_places(steps: int, ring: int) -> tuple[Places, Places, Places]:
    """Return the number of each step, and the places of the states before and after it."""
    numbers = np.arange(steps)
    return numbers, numbers % ring, (numbers + 1) % ring


@functools.lru_cache(maxsize=64)
def _backward_places(steps: int) -> tuple[Places, Places, Places]:
    """Return the places of the states from the last step to the first, of seeds, and of derivatives."""
    numbers = np.arange(steps)
    return numbers[::-1], numbers % 2, (numbers + 1) % 2


def march_back(
    call: Call,
    pattern: Pattern,
    record: Record,
    grad_output: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    needed: Sequence[bool],
) -> Gradients:
    """Return the derivatives; ``needed``: by state, coefficients, factor, what is added, decay, and each closure."""
    side, nx, seeds = record.side, grad_output.shape[-1], record.states.new_empty(2, *record.states.shape[1:])
    _lay_out(seeds[0], grad_output, side)
    g = run_back(call, pattern, record, seeds, coefficients, factor, needed)
    apart = [None if t is None else taken_apart(t, nx, side) for t in (g.added, g.decay, *g.closures)]
    return Gradients(taken_apart(g.state, nx, side), g.coefficients, g.factor, apart[0], apart[1], apart[2:])


def run_back(
    call: Call,
    pattern: Pattern,
    record: Record,
    seeds: Tensor,
    coefficients: Tensor,
    factor: Tensor,
    needed: Sequence[bool],
) -> Gradients:
    """Return the derivatives as `march_back` does, from the first of two ``seeds``; all fields are laid out."""
    steps, every = pattern
    compiled, side, states = call.compiled, record.side, record.states
    wants = wanted_kinds(needed[1], needed[2], tuple(needed[5:]))
    adjoint = compiled.adjoint(call.kind, states.dtype, wants, side)
    assert not adjoint.idle_fields  # a step starts from the state itself
    shape = states.shape[1:]
    backwards, even, odd = _backward_places(steps)
    blocks = {"field": states, "seed": seeds, "gradient field": seeds}
    places = {"field": backwards, "seed": even, "gradient field": odd}
    for kind, tensor in (("stage", record.intermediates), ("saved", record.values)):
        if tensor is not None:
            blocks[kind], places[kind] = tensor, backwards
    if record.intermediates is not None:
        blocks["gradient stage"] = record.intermediates.new_empty(record.intermediates.shape[1:])
    by_closure = states.new_zeros(compiled.traced.closures if any(needed[5:]) else 0, shape[0], *shape[2:])
    blocks["gradient closure"] = by_closure
    decay = record.decay
    by_added, by_decay = (states.new_zeros(shape) if want else None for want in needed[3:5])
    joined = (None, decay, by_added, by_decay, None if decay is None else states.new_empty(shape))
    closures = dict(zip(compiled.to_save(call.kind)[1], record.closures, strict=True))
    planes = _wide_planes(call, side)
    by_scalar = adjoint.launch(
        Arguments(
            shape[0], blocks, closures, planes, coefficients, factor, call.dt, call.rows, steps, every, places, joined
        )
    )
    assert by_scalar is not None
    count = coefficients.shape[0]
    idle = [not want or k in adjoint.idle_closures for k, want in enumerate(needed[5:])]
    return Gradients(
        seeds[steps % 2],
        by_scalar[:count] if needed[1] else None,
        by_scalar[count:] if needed[2] else None,
        by_added,
        by_decay,
        [None if absent else by_closure[k] for k, absent in enumerate(idle)],
    )


def _lay_out(place: Tensor, tensor: Tensor, side: int) -> None:
    """Copy ``[batch, …, y, x]`` to a place as `laid_out` does."""
    values_of(place, tensor.shape[-1], side).copy_(interleaved(tensor, side))


def _wide_planes(call: Call, side: int) -> Mapping[tuple[str, str], Tensor]:
    if side == 1 or not call.planes:
        return call.planes
    return {k: laid_out(p.expand(side, -1, -1), side) for k, p in call.planes.items()}


def _held(closures: Sequence[Tensor], side: int) -> list[Tensor]:
    if side == 1 or not closures:
        return list(closures)
    batch, ny, nx = closures[0].shape
    together = closures[0].new_empty(len(closures), batch // side, ny, row_values(nx, side))
    for place, closure in zip(together, closures, strict=True):
        _lay_out(place, closure, side)
    return list(together.unbind())
