"""From finished cells to the table of the README: our model, the best other one, persistence, and what is significant.

Cells are what ``stationpde benchmark --cells benchmarks/cells`` leaves; all tables are on ``docs/results.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.network_settings import NETWORKS
from stationpde.evaluation import (
    LONG_NAMES,
    Cell,
    HorizonResults,
    compare,
    contestant,
    grid,
    read_cell,
    shown_number,
    squared_unit,
)

__all__ = ["results_block", "with_results"]

# Our model; where it has no cell at some horizon yet, as it was with the recipe of before.
OURS = ("default", "default:recipe_former")
# Settings of the proving ground that are all stations of a record: other regions.
REGIONS = ("us", "metar")
STRONGEST = "blend"
_BEGIN = "<!-- results: written by `python -m benchmarks --render` from benchmarks/cells -->"
_END = "<!-- end of results -->"


def results_block(folder: Path) -> str:
    """Return the tables, one for each protocol and record that our model was scored on."""
    folders = [folder, *(folder / "networks" / name for name in REGIONS)]
    cells = [read_cell(path) for one in folders for path in sorted(one.glob("*.json"))]
    parts = []
    for of_record in _by_record(cells):
        if tables := _tables(of_record):
            parts.append(tables)
    return "\n\n".join([_BEGIN, *parts, _END])


def with_results(text: str, block: str) -> str:
    """Return a page with the block in place of its older self."""
    between = re.compile(re.escape(_BEGIN) + r".*?" + re.escape(_END), re.DOTALL)
    if not between.search(text):
        raise SystemExit(f"README.md has no place for the results: add the lines\n{_BEGIN}\n{_END}")
    return between.sub(lambda _: block, text)


def _by_record(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Group cells that were scored on the same windows and stations, for one table each; all stations come first."""
    groups: dict[tuple[int, int, str, str], list[Cell]] = {}
    for cell in cells:
        task, data = cell.task, cell.about["data"]
        key = (task.leave_out, -data["step_seconds"], task.protocol, data["fingerprint"])
        groups.setdefault(key, []).append(cell)
    yield from (groups[key] for key in sorted(groups))


def _tables(cells: Sequence[Cell]) -> str | None:
    """Return caption and table of a record that our model, or its former recipe, was scored on."""
    every = {
        ours: [one for hours in _hours(cells) if ours in (one := _horizon(cells, hours, ours)).cells] for ours in OURS
    }
    ours = max(OURS, key=lambda name: len(every[name]))  # of equals the first
    if not every[ours] or STRONGEST not in every[ours][0].cells:
        return None  # a lead over the peers that happen to be finished would mislead
    return f"{_caption(every[ours], ours)}\n\n{_table(every[ours], ours)}"


def _hours(cells: Sequence[Cell]) -> list[int]:
    return sorted({cell.task.hours for cell in cells})


def _horizon(cells: Sequence[Cell], hours: int, ours: str) -> HorizonResults:
    """Return our model and its peers; parts taken away have a table of their own."""
    by_model: dict[str, tuple[Cell, ...]] = {}
    for cell in cells:
        name = cell.task.model
        if cell.task.hours == hours and (name == ours or contestant(name).peer is not None):
            by_model[name] = (*by_model.get(name, ()), cell)
    return HorizonResults(hours, by_model)


def _caption(horizons: Sequence[HorizonResults], ours: str) -> str:
    cell = horizons[0].cells[ours][0]
    data, task = cell.about["data"], cell.task
    hours = ", ".join(f"{horizon.hours} h" for horizon in horizons)
    step = "hourly" if data["step_seconds"] == 3600 else f"every {data['step_seconds'] / 3600:g} h"
    seeds = _seeds({horizon.hours: len(horizon.cells[ours]) for horizon in horizons})
    peers = max(len(horizon.cells) for horizon in horizons) - 1
    cap = "" if task.cap is None else f", {task.cap / 60:g} CPU-minutes for each learned model"
    record = data["name"].partition("/")[0]
    record = NETWORKS[record].record if record in NETWORKS else record
    of = f"{data['stations']:,} stations"
    of = f"the {of} of" if "kept" not in data else f"{of} that were left out of training, {data['kept']} kept, of"
    return (
        f"MSE {hours} ahead, {step}, at {of} `{record}`, "
        f"{data['windows']['test']:,} test windows from {data['split']['test'][0][:10]} on; {peers} other models, "
        f"{seeds}{cap}{', our model with its former recipe' if task.recipe == 'former' else ''}:"
    )


def _seeds(counts: Mapping[int, int]) -> str:
    """Write how many seeds ours has, by horizon if they differ: ``ours the mean of 3 seeds at 24 h, else one seed``."""
    number = lambda n: f"ours the mean of {n} seeds" if n > 1 else "one seed"
    if len(set(counts.values())) == 1:
        return number(next(iter(counts.values())))
    many = {hours: n for hours, n in counts.items() if n > 1}
    return f"{', '.join(f'{number(n)} at {hours} h' for hours, n in many.items())}, else one seed"


def _table(horizons: Sequence[HorizonResults], ours: str) -> str:
    """Return a horizon in full; of several, our score and by how much it is lower, side by side."""
    labels = {name: f"{LONG_NAMES[name]} ({_unit(horizons[0], name, ours)})" for name in horizons[0].variables}
    if len(horizons) == 1:
        head = ["", "StationPDE", "best other", "persistence", "lower than the best other by"]
        return grid(head, [[label, *_beside(horizons[0], name, ours).in_full()] for name, label in labels.items()])
    head = ["StationPDE (lower than the best other by)", *(f"{horizon.hours} h" for horizon in horizons)]
    return grid(
        head, [[t, *(_beside(horizon, name, ours).in_brief() for horizon in horizons)] for name, t in labels.items()]
    )


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


def _beside(horizon: HorizonResults, variable: str, subject: str) -> _Beside:
    scores = {model: horizon.pooled(model)[variable]["mse"] for model in horizon.cells}
    others = [model for model in scores if model != subject]
    persistence = shown_number(scores["persistence"]) if "persistence" in scores else "–"
    if not others:
        return _Beside(shown_number(scores[subject]), "–", persistence)
    best = min(others, key=lambda model: scores[model])
    gain = compare(horizon.statistics(subject), horizon.statistics(best))[variable]
    interval = "" if gain.low is None or gain.high is None else f"{100 * gain.low:.1f} to {100 * gain.high:.1f}"
    ours, other = (
        shown_number(scores[subject]),
        f"{shown_number(scores[best])} ({horizon.cells[best][0].about['title']})",
    )
    ours = f"**{ours}**" if scores[subject] < scores[best] else ours
    lower_by = f"{100 * gain.gain:.1f} %{'' if gain.is_significant else ' n.s.'}"
    return _Beside(ours, other, persistence, lower_by, interval)


def _unit(horizon: HorizonResults, variable: str, ours: str) -> str:
    return squared_unit(horizon.cells[ours][0].about["scores"][variable]["unit"])
