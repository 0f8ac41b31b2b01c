"""The Triton backend gives what the torch baseline gives: its kernels run in Triton's interpreter, without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
SCRIPT = Path(__file__).parents[1] / "support/triton_cases.py"


def outcome(*groups: str, cache: Path) -> dict[str, dict[str, Any]]:
    """Run groups of cases in a process whose Triton interprets."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "STATIONPDE_CACHE": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join([str(SCRIPT.parents[2]), environment.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, SCRIPT, *groups], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    results: dict[str, dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
    return results


def wrong(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {n: r for n, r in results.items() if "raised" in r or not r["error"] <= r["tolerance"]}


@pytest.mark.timeout(600)
def test_kernels_and_adjoints_match_torch_and_bad_input_is_refused(tmp_path: Path) -> None:
    # One process for all: it takes longer to start than most cases to run. The systems of the model come with it.
    of_model = ("systems",) if importlib.util.find_spec("stationpde") else ()
    groups = (*of_model, "borders", "steps", "refusals", "drawn")
    results = outcome(*groups, cache=tmp_path)
    assert wrong(results) == {}
    assert {name.partition(":")[0] for name in results} == set(groups)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", ["operators", "staged", "all borders", "all systems", "gallery", "many drawn"])
def test_much_more_matches_torch(group: str, tmp_path: Path) -> None:
    results = outcome(group, cache=tmp_path)
    assert results and wrong(results) == {}
