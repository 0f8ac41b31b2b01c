"""What `from stationpde import fields` offers a notebook, and what it costs."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fields
import stationpde
from fields._moved import MOVED, keep_old_paths


def test_importing_the_package_loads_nothing_heavy():
    script = """
import sys
from stationpde import fields
print(*(set(sys.modules) & {"numpy", "xarray", "zarr", "torch", "dask", "numba", "matplotlib", "pint"}))
assert "open_store" in dir(fields) and "store" in dir(fields)
fields.GridSpec
print(*(set(sys.modules) & {"torch", "zarr", "dask", "matplotlib"}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n\n"


@pytest.mark.parametrize("name", fields.__all__)
def test_every_name_is_there_and_documented(name):
    value = getattr(fields, name)
    assert name in dir(fields)
    if callable(value):
        assert value.__doc__


def test_type_checkers_are_told_of_the_same_names():
    stub = ast.parse(Path(fields.__file__).with_suffix(".pyi").read_text())
    declared = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert declared == set(fields.__all__)


def test_a_session_of_a_notebook(tmp_path):
    from stationpde import fields as library

    path = library.write_store(library.make_network(stations=6, days=1, seed=0), tmp_path / "in.zarr")
    stations = library.open_store(path)
    grid = library.GridSpec.around(stations["lat"].values, stations["lon"].values, height=6)
    assert library.lift_to_store(path, tmp_path / "out.zarr", grid=grid).grid == grid
    assert library.store.is_store(tmp_path / "out.zarr")


def test_a_slip_of_the_pen_is_answered_with_the_nearest_name():
    with pytest.raises(AttributeError, match="did you mean GridSpec"):
        fields.GridSpek  # noqa: B018


@pytest.fixture
def forgotten():
    """Modules imported under an old path before are imported anew, so that each import warns."""
    before = {old: sys.modules.pop(old) for old in MOVED if old in sys.modules}
    yield
    sys.modules.update(before)


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_module_path_leads_to_the_same_module_and_warns(forgotten, old):
    new = importlib.import_module(MOVED[old])
    with pytest.warns(DeprecationWarning, match=f"{old} is now {MOVED[old]}"):
        module = importlib.import_module(old)
    assert module is new
    # The import system writes the path it was asked for into the module; the new one must stand there again.
    assert new.__spec__.name == new.__name__ == MOVED[old]
    assert new.__spec__.origin == new.__file__


def test_a_function_of_a_room_can_be_called_after_an_old_path_of_its_name_was_imported():
    script = (
        "import stationpde.training; before = stationpde.training.dry_run\n"
        "import stationpde.training.dry_run as module; from stationpde.training import dry_run\n"
        "try: dry_run()\n"
        "except TypeError as problem: print(module.__name__, problem)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("stationpde.training.estimate dry_run() missing 2 required"), done.stderr


def test_old_paths_of_both_packages_are_listed():
    assert {old.partition(".")[0] for old in MOVED} == {fields.__name__, stationpde.__name__}


def test_a_module_that_never_was_is_not_found_under_an_old_path():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fields.lift_methodz")


def test_a_real_module_comes_before_an_alias_of_its_path(monkeypatch, tmp_path):
    (tmp_path / "package_of_a_test").mkdir()
    (tmp_path / "package_of_a_test" / "present.py").write_text("REAL = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    keep_old_paths({"package_of_a_test.present": "fields.times"})
    try:
        assert importlib.import_module("package_of_a_test.present").REAL
    finally:
        del MOVED["package_of_a_test.present"]


@pytest.mark.parametrize("old", sorted(old for old in MOVED if old.count(".") == 1 and old.startswith("fields.")))
def test_an_old_module_is_an_attribute_of_the_package_without_an_import(old):
    script = f"from stationpde import fields; print({old}.__name__)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == MOVED[old], done.stderr
