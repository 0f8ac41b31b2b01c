"""What `from stationpde import fields` offers a notebook, and what it costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fields


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
    found = getattr(fields, name)
    assert name in dir(fields)
    if callable(found):
        assert found.__doc__


def test_no_name_hides_a_module():
    assert not set(fields.__all__) & fields._modules()


def test_type_checkers_are_told_of_the_same_names():
    tree = ast.parse(Path(fields.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {}
    for node in block.body:
        module = node.module.removeprefix("fields.")
        told |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    assert told == fields._NAMES
    assert set(fields.__all__) == {"PROJECT", *told}


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
