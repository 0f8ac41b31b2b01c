"""Cases of the Triton backend in Triton's interpreter; `python triton_cases.py GROUP…` prints the outcomes as JSON.

Whether Triton interprets is decided when it is imported, so the cases run in a process of their own: one for many
cases, for it takes seconds to start. A case gives a distance from the torch baseline with its tolerance, or
what was raised.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
ROUNDING = {"float64": 1e-11, "float32": 1e-5}  # the tolerances of the CPU kernel, see test_hypothesis_systems
SIZES = {"u": (-12.0, 12.0), "v": (-12.0, 12.0), "p": (9.5e4, 1.03e5), "theta": (275.0, 305.0), "q": (1e-3, 2e-2)}
ALOFT = {
    "column": (-5.0, 5.0), "depth": (20.0, 220.0), "volume": (0.7, 1.2), "mean_x": (-20.0, 20.0),
    "mean_y": (-20.0, 20.0), "sun": (-1.0, 1.0),
}  # fmt: skip
SOURCES = {"S_u": 1e-3, "S_v": 1e-3, "S_p": 1e-2, "S_theta": 1e-4, "S_q": 1e-7}

Case = Callable[[], tuple[float, float]]


def cases(group: str) -> Iterator[tuple[str, Case]]:
    """Yield the cases of a group by name."""
    yield from {
        "systems": systems, "borders": borders, "all borders": all_borders, "steps": steps, "staged": staged,
        "refusals": refusals, "operators": operators, "gallery": gallery, "drawn": lambda: drawn(2, 1),
        "many drawn": lambda: drawn(40, 3), "all systems": all_systems,
    }[group]()  # fmt: skip


def parity(system: Any, grid: Any, ranges: Any, dtype: str, dt: float | None = 300.0, batch: int = 1) -> Case:
    import torch

    from pde_ops.testing.strategies import DrawnSystem, worst_difference

    def run() -> tuple[float, float]:
        maps = {s.name: False for s in system.statics if s.name in ranges}
        drawn_system = DrawnSystem(system, grid, ranges, maps, 5, batch)
        return worst_difference(drawn_system, "triton", getattr(torch, dtype), dt=dt), ROUNDING[dtype]

    return run


def ranges_of(system: Any) -> dict[str, tuple[float, float]]:
    """Ranges of the state of a model's system, its base state and its closures."""
    is_anomaly = any(c.name == "u_b" for c in system.closures)
    ranges = {name: (-0.05 * (high - low), 0.05 * (high - low)) if is_anomaly else (low, high)
              for name, (low, high) in SIZES.items()}  # fmt: skip
    if any(f.name == "column" for f in system.fields):
        ranges["column"] = ALOFT["column"]
    for closure in system.closures:
        name, _, field = closure.name.partition("_")
        if field == "b":
            ranges[closure.name] = SIZES[name]
        elif closure.name in ALOFT:
            ranges[closure.name] = ALOFT[closure.name]
        elif name == "lambda":
            ranges[closure.name] = (0.0, 1e-5)
        else:
            size = SOURCES[f"S_{field}"]
            ranges[closure.name] = (-size, size)
    return ranges


def latlon(ny: int, nx: int, boundary: Any = "zero_gradient") -> Any:
    import numpy as np

    import pde_ops as po

    return po.Grid2D.from_latlon(40.0 + 0.5 * np.arange(ny), 0.7 * np.arange(nx), boundary=boundary)


def of_model(names: dict[str, tuple[int, int, str, int]]) -> Iterator[tuple[str, Case]]:
    from stationpde.physics import system_cards

    for name, (ny, nx, dtype, batch) in names.items():
        system = system_cards.SYSTEMS[name.split()[0]]()
        yield f"{name} {dtype}", parity(system, latlon(ny, nx), ranges_of(system), dtype, batch=batch)


def systems() -> Iterator[tuple[str, Case]]:
    yield from of_model({
        "surface": (3, 7, "float32", 2), "anomaly": (2, 5, "float64", 1), "extended": (2, 3, "float32", 1),
        "upper": (2, 4, "float64", 1),
    })  # fmt: skip


def all_systems() -> Iterator[tuple[str, Case]]:
    from stationpde.physics import equations

    for dtype in ROUNDING:
        for name in ("surface", "anomaly", "extended", "upper"):
            yield from of_model({f"{name}": (5, 7, dtype, 2)})
        yield from of_model({"surface row": (2, 37, dtype, 1), "surface column": (13, 3, dtype, 1)})
        forced = equations.anomaly(force=True)
        yield f"forced {dtype}", parity(forced, latlon(3, 5), ranges_of(forced), dtype)


BODIES = {"zero_gradient": ("", 2), "periodic": ("y", 1), "reflecting": ("x", 2)}


def borders() -> Iterator[tuple[str, Case]]:
    """Every kind along x meets another along y, in stencils of both radii, with components that walls turn."""
    kinds = list(BODIES)
    for k, x in enumerate(kinds):
        odd, radius = BODIES[x]
        yield bordered((x, kinds[(k + 1) % 3]), [(odd or None, radius)])


def all_borders() -> Iterator[tuple[str, Case]]:
    everything = [(odd, radius) for odd in (None, "x", "y") for radius in (1, 2)]
    for x in BODIES:
        for y in BODIES:
            yield bordered((x, y), everything)
    module = importlib.import_module("test_fused_borders")
    for boundary in BODIES:
        yield (
            f"radius of the grid, {boundary}",
            quietly(lambda boundary=boundary: module.test_a_radius_as_large_as_the_grid_matches_torch(boundary)),
        )
    for pair in (("reflecting", "periodic"), ("zero_gradient", "reflecting")):
        yield (
            f"stages, {pair}",
            quietly(lambda pair=pair: module.test_neighbours_of_computed_quantities_have_their_own_ghosts(pair)),
        )
    yield "values per row", quietly(module.test_values_per_row_have_neighbours_too)


def quietly(test: Callable[[], None]) -> Case:
    """Run a test of the fused backend on this one; it raises where the two differ."""

    def run() -> tuple[float, float]:
        import fused_cases
        from pde_ops.backends.triton.runner import TritonRunner

        fused_cases.FusedRunner = TritonRunner
        test()
        return 0.0, 1.0

    return run


def bordered(boundary: tuple[str, str], shapes: list[tuple[str | None, int]]) -> tuple[str, Case]:
    from test_fused_borders import everything

    import fused_cases

    def run() -> tuple[float, float]:
        from pde_ops.backends.triton.runner import TritonRunner

        fused_cases.FusedRunner = TritonRunner
        program = fused_cases.made_of([everything(odd, radius) for odd, radius in shapes], fields=2)
        # An output a body, and two fields that they read.
        state = fused_cases.noise(1, max(2, len(shapes)), 3, 5, seed=3)[:, : max(2, len(shapes))]
        if len(shapes) < 2:
            program = fused_cases.made_of([everything(*shapes[0]), everything(*shapes[0])], fields=2)
        return fused_cases.worst_error(program, fused_cases.sphere(3, 5, boundary), state), 1e-12

    return f"{' and '.join(boundary)}, {shapes}", run


def operators() -> Iterator[tuple[str, Case]]:
    import pde_ops as po
    from pde_ops.testing.backend_checks import parity_error
    from pde_ops.testing.samples import BORDERS

    for border in BORDERS:
        for name in po.operators.list():
            yield f"{name}, {border}", (
                lambda name=name, border=border: (
                    parity_error(po.operators[name], border, "triton", shape=(1, 5, 7)), 1e-5
                )
            )  # fmt: skip


def gallery() -> Iterator[tuple[str, Case]]:
    import pde_ops as po

    sys.path.insert(0, str(REPOSITORY / "docs/gallery"))
    plane = po.Grid2D.plane(7, 5, dx=2e4, f=1e-4, boundary="periodic")
    shallow = importlib.import_module("shallow_water").shallow_water
    eddies = importlib.import_module("inverse").eddies
    plume = importlib.import_module("plume").plume
    wind = {"u": (-10.0, 10.0), "v": (-10.0, 10.0)}
    for dtype in ROUNDING:
        yield f"shallow water {dtype}", parity(shallow, plane, {**wind, "h": (-1.0, 1.0)}, dtype)
        yield f"eddies {dtype}", parity(eddies, plane, {**wind, "T": (280.0, 300.0)}, dtype)
        moved = {**wind, "m": (0.0, 1e-3), "d": (0.0, 1e-3), "depth": (0.5, 1.5), "kappa": (10.0, 1e3)}
        yield f"plume {dtype}", parity(plume, latlon(5, 7), {**moved, "source": (0.0, 1e-6)}, dtype)


def drawn(count: int, terms: int) -> Iterator[tuple[str, Case]]:
    """Systems of the hypothesis strategy; the worst of them counts."""
    import math

    import torch
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    from pde_ops.testing.strategies import systems as drawn_systems
    from pde_ops.testing.strategies import worst_difference

    for dtype, tolerance in ROUNDING.items():

        def run(dtype: str = dtype, tolerance: float = tolerance) -> tuple[float, float]:
            seen: list[float] = []

            @settings(max_examples=count, phases=[Phase.generate], database=None, deadline=None, derandomize=count < 9,
                      suppress_health_check=list(HealthCheck))  # fmt: skip
            @given(drawn_systems(max_terms=terms, max_fields=2), st.sampled_from([None, 1000.0]))
            def compare(system: Any, dt: float | None) -> None:
                off = worst_difference(system, "triton", getattr(torch, dtype), dt=dt)
                seen.append(0.0 if math.isnan(off) else off)
                assert seen[-1] <= tolerance

            compare()
            return max(seen), tolerance

        yield f"drawn {dtype}", run


def reaction(backend: str) -> Any:
    import test_fused_second_order

    return test_fused_second_order.compiled(backend)


def leaves_of(side: Any) -> tuple[Any, Any, Any, list[Any]]:
    import torch

    from fused_cases import noise

    x, s = noise(2, 1, 4, 5, seed=1).requires_grad_(), noise(2, 4, 5, seed=2).requires_grad_()
    factor = torch.tensor([0.8], dtype=torch.float64).requires_grad_()
    return x, s, factor, [x, s, factor, side.coefficients.raw]


def steps() -> Iterator[tuple[str, Case]]:
    """Every way of stepping: marches, decay, scale rules; values, derivatives and derivatives of those."""
    import torch
    from test_fused_second_order import WAYS

    from fused_cases import noise, relative

    for name, way in WAYS.items():

        def run(way: Any = way) -> tuple[float, float]:
            results = []
            for backend in ("torch", "triton"):
                side = reaction(backend)
                x, s, factor, leaves = leaves_of(side)
                result = way(side, x, s, factor)
                weights = noise(*result.shape, seed=3)
                grads = torch.autograd.grad((result * weights).sum(), leaves)
                again = torch.autograd.grad((way(side, x, s, factor) * weights).sum(), leaves, create_graph=True)
                second = torch.autograd.grad(sum(g.square().sum() for g in again), leaves)
                results.append([result.detach(), *grads, *second])
            return max(relative(a, b) for a, b in zip(*results, strict=True)), 1e-10

        yield name, run

    def never_waiting() -> tuple[float, float]:
        """Nothing in a march asks the device for a number, on the way back neither."""
        from torch.utils._python_dispatch import TorchDispatchMode

        asked: list[str] = []

        class Watching(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if function.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero", "equal", "is_nonzero"):
                    asked.append(str(function))
                return function(*args, **(kwargs or {}))

        side = reaction("triton")
        x, s, factor, leaves = leaves_of(side)
        with Watching():
            torch.autograd.grad(WAYS["decay"](side, x, s, factor).sum(), leaves)
            float(torch.ones(()))
        return float(len(asked) - 1), 0.0  # the one that shows that asking is seen

    yield "a march does not wait", never_waiting


def staged() -> Iterator[tuple[str, Case]]:
    """torch.compile as one graph, and fake tensors."""
    import torch
    from test_fused_second_order import WAYS
    from torch._subclasses.fake_tensor import FakeTensorMode

    from fused_cases import relative

    for name in ("rate", "advance", "decay"):

        def run(name: str = name) -> tuple[float, float]:
            side = reaction("triton")
            x, s, factor, leaves = leaves_of(side)
            whole = torch.compile(lambda *a: WAYS[name](side, *a), fullgraph=True, backend="aot_eager")
            results = []
            for function in (lambda *a: WAYS[name](side, *a), whole):
                result = function(x, s, factor)
                results.append([result.detach(), *torch.autograd.grad(result.square().sum(), leaves)])
            return max(relative(a, b) for a, b in zip(*results, strict=True)), 1e-14

        yield f"compiled {name}", run

    def fake() -> tuple[float, float]:
        side = reaction("triton")
        with FakeTensorMode(allow_non_fake_inputs=True):
            x = torch.empty(2, 1, 4, 5, dtype=torch.float64).requires_grad_()
            result = side.advance(x, {"S": torch.empty(2, 4, 5, dtype=torch.float64)}, 0.1)
            result.sum().backward()
        return float(result.shape != x.shape or x.grad.shape != x.shape), 0.0

    yield "fake tensors", fake

    def model() -> tuple[float, float]:
        """A system with statics of the grid, and closures."""
        from pde_ops.benchmarking import make_problem, surface_system

        problem = make_problem(1, 3, 5)
        side = surface_system().compile(problem.grid, backend="triton")
        run = lambda state: side.advance(state, problem.closures, problem.dt)
        whole = torch.compile(run, fullgraph=True, backend="aot_eager")
        return relative(run(problem.state), whole(problem.state)), 0.0

    yield "compiled surface", model


def refusals() -> Iterator[tuple[str, Case]]:
    """Bad input: what is refused is refused in words, what can be computed is computed."""
    import torch

    from pde_ops.errors import BackendError, ShapeError

    def refused(kind: type[Exception], words: str, act: Callable[[], Any]) -> Case:
        def run() -> tuple[float, float]:
            try:
                act()
            except kind as problem:
                return float(words not in str(problem)), 0.0
            return 1.0, 0.0

        return run

    side = reaction("triton")
    x, s = torch.rand(2, 1, 4, 5, dtype=torch.float64), torch.rand(2, 4, 5, dtype=torch.float64)
    yield "mixed devices", refused(ShapeError, "move one of them", lambda: side(x, {"S": s.to("meta")}))
    yield "wrong dtype", refused(ShapeError, "float32", lambda: side(x.float(), {"S": s}))
    half = reaction("triton").to(torch.bfloat16)
    yield "half precision", refused(BackendError, "float32 or float64", lambda: half(x.bfloat16(), {"S": s.bfloat16()}))
    yield "no cells", refused(ShapeError, "must be [batch", lambda: side(x[..., :0], {"S": s}))

    def strided() -> tuple[float, float]:
        wide, tall = x.movedim(-1, 0).contiguous().movedim(0, -1), s.transpose(1, 2).contiguous().transpose(1, 2)
        return float((side(wide, {"S": tall}) - side(x, {"S": s})).abs().max()), 0.0

    yield "not contiguous", strided

    def empty() -> tuple[float, float]:
        none = x[:0].requires_grad_()
        result = side.advance(none, {"S": s[:0]}, 0.1)
        result.sum().backward()
        raw = side.coefficients.raw.grad
        return float(result.shape != none.shape or raw is None or bool(raw.any())), 0.0

    yield "a batch of none", empty


def main(groups: list[str]) -> None:
    outcome: dict[str, Any] = {}
    for group in groups:
        for name, case in cases(group):
            try:
                error, tolerance = case()
                outcome[f"{group}: {name}"] = {"error": error, "tolerance": tolerance}
            except Exception as problem:  # noqa: BLE001  # whatever it is, the test shows it
                outcome[f"{group}: {name}"] = {"raised": f"{type(problem).__name__}: {problem}"[:2000]}
            print(f"{group}: {name}: {outcome[f'{group}: {name}']}", file=sys.stderr, flush=True)
    print(json.dumps(outcome))


if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"
    sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests/pde_ops")]
    main(sys.argv[1:])
