"""A step on a GPU: estimated from bandwidth where there is none, measured where there is one.

The estimate is the time in which a device could move what the generated kernels load and store, at the bandwidth of its
data sheet. Real kernels reach a part of that; the figure says what to hope for, not what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..backends.triton.traffic import step_kernels, traffic
from ..errors import BackendError
from .problem import make_problem, surface_system
from .timing import interleaved

__all__ = ["BANDWIDTHS", "ESTIMATE", "device_ratios", "estimates"]

ESTIMATE = "estimate from bandwidth, not measured"
# GB/s, from the makers' data sheets: A100 80 GB SXM, H100 SXM, MI300X, GeForce RTX 4090.
BANDWIDTHS: Mapping[str, float] = {"A100": 2039.0, "H100": 3350.0, "MI300X": 5300.0, "RTX 4090": 1008.0}
SIZE = (1, 512, 768)


def estimates() -> dict[str, Any]:
    """Return microseconds of a step of the surface system in float32 for each device, alone and with its adjoint."""
    batch, ny, nx = SIZE
    cells = batch * ny * nx
    kernels = step_kernels(surface_system().compile(make_problem(*SIZE).grid, backend="fused"))
    forward, backward = traffic(kernels.forward), traffic(kernels.backward)

    def microseconds(moved: int, bandwidth: float) -> float:
        return moved * cells / (bandwidth * 1e9) * 1e6

    return {
        "basis": ESTIMATE,
        "grid": "x".join(map(str, SIZE)),
        "bytes_per_cell": {"forward": forward.moved, "backward": backward.moved},
        "least_bytes_per_cell": {"forward": forward.least, "backward": backward.least},
        "microseconds": {
            device: {
                "forward": microseconds(forward.moved, bandwidth),
                "forward_backward": microseconds(forward.moved + backward.moved, bandwidth),
            }
            for device, bandwidth in BANDWIDTHS.items()
        },
    }


def device_ratios(
    device: str = "cuda",
    *,
    quick: bool = False,
    backends: Sequence[str] = ("torch", "inductor", "triton"),
    shape: tuple[int, int, int] = SIZE,
) -> dict[str, Any]:
    """Time a step of the surface system on a device; the last of the backends is compared with each other one.

    Raises
    ------
    BackendError
        If torch finds no such device.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise BackendError(f"torch finds no device '{device}' here", do="leave out --device")
    problem = make_problem(*shape)
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    forward: dict[str, Callable[[], object]] = {}
    both: dict[str, Callable[[], object]] = {}
    for name in backends:
        forward[name], both[name] = _calls(name, device, problem, wait)
    rounds = (5, 3) if quick else (25, 15)
    cells = problem.cells
    timings = {
        "forward": {n: s / cells * 1e9 for n, s in interleaved(forward, rounds[0]).items()},
        "forward_backward": {n: s / cells * 1e9 for n, s in interleaved(both, rounds[1]).items()},
    }
    *others, ours = backends
    return {
        "device": torch.cuda.get_device_name() if device != "cpu" else "cpu",
        **{f"{kind}_vs": {n: each[n] / each[ours] for n in others} for kind, each in timings.items()},
        "ns_per_cell": timings,
    }


def _calls(
    backend: str, device: str, problem: Any, wait: Callable[[], object]
) -> tuple[Callable[[], object], Callable[[], object]]:
    module = surface_system().compile(problem.grid, backend=backend).to(device)
    state = problem.state.to(device).requires_grad_()
    closures = {name: value.to(device).requires_grad_() for name, value in problem.closures.items()}
    cotangent = torch.ones_like(state)
    leaves = [state, *closures.values(), module.coefficients.raw]

    def forward() -> None:
        with torch.no_grad():
            module.advance(state, closures, problem.dt)
        wait()

    def both() -> None:
        torch.autograd.grad(module.advance(state, closures, problem.dt), leaves, cotangent)
        wait()

    return forward, both
