"""``python -m benchmarks``: measure, write ``benchmarks/results.json``, and the pages that show it and the cells."""

from __future__ import annotations

import argparse
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from fields.atomic import write_file

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE, README, CELLS = ROOT / "docs" / "benchmarks.md", ROOT / "README.md", ROOT / "benchmarks" / "cells"
SYSTEMS = ROOT / "docs" / "systems.md"
# Modules with measure(quick); each is a section of the results.
PARTS = ("pde_step", "thermo", "lift", "ingest", "training", "inference")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no inductor, no py-pde: a look")
    parser.add_argument("--render", action="store_true", help="only write pages and README from what is at hand")
    parser.add_argument("--only", choices=PARTS, help="measure one part and keep the figures of the others")
    parser.add_argument("--languages-python", type=Path, help="interpreter that has Devito and GT4Py")
    options = parser.parse_args()
    if not options.render:
        write_file(RESULTS, (json.dumps(measured(options), indent=2) + "\n").encode())
        print(RESULTS.relative_to(ROOT))
    from .readme import results_block, with_results
    from .render import page
    from .systems import systems_page

    write_file(PAGE, page(json.loads(RESULTS.read_text(encoding="utf-8"))).encode())
    write_file(README, with_results(README.read_text(encoding="utf-8"), results_block(CELLS)).encode())
    write_file(SYSTEMS, systems_page(CELLS).encode())
    for written in (PAGE, README, SYSTEMS):
        print(written.relative_to(ROOT))


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run the parts that were asked for."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from . import machine

    facts = machine.facts()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if options.only is None:
        if _moved(results, facts):
            results = {}  # each part is measured anew: none is of another machine
        results["machine"] = facts
    elif options.only == "pde_step" and _moved(results, facts):  # the page's machine is that of the fused step
        for name in set(PARTS) & results.keys():
            results[name].setdefault("processor", results["machine"]["processor"])
        results["machine"] = facts
    # A part that is measured alone must not put its versions beside the figures of the others.
    named = results.setdefault("machine", facts)["packages"]
    changed = {name: version for name, version in facts["packages"].items() if named.get(name) != version}
    for name in PARTS if options.only is None else (options.only,):
        module = import_module(f".{name}", __package__)
        elsewhere = {"languages_python": options.languages_python} if name == "pde_step" else {}
        load = round(os.getloadavg()[0], 1)
        measured = {"quick": options.quick, "load_average": load, **module.measure(options.quick, **elsewhere)}
        # What this run could not measure keeps its figure from the last one that could.
        empty = {key for key, figure in measured.items() if _is_empty(figure)}
        before = results.get(name, {})
        same = before.get("processor", results["machine"]["processor"]) == facts["processor"]
        former = {key: value for key, value in before.items() if same and key in empty}
        results[name] = {**measured, **former}
        if _moved(results, facts):
            results[name]["processor"] = facts["processor"]
        if changed:
            results[name]["packages"] = changed
    return results


def _moved(results: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Tell whether the page's machine is another than this one."""
    return results.get("machine", facts)["processor"] != facts["processor"]


def _is_empty(figure: Any) -> bool:
    return figure is None or (isinstance(figure, dict) and all(value is None for value in figure.values()))


if __name__ == "__main__":
    main()
