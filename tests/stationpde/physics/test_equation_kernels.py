"""Triton kernels of the model's equations, as compilers make them for devices that are not here, and what they move."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch

import pde_ops as po
from pde_ops.backends.triton.traffic import StepKernels, step_kernels, traffic
from stationpde.physics import system_cards

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
DTYPES = (torch.float32, torch.float64)
SYSTEMS = tuple(system_cards.SYSTEMS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATIONPDE_CACHE", str(tmp_path))


def kernels_of(name: str) -> StepKernels:
    grid = po.Grid2D.from_latlon(np.linspace(40.0, 50.0, 64), np.linspace(0.0, 10.0, 256))
    return step_kernels(system_cards.SYSTEMS[name]().compile(grid, backend="fused"))


@needs_triton
def test_the_surface_step_compiles_without_spills_and_with_wide_offsets() -> None:
    from pde_ops.backends.triton.compiling import compiled_kernel

    (report,) = compiled_kernel(kernels_of("surface").forward, 256, torch.float32, "sm_80")
    assert report.spills == 0 and 32 <= report.registers <= 255
    # Five fields with four neighbours each, three closures; what belongs to a row is no load of a cell.
    assert (report.loads, report.stores) == (5 * 5 + 3, 5)
    assert report.binary > 1000 and report.bytes_moved == 13 * 4
    kinds = dict(report.signature)
    # More than 2³¹ elements: samples and rows begin at 64-bit offsets, a program counts in 32 bits.
    assert kinds["plane"] == kinds["sample0"] == kinds["line0"] == "i64" and kinds["programs"] == "i32"


@needs_triton
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_compiles_for_every_target(name: str, target: str) -> None:
    from pde_ops.backends.triton.compiling import compiled_kernel

    kernels = kernels_of(name)
    for dtype in DTYPES:
        (forward,) = compiled_kernel(kernels.forward, 256, dtype, target)
        (backward,) = compiled_kernel(kernels.backward, 256, dtype, target)
        assert forward.binary > 1000 and backward.binary > forward.binary
        assert name != "surface" or forward.spills == 0


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_step_and_its_adjoint_are_one_kernel_each_that_moves_no_more_than_it_must(name: str) -> None:
    kernels = kernels_of(name)
    for kernel in (kernels.forward, kernels.backward):
        for dtype in DTYPES:
            moved = traffic(kernel, dtype)
            assert moved.launches == 1
            assert moved.least <= moved.moved <= 1.3 * moved.least


def test_the_least_that_a_surface_step_moves() -> None:
    kernels = kernels_of("surface")
    assert traffic(kernels.forward).least == 4 * (5 + 3 + 5)  # state and closures in, result out
    assert traffic(kernels.backward).least == 4 * (5 + 5 + 3 + 5 + 3)  # closures may matter to factors
