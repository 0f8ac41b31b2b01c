"""Ratios of one step of the surface system: backends against the fastest eager form, and against the memory bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..integrators import RangeScaledEuler
from ..tendency import Tendency
from . import eager_step
from .gradients import gradient_errors
from .problem import Problem, make_problem, surface_system
from .timing import interleaved

__all__ = ["SIZES", "compiled", "measure", "pde_step_ratios"]

SIZES: Mapping[str, tuple[int, int, int]] = {"32x32x48": (32, 32, 48), "1x512x768": (1, 512, 768)}
MOVED = 13  # floats a cell that any step must move: 5 fields read, 5 written, 3 closures read
WEATHERGFT_FORWARD = 350.0  # ns a cell; its own operators on five surface channels, quoted, not measured here
PLAIN = ("slices", "roll")  # the eager forms one writes first
Call = Callable[[], object]


def pde_step_ratios(quick: bool = False, *, inductor: bool = False, fused: str = "fused") -> dict[str, Any]:
    """Time a step on one thread and return how much faster than eager torch the fused backend is.

    Parameters
    ----------
    quick : fewer rounds, for a look
    inductor : time ``torch.compile`` too, which compiles for up to a minute
    fused : backend to be measured

    Returns
    -------
    dict
        ``forward_vs_eager`` and ``forward_backward_vs_eager`` (against the faster of slices and roll),
        ``…_vs_tuned_eager`` (against the fastest eager form of all) and ``forward_vs_bound``, by size, for the
        unscaled step; the same under ``range`` for the range-scaled one; ``gradient_error``; nanoseconds a cell of
        every variant.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        backends = ("torch", *(("inductor",) if inductor else ()), fused)
        measured = {size: measure(make_problem(*shape), backends, quick=quick) for size, shape in SIZES.items()}
        errors = gradient_errors(make_problem(4, 32, 48), fused)
    finally:
        torch.set_num_threads(threads)
    return _summary(measured, fused, errors)


def measure(problem: Problem, backends: Sequence[str], *, quick: bool) -> dict[str, dict[str, float]]:
    """Return ns a cell of every variant, by ``forward``, ``forward_backward``, ``range_…``, and of the triad."""
    modules = {name: compiled(problem, name) for name in backends}
    timings: dict[str, dict[str, float]] = {}
    for scale in ("none", "range"):
        steps = {**_eager_variants(problem, scale), **{n: _backend_step(m, problem, scale) for n, m in modules.items()}}
        rounds = (5, 3) if quick else (25, 15)
        prefix = "" if scale == "none" else "range_"
        bound = {"triad": triad(problem.cells)} if scale == "none" else {}
        forward = {name: _forward(make(False)) for name, make in steps.items()}
        both = {name: _forward_backward(make(True), problem) for name, make in steps.items()}
        timings[f"{prefix}forward"] = _per_cell(interleaved({**forward, **bound}, rounds[0]), problem.cells)
        timings[f"{prefix}forward_backward"] = _per_cell(interleaved(both, rounds[1]), problem.cells)
    return timings


def compiled(problem: Problem, backend: str) -> Tendency:
    """Compile the surface system for the problem's grid."""
    return surface_system().compile(problem.grid, backend=backend)


def triad(cells: int) -> Call:
    """Return a call of ``c = a + s·b`` in place that moves as many floats as a step on that many cells."""
    a, b, c = torch.rand(3, MOVED * cells // 3).unbind(0)
    a, b, c = a.clone(), b.clone(), c.clone()
    return lambda: torch.add(a, b, alpha=0.5, out=c)


Step = tuple[Callable[[], Tensor], list[Tensor]]


def _leaves(problem: Problem, learn: bool) -> tuple[Tensor, dict[str, Tensor]]:
    state = problem.state.clone().requires_grad_(learn)
    return state, {name: value.clone().requires_grad_(learn) for name, value in problem.closures.items()}


def _eager_variants(problem: Problem, scale: str) -> dict[str, Callable[[bool], Step]]:
    at = eager_step.Geometry.of(problem.grid, problem.state.dtype)
    advance = eager_step.step if scale == "none" else eager_step.range_scaled

    def variant(form: str) -> Callable[[bool], Step]:
        def make(learn: bool) -> Step:
            state, closures = _leaves(problem, learn)
            coefficients = torch.tensor(list(problem.coefficients.values())).requires_grad_(learn)
            sources = list(closures.values())
            leaves = [state, *sources, coefficients]
            return lambda: advance(form, state, sources, coefficients, at, problem.dt), leaves

        return make

    return {f"eager_{form}": variant(form) for form in eager_step.FORMS}


def _backend_step(module: Tendency, problem: Problem, scale: str) -> Callable[[bool], Step]:
    scaled = None if scale == "none" else RangeScaledEuler(module, dt=problem.dt, rule="range")
    if scaled is not None:
        scaled.gamma.requires_grad_(False)  # the hand-written forms have no such factor

    def make(learn: bool) -> Step:
        state, closures = _leaves(problem, learn)
        leaves = [state, *closures.values(), module.coefficients.raw]
        if scaled is None:
            return lambda: module.advance(state, closures, problem.dt), leaves
        return lambda: scaled(state, closures=closures), leaves

    return make


def _forward(step: Step) -> Call:
    run, _ = step

    def call() -> None:
        with torch.no_grad():
            run()

    return call


def _forward_backward(step: Step, problem: Problem) -> Call:
    run, leaves = step
    cotangent = torch.randn(problem.state.shape, generator=torch.Generator().manual_seed(1))

    def call() -> None:
        torch.autograd.grad(run(), leaves, cotangent)

    return call


def _per_cell(seconds: Mapping[str, float], cells: int) -> dict[str, float]:
    return {name: value / cells * 1e9 for name, value in seconds.items()}


def _summary(
    measured: Mapping[str, dict[str, dict[str, float]]], fused: str, errors: dict[str, float]
) -> dict[str, Any]:
    def against(forms: Sequence[str], kind: str) -> dict[str, float]:
        fastest = {size: min(timings[kind][f"eager_{form}"] for form in forms) for size, timings in measured.items()}
        return {size: fastest[size] / timings[kind][fused] for size, timings in measured.items()}

    def against_bound(kind: str) -> dict[str, float]:
        return {size: timings[kind][fused] / timings["forward"]["triad"] for size, timings in measured.items()}

    every = tuple(eager_step.FORMS)
    return {
        "forward_vs_tuned_eager": against(every, "forward"),
        "forward_backward_vs_tuned_eager": against(every, "forward_backward"),
        "forward_vs_eager": against(PLAIN, "forward"),
        "forward_backward_vs_eager": against(PLAIN, "forward_backward"),
        "forward_vs_bound": against_bound("forward"),
        "vs_weathergft_quoted": {
            size: WEATHERGFT_FORWARD / own_timings["forward"][fused] for size, own_timings in measured.items()
        },
        "range": {
            "forward_vs_tuned_eager": against(every, "range_forward"),
            "forward_backward_vs_tuned_eager": against(every, "range_forward_backward"),
            "forward_vs_eager": against(PLAIN, "range_forward"),
            "forward_backward_vs_eager": against(PLAIN, "range_forward_backward"),
            "forward_vs_bound": against_bound("range_forward"),
        },
        "gradient_error": max(errors.values()),
        "gradient_errors": errors,
        "ns_per_cell": {size: dict(own_timings) for size, own_timings in measured.items()},
    }
