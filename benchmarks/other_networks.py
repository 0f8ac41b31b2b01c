"""``python -m benchmarks.other_networks``: the proving ground: one recipe, unchanged, on many networks.

Each setting is a part of a record, cut before anything was scored on it (`benchmarks.network_settings`). Every model is
scored on the windows of every setting. Finished cells are kept in ``benchmarks/cells/networks`` and reused; the same
command resumes, and writes its tables into ``docs/results.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.network_settings import NETWORKS
from benchmarks.network_tables import ABLATED, section
from benchmarks.networks import CELLS, Shape, prepared_record
from benchmarks.section import PAGE, ROOT, computed
from stationpde.evaluation import BenchmarkPlan, Cell, HorizonResults, contestant, read_cell, update_page

MODELS = ("default", "persistence", "yesterday", "climatology", "ridge_nb", "mlp_nb", "gbdt_nb", "blend")
# CPU seconds of a cell: a part that every setting costs, and seconds of a thousand values (stations times steps), from
# committed cells. A blend takes its perceptron from the cell before it.
_COSTS = {
    "persistence": (1.0, 0.01), "yesterday": (1.0, 0.01), "climatology": (1.0, 0.01), "ridge_nb": (1.0, 0.02),
    "blend": (1.0, 0.02), "mlp_nb": (10.0, 0.6), "gbdt_nb": (20.0, 1.2),
}  # fmt: skip
_OURS = (30.0, 1.4)


def main() -> None:
    """Compute the missing cells and write the section."""
    options = _options()
    names = list(NETWORKS) if options.only is None else options.only.split(",")
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        sys.exit(f"no setting {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    models = tuple(options.models.split(","))
    if options.list:
        print(_listed(names, models, options.out, options.cells))
        return
    failed: list[str] = []
    for name in _cheapest_first(names, options.out) if not options.render else ():
        failed += compute(name, models, options.out, options.cells)
    shown = tuple(dict.fromkeys((*models, *ABLATED)))
    results = {name: finished(name, shown, options.out, options.cells) for name in names}
    text = section({name: one for name, one in results.items() if one.cells}, models)
    if options.only:
        print(text)
    else:
        update_page(options.page, "other networks", text)
        print(options.page)
    if failed:
        sys.exit("failed: " + "; ".join(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.other_networks", description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS), help="names, with commas; any variant of StationPDE")
    parser.add_argument("--only", metavar="NAME", help="settings, with commas: compute these and print their tables")
    parser.add_argument("--list", action="store_true", help="print the settings and what they cost; compute nothing")
    parser.add_argument("--render", action="store_true", help="write the section from finished cells; compute nothing")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "networks", help="cut records and runs")
    parser.add_argument("--cells", type=Path, default=CELLS, help="finished cells")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose section is written anew")
    return parser.parse_args()


def compute(name: str, models: Sequence[str], out: Path, cells: Path) -> list[str]:
    """Compute the missing cells of a setting; return the names of those that failed."""
    network = NETWORKS[name]
    plan = _plan(name, models, out, cells)
    if len(list(finished_cells(plan))) == len(plan.tasks()):
        return []
    print(f"{name}: {network.title}", file=sys.stderr)
    if not network.is_whole:
        network.cut(prepared_record(network.record, out), Path(plan.store))
    _, failed = computed(plan, network.reading())
    return [f"{name}/{task}: {why}" for task, why in failed.items()]


def finished(name: str, models: Sequence[str], out: Path, cells: Path) -> HorizonResults:
    """Read the finished cells of a setting."""
    by_model = {cell.task.model: (cell,) for cell in finished_cells(_plan(name, models, out, cells))}
    return HorizonResults(24, by_model)


def finished_cells(plan: BenchmarkPlan) -> Iterator[Cell]:
    """Yield the cells that are there and have the settings of the plan; the record is not read."""
    for task in plan.tasks():
        path = plan.cell_folder / f"{task.name}.json"
        if path.exists():
            cell = read_cell(path)
            if cell.settings_sha256 == contestant(task.model).settings(task, cell.about["data"]["fingerprint"]):
                yield replace(cell, task=task)


def _plan(name: str, models: Sequence[str], out: Path, cells: Path) -> BenchmarkPlan:
    network = NETWORKS[name]
    return network.plan(name, tuple(models), out, cells, prepared_record(network.record, out))


def _shape(name: str, out: Path) -> Shape:
    network = NETWORKS[name]
    return network.shape(prepared_record(network.record, out))


def _cheapest_first(names: Sequence[str], out: Path) -> list[str]:
    return sorted(names, key=lambda name: _shape(name, out).values)


def estimate(model: str, shape: Shape, cap: float) -> float:
    """Return the CPU seconds that a cell is expected to take; a learned model at most its cap."""
    first, per_thousand = _COSTS.get(model, _OURS)
    seconds = first + per_thousand * shape.values / 1000
    return min(seconds, cap) if contestant(model).learns and model != "blend" else seconds


def _listed(names: Sequence[str], models: Sequence[str], out: Path, cells: Path) -> str:
    """List settings with their size, the cap, and the CPU seconds of what is finished and of what is open."""
    rows, sums = [], [0.0, 0.0]
    for name in names:
        network, shape = NETWORKS[name], _shape(name, out)
        cap = network.cap_seconds(shape)
        done = {c.task.model: c for c in finished_cells(_plan(name, models, out, cells))}
        # The members of a blend have cells of their own.
        spent = sum(_own_seconds(cell) for cell in done.values())
        to_do = sum(estimate(model, shape, cap) for model in models if model not in done)
        sums = [sums[0] + spent, sums[1] + to_do]
        cadence = "1 h" if network.protocol == "meteonet-like" else "3 h"
        kind = "trial" if network.is_trial else "test"
        rows.append(
            [name, network.record, kind, f"{shape.stations:,}", f"{shape.days:.0f}", cadence, f"{cap:.0f}",
             f"{len(done)} of {len(models)}", f"{spent:.0f}", f"{to_do:.0f}"]
        )  # fmt: skip
    rows.append(["in all", "", "", "", "", "", "", "", f"{sums[0]:.0f}", f"{sums[1]:.0f}"])
    head = ["setting", "record", "use", "stations", "days", "cadence", "cap [s]", "cells", "spent [s]", "open [s]"]
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join([*(line.rstrip() for line in lines), f"CPU seconds; {sum(sums) / 3600:.1f} CPU-hours in all"])


def _own_seconds(cell: Cell) -> float:
    training = cell.about["training"]
    others = sum(member["cpu_seconds"] for member in training.get("members", {}).values())
    return float(training["cpu_seconds"] - others)


if __name__ == "__main__":
    main()
