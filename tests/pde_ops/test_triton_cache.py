"""Generated Triton modules and machine code in the kernel cache: what somebody put there, or damaged, is not run."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_fused_cache_owners import STRANGER, linked, open_to_all, open_to_the_group, owned_by_a_stranger

from pde_ops.backends.fused import cache
from pde_ops.backends.triton.stored import StoredModule

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
SOURCE = """import triton
import triton.language as tl

ANSWER = 42


@triton.jit
def doubled(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, 2.0 * tl.load(x + at))
"""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATIONPDE_CACHE", str(tmp_path))
    return cache.cache_directory()


def compiled(stored: StoredModule) -> bytes:
    """Machine code of the module's kernel, from the cache where it is there."""
    import triton
    from triton.backends.compiler import GPUTarget

    signature = {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}
    source = triton.compiler.ASTSource(stored.function("doubled"), signature=signature, constexprs={"BLOCK": 32})
    with stored.compiling():
        made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"enable_fp_fusion": True})
    code: bytes = made.asm["cubin"]
    return code


def binaries(stored: StoredModule) -> list[Path]:
    return sorted(stored.folder.rglob("*.cubin"))


def altered(path: Path) -> None:
    path.write_bytes(b"hostile " + path.read_bytes())


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [open_to_all, open_to_the_group, owned_by_a_stranger, linked, truncated, a_pipe])
def test_a_planted_module_is_written_again(plant: Callable[[Path], None], own_cache: Path) -> None:
    path = StoredModule(SOURCE).folder / "kernel.py"
    path.write_text(SOURCE.replace("42", "666"))
    plant(path)
    again = StoredModule(SOURCE)
    assert again.module.ANSWER == 42
    assert (again.folder / "kernel.py").read_text() == SOURCE and not (again.folder / "kernel.py").is_symlink()


@pytest.mark.parametrize("damage", [altered, truncated, a_pipe])
def test_changed_machine_code_is_compiled_again(
    damage: Callable[[Path], None], own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = StoredModule(SOURCE)
    code = compiled(first)
    (binary,) = binaries(first)
    assert binary.read_bytes() == code
    assert compiled(StoredModule(SOURCE)) == code and binaries(first) == [binary]  # kept as it is
    damage(binary)
    with caplog.at_level(logging.WARNING):
        again = StoredModule(SOURCE)
    assert "is damaged and will be compiled again" in caplog.text and binaries(again) == []
    assert compiled(again) == code


def test_machine_code_beside_what_was_noted_is_dropped(own_cache: Path) -> None:
    first = StoredModule(SOURCE)
    compiled(first)
    (first.folder / "compiled" / "planted").mkdir()
    (first.folder / "compiled" / "planted" / "doubled.cubin").write_bytes(b"hostile")
    assert binaries(StoredModule(SOURCE)) == []


def test_a_strangers_folder_is_dropped(own_cache: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may give files away")
    first = StoredModule(SOURCE)
    compiled(first)
    os.chown(binaries(first)[0], STRANGER, STRANGER)
    again = StoredModule(SOURCE)
    assert binaries(again) == [] and again.module.ANSWER == 42


def test_tritons_own_settings_stay(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import triton

    before: Any = triton.knobs.cache.dir
    compiled(StoredModule(SOURCE))
    assert triton.knobs.cache.dir == before
