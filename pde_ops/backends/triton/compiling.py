"""Compile kernels for a device that is not here, and read what its compiler says of them.

No driver is asked: Triton's front end and the compilers that it brings (LLVM, ptxas) run as they would on the device.
They cannot run in a process whose Triton interprets (``TRITON_INTERPRET=1``).
"""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...errors import BackendError, UnknownNameError
from .availability import interpreted
from .binding import OPTIONS, block_size
from .emit import SweepNotes, emit
from .gather import GatherKernel
from .stored import StoredModule, imported_triton, stored_module
from .traffic import cell_bytes

__all__ = ["TARGETS", "SweepReport", "compiled_kernel"]

TARGETS: Mapping[str, tuple[str, int | str, int]] = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "gfx942": ("hip", "gfx942", 64),
}


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a compiler made of one kernel.

    Attributes
    ----------
    kernel : name; target : architecture; dtype, block, warps : of the kernel
    registers : of a thread; spills : bytes of its stack, where values go that found none (gfx942:
        vector registers that went there)
    shared_memory : bytes of a program
    loads, stores : of a cell, counted in Triton's intermediate code; what only programs at a border do, and what
        belongs to a row, is left out
    bytes_moved : of a cell, each array once: what memory has to give and take if neighbours are in a cache
    signature : types of its arguments, in order
    binary : bytes of machine code
    """

    kernel: str
    target: str
    dtype: str
    block: int
    warps: int
    registers: int
    spills: int
    shared_memory: int
    loads: int
    stores: int
    bytes_moved: int
    signature: tuple[tuple[str, str], ...]
    binary: int


def compiled_kernel(kernel: GatherKernel, nx: int, dtype: torch.dtype, target: str = "sm_80") -> list[SweepReport]:
    """Compile the sweeps of a kernel for one of :data:`TARGETS`."""
    if target not in TARGETS:
        raise UnknownNameError(f"no target '{target}'", do=f"known: {', '.join(TARGETS)}")
    if interpreted():
        raise BackendError("Triton interprets in this process", do="unset TRITON_INTERPRET and start again")
    emitted = emit(kernel, double=dtype == torch.float64)
    stored = stored_module(emitted.source)
    return [_compiled(stored, kernel, notes, nx, dtype, target) for notes in emitted.sweeps]


def _compiled(
    stored: StoredModule, kernel: GatherKernel, notes: SweepNotes, nx: int, dtype: torch.dtype, target: str
) -> SweepReport:
    triton = imported_triton()
    compiler = importlib.import_module("triton.compiler")
    backend = importlib.import_module("triton.backends.compiler")
    function = stored.function(notes.name)
    block, warps = block_size(nx, dtype, seeded=kernel.seeded)
    signature = _signature(function.arg_names, dtype)
    constants = {"BLOCK": block, "FIRST": True}
    source = compiler.ASTSource(fn=function, signature=signature, constexprs=constants)
    with stored.compiling():
        compiled = triton.compile(
            source, target=backend.GPUTarget(*TARGETS[target]), options={"num_warps": warps, **OPTIONS}
        )
    registers, spills, shared = _resources(compiled.asm, target)
    loads, stores = _accesses(compiled.asm["ttir"])
    binary = compiled.asm.get("cubin") or compiled.asm["hsaco"]
    size = torch.finfo(dtype).bits // 8
    types = tuple((name, kind) for name, kind in signature.items() if kind != "constexpr")
    return SweepReport(
        notes.name, target, str(dtype).removeprefix("torch."), block, warps, registers, spills,
        max(shared, int(compiled.metadata.shared)), loads, stores, cell_bytes(notes, size), types, len(binary),
    )  # fmt: skip


def _signature(names: Sequence[str], dtype: torch.dtype) -> dict[str, str]:
    real = "*fp64" if dtype == torch.float64 else "*fp32"
    types = {"sums": "*fp64", "plane": "i64", "BLOCK": "constexpr", "FIRST": "constexpr"}
    types |= dict.fromkeys(("batch", "ny", "nx", "programs"), "i32")
    return {name: types.get(name, "i64" if name.startswith(("sample", "line")) else real) for name in names}


def _accesses(code: str) -> tuple[int, int]:
    """Count loads and stores of whole blocks outside of branches."""
    depth, counts = 0, {"tt.load": 0, "tt.store": 0}
    for line in code.splitlines():
        opened = "scf.if" in line or "scf.for" in line
        depth += opened
        if depth and line.strip().startswith("}") and "else" not in line:
            depth -= 1
        if depth == 0:
            for name in counts:
                counts[name] += bool(re.search(rf"\b{re.escape(name)}\b", line)) and "tensor<" in line
    return counts["tt.load"], counts["tt.store"]


def _resources(code: Mapping[str, Any], target: str) -> tuple[int, int, int]:
    """Return registers, spills and shared memory."""
    if "cubin" not in code:
        text = code["amdgcn"]
        entries = dict(re.findall(r"\.(vgpr_count|vgpr_spill_count|group_segment_fixed_size):\s+(\d+)", text))
        counts = (int(entries.get(k, 0)) for k in ("vgpr_count", "vgpr_spill_count", "group_segment_fixed_size"))
        registers, spills, shared = counts
        return registers, spills, shared
    tool = imported_triton().knobs.nvidia.cuobjdump.path
    with tempfile.TemporaryDirectory(prefix="pde_ops-") as work:
        binary = Path(work) / "kernel.cubin"
        binary.write_bytes(code["cubin"])
        command = [tool, "--dump-resource-usage", str(binary)]
        report = subprocess.run(command, capture_output=True, text=True, check=False)
    usage = dict(re.findall(r"\b(REG|STACK|LOCAL|SHARED):(\d+)", report.stdout))
    if report.returncode != 0 or "REG" not in usage:
        raise BackendError(f"cuobjdump cannot read a compiled kernel: {report.stderr.strip()[:400]}", do="report it")
    return int(usage["REG"]), int(usage["STACK"]) + int(usage["LOCAL"]), int(usage["SHARED"])
