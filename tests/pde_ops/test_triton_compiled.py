"""What Triton kernels move, which estimates follow, and who takes them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import pde_ops as po
from pde_ops.backends import Inputs, auto, backends
from pde_ops.backends.eager import EagerRunner
from pde_ops.backends.triton.traffic import step_kernels, traffic
from pde_ops.benchmarking.devices import BANDWIDTHS, ESTIMATE, device_ratios, estimates
from pde_ops.ops import laplacian

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
c = po.Field("c", "K")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATIONPDE_CACHE", str(tmp_path))


def test_a_stencil_of_a_stencil_is_staged_and_counted() -> None:
    system = po.PDESystem("twice", {c: po.Positive("k", "m**4/s", init=1.0) * laplacian(laplacian(c))})
    kernels = step_kernels(system.compile(po.Grid2D.plane(8, 9, dx=1.0), backend="fused"))
    moved = traffic(kernels.forward)
    assert moved.launches == 2 and moved.moved > moved.least


def test_estimates_are_marked_and_follow_bandwidth() -> None:
    guess = estimates()
    assert guess["basis"] == ESTIMATE == "estimate from bandwidth, not measured"
    assert set(guess["microseconds"]) == set(BANDWIDTHS) == {"A100", "H100", "MI300X", "RTX 4090"}
    # 512 · 768 cells · 52 bytes at 2039 GB/s
    assert guess["microseconds"]["A100"]["forward"] == pytest.approx(10.03, abs=0.01)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a device is here")
def test_a_device_that_is_not_here_is_named() -> None:
    with pytest.raises(po.BackendError, match=r"finds no device 'cuda' here; leave out --device"):
        device_ratios("cuda")


def test_ratios_are_of_each_backend_against_the_last() -> None:
    ratios = device_ratios("cpu", quick=True, backends=("torch", "fused"), shape=(1, 6, 7))
    each = ratios["ns_per_cell"]["forward"]
    assert ratios["forward_vs"] == {"torch": each["torch"] / each["fused"]}


@needs_triton
def test_a_state_on_the_cpu_is_refused_in_words() -> None:
    tendency = po.PDESystem("still", {c: 1e-3 * c / po.Positive("t", "s", init=1.0)}).compile(
        po.Grid2D.plane(4, 5, dx=1.0), backend="triton"
    )
    with pytest.raises(po.BackendError, match=r"runs on CUDA and ROCm devices, the state is on cpu; move .*'auto'"):
        tendency(torch.zeros(1, 1, 4, 5))


@needs_triton
def test_an_operator_without_a_graph_form_is_named() -> None:
    def body(a: Any, *, grid: Any) -> Any:
        return a.cumsum(-1)

    record = po.Operator(
        name="running_sum", family="test", inputs={"a": "=A"}, output="=A", body=body, latex="", text="", references=()
    )
    system = po.PDESystem("summed", {c: record(c) / po.Positive("t", "s", init=1.0)})
    with pytest.raises(po.BackendError, match=r"operator 'running_sum' has no fused form.*use backend"):
        system.compile(po.Grid2D.plane(4, 5, dx=1.0), backend="triton")


def test_auto_takes_triton_on_a_gpu_only_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "missing", lambda: None)
    assert auto.preference("cpu")[0] == ["fused"]
    assert auto.preference("cuda")[0] == ["triton", "inductor"]
    monkeypatch.setattr(auto, "missing", lambda: "triton is not installed")
    assert auto.preference("cuda") == (["inductor"], "triton is not installed")
    assert auto.preference("mps")[0] == ["inductor"]


def test_auto_goes_on_to_the_next_backend(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(program: Any, grid: Any) -> Any:
        raise po.BackendError("a backend that never runs")

    for name in ("fused", "triton"):
        monkeypatch.setitem(backends._entries, name, broken)
    system = po.PDESystem("heat", {c: po.Positive("k", "m**2/s", init=1.0) * laplacian(c)})
    tendency = system.compile(po.Grid2D.plane(4, 5, dx=1.0), backend="auto")
    assert tendency(torch.rand(1, 1, 4, 5)).isfinite().all()
    assert "a backend that never runs" in caplog.text and "torch" in tendency.runner.describe()
    assert type(tendency.runner._first_that_runs(["triton", "inductor"])).__name__ == "InductorRunner"


def test_a_backend_registers_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubled(EagerRunner):
        def tendency(self, inputs: Inputs) -> Tensor:
            return 2.0 * super().tendency(inputs)

    monkeypatch.setattr(backends, "_entries", dict(backends._entries))
    monkeypatch.setattr(backends, "_owners", dict(backends._owners))
    from pde_ops.backends import register

    register("doubled")(Doubled)
    system, grid = (
        po.PDESystem("heat", {c: po.Positive("k", "m**2/s", init=1.0) * laplacian(c)}),
        po.Grid2D.plane(4, 5, dx=1.0),
    )
    state = torch.rand(1, 1, 4, 5)
    torch.testing.assert_close(system.compile(grid, backend="doubled")(state), 2.0 * system.compile(grid)(state))
    with pytest.raises(po.errors.DuplicateNameError, match="backend 'doubled' is registered by both"):
        register("doubled")(Doubled)
    with pytest.raises(po.errors.UnknownNameError, match="no backend 'trito'; did you mean 'triton'"):
        system.compile(grid, backend="trito")


def test_importing_the_operators_imports_no_triton() -> None:
    script = "import sys, pde_ops; print('triton' in sys.modules)"
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
