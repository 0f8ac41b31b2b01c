"""Rooms: few modules at the root of a package, doors that open, no way round them, and tests that mirror the rooms."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("fields", "stationpde")
ROOMS = sorted(f"{p}.{stub.parent.name}" for p in PACKAGES for stub in (ROOT / p).glob("*/__init__.pyi"))
SOURCES = sorted(path for folder in (*PACKAGES, "cli", "benchmarks") for path in (ROOT / folder).rglob("*.py"))


def room_of(path: Path) -> str | None:
    parts = path.relative_to(ROOT).parts
    return ".".join(parts[:2]) if len(parts) > 2 else None


def modules(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py"))


def imports(path: Path) -> list[tuple[int, str, str]]:
    """List line, module and name of every ``from module import name`` of a file."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    return [(node.lineno, node.module or "", alias.name) for node in nodes for alias in node.names]


@pytest.mark.parametrize("package", PACKAGES)
def test_at_most_a_dozen_modules_stand_at_the_root(package):
    assert len(modules(ROOT / package)) <= 12, modules(ROOT / package)


def test_every_subpackage_is_a_room_with_a_list_of_what_others_may_use():
    folders = {p.parent for package in PACKAGES for p in (ROOT / package).glob("*/__init__.py")}
    assert {".".join(folder.relative_to(ROOT).parts) for folder in folders} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_can_be_used_and_none_is_private(room):
    package = import_module(room)
    assert package.__all__
    assert [name for name in package.__all__ if name.startswith("_") or not hasattr(package, name)] == []


def test_other_rooms_are_entered_through_the_door():
    # Room-internal imports name the module; imports from elsewhere name the room, whose stub lists what may be used.
    past_the_door = []
    for path in SOURCES:
        for line, module, name in imports(path):
            parts = module.split(".")
            if len(parts) > 2 and ".".join(parts[:2]) in ROOMS and ".".join(parts[:2]) != room_of(path):
                past_the_door.append(f"{path.relative_to(ROOT)}:{line}: from {module} import {name}")
    assert past_the_door == []


def test_only_what_a_room_lists_is_taken_from_it():
    # Modules of a room are attributes of it once something has imported them: only the stub says which may be used.
    unlisted = []
    for path in SOURCES:
        for line, module, name in imports(path):
            if module in ROOMS and module != room_of(path) and name not in import_module(module).__all__:
                unlisted.append(f"{path.relative_to(ROOT)}:{line}: from {module} import {name}")
    assert unlisted == []


def test_tests_mirror_the_rooms_and_helpers_lie_in_support():
    rooms = {room.replace(".", "/") for room in ROOMS}
    folders = {
        str(p.parent.relative_to(ROOT / "tests"))
        for package in PACKAGES
        for p in (ROOT / "tests" / package).rglob("*.py")
    }
    assert folders - rooms <= set(PACKAGES)
    assert rooms - folders == set(), "rooms without tests of their own"
    allowed = ("test_", "conftest")
    strays = [p for p in (ROOT / "tests").rglob("*.py") if not p.name.startswith(allowed)]
    strays = [p for p in strays if not p.is_relative_to(ROOT / "tests" / "support")]
    assert [p.name for p in strays if p.parent.name != "prepare"] == []


def test_every_file_that_a_page_names_is_there():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = re.compile(r"(?<![\w/.-])(?:pde_ops|fields|stationpde|cli|tests|benchmarks|docs)/[\w/]+\.(?:py|toml|md)\b")
    absent = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        for name in named.findall(page.read_text("utf-8"))
        if not (ROOT / name).is_file()
    }
    assert absent == set()
