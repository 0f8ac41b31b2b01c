"""``python -m benchmarks.other_networks``: the recipe, unchanged, on other networks, into ``docs/results.md``.

Each network is a part of a record, cut by place and time before anything is scored: fewer stations, a shorter record,
another season. Trials, which choices of the recipe were made on, lie within the record's training period and have a
separate table. Finished cells are kept in ``benchmarks/cells/networks`` and reused; the same command resumes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.section import PAGE, ROOT, default_record, scored
from stationpde.evaluation import LONG_NAMES, BenchmarkPlan, Comparison, HorizonResults, grid, update_page

CELLS = ROOT / "benchmarks" / "cells" / "networks"
# Ablations of parts that a long record gains little from, and their names in tables.
WITHOUT = {
    "default-no_last_day": "without the level of the last day",
    "default-no_pde": "without the PDE branch",
}
MODELS = ("ridge_nb", "mlp_nb", "blend", "default", *WITHOUT)

Array = np.ndarray[Any, Any]
# A number and its sign stay on one line.
_PERCENT = "\N{NO-BREAK SPACE}%"


@dataclass(frozen=True, slots=True)
class Network:
    """A part of a record: ``chosen`` gives the numbers of its stations from latitudes and longitudes."""

    title: str
    chosen: Callable[[Array, Array], Array]
    first: str
    last: str
    is_trial: bool = False

    def cut(self, record: Path, target: Path) -> Path:
        """Write the part in the layout of the record."""
        with np.load(record, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive}
        rows = self.chosen(arrays["lat"], arrays["lon"])
        times = (arrays["time"] >= np.datetime64(self.first)) & (arrays["time"] <= np.datetime64(self.last))
        target.parent.mkdir(parents=True, exist_ok=True)
        of_station = {name: arrays[name][rows] for name in ("station_id", "lat", "lon", "alt_m")}
        whole = {"variables": arrays["variables"], "time": arrays["time"][times]}
        np.savez(target, obs=arrays["obs"][times][:, rows], **whole, **of_station)
        return target


def nearest(count: int, lat: float, lon: float) -> Callable[[Array, Array], Array]:
    """Return a function that selects the stations nearest to a place, in the order of the record."""

    def chosen(lats: Array, lons: Array) -> Array:
        east = (lons - lon) * np.cos(np.radians(lat))
        return np.sort(np.argsort(np.hypot(lats - lat, east), kind="stable")[:count])

    return chosen


def _trial(count: int, lat: float, lon: float, months: str, first: str, last: str) -> Network:
    title = f"{count} stations around {-lat:g}° S {-lon:g}° W, {months} 2023"
    return Network(title, nearest(count, lat, lon), f"2023-{first}", f"2023-{last}T23", is_trial=True)


NETWORKS = {
    "south-2023": Network(
        "stations south of 28° S, 2023", lambda lat, lon: np.flatnonzero(lat < -28.0), "2023-01-01", "2023-12-31T23"
    ),
    "third-2024": Network(
        "every third station, April to September 2024", lambda lat, lon: np.arange(0, len(lat), 3), "2024-04-01",
        "2024-09-30T23",
    ),
    "plateau-summer": Network(
        "12 stations around 22° S 49° W, November 2023 to February 2024", nearest(12, -22.0, -49.0), "2023-11-01",
        "2024-02-29T23",
    ),
    "coast-winter": Network(
        "8 stations around 25° S 50° W, June to August 2024", nearest(8, -25.0, -50.0), "2024-06-01", "2024-08-31T23"
    ),
    "trial-pampas": _trial(8, -30.0, -53.0, "March to May", "03-01", "05-31"),
    "trial-hills": _trial(10, -21.0, -44.0, "June to August", "06-01", "08-31"),
    "trial-inland": _trial(8, -23.0, -52.0, "September to November", "09-01", "11-30"),
    "trial-half-year": _trial(15, -27.0, -50.0, "January to June", "01-01", "06-30"),
    "trial-six": _trial(6, -20.0, -41.5, "May to July", "05-01", "07-31"),
    "trial-twenty": _trial(20, -22.0, -46.0, "July to October", "07-01", "10-31"),
}  # fmt: skip


def main() -> None:
    """Compute the missing cells and write the section."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.other_networks", description=__doc__)
    parser.add_argument("record", nargs="?", type=Path, help="inmet_south of the shared data by default")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "networks", help="cut records and runs")
    parser.add_argument("--cells", type=Path, default=CELLS, help="finished cells")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose section is written anew")
    parser.add_argument("--only", choices=tuple(NETWORKS), help="compute one network and write nothing")
    options = parser.parse_args()
    record = options.record or default_record()
    names = [options.only] if options.only else list(NETWORKS)
    results = {name: of_network(name, record, options.out, options.cells) for name in names}
    if options.only:
        print(section(results))
        return
    update_page(options.page, f"other networks, w2k-like {record.parent.name}/{record.name}", section(results))
    print(options.page)


def of_network(name: str, record: Path, out: Path, cells: Path, models: Sequence[str] = MODELS) -> HorizonResults:
    """Compute or read the cells of one network."""
    folder = out / name
    cut = NETWORKS[name].cut(record, folder / "observations.npz")
    plan = BenchmarkPlan(
        store=str(cut), protocol="w2k-like", models=tuple(models), out=folder, cells=cells / name,
        command="python -m benchmarks.other_networks",
    )  # fmt: skip
    return scored(plan)


def section(results: dict[str, HorizonResults]) -> str:
    """Write the section as Markdown."""
    about = (
        "Parts of the record, cut before anything was scored on them; w2k-like, one seed, nothing set. How much lower "
        "the MSE of StationPDE is at 24 h than that of the better of ridge and perceptron with neighbours, variable by "
        "variable, than that of their blend, and than its own without a part (`default-no_last_day`: guesses about the "
        "climatology; `default-no_pde`); *n.s.*: not significant at 5 % by a block bootstrap over weeks of "
        "issue days and by Diebold and Mariano, or too few days to tell."
    )
    networks = {name: one for name, one in results.items() if not NETWORKS[name].is_trial}
    trials = {name: one for name, one in results.items() if NETWORKS[name].is_trial}
    commits = sorted({str(cell.about.get("commit")) for one in results.values() for cell in one.cells["default"]})
    facts = f"`python -m benchmarks.other_networks`, commit {', '.join(commits)}."
    parts = ["## The same recipe on other networks", about, *([_table(networks)] if networks else [])]
    if trials:
        parts += ["Trials, on which the level of the last day was chosen (within the training period):", _table(trials)]
    return "\n\n".join([*parts, facts])


def _table(results: dict[str, HorizonResults]) -> str:
    names = [LONG_NAMES[v] for v in next(iter(results.values())).variables]
    rows, each = [], []
    for name, one in results.items():
        comparisons = _compared(one)
        each.append({label: [c.gain for c in by.values()] for label, by in comparisons.items()})
        shown = [
            [label, *map(_shown, by.values()), _percent([c.gain for c in by.values()])]
            for label, by in comparisons.items()
        ]
        rows += [[_title(name, one) if n == 0 else "", *row] for n, row in enumerate(shown)]
    for n, label in enumerate(each[0]):
        gains = [by_label[label] for by_label in each]
        over = [_percent([gain[v] for gain in gains]) for v in range(len(names))]
        rows.append(["**mean**" if n == 0 else "", label, *over, _percent([g for gain in gains for g in gain])])
    return grid(["network", "against", *names, "mean"], rows)


def _title(name: str, results: HorizonResults) -> str:
    about = results.cells["default"][0].about
    data, cpu = about["data"], about["training"]["cpu_seconds"]
    windows = ", ".join(f"{count:,} {split}" for split, count in data["windows"].items())
    return f"{NETWORKS[name].title} ({data['stations']} stations; {windows} windows; {cpu:.0f} CPU s)"


def _compared(results: HorizonResults) -> dict[str, dict[str, Comparison]]:
    """Compare the model with the best single peer of each variable, the blend, and itself without parts."""
    margins, compared = results.margins("default"), results.comparisons("default")
    rivals = {"best single peer": margins["best_single_peer"]["peer"], "blend": margins["blend"]["peer"]}
    rivals |= {title: dict.fromkeys(results.variables, model) for model, title in WITHOUT.items()}
    return {label: {v: compared[rival][v] for v, rival in by.items()} for label, by in rivals.items()}


def _shown(comparison: Comparison) -> str:
    return f"{100 * comparison.gain:+.1f}{_PERCENT}{'' if comparison.is_significant else ' n.s.'}"


def _percent(gains: list[float]) -> str:
    return f"{100 * sum(gains) / len(gains):+.1f}{_PERCENT}"


if __name__ == "__main__":
    main()
