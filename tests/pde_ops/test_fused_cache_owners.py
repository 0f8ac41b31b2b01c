"""Files that somebody else put, or may have changed, in a kernel cache that is private by now: never loaded."""

from __future__ import annotations

import hashlib
import json
import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import pde_ops as po
from pde_ops.backends.fused import binding_numba, build, cache
from pde_ops.backends.fused.build import Compiler, find_compiler, load_library
from pde_ops.backends.inductor import InductorRunner

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
SOURCE = "int answer(void) { return 42; }\n"
STRANGER = 54321  # a user id


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


def open_to_the_group(path: Path) -> None:
    path.chmod(0o620)


def owned_by_a_stranger(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may give files away")
    os.chown(path, STRANGER, STRANGER)


def linked(path: Path) -> None:
    """Move the file away and leave a link to it."""
    target = path.with_name("moved-" + path.name)
    path.rename(target)
    path.symlink_to(target)


WAYS = [open_to_all, open_to_the_group, owned_by_a_stranger, linked]
Plant = Callable[[Path], None]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATIONPDE_CACHE", str(tmp_path))
    return cache.cache_directory()


def compiler() -> Compiler:
    found_compiler = find_compiler()
    assert found_compiler is not None
    return found_compiler


@needs_compiler
@pytest.mark.parametrize("plant", WAYS)
@pytest.mark.parametrize("planted", ["library", "digest"])
def test_a_planted_library_is_rebuilt(plant: Plant, planted: str, own_cache: Path) -> None:
    path = build.library_path(SOURCE, compiler())
    build._build(SOURCE.replace("42", "666"), compiler(), path)  # with the digest that fits
    plant(path if planted == "library" else path.with_suffix(".sha256"))
    assert load_library(SOURCE, compiler()).answer() == 42
    assert build.is_sound(path) and path.stat().st_uid == os.getuid() and path.stat().st_mode & 0o022 == 0


@needs_compiler
def test_a_pipe_in_place_of_a_library_does_not_hang(own_cache: Path) -> None:
    path = build.library_path(SOURCE, compiler())
    os.mkfifo(path)
    os.mkfifo(path.with_suffix(".sha256"))
    assert load_library(SOURCE, compiler()).answer() == 42


@needs_compiler
def test_a_directory_in_place_of_a_library_is_named(own_cache: Path) -> None:
    path = build.library_path(SOURCE, compiler())
    path.mkdir()
    with pytest.raises(po.BackendError, match=rf"{path.name} cannot be stored.*delete what is there"):
        load_library(SOURCE, compiler())


MODULE = "from numba import njit\nresult = 42\n"


@pytest.fixture
def numba_stand_in(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    stand_in = ModuleType("numba")
    stand_in.njit = None  # type: ignore[attr-defined]
    stand_in.config = SimpleNamespace(CACHE_DIR="shared", CACHE_LOCATOR_CLASSES="Shared")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "numba", stand_in)
    config: SimpleNamespace = stand_in.config
    return config


def filled_folder() -> Path:
    """Fill the folder of a module with files such as numba writes, noted as they are."""
    folder = binding_numba._stored(MODULE)
    (folder / "__pycache__" / "kernel.run-1.py311.nbi").write_bytes(b"a pickle")
    binding_numba._seal(folder)
    return folder


def test_what_numba_stored_is_kept_and_closed_to_the_group(own_cache: Path) -> None:
    folder = filled_folder()
    (path,) = (folder / "__pycache__").iterdir()
    assert binding_numba._stored(MODULE) == folder and path.read_bytes() == b"a pickle"
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("plant", WAYS)
@pytest.mark.parametrize("name", ["__pycache__/kernel.run-1.py311.nbi", "sealed.json", "kernel.py", "__pycache__", "."])
def test_planted_files_of_numba_are_dropped(plant: Plant, name: str, own_cache: Path) -> None:
    folder = filled_folder()
    plant(folder / name if name != "." else folder)
    again = binding_numba._stored(MODULE)
    assert not list((again / "__pycache__").iterdir()) and cache.foreign(again) is None
    assert again == folder or own_cache not in again.parents


def test_a_changed_digest_and_file_that_fit_each_other_are_still_a_strangers(own_cache: Path) -> None:
    folder = filled_folder()
    (path,) = (folder / "__pycache__").iterdir()
    path.write_bytes(b"a hostile pickle")
    path.chmod(0o664)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "sealed.json").write_text(json.dumps({path.name: digest}))
    binding_numba._stored(MODULE)
    assert not path.exists()


def test_compiled_python_beside_a_module_is_never_run(own_cache: Path, numba_stand_in: SimpleNamespace) -> None:
    folder = binding_numba._stored(MODULE)
    hostile = own_cache / "hostile.py"
    hostile.write_text("result = 666")
    target = folder / "__pycache__" / f"kernel.{sys.implementation.cache_tag}.pyc"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(hostile), cfile=str(target), invalidation_mode=mode)
    module = binding_numba._imported(folder)
    assert module.result == 42
    assert sys.modules.pop(module.__name__) is module  # else stored machine code could not be loaded again
    assert numba_stand_in.CACHE_DIR == "shared"  # numba's own settings are as they were


def test_inductor_keeps_its_code_in_the_private_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setattr("torch.compile", lambda plain, **_: plain)
    field = po.Field("a", "K")
    side = po.PDESystem("still", {field: 0.0}).compile(po.Grid2D.plane(4, 4, dx=1.0), backend="inductor")
    assert isinstance(side.runner, InductorRunner)
    side.runner._function("tendency", len)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(own_cache / "inductor")


@pytest.mark.parametrize("plant", [owned_by_a_stranger, linked])
def test_planted_files_of_inductor_are_dropped(plant: Plant, own_cache: Path) -> None:
    folder = cache.private_folder("inductor", owners_alone=True)
    (folder / "triton").mkdir()
    (folder / "triton" / "kernel.so").write_bytes(b"code")
    (folder / "triton" / "kernel.so").chmod(0o664)  # as an open umask has it
    assert cache.private_folder("inductor", owners_alone=True) == folder and list(folder.iterdir())
    plant(folder / "triton" / "kernel.so" if plant is owned_by_a_stranger else folder)
    again = cache.private_folder("inductor", owners_alone=True)
    assert not list(again.iterdir()) and (again == folder or own_cache not in again.parents)
