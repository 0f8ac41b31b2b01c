"""The page of benchmarks says what the results say, and the results name no machine."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results.json"

sys.path.insert(0, str(ROOT))
from benchmarks import __main__ as command  # noqa: E402
from benchmarks import languages, readme, render, systems, thermo  # noqa: E402


def test_the_page_is_written_from_the_results():
    page = render.page(json.loads(RESULTS.read_text(encoding="utf-8")))
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page


def test_the_readme_shows_the_cells_that_are_at_hand():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.results_block(command.CELLS) in text, "python -m benchmarks --render writes the table anew"


def test_the_page_of_systems_shows_the_cells_that_are_at_hand(tmp_path):
    page = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    assert systems.systems_page(command.CELLS) == page, "python -m benchmarks --render writes the page anew"
    without = systems.systems_page(tmp_path, tmp_path)
    named = [system for system in systems.SYSTEMS if system.model is not None or system.part is not None]
    assert without.count("not yet computed |") == len(named) == 14 and "Not yet computed.\n" in without
    assert "| `corrformer` 0.5575 |" in page


def test_a_page_without_a_place_for_results_is_told_so():
    with pytest.raises(SystemExit, match="no place for the results"):
        readme.with_results("# A page", "block")


def test_the_results_hold_the_figures_that_are_promised():
    step = json.loads(RESULTS.read_text(encoding="utf-8"))["pde_step"]
    promised = ["forward_vs_eager", "forward_backward_vs_eager", "forward_vs_bound", "gradient_error"]
    promised += ["vs_py_pde_per_cell", "vs_devito_per_cell", "vs_gt4py_per_cell", "start_seconds"]
    assert [key for key in promised if key not in step] == []


def test_the_results_name_no_host_and_no_path():
    text = RESULTS.read_text(encoding="utf-8")
    assert not re.search(r'"/|[A-Za-z]:\\\\', text)
    assert os.uname().nodename not in text


def test_a_language_that_is_not_installed_is_not_measured(monkeypatch):
    monkeypatch.setattr(languages.importlib.util, "find_spec", lambda name: None)
    assert languages.measure(quick=True) == {"devito": None, "gt4py": None}


def test_a_page_without_other_libraries_says_so():
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for key in ("vs_devito_per_cell", "vs_gt4py_per_cell", "vs_py_pde_per_cell", "py_pde"):
        results["pde_step"][key] = None
    results["pde_step"]["languages"] = {"devito": None, "gt4py": None}
    page = render.page(results)
    assert "Not measured in this run" in page
    assert "not measured" in page


@pytest.mark.parametrize("only", ["thermo", "pde_step"])
def test_a_part_measured_on_another_machine_names_it_and_the_others_stay(only, monkeypatch):
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    here = {**kept["machine"], "processor": "another processor"}
    monkeypatch.setattr("benchmarks.machine.facts", lambda: here)
    monkeypatch.setattr(f"benchmarks.{only}.measure", lambda quick, **_: {**kept[only], "quick": quick})
    results = command.measured(argparse.Namespace(only=only, quick=False, languages_python=None))
    assert results.keys() == kept.keys()
    named = {name for name in command.PARTS if "processor" in results[name]}
    assert named == ({only} if only == "thermo" else set(command.PARTS) - {only})
    assert "another processor" in render.page(results) and kept["machine"]["processor"] in render.page(results)


def test_a_page_without_the_fused_step_shows_what_there_is():
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    del results["pde_step"]
    page = render.page(results)
    assert "## Training" in page and "## The fused step" not in page


@pytest.mark.slow
def test_both_sides_of_the_thermodynamics_agree():
    assert thermo.measure(quick=True)["largest_relative_difference"] < 1e-10


@pytest.mark.slow
def test_the_page_can_be_written_alone():
    outcome = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--render"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "docs/benchmarks.md" in outcome.stdout
