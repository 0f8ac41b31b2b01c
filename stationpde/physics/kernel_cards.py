"""Cards of the GPU kernels of the model's systems, as compilers made them for a device that need not be here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from pde_ops import Grid2D
from pde_ops.backends.triton.compiling import SweepReport, compiled_kernel
from pde_ops.backends.triton.traffic import Traffic, step_kernels, traffic
from pde_ops.errors import UnknownNameError
from stationpde.physics import system_cards

__all__ = ["KernelCard", "card"]

SIDE = 256  # rows and columns of the grid that block sizes are chosen for
DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True, slots=True)
class KernelCard:
    """Kernels of an Euler step of a system and of its adjoint.

    Attributes
    ----------
    sweeps : (direction, report) of each kernel and dtype
    traffic : of each direction, in float32
    """

    name: str
    target: str
    sweeps: Sequence[tuple[str, SweepReport]]
    traffic: Mapping[str, Traffic]

    COLUMNS: ClassVar[list[str]] = [
        "kernel", "dtype", "columns × warps", "registers", "spills", "shared memory", "loads", "stores", "bytes a cell",
    ]  # fmt: skip

    def headline(self) -> str:
        """Return what the table is about, and how much the kernels move against the least possible."""
        parts = [
            f"{direction} {each.moved} bytes a cell in float32, at least {each.least} ({each.moved / each.least:.2f} ×)"
            for direction, each in self.traffic.items()
        ]
        head = f"{self.name}: Triton kernels of an Euler step, compiled for {self.target}, not run"
        return "\n".join([head, *parts, "loads and stores of a cell away from borders; spills in bytes of a thread"])

    def rows(self) -> list[list[str]]:
        """Return the table, a kernel a line."""
        return [
            [
                f"{direction} {r.kernel}", r.dtype, f"{r.block} × {r.warps}", str(r.registers), str(r.spills),
                str(r.shared_memory), str(r.loads), str(r.stores), str(r.bytes_moved),
            ]
            for direction, r in self.sweeps
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain values."""
        return {
            "name": self.name,
            "target": self.target,
            "kernels": [{"direction": direction, **asdict(report)} for direction, report in self.sweeps],
            "traffic": {direction: asdict(each) for direction, each in self.traffic.items()},
        }


def card(name: str, backend: str = "triton", target: str = "sm_80") -> KernelCard:
    """Compile the kernels of one of the model's systems and return what the compiler says of them."""
    if backend != "triton":
        raise UnknownNameError(f"no kernels of backend '{backend}' to show", do="pass --backend triton")
    if name not in system_cards.SYSTEMS:
        names = ", ".join(system_cards.SYSTEMS)
        raise UnknownNameError(f"'{name}' is no system of equations whose kernels could be shown", do=f"known: {names}")
    grid = Grid2D.from_latlon(np.linspace(40.0, 50.0, SIDE), np.linspace(0.0, 10.0, SIDE))
    kernels = step_kernels(system_cards.SYSTEMS[name]().compile(grid, backend="triton"))
    ways = {"forward": kernels.forward, "backward": kernels.backward}
    sweeps = [
        (direction, report)
        for direction, kernel in ways.items()
        for dtype in DTYPES
        for report in compiled_kernel(kernel, SIDE, dtype, target)
    ]
    return KernelCard(name, target, sweeps, {direction: traffic(kernel) for direction, kernel in ways.items()})
