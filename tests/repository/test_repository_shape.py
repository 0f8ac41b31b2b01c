"""The shape of the repository: small files, told names, one version, no machine's paths."""

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import fields
import pde_ops
import stationpde

ROOT = Path(__file__).parents[2]
FOLDERS = ("pde_ops", "fields", "stationpde", "cli", "docs", "benchmarks", "packaging", "tests")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_source_file_is_longer_than_500_lines():
    long = {str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 500}
    assert long == {}


def test_no_module_is_a_drawer_for_odds_and_ends():
    drawers = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert [p for p in SOURCES if p.name in drawers] == []


def test_tests_are_no_packages_and_have_names_of_their_own():
    # `tests/fields/__init__.py` would shadow the real `fields` in every import mode of pytest.
    tests = [p for p in SOURCES if p.is_relative_to(ROOT / "tests")]
    assert [p for p in tests if p.name == "__init__.py"] == []
    assert [n for n, count in Counter(p.name for p in tests if p.name != "conftest.py").items() if count > 1] == []


def test_every_package_ships_its_types():
    packages = ("pde_ops", "fields", "stationpde", "cli")
    assert [name for name in packages if not (ROOT / name / "py.typed").exists()] == []


def test_there_is_one_version():
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert {stationpde.__version__, pde_ops.__version__, citation[1]} == {stationpde.__version__}
    assert f"## {stationpde.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_set_up_pins_torch_inside_the_declared_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert any(need.startswith("torch>=") for need in project["dependencies"])
    assert re.search(r"^torch==[\d.]+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_continuous_integration_ends_in_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "exec make test"


def test_no_file_names_a_place_on_one_machine():
    # Written in pieces, so that this file does not find itself.
    place = re.compile("|".join(re.escape("/" + name + "/") for name in ("root", "work", "home")))
    kinds = (".md", ".toml", ".txt", ".cff", ".yml", ".yaml", "")
    below = [p for folder in ("docs", ".ci", "packaging") for p in (ROOT / folder).rglob("*")]
    texts = [p for p in [*ROOT.glob("[!.]*"), *below] if p.is_file() and p.suffix in kinds]
    assert [str(p) for p in [*SOURCES, *texts] if place.search(p.read_text(encoding="utf-8"))] == []


def test_fields_is_reached_through_stationpde():
    assert stationpde.fields is fields


def test_a_foreign_package_called_fields_is_refused_with_the_mend(tmp_path):
    (tmp_path / "fields").mkdir()
    (tmp_path / "fields" / "__init__.py").write_text("version = 5\n")
    outcome = subprocess.run(
        [sys.executable, "-c", "import stationpde"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode != 0
    assert "is not StationPDE's" in outcome.stderr
    assert "pip uninstall fields" in outcome.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("arguments", [["--strict", "pde_ops"], []])
def test_mypy_finds_nothing(arguments, tmp_path):
    outcome = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout


def test_ruff_finds_nothing():
    outcome = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout
