"""The kernel cache of the fused backend: damage, races, permissions, and life without a compiler."""

from __future__ import annotations

import importlib.machinery
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import pde_ops as po
from fused_cases import inputs_of, made_of, noise, plane, sphere, worst_error
from pde_ops.backends.fused import binding_numba, build, cache, engine
from pde_ops.backends.fused.build import Compiler, find_compiler, load_library
from pde_ops.backends.fused.engine import _choose
from pde_ops.backends.fused.runner import FusedRunner
from pde_ops.elementwise import exp, where
from pde_ops.stencils import around

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")

SOURCE = "int answer(void) { return 42; }\n"
SUPPORT = str(Path(__file__).parents[1] / "support")

# A fresh interpreter that runs one small kernel there and back, and prints what ran and a checksum of the gradient.
SCRIPT = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from fused_cases import evaluated, made_of, noise, plane
from pde_ops.backends.fused.runner import FusedRunner
from pde_ops.stencils import around
def body(a, *, grid):
    n = around(a, grid)
    return n[1, 0] * a - n[0, -1]
grid = plane(4, 9)
runner = FusedRunner(made_of([body], fields=1), grid)
value, slope = evaluated(runner, grid, noise(1, 1, 4, 9))
print(runner.describe(), "|", repr(float(slope.abs().sum())))
"""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATIONPDE_CACHE", str(tmp_path))
    return tmp_path / "pde_ops"


def compiler() -> Compiler:
    found = find_compiler()
    assert found is not None
    return found


def run_script(environment: dict[str, str], *, before: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", before + SCRIPT, SUPPORT],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out.strip().partition(" | ")[0], out.strip().partition(" | ")[2]


def stand_in_for_numba() -> ModuleType:
    stand_in = ModuleType("numba")
    stand_in.__spec__ = importlib.machinery.ModuleSpec("numba", None)
    stand_in.njit = lambda **options: lambda function: function  # type: ignore[attr-defined]
    stand_in.config = SimpleNamespace(CACHE_DIR="elsewhere")  # type: ignore[attr-defined]
    return stand_in


def stored(directory: Path) -> Path:
    (library,) = directory.glob("kernel-*.so")
    return library


def test_a_library_is_built_once_and_then_found(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_library(SOURCE, compiler()).answer() == 42
    assert stored(own_cache).stat().st_mode & 0o022 == 0
    monkeypatch.setattr(build, "_build", lambda *_: pytest.fail("built again"))
    assert load_library(SOURCE, compiler()).answer() == 42


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "damage",
    [
        lambda so: _truncate(so),
        lambda so: _flip(so),
        lambda so: so.write_bytes(b""),
        lambda so: so.unlink(),
        lambda so: so.with_suffix(".sha256").unlink(),
        lambda so: so.with_suffix(".sha256").write_bytes(b"\xff\xfe"),
    ],
    ids=["truncated", "bit flipped", "empty", "missing", "hash missing", "hash damaged"],
)
def test_a_damaged_file_is_rebuilt(damage: Any, own_cache: Path) -> None:
    path = build.library_path(SOURCE, compiler())
    build._build(SOURCE, compiler(), path)
    damage(path)
    assert not build.is_sound(path)
    assert load_library(SOURCE, compiler()).answer() == 42
    assert build.is_sound(path)


def test_a_half_written_file_never_has_its_final_name(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = cache.cache_directory()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        cache.publish(directory / "kernel-x.so", b"content")
    assert list(directory.iterdir()) == []


def _answer(source: str, results: Any) -> None:
    results.put(load_library(source, compiler()).answer())


def test_several_processes_may_build_the_same_kernel_at_once(own_cache: Path) -> None:
    cache.cache_directory()
    compiler()
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    source = SOURCE + "/* at once */"
    workers = [context.Process(target=_answer, args=(source, results)) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
    assert [worker.exitcode for worker in workers] == [0] * 6
    assert [results.get() for _ in workers] == [42] * 6
    assert build.is_sound(stored(own_cache))
    assert not list(own_cache.glob(".*"))  # no temporary left behind


def test_a_directory_that_others_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared" / "pde_ops"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    monkeypatch.setenv("STATIONPDE_CACHE", str(tmp_path / "shared"))
    assert cache.cache_directory() != shared
    assert load_library(SOURCE + "/* shared */", compiler()).answer() == 42
    assert list(shared.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("STATIONPDE_CACHE", str(tmp_path / "file"))
    directory = cache.cache_directory()
    assert directory.is_dir() and tmp_path not in directory.parents


def test_the_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATIONPDE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_directory() == tmp_path / "pde_ops"


def test_a_compiler_error_says_what_the_compiler_said(own_cache: Path) -> None:
    with pytest.raises(po.BackendError, match=r"failed with code 1(.|\n)*nonsense"):
        load_library("int nonsense(void) { return undeclared; }\n", compiler())


def test_a_compiler_that_does_not_run_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    find_compiler.cache_clear()
    try:
        found = find_compiler()
    finally:
        find_compiler.cache_clear()
    assert found is not None and found.command[0] != str(broken)


@pytest.mark.slow
def test_without_a_compiler_numba_takes_over_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    environment = {"STATIONPDE_CACHE": str(tmp_path), "PATH": str(tmp_path / "empty"), "CC": ""}
    described, checksum = finished(run_script(environment))
    assert "numba" in described and "no C compiler" in described
    # The next process takes what this one stored, wherever numba is told to keep its files.
    stored_files = sorted((tmp_path / "pde_ops").rglob("*.nbc"))
    stamps = [path.stat().st_mtime_ns for path in stored_files]
    for _ in range(2):
        again = finished(run_script({**environment, "NUMBA_CACHE_DIR": str(tmp_path / "elsewhere")}))
        assert again == (described, checksum)
    assert stamps == [path.stat().st_mtime_ns for path in stored_files] and stamps
    assert not (tmp_path / "elsewhere").exists()
    assert float(checksum) == pytest.approx(
        float(finished(run_script({"STATIONPDE_CACHE": str(tmp_path)}))[1]), rel=1e-12
    )


def test_the_order_of_engines_is_c_then_numba_then_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _choose("").name == "c"
    monkeypatch.setattr(engine, "find_compiler", lambda: None)
    choose = _choose.__wrapped__
    monkeypatch.setitem(sys.modules, "numba", stand_in_for_numba())
    assert choose("").name == "numba" and "no C compiler" in choose("").reason
    with monkeypatch.context() as broken:
        broken.setitem(sys.modules, "numba", None)  # an import of it fails
        broken.setattr(engine.importlib.util, "find_spec", lambda name: True)
        assert choose("").name == "torch" and "numba cannot be imported" in choose("").reason
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda name: None)
    assert choose("").name == "torch" and "no C compiler was found, and numba is not installed" in choose("").reason
    for forced in ("c", "numba", "fortran"):
        with pytest.raises(po.BackendError, match="PDE_OPS_FUSED"):
            choose(forced)


@pytest.mark.slow
def test_numba_gives_what_c_gives(tmp_path: Path) -> None:
    environment = {"STATIONPDE_CACHE": str(tmp_path)}
    c = finished(run_script(environment))
    numba = finished(run_script({**environment, "PDE_OPS_FUSED": "numba"}))
    assert "numba" in numba[0]
    assert float(numba[1]) == pytest.approx(float(c[1]), rel=1e-12)
    for compiled in (tmp_path / "pde_ops").glob("numba-*/__pycache__/*.nbc"):
        _flip(compiled)
    assert finished(run_script({**environment, "PDE_OPS_FUSED": "numba"})) == numba


def test_the_generated_numba_source_computes_what_torch_does(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the generated source as plain Python, with a stand-in for numba: the same text, none of the compile time."""
    monkeypatch.setitem(sys.modules, "numba", stand_in_for_numba())
    monkeypatch.setenv("PDE_OPS_FUSED", "numba")

    def body(a: Any, b: Any, c: Any, k: Any, *, grid: Any) -> Any:
        n, m = around(a, grid, 2, odd="x"), around(exp(0.2 * b), grid, odd="y")
        return (
            k * (n[2, 0] * m[0, 1] - n[-1, -1]) / grid.dx * 1e5 + where(c > 0.0, m[0, -1] * c, b * b) + k * grid.f * 1e4
        )

    program = made_of([body, body], fields=2, closures=1, coefficients=1)
    grid = sphere(5, 6, ("reflecting", "periodic"))
    error = worst_error(
        program, grid, noise(2, 2, 5, 6), [noise(2, 5, 6, seed=7)], torch.tensor([1.3], dtype=torch.float64)
    )
    binding_numba._imported.cache_clear()  # nobody else may meet a module made with the stand-in
    assert error < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("numba", ["absent", "broken"])
def test_without_compiler_and_numba_torch_takes_over_in_one_process_after_the_other(numba: str, tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('numba needs another numpy')")
    hidden = "import sys; sys.modules['numba'] = None\n" if numba == "absent" else ""
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {"STATIONPDE_CACHE": str(tmp_path), "PATH": str(tmp_path), "CC": "", "PYTHONPATH": path}
    results = [finished(run_script(environment, before=hidden)) for _ in range(2)]
    words = "numba is not installed" if numba == "absent" else "numba cannot be imported (numba needs another numpy)"
    assert results[0] == results[1] and f"no C compiler was found, and {words}" in results[0][0]


def test_a_forced_engine_shows_in_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDE_OPS_FUSED", "torch")
    grid = plane(4, 5)
    runner = FusedRunner(made_of([lambda a, *, grid: 2.0 * a], fields=1), grid)
    state = noise(1, 1, 4, 5)
    assert torch.equal(runner.tendency(inputs_of(grid, state)), 2.0 * state)
    assert torch.equal(runner.advance(inputs_of(grid, state), 0.5, None), 2.0 * state)
    assert "PDE_OPS_FUSED" in runner.describe()
