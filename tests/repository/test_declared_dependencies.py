"""What the packages import is what `pyproject.toml` declares, and the other way round."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("pde_ops", "fields", "stationpde", "cli")
# Read once: every file of the packages and of what is installed.
distributions = cache(packages_distributions)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imports(tree: ast.AST) -> set[str]:
    """Top-level names of every import but those for type checkers and those with an `except ImportError`."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Try) and any("ImportError" in ast.unparse(h) for h in node.handlers):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
        found |= imports(node)
    return found


@cache
def sources() -> list[str]:
    return [path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


@cache
def trees() -> list[ast.Module]:
    return [ast.parse(source) for source in sources()]


@cache
def used() -> set[str]:
    names: set[str] = set()
    for tree in trees():
        names |= imports(tree)
    owners = distributions()
    foreign = names - set(sys.stdlib_module_names) - set(PACKAGES)
    return {normal(owners.get(name, [name])[0]) for name in foreign}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def names_of(needs: list[str]) -> set[str]:
    return {normal(re.match(r"[\w.-]+", need)[0]) for need in needs}


def declared() -> set[str]:
    return names_of(PROJECT["dependencies"])


def in_extras() -> set[str]:
    """What a user can ask for; `dev` is for those who work on the project."""
    return names_of([need for extra, needs in EXTRAS.items() if extra != "dev" for need in needs])


# `pde_ops.testing.strategies` is for who has a test framework anyway.
OPTIONAL = {"hypothesis"}
# Imported by name, when they are needed; netCDF4 by xarray.
BY_NAME = {"numba", "matplotlib", "metpy", "netcdf4"}


def test_every_import_is_declared():
    assert used() - declared() - in_extras() - OPTIONAL == set()


def test_what_the_code_starts_with_is_no_extra():
    top_level: set[str] = set()
    for tree in trees():
        top_level |= {
            name
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in imports(ast.Module([node], []))
        }
    owners = distributions()
    assert {normal(owners.get(name, [name])[0]) for name in top_level} & (in_extras() - declared()) == set()


def test_every_extra_that_a_message_tells_to_install_is_declared():
    pages = [path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]]
    named = {extra for text in sources() + pages for extra in re.findall(r"stationpde\[(\w+)\]", text)}
    assert {"export", "tensorboard"} <= named <= set(EXTRAS)


def test_nothing_is_declared_that_no_code_uses():
    assert declared() - used() - BY_NAME == set()


def test_imports_are_found_wherever_they_stand_and_optional_ones_are_left_out():
    source = """
import os, torch.nn
if TYPE_CHECKING:
    import jaxtyping
def late():
    from metpy.calc import x
    try:
        import rioxarray
    except ImportError:
        raise
from . import own
"""
    assert imports(ast.parse(source)) == {"os", "torch", "metpy"}
