r"""The equations of a lead and the router behind them as one function of torch, weights of all of it in one tensor.

.. math:: X^{PDE} = \mathrm{interval}(X), \qquad \alpha = \sigma(\mathcal R([X^{AI}, X^{PDE}, B])), \qquad
          X' = \alpha \odot X^{AI} + (1 - \alpha) \odot X^{PDE}

Parts are those of `interval_kernel` and `gate_kernel`. To hand over a dozen small tensors a lead, to check them and to
add up derivatives by them costs as much as the equations themselves: here they are joined once for a forecast, kernels
take addresses within, and torch adds up one derivative a lead.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from pde_ops.backends.fused.marching import Record, last_state, new_states, run_back, run_forward
from pde_ops.backends.fused.second_order import is_beyond_kernels
from stationpde.model import gate_kernel, interval_kernel, network_kernel, terms_kernel
from stationpde.model.first_layers import LeadConditions, PreparedNetwork
from stationpde.model.interval_kernel import Course
from stationpde.model.network_kernel import dense
from stationpde.model.prepared_drive import PreparedDrive

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["LeadProgram"]

_NETWORK = ("first", "each", "lasting", "factor", "shift", "last", "bias")
_TERMS = ("radiation", "around", "regime")
_RATES = ("coefficients", "gamma")
ByLead = Sequence[Tensor] | None


@dataclass(frozen=True, slots=True, eq=False)
class LeadProgram:
    """What all leads of a forecast share.

    Attributes
    ----------
    course : of the march
    pack : weights of closure and router, of the terms, and rates, one behind the other
    layout : place in the pack and shape by name; ``each`` are those of all leads
    steps : place in the pack, and values from one lead to the next
    lasting, light, passing : as in `terms_kernel.apply_terms`, by lead
    """

    course: Course
    pack: Float[Tensor, " value"]
    layout: Mapping[str, tuple[int, torch.Size]]
    steps: Mapping[str, tuple[int, int]]
    lasting: ByLead
    light: ByLead
    passing: ByLead

    @classmethod
    def of(cls, drive: PreparedDrive, closure: PreparedNetwork | None, router: PreparedNetwork) -> LeadProgram | None:
        """Join what modules have prepared; None where no compiled kernel marches, or where types differ."""
        course, terms = drive.course, drive.terms
        parts = _parts_of("router", router) | dict(zip(_RATES, drive.rates, strict=True))
        if closure is not None and drive.closure is not None:
            parts |= _parts_of("closure", closure) | {"bound": drive.closure}
        if terms is not None:
            parts |= {name: part for name in _TERMS if (part := getattr(terms, name)) is not None}
        by_lead = (None, None, None) if terms is None else (terms.lasting, terms.light, terms.passing)
        tensors = [*parts.values(), *(values[0] for values in by_lead if values is not None)]
        if course is None or any(t.dtype != course.dtype or not t.is_cpu for t in tensors):
            return None
        if router.last.shape[0] != len(course.scale[0]):
            return None
        layout, start = {}, 0
        for name, part in parts.items():
            layout[name] = (start, part.shape)
            start += part.numel()
        steps = {name: (at, shape[1:].numel() if name.endswith("each") else 0) for name, (at, shape) in layout.items()}
        return cls(course, torch.cat([part.reshape(-1) for part in parts.values()]), layout, steps, *by_lead)

    def takes(self, field: Tensor) -> bool:
        """Return whether fields are such as the march was prepared for."""
        return field.dtype == self.course.dtype and field.is_cpu and len(field) > 0

    def __call__(
        self, field: Float[Tensor, "batch channel y x"], data: Float[Tensor, "batch channel y x"],
        conditions: LeadConditions,
    ) -> tuple[Float[Tensor, "batch channel y x"], Float[Tensor, "batch channel y x"]]:  # fmt: skip
        """Return the field at the end of a lead's interval, scaled, and the weight of the ``data`` branch in it."""
        number, sun = conditions.number, conditions.sun
        lasting, light, passing = (
            None if values is None else values[number] for values in (self.lasting, self.light, self.passing)
        )
        # Copied here where they must be: a copy within the function would have no history for second derivatives.
        sun, light, *tensors = (dense(tensor) for tensor in (sun, light, field, data, self.pack, lasting, passing))
        if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
            mixed, weight = _Lead.apply(self, number, sun, light, *tensors)
            return mixed, weight
        run = _Run(self, number, sun, light, *tensors)  # type: ignore[arg-type]
        return run.forward(recording=False)

    def shape(self, name: str) -> torch.Size:
        """Return the shape of a part of the pack."""
        return self.layout[name][1]

    def part(self, pack: Tensor, name: str, number: int | None = None) -> Tensor | None:
        """View a part of a pack, or None; of one lead with its ``number``."""
        if name not in self.layout:
            return None
        start, shape = self.layout[name]
        part = pack[start : start + shape.numel()].view(shape)
        return part if number is None else part[number]

    def network(self, pack: Tensor, which: str, number: int) -> list[Tensor | None]:
        """View what `network_kernel.apply_network` takes behind the sun."""
        return [self.part(pack, f"{which} {name}", number if name == "each" else None) for name in _NETWORK]

    def places(self, start: int, size: int, names: Sequence[str], number: int) -> list[int]:
        """Return addresses of parts in a pack that starts at an address, 0 for what is not there."""
        steps = [self.steps.get(name) for name in names]
        return [0 if step is None else start + size * (step[0] + number * step[1]) for step in steps]


def _parts_of(which: str, network: PreparedNetwork) -> dict[str, Tensor]:
    values = (network.first, network.each_ahead, network.lasting, network.factor, network.shift, network.last,
              network.bias)  # fmt: skip
    named = zip(_NETWORK, values, strict=True)
    return {f"{which} {name}": value for name, value in named if value is not None}


_CLOSURE_NAMES, _ROUTER_NAMES = ([f"{which} {name}" for name in _NETWORK] for which in ("closure", "router"))


def by_parts(
    program: LeadProgram, number: int, sun: Tensor | None, light: Tensor | None, field: Tensor, data: Tensor,
    pack: Tensor, lasting: Tensor | None, passing: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute the same from the parts as functions of torch, which have derivatives of second order."""
    radiation, around, regime = (program.part(pack, name) for name in _TERMS)
    terms = (program.part(pack, "bound"), lasting, light, radiation, around, regime, passing)
    rates = (program.part(pack, name) for name in _RATES)
    closure = program.network(pack, "closure", number)
    closure_sun = None if closure[0] is None else sun
    physics = interval_kernel.by_parts(program.course, number, field, closure_sun, *closure, *terms, *rates)
    return gate_kernel.by_parts(data, physics, sun, *program.network(pack, "router", number))


class _Run:
    """One lead: its inputs, all dense, and the kernels on them."""

    def __init__(
        self, program: LeadProgram, number: int, sun: Tensor | None, light: Tensor | None, field: Tensor, data: Tensor,
        pack: Tensor, lasting: Tensor | None, passing: Tensor | None,
    ) -> None:  # fmt: skip
        self.program, self.number, self.sun = program, number, sun
        self.field, self.data, self.pack = field, data, pack
        self.lasting, self.light, self.passing = lasting, light, passing
        self.has_closure = "closure first" in program.layout
        self.drives = self.has_closure or lasting is not None or "around" in program.layout
        self.decays = "regime" in program.layout
        self.start, self.size = pack.data_ptr(), pack.element_size()
        self.kernels = [
            network_kernel.kernel(int(field.dtype == torch.float64), shape[1], shape[0], field.shape[1])
            for shape in (program.shape(f"{which} last") for which in self._networks())
        ]
        self.terms_kernel = terms_kernel.kernel_of(field, program.course.surroundings)

    def _networks(self) -> tuple[str, ...]:
        return ("router", "closure") if self.has_closure else ("router",)

    def _network(self, names: Sequence[str], fields: Tensor, more: Tensor | None) -> bytes:
        weights = self.program.places(self.start, self.size, names, self.number)
        return struct.pack("10q", fields.data_ptr(), _place(more), _place(self.sun), *weights)

    def _terms(self, closure: Tensor | None) -> bytes:
        (bound,) = self._at("bound")
        course = self.program.course
        geometry = (None, None) if course.surroundings is None else course.surroundings.geometry
        return struct.pack(
            "13q", self.field.data_ptr(), _place(closure), bound, _place(self.lasting), _place(self.light),
            *self._at(*_TERMS), _place(self.passing), *map(_place, geometry), *map(_place, course.scale),
        )  # fmt: skip

    def _at(self, *names: str) -> list[int]:
        return self.program.places(self.start, self.size, names, self.number)

    def _apply(self, which: int, packed: bytes, *, recording: bool) -> tuple[Tensor, Tensor | None]:
        """Return the outputs of the router (0) or of the closure (1), and what it keeps for the way back."""
        kernel, (batch, _, ny, nx) = self.kernels[which], self.field.shape
        hidden = self.program.shape(f"{self._networks()[which]} last")[1]
        before = self.field.new_empty(batch, hidden, kernel.values(ny, nx)) if recording else None
        outputs = torch.empty_like(self.field)
        if kernel.forward(packed, batch, ny, nx, _place(before), outputs.data_ptr(), torch.get_num_threads()):
            raise MemoryError("no memory for the planes of a network")
        return outputs, before

    def forward(self, *, recording: bool) -> tuple[Tensor, Tensor]:
        """Return the mixture and its weight; what the way back needs is kept as ``saved``."""
        program, course, field, data = self.program, self.program.course, self.field, self.data
        closure = closure_before = None
        if self.has_closure:
            closure, closure_before = self._apply(1, self._network(_CLOSURE_NAMES, field, None), recording=recording)
        states = new_states(course.pattern, field, course.side, decays=self.decays, recording=recording)
        first = states[0]
        added, decay = (torch.empty_like(first) if there else None for there in (self.drives, self.decays))
        largest = 0.0 if course.surroundings is None else course.surroundings.largest
        results = struct.pack("3q", _place(added), _place(decay), first.data_ptr())
        if self.terms_kernel.forward(self._terms(closure), course.counts, largest, results):
            raise MemoryError("no memory for the rows of the terms")
        coefficients, gamma = (program.part(self.pack, name) for name in _RATES)
        assert coefficients is not None and gamma is not None
        record = run_forward(
            course.call, course.pattern, course.side, states, coefficients, gamma, added, decay,
            course.bases[self.number], recording=recording,
        )  # fmt: skip
        physics, (scale, centre) = torch.empty_like(field), course.scale
        self.terms_kernel.end(
            last_state(course.pattern, states).data_ptr(), scale.data_ptr(), centre.data_ptr(), physics.data_ptr(),
            course.counts,
        )  # fmt: skip
        outputs, before = self._apply(0, self._network(_ROUTER_NAMES, data, physics), recording=recording)
        mixed, weight = torch.empty_like(field), torch.empty_like(field)
        self.kernels[0].gate(
            field.numel(), outputs.data_ptr(), data.data_ptr(), physics.data_ptr(), mixed.data_ptr(), weight.data_ptr()
        )
        self.saved = (closure, closure_before, physics, before, weight)
        self.record = record
        return mixed, weight

    def backward(
        self, saved: Sequence[Tensor | None], record: Record, by_mixed: Tensor | None, by_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return the derivatives by field, data, pack, and by what lasts and passes."""
        closure, closure_before, physics, before, weight = saved
        assert physics is not None and before is not None and weight is not None
        program, course, field, data = self.program, self.program.course, self.field, self.data
        (batch, _, ny, nx), threads, count = field.shape, torch.get_num_threads(), field.numel()
        by_pack = torch.zeros_like(self.pack)
        start, router = by_pack.data_ptr(), self.kernels[0]
        by_outputs, by_data, by_physics = (torch.empty_like(field) for _ in range(3))
        router.begin_back(
            count, weight.data_ptr(), data.data_ptr(), physics.data_ptr(), _place(by_mixed), _place(by_weight),
            by_outputs.data_ptr(),
        )  # fmt: skip
        written = program.places(start, self.size, _ROUTER_NAMES, self.number)
        failed = router.backward(
            self._network(_ROUTER_NAMES, data, physics), batch, ny, nx, before.data_ptr(), by_outputs.data_ptr(),
            struct.pack("9q", by_data.data_ptr(), by_physics.data_ptr(), *written), threads,
        )  # fmt: skip
        if by_mixed is not None:
            router.end_back(count, weight.data_ptr(), by_mixed.data_ptr(), by_data.data_ptr(), by_physics.data_ptr())
        seeds = record.states.new_empty(2, *record.states.shape[1:])
        self.terms_kernel.begin_back(by_physics.data_ptr(), course.scale[0].data_ptr(), seeds.data_ptr(), course.counts)
        needed = (True, True, True, self.drives, self.decays, *(False for _ in course.bases[self.number]))
        coefficients, gamma = (program.part(self.pack, name) for name in _RATES)
        assert coefficients is not None and gamma is not None
        g = run_back(course.call, course.pattern, record, seeds, coefficients, gamma, needed)
        for name, by_rate in zip(_RATES, (g.coefficients, g.factor), strict=True):
            place = program.part(by_pack, name)
            assert place is not None and by_rate is not None
            place.copy_(by_rate)
        by_field, by_closure = by_outputs, None if closure is None else torch.empty_like(closure)
        by_lasting, by_passing = (None if t is None else torch.empty_like(t) for t in (self.lasting, self.passing))
        bound, *by_terms = program.places(start, self.size, ("bound", *_TERMS), self.number)
        largest = 0.0 if course.surroundings is None else course.surroundings.largest
        failed |= self.terms_kernel.backward(
            self._terms(closure), course.counts, largest,
            struct.pack("3q", _place(g.added), _place(g.decay), g.state.data_ptr()),
            struct.pack("8q", by_field.data_ptr(), _place(by_closure), bound, _place(by_lasting), *by_terms,
                        _place(by_passing)),
        )  # fmt: skip
        if by_closure is not None and closure_before is not None:
            written = program.places(start, self.size, _CLOSURE_NAMES, self.number)
            failed |= self.kernels[1].backward(
                self._network(_CLOSURE_NAMES, field, None), batch, ny, nx, closure_before.data_ptr(),
                by_closure.data_ptr(), struct.pack("9q", by_physics.data_ptr(), 0, *written), threads,
            )  # fmt: skip
            by_field.add_(by_physics)
        if failed:
            raise MemoryError("no memory for the derivatives of an interval")
        return by_field, by_data, by_pack, by_lasting, by_passing


def _place(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


class _Lead(Function):
    @staticmethod
    def forward(
        ctx: Any, program: LeadProgram, number: int, sun: Tensor | None, light: Tensor | None, *tensors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        run = _Run(program, number, sun, light, *tensors)  # type: ignore[arg-type]
        mixed, weight = run.forward(recording=True)
        ctx.set_materialize_grads(False)
        ctx.shared = (program, number, sun, light)
        ctx.save_for_backward(*tensors, *run.saved, *run.record.tensors())
        return mixed, weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        saved, needed = ctx.saved_tensors, ctx.needs_input_grad[4:]
        seeds = [gradient for gradient in gradients if gradient is not None]
        inputs, saved, rest = saved[:5], saved[5:10], saved[10:]
        if not seeds:
            return (None,) * 9
        if is_beyond_kernels(seeds[0]):
            return None, None, None, None, *_again(ctx.shared, inputs, gradients, needed)
        record = Record.of(ctx.shared[0].course.side, rest)
        by_mixed, by_weight = (dense(gradient) for gradient in gradients)
        return None, None, None, None, *_Run(*ctx.shared, *inputs).backward(saved, record, by_mixed, by_weight)


def _again(
    shared: tuple[Any, ...], inputs: Sequence[Tensor | None], gradients: Sequence[Tensor | None], needed: Sequence[bool]
) -> list[Tensor | None]:
    """Return derivatives that have derivatives."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases, for one input may be computed from another: each derivative is by that input's own use alone.
        aliases = [t.view_as(t) if want and t is not None else t for t, want in zip(inputs, needed, strict=True)]
        results = by_parts(*shared, *aliases)
        pairs = [(out, seed) for out, seed in zip(results, gradients, strict=True) if seed is not None]
        leaves = [a for a, want in zip(aliases, needed, strict=True) if want and a is not None]
        outputs, seeds = zip(*pairs, strict=True)
        got = iter(torch.autograd.grad(outputs, leaves, seeds, create_graph=again, allow_unused=True))
    return [next(got) if want and t is not None else None for t, want in zip(inputs, needed, strict=True)]
