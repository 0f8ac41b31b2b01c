"""``python -m benchmarks``: measure, write ``benchmarks/results.json``, and the pages that show it and the cells."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE, README, CELLS = ROOT / "docs" / "benchmarks.md", ROOT / "README.md", ROOT / "benchmarks" / "cells"
# Modules with measure(quick); each is a section of the results.
PARTS = ("pde_step", "thermo", "lift", "ingest", "training", "inference")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no inductor, no py-pde: a look")
    parser.add_argument("--render", action="store_true", help="only write page and README from what is at hand")
    parser.add_argument("--only", choices=PARTS, help="measure one part and keep the figures of the others")
    parser.add_argument("--languages-python", type=Path, help="interpreter that has Devito and GT4Py")
    options = parser.parse_args()
    if not options.render:
        write_atomically(RESULTS, json.dumps(measured(options), indent=2) + "\n")
        print(RESULTS.relative_to(ROOT))
    from .readme import results_block, with_results
    from .render import page

    write_atomically(PAGE, page(json.loads(RESULTS.read_text(encoding="utf-8"))))
    write_atomically(README, with_results(README.read_text(encoding="utf-8"), results_block(CELLS)))
    for written in (PAGE, README):
        print(written.relative_to(ROOT))


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run the parts that were asked for."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from . import machine

    facts = machine.facts()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if results.get("machine", {}).get("processor") != facts["processor"]:
        results = {}  # figures of different machines do not belong side by side
    if options.only is None:
        results["machine"] = facts
    # A part that is measured alone must not put its versions beside the figures of the others.
    named = results.setdefault("machine", facts)["packages"]
    changed = {name: version for name, version in facts["packages"].items() if named.get(name) != version}
    for name in PARTS if options.only is None else (options.only,):
        module = import_module(f".{name}", __package__)
        elsewhere = {"languages_python": options.languages_python} if name == "pde_step" else {}
        load = round(os.getloadavg()[0], 1)
        found = {"quick": options.quick, "load_average": load, **module.measure(options.quick, **elsewhere)}
        # What this run could not measure keeps its figure from the last one that could.
        kept = {key: value for key, value in results.get(name, {}).items() if key in found and _is_empty(found[key])}
        results[name] = {**found, **kept}
        if changed:
            results[name]["packages"] = changed
    return results


def _is_empty(found: Any) -> bool:
    return found is None or (isinstance(found, dict) and all(value is None for value in found.values()))


def write_atomically(file: Path, text: str) -> None:
    """Replace a file as a whole: a reader never sees half of it."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as staged:
        staged.write(text)
        staged.flush()
        os.fsync(staged.fileno())
    Path(staged.name).chmod(0o644)
    Path(staged.name).replace(file)


if __name__ == "__main__":
    main()
