"""``python -m benchmarks.guided_lift NAME``: the physics-guided lift beside the others, into ``docs/systems.md``.

Ingests a network from the folder of real data beside the checkout (``STATIONPDE_SHARED``) into a temporary store, and
runs what ``stationpde field cv STORE --method … --method pinn`` runs, once with and once without the Coriolis term, on
the same folds. The scores are kept in ``benchmarks/lifts``, which the page is written from.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fields import store
from fields.atomic import write_file
from fields.ingest import IngestOptions, ingest_files
from fields.lift import LIFT_METHODS, PINN, PinnSettings, cross_validate
from fields.readers import ReadOptions
from fields.variables import display_unit
from stationpde.evaluation import commit, grid, shown_number

__all__ = ["LIFTS", "guided_lift_section", "measured"]

ROOT = Path(__file__).parents[1]
LIFTS = ROOT / "benchmarks" / "lifts"
WITHOUT = "pinn, no Coriolis"
# Networks of the folder of real data, and how each is read: two stations of 1993 report what none can.
NETWORKS = {"inmet_south": ReadOptions(), "metar_1993": ReadOptions(pressure="sea-level", drop=("BLM", "HBR"))}


def main() -> None:
    """Measure one network and write the page."""
    from .__main__ import CELLS, SYSTEMS
    from .systems import systems_page

    parser = argparse.ArgumentParser(prog="python -m benchmarks.guided_lift", description=__doc__)
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("--steps", type=int, default=PinnSettings().steps, help="of training of a network")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    LIFTS.mkdir(exist_ok=True)
    # Twice: what was scored before the networks without the Coriolis term stays if they are stopped.
    for scores in measured(options.name, options.steps):
        write_file(LIFTS / f"{options.name}.json", (json.dumps(scores, indent=1) + "\n").encode())
        write_file(SYSTEMS, systems_page(CELLS).encode())
        print(SYSTEMS.relative_to(ROOT), flush=True)


def measured(name: str, steps: int) -> Iterator[dict[str, Any]]:
    """Yield errors by variable and method, and what they are of, without and with the last method."""
    shared = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        options = IngestOptions(read=NETWORKS[name])
        ingested = ingest_files(shared / "data" / name / "observations.npz", Path(folder) / "record.zarr", options)
        record = store.open_store(ingested.path).load()
    with_term, without = (PinnSettings(coriolis=coriolis, steps=steps) for coriolis in (True, False))
    whole = cross_validate(record, (*LIFT_METHODS, PINN), pinn=with_term, announce=print)
    about = {
        "network": name,
        "stations": whole.stations,
        "moments": whole.moments,
        "folds": whole.folds,
        "count": whole.count,
        "pinn": asdict(with_term),
        "commit": commit(),
    }
    yield {**about, "rmse": whole.rmse, "cpu_seconds": round(time.process_time() - began)}
    bare = cross_validate(record, (PINN,), pinn=without, announce=print)
    rmse = {variable: {**by_method, WITHOUT: bare.rmse[variable][PINN]} for variable, by_method in whole.rmse.items()}
    yield {**about, "rmse": rmse, "cpu_seconds": round(time.process_time() - began)}


def guided_lift_section(folder: Path) -> str:
    """Return the tables of the networks that were measured, as Markdown."""
    parts = []
    for path in sorted(folder.glob("*.json")):
        scores = json.loads(path.read_text(encoding="utf-8"))
        methods = list(next(iter(scores["rmse"].values())))
        rows = [
            [variable, display_unit(variable, difference=True), *_marked(by_method)]
            for variable, by_method in scores["rmse"].items()
        ]
        steps, command = scores["pinn"]["steps"], f"python -m benchmarks.guided_lift {scores['network']}"
        command += f" --steps {steps}" if steps != PinnSettings().steps else ""
        parts.append(
            f"`{scores['network']}`: root mean square error at {scores['stations']:,} stations, {scores['moments']} "
            f"times, each of {scores['folds']} folds of stations left out in turn; networks of {steps:,} steps "
            f"(`{command}`, {scores['cpu_seconds'] / 60:.0f} CPU min, commit {scores['commit']}).\n"
        )
        titles = [f"`{method}`" if method != WITHOUT else "`pinn`, no Coriolis" for method in methods]
        parts.append(grid(["variable", "unit", *titles], rows) + "\n")
    return "\n".join(parts) or "Not yet computed.\n"


def _marked(by_method: dict[str, float]) -> list[str]:
    """Return the errors with the smallest in bold."""
    best = min(by_method.values())
    return [f"**{shown_number(error)}**" if error == best else shown_number(error) for error in by_method.values()]


if __name__ == "__main__":
    main()
