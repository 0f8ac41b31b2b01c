"""The packages import each other along the arrow only, and the contracts notice when they do not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pde_ops", "fields", "stationpde", "cli")
LINT = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def lint(where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"], cwd=where, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    where = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", where)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, where / package, ignore=shutil.ignore_patterns("__pycache__"))
    return where


def test_the_repository_keeps_its_import_contracts():
    outcome = lint(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("package", "statement", "contract"),
    [
        ("pde_ops", "import fields", "imports follow"),
        ("fields", "import pde_ops.units", "imports follow"),
        ("stationpde", "import cli.main", "imports follow"),
        ("pde_ops", "def late():\n    import pandas", "torch, numpy and pint alone"),
        ("pde_ops", "import metpy.calc", "torch, numpy and pint alone"),
        ("pde_ops", "import numba", "torch, numpy and pint alone"),
        ("fields", "import torch", "fields knows torch only"),
        ("stationpde", "import typer", "only cli speaks typer"),
    ],
)
def test_a_planted_violation_breaks_a_contract(copy, package, statement, contract):
    planted = copy / package / "planted.py"
    planted.write_text(statement + "\n")
    try:
        outcome = lint(copy)
    finally:
        planted.unlink()
    assert outcome.returncode != 0
    broken = [line for line in outcome.stdout.splitlines() if " BROKEN" in line]
    assert any(contract in line for line in broken), outcome.stdout


# One import against the arrow for each pair of neighbouring rooms, planted at once: a run of the linter takes seconds.
UPWARDS = {
    "fields": [
        ("synthetic", "plots"), ("windows", "synthetic"), ("ingest", "windows"), ("lift", "ingest"), ("store", "lift"),
        ("qc", "store"), ("checks", "qc"), ("grid", "checks"), ("readers", "grid"), ("derive", "readers"),
        ("units", "derive"), ("times", "derive"), ("places", "derive"), ("variables", "units"), ("atomic", "times"),
        ("errors", "variables"), ("constants", "atomic"), ("progress", "variables"), ("_moved", "errors"),
    ],
    "stationpde": [
        ("report", "api"), ("evaluation", "report"), ("plots", "evaluation"), ("baselines", "evaluation"),
        ("forecasting", "baselines"), ("training", "forecasting"), ("runs", "training"), ("model", "training"),
        ("guide", "model"), ("physics", "guide"), ("data", "physics"), ("config", "data"), ("errors", "config"),
        ("seeding", "config"), ("demo", "api"), ("doctor", "demo"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("package", sorted(UPWARDS))
def test_an_import_against_the_arrow_between_rooms_breaks_a_contract(copy, package):
    before: dict[Path, str] = {}
    for lower, upper in UPWARDS[package]:
        inner = copy / package / lower
        path = inner / "__init__.py" if inner.is_dir() else inner.with_suffix(".py")
        before.setdefault(path, path.read_text())
        path.write_text(f"{path.read_text()}\n\ndef late_{upper}():\n    import {package}.{upper}\n")
    try:
        outcome = lint(copy)
    finally:
        for path, text in before.items():
            path.write_text(text)
    assert f"rooms of {package} import downwards BROKEN" in outcome.stdout
    unnoticed = [
        f"{package}.{lower} -> {package}.{upper}"
        for lower, upper in UPWARDS[package]
        if f"{package}.{lower} is not allowed to import {package}.{upper}" not in outcome.stdout
    ]
    assert unnoticed == []


@pytest.mark.parametrize("package", sorted(UPWARDS))
def test_a_module_outside_the_rooms_must_be_given_its_layer(copy, package):
    planted = copy / package / "drawer.py"
    planted.write_text("")
    try:
        outcome = lint(copy)
    finally:
        planted.unlink()
    assert f"rooms of {package} import downwards BROKEN" in outcome.stdout
