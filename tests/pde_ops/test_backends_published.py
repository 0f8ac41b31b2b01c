"""A backend of a third party: published by an entry point, taken by name, imported when it is asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Steps in double precision whatever the state has: slower, and the numbers of the baseline rounded later.
PLUGIN = """
from dataclasses import replace

from pde_ops.backends import make_runner, step_by_step


class DoubleRunner:
    def __init__(self, program, grid):
        self.plain, self.grid = make_runner("torch", program, grid), grid

    def tendency(self, inputs):
        state = inputs.state.double()
        wide = replace(inputs, state=state, grid=self.grid.bind(state.dtype, state.device),
                       coefficients=inputs.coefficients.double())
        return self.plain.tendency(wide).to(inputs.state.dtype)

    def advance(self, inputs, dt, factor):
        gain = dt * self.tendency(inputs)
        return inputs.state + (gain if factor is None else factor[:, None, None] * gain)

    def march(self, inputs, march):
        return step_by_step(self, inputs, march)

    def describe(self):
        return "torch in double precision"
"""
RUN = """
import json, sys
import torch
import pde_ops as po
from pde_ops.backends import backends
from pde_ops.ops import laplacian

listed, imported = "double" in backends.list(), "their_backend" in sys.modules
c = po.Field("c", "kg/kg")
system = po.PDESystem("diffusion", {c: po.Positive("kappa", "m**2/s", init=2.0) * laplacian(c)})
grid = po.Grid2D.plane(ny=6, nx=8, dx=1.0, dy=1.0)
torch.manual_seed(0)
state = torch.rand(1, 1, 6, 8)
results = {name: system.compile(grid, backend=name) for name in ("torch", "double")}
steps = {name: tendency.advance(state, {}, dt=0.05) for name, tendency in results.items()}
for step in steps.values():
    step.square().sum().backward()
gradients = [next(iter(tendency.parameters())).grad for tendency in results.values()]
print(json.dumps({
    "listed": listed, "imported": imported, "owner": backends.owner("double"),
    "runs": results["double"].runner.describe(), "dtype": str(steps["double"].dtype),
    "apart": float((steps["double"] - steps["torch"]).abs().max()),
    "gradients_apart": float((gradients[0] - gradients[1]).abs().max() / gradients[0].abs().max()),
}))
"""


def test_a_backend_published_by_an_entry_point_steps_a_system_and_its_adjoint(tmp_path: Path) -> None:
    (tmp_path / "their_backend.py").write_text(PLUGIN)
    info = tmp_path / "their_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pde_ops.backends]\ndouble = their_backend:DoubleRunner\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["listed"] and not seen["imported"], "a backend is listed without being imported"
    assert seen["owner"].startswith("their_backend") and "double precision" in seen["runs"]
    assert seen["dtype"] == "torch.float32"
    # Both are the same sums; the baseline rounds each of some ten to single precision.
    assert seen["apart"] < 1e-6 and seen["gradients_apart"] < 1e-5
