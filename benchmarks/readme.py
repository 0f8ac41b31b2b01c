"""From finished cells to the table of the README: our model, the best other one, persistence, and what is significant.

Cells are what ``stationpde benchmark --cells benchmarks/cells`` leaves; all tables are on ``docs/results.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stationpde.evaluation.cells import Cell, read_cell
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.metrics import squared_unit
from stationpde.evaluation.results import HorizonResults
from stationpde.evaluation.significance import compare
from stationpde.evaluation.tables import LONG_NAMES, grid, shown_number

__all__ = ["results_block", "with_results"]

OURS = "default"
_BEGIN = "<!-- results: written by `python -m benchmarks --render` from benchmarks/cells -->"
_END = "<!-- end of results -->"


def results_block(folder: Path) -> str:
    """Return the tables, one for each protocol and record that our model was scored on."""
    cells = [read_cell(path) for path in sorted(folder.glob("*.json"))]
    parts = []
    for of_record in _by_record(cells):
        horizons = [found for hours in _hours(of_record) if OURS in (found := _horizon(of_record, hours)).cells]
        if horizons:
            parts.append(f"{_caption(horizons)}\n\n{_table(horizons)}")
    return "\n\n".join([_BEGIN, *parts, _END])


def with_results(text: str, block: str) -> str:
    """Return a page with the block in place of its older self."""
    between = re.compile(re.escape(_BEGIN) + r".*?" + re.escape(_END), re.DOTALL)
    if not between.search(text):
        raise SystemExit(f"README.md has no place for the results: add the lines\n{_BEGIN}\n{_END}")
    return between.sub(lambda _: block, text)


def _by_record(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Only what was scored on the same windows and stations stands in one table; all stations come first."""
    groups: dict[tuple[int, int, str, str], list[Cell]] = {}
    for cell in cells:
        task, data = cell.task, cell.about["data"]
        key = (task.leave_out, -data["step_seconds"], task.protocol, data["fingerprint"])
        groups.setdefault(key, []).append(cell)
    yield from (groups[key] for key in sorted(groups))


def _hours(cells: Sequence[Cell]) -> list[int]:
    return sorted({cell.task.hours for cell in cells})


def _horizon(cells: Sequence[Cell], hours: int) -> HorizonResults:
    """Our model and its peers; parts taken away have a table of their own."""
    found: dict[str, tuple[Cell, ...]] = {}
    for cell in cells:
        name = cell.task.model
        if cell.task.hours == hours and (name == OURS or contestant(name).peer is not None):
            found[name] = (*found.get(name, ()), cell)
    return HorizonResults(hours, found)


def _caption(horizons: Sequence[HorizonResults]) -> str:
    ours = horizons[0].cells[OURS]
    data, task = ours[0].about["data"], ours[0].task
    hours = ", ".join(f"{found.hours} h" for found in horizons)
    step = "hourly" if data["step_seconds"] == 3600 else f"every {data['step_seconds'] / 3600:g} h"
    seeds = _seeds({found.hours: len(found.cells[OURS]) for found in horizons})
    peers = max(len(found.cells) for found in horizons) - 1
    cap = "" if task.cap is None else f", {task.cap / 60:g} CPU-minutes for each learned model"
    of = f"{data['stations']} stations"
    of = f"the {of} of" if "kept" not in data else f"{of} that were left out of training, {data['kept']} kept, of"
    return (
        f"MSE {hours} ahead, {step}, at {of} `{data['name'].partition('/')[0]}`, "
        f"{data['windows']['test']:,} test windows from {data['split']['test'][0][:10]} on; {peers} other models, "
        f"{seeds}{cap}:"
    )


def _seeds(counts: Mapping[int, int]) -> str:
    """How many seeds of ours, by horizon where they differ: ``ours the mean of 3 seeds at 24 h, else one seed``."""
    number = lambda n: f"ours the mean of {n} seeds" if n > 1 else "one seed"
    if len(set(counts.values())) == 1:
        return number(next(iter(counts.values())))
    many = {hours: n for hours, n in counts.items() if n > 1}
    return f"{', '.join(f'{number(n)} at {hours} h' for hours, n in many.items())}, else one seed"


def _table(horizons: Sequence[HorizonResults]) -> str:
    """A horizon in full; of several, our score and by how much it is lower, side by side."""
    labels = {name: f"{LONG_NAMES[name]} ({_unit(horizons[0], name)})" for name in horizons[0].variables}
    if len(horizons) == 1:
        head = ["", "StationPDE", "best other", "persistence", "lower than the best other by"]
        return grid(head, [[label, *_beside(horizons[0], name).in_full()] for name, label in labels.items()])
    head = ["StationPDE (lower than the best other by)", *(f"{found.hours} h" for found in horizons)]
    return grid(head, [[t, *(_beside(found, name).in_brief() for found in horizons)] for name, t in labels.items()])


class _Beside(NamedTuple):
    """Our score of a variable, that of the best other model with its name, persistence, the gain and its interval."""

    ours: str
    other: str
    persistence: str
    gain: str = "–"
    interval: str = ""

    def in_full(self) -> list[str]:
        interval = f" ({self.interval})" if self.interval else ""
        return [self.ours, self.other, self.persistence, f"{self.gain}{interval}"]

    def in_brief(self) -> str:
        return f"{self.ours} ({', '.join(filter(None, (self.gain, self.interval)))})"


def _beside(found: HorizonResults, variable: str) -> _Beside:
    scores = {model: found.pooled(model)[variable]["mse"] for model in found.cells}
    others = [model for model in scores if model != OURS]
    kept = shown_number(scores["persistence"]) if "persistence" in scores else "–"
    if not others:
        return _Beside(shown_number(scores[OURS]), "–", kept)
    best = min(others, key=lambda model: scores[model])
    gain = compare(found.statistics(OURS), found.statistics(best))[variable]
    interval = "" if gain.low is None or gain.high is None else f"{100 * gain.low:.1f} to {100 * gain.high:.1f}"
    ours, other = shown_number(scores[OURS]), f"{shown_number(scores[best])} ({found.cells[best][0].about['title']})"
    ours = f"**{ours}**" if scores[OURS] < scores[best] else ours
    return _Beside(ours, other, kept, f"{100 * gain.gain:.1f} %{'' if gain.is_significant else ' n.s.'}", interval)


def _unit(found: HorizonResults, variable: str) -> str:
    return squared_unit(found.cells[OURS][0].about["scores"][variable]["unit"])
