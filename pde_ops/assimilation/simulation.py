"""The model between control vector and observations, with its tangent and its adjoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call

from ..errors import DivergedError
from ..integrators.base import Closures, Integrator
from ..integrators.replay import replayed
from ..integrators.trajectory import check_finite
from .binding import Bound
from .layout import Inputs, Layout

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Simulation"]

Tensors = tuple[Tensor, ...]


class Simulation:
    """Equivalents of observations as a function of the control vector.

    Attributes
    ----------
    length : steps between stored states, None to store all
    """

    def __init__(
        self,
        step: Integrator,
        steps: int,
        closures: Callable[[int], Closures],
        layout: Layout,
        observations: Sequence[Bound],
        length: int | None,
    ) -> None:
        self.step, self.steps, self.closures, self.layout = step, steps, closures, layout
        self.observations, self.length = observations, length
        self.every = layout.every()
        self._raw = next(name for name, p in step.named_parameters() if p is step.tendency.coefficients.raw)

    def closures_at(self, number: int, sources: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the closures of a step, corrected."""
        closures = dict(self.closures(number))
        for name, correction in sources.items():
            piece = correction[number // self.every[name]][None]
            closures[name] = closures[name] + piece if name in closures else piece
        return closures

    def advance(self, state: Tensor, raw: Tensor, number: int, sources: Mapping[str, Tensor]) -> Tensor:
        """Return the state a step later; no gradient enters what is not sought."""
        parameters = {name: p.detach() for name, p in self.step.named_parameters()}
        arguments = (state, self.closures_at(number, sources))
        advanced: Tensor = functional_call(self.step, {**parameters, self._raw: raw}, arguments)
        return advanced

    def equivalents(self, chi: Float[Tensor, " control"]) -> list[Tensor]:
        """Return the equivalents of every set of observations, SI; differentiable, in bounded memory.

        Raises
        ------
        DivergedError
            If the state or an equivalent is not finite.
        """
        inputs = self.layout.inputs(chi)
        state, sources = inputs.state, list(inputs.sources.values())
        collected = [(0, self._sampled(state, 0))]
        for first in range(0, self.steps, self.length or self.steps):
            numbers = range(first, min(first + (self.length or self.steps), self.steps))
            run = self._stretch(numbers, list(inputs.sources))
            arguments = (state, inputs.raw, *sources)
            *samples, state = run(*arguments) if self.length is None else replayed(run, *arguments)
            remaining = iter(samples)
            for number in numbers:
                present = [next(remaining) for bound in self.observations if number + 1 in bound.visits]
                collected.append((number + 1, tuple(present)))
        check_finite(self.step, state, self.steps)
        return self._assembled(chi, collected)

    def tangent(self, chi: Tensor, direction: Tensor, forward_mode: bool = False) -> list[Tensor]:
        """Return the change of the equivalents along a direction, step by step: nothing is stored.

        Parameters
        ----------
        forward_mode : differentiate forwards, which owes nothing to the adjoint and takes torch several times as long,
            wherever every operation can; otherwise the adjoint is differentiated
        """
        derivative = _by_forward_mode if forward_mode else _by_double_backward
        names: list[str] = []

        def start(x: Tensor) -> Tensors:
            inputs = self.layout.inputs(x)
            names[:] = list(inputs.sources)
            return (inputs.state, inputs.raw, *inputs.sources.values())

        present, slopes = derivative(start, (chi.detach(),), (direction,))
        collected: list[tuple[int, Tensors]] = []
        if any(0 in bound.visits for bound in self.observations):
            collected.append((0, derivative(lambda x: self._sampled(x, 0), present[:1], slopes[:1])[1]))
        for number in range(self.steps):
            run = self._stretch(range(number, number + 1), names)
            (*_, state), (*changes, change) = derivative(run, present, slopes)
            present, slopes = (state, *present[1:]), (change, *slopes[1:])
            collected.append((number + 1, tuple(changes)))
        return self._assembled(chi, collected)

    def states(self, inputs: Inputs, keep: int) -> Tensor:
        """Return every ``keep``-th state, the initial one included."""
        states, state = [inputs.state], inputs.state
        for number in range(self.steps):
            state = self.advance(state, inputs.raw, number, inputs.sources)
            if (number + 1) % keep == 0:
                states.append(state)
        check_finite(self.step, state, self.steps)
        return torch.stack(states)

    def _stretch(self, numbers: range, names: Sequence[str]) -> Callable[..., Tensors]:
        """Return some steps as a function: samples after each of them, then the state."""

        def run(state: Tensor, raw: Tensor, *sources: Tensor) -> Tensors:
            corrections = dict(zip(names, sources, strict=True))
            samples: list[Tensor] = []
            for number in numbers:
                state = self.advance(state, raw, number, corrections)
                samples += self._sampled(state, number + 1)
            return (*samples, state)

        return run

    def _sampled(self, state: Tensor, step: int) -> Tensors:
        samples = (bound.sample(state, step) for bound in self.observations)
        return tuple(sample for sample in samples if sample is not None)

    def _assembled(self, chi: Tensor, collected: Sequence[tuple[int, Tensors]]) -> list[Tensor]:
        """Add up the samples of each observation over the steps that take part."""
        parts: list[list[Tensor]] = [[] for _ in self.observations]
        rows: list[list[Tensor]] = [[] for _ in self.observations]
        for step, samples in collected:
            visitors = [index for index, bound in enumerate(self.observations) if step in bound.visits]
            for index, sample in zip(visitors, samples, strict=True):
                parts[index].append(sample)
                rows[index].append(self.observations[index].visits[step].rows)
        results = []
        for bound, pieces, where in zip(self.observations, parts, rows, strict=True):
            total = torch.zeros(len(bound), dtype=chi.dtype, device=chi.device)
            results.append(total.index_add(0, torch.cat(where), torch.cat(pieces)))
            if not torch.isfinite(results[-1].detach()).all():
                raise DivergedError(
                    f"{bound.name}: {int((~torch.isfinite(results[-1])).sum())} of {len(bound)} equivalents in the "
                    "model are not finite",
                    do="look at the function that computes them, and at the background",
                )
        return results


def _by_forward_mode(function: Callable[..., Tensors], inputs: Tensors, tangents: Tensors) -> tuple[Tensors, Tensors]:
    """Return values and directional derivatives; of what only knows backward, by `_by_double_backward`."""
    try:
        with torch.no_grad():
            values, slopes = torch.func.jvp(function, inputs, tangents)  # type: ignore[misc]  # three with has_aux
    except RuntimeError:
        return _by_double_backward(function, inputs, tangents)
    return values, slopes


def _by_double_backward(
    function: Callable[..., Tensors], inputs: Tensors, tangents: Tensors
) -> tuple[Tensors, Tensors]:
    r"""Differentiate :math:`J^\top w`, which is linear in :math:`w`, by :math:`w`: the result is :math:`J v`."""
    with torch.enable_grad():
        points = tuple(t.detach().requires_grad_() for t in inputs)
        values = function(*points)
        moving = [value.requires_grad for value in values]
        chosen = [value for value, moves in zip(values, moving, strict=True) if moves]
        if not chosen:
            return values, tuple(torch.zeros_like(value) for value in values)
        seeds = [torch.zeros_like(value, requires_grad=True) for value in chosen]
        pulled = torch.autograd.grad(
            chosen, points, seeds, create_graph=True, allow_unused=True, materialize_grads=True
        )
        slopes = torch.autograd.grad(pulled, seeds, tangents, allow_unused=True, materialize_grads=True)
    remaining = iter(slopes)
    results = tuple(next(remaining) if moves else torch.zeros_like(v) for v, moves in zip(values, moving, strict=True))
    return tuple(v.detach() for v in values), results
