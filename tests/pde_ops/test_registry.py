"""One registry: suggestions, wildcards, clashes, and plug-ins that may fail."""

import logging
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

import pde_ops as po
from pde_ops.errors import DuplicateNameError, UnknownNameError
from pde_ops.registry import Registry


def test_importing_the_library_imports_no_backend_and_nothing_heavy_beside_torch() -> None:
    script = (
        "import sys, pde_ops; heavy = {'metpy', 'numba', 'hypothesis', 'xarray', 'matplotlib', 'sympy'};"
        "print(*[m for m in sys.modules if m in heavy or m.startswith('pde_ops.backends.fused')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no operator 'laplacien'; did you mean 'laplacian'\?"):
        po.operators["laplacien"]


def test_an_unknown_name_is_also_a_key_error():
    with pytest.raises(KeyError):
        po.operators["nothing like it"]


def test_names_are_listed_by_wildcard():
    names = po.operators.list("advection*")
    assert "advection_upwind1" in names
    assert all(name.startswith("advection") for name in names)


def test_a_clash_names_both_owners():
    registry = Registry("thing")
    registry.add("a", 1, owner="first.module")
    with pytest.raises(DuplicateNameError, match=r"'a' is registered by both `first.module` and `second.module`"):
        registry.add("a", 2, owner="second.module")


def test_redeclaring_a_library_operator_is_a_clash():
    with pytest.raises(DuplicateNameError, match=r"pde_ops\.ops\.laplacians.*test_registry"):

        @po.operator("laplacian", inputs={"a": "=A"}, output="=A", latex="{a}", references=["x"])
        def mine(a, *, grid):
            """Mine."""
            return a


def _with_plugins(monkeypatch, *points):
    monkeypatch.setattr("pde_ops.registry.entry_points", lambda group: points)
    return Registry("thing", group="things")


def test_plugins_are_listed_without_being_imported(monkeypatch):
    registry = _with_plugins(monkeypatch, EntryPoint("lazy", "module_that_does_not_exist:x", "things"))
    assert registry.list() == ["lazy"]
    assert "lazy" in registry


def test_a_plugin_is_imported_on_first_lookup(monkeypatch):
    registry = _with_plugins(monkeypatch, EntryPoint("pi", "math:pi", "things"))
    assert registry["pi"] == pytest.approx(3.14159, abs=1e-5)
    assert registry.owner("pi") == "math:pi"


def test_a_plugin_that_fails_is_skipped_with_a_warning_and_harms_nothing(monkeypatch, caplog):
    registry = _with_plugins(monkeypatch, EntryPoint("bad", "module_that_does_not_exist:x", "things"))
    registry.add("good", 1, owner="here")
    with caplog.at_level(logging.WARNING), pytest.raises(UnknownNameError):
        registry["bad"]
    assert "failed to load and is skipped" in caplog.text
    assert registry["good"] == 1
    assert registry.list() == ["good"]


def test_two_plugins_of_one_name_name_both(monkeypatch, caplog):
    registry = _with_plugins(monkeypatch, EntryPoint("x", "math:pi", "things"), EntryPoint("x", "math:e", "things"))
    with caplog.at_level(logging.WARNING):
        registry.list()
    assert "`math:pi` and `math:e`" in caplog.text


@pytest.mark.parametrize(
    ("declaration", "complaint"),
    [
        ({"output": "=B"}, "=B that no input binds"),
        ({"references": []}, "no reference"),
        ({"batch_over": "z"}, "'z' is not an input"),
        ({"inputs": {"b": "=A"}}, "expected"),
        ({"output": "hPa"}, "not coherent SI"),
    ],
)
def test_a_declaration_is_checked_when_it_is_made(declaration, complaint):
    base = {"inputs": {"a": "=A"}, "output": "=A", "latex": "{a}", "references": ["x"]}
    with pytest.raises(po.PdeOpsError, match=complaint):

        @po.operator("never_registered", **{**base, **declaration})
        def body(a, *, grid):
            """Body."""
            return a

    assert "never_registered" not in po.operators
