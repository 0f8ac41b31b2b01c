"""Ablations: the same training without each part of the model, on the same windows, with significance.

The table has the shape of the paper's Table 3; `Ablation.figure_data` has the numbers of the figure of components, the
relative increase of the MSE without each part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fields import atomic
from stationpde.config import ABLATIONS, Config
from stationpde.evaluation.page import update_page
from stationpde.evaluation.results import HorizonResults, Results
from stationpde.evaluation.significance import Comparison
from stationpde.evaluation.tables import grid, provenance, shown_number

__all__ = ["Ablation", "ablation_models", "parts_of", "write_ablation"]

_NAMES = {
    "no_pde": "without the PDE branch",
    "no_data": "without the data branch",
    "no_station_head": "without the station head",
    "no_guide": "without the guide",
    "no_obs_loss": "without the observed loss",
    "no_diffusion": "without diffusion",
    "no_closure": "without the closure",
    "no_last_day": "without the level of the last day",
    "with_residual": "with the residual of the equations in the loss",
}
# Variants of which `ablate` adds the residual by itself: elsewhere the guide decides most of the forecast.
_WITH_RESIDUAL = ("field",)


def parts_of(variant: str) -> tuple[str, ...]:
    """Return the parts that a variant has on a record of more than a year, where no guess starts from the last day."""
    whole = Config.preset(variant=variant)
    left_out = {"no_last_day", *(() if variant in _WITH_RESIDUAL else ("with_residual",))}
    has = [name for name in ABLATIONS if name not in left_out and whole.ablated(name) != whole]
    # Without a guide to take away, what is left of that ablation is its longer training.
    return tuple(name for name in has if name != "no_guide" or whole.is_guided)


def ablation_models(parts: Sequence[str] | None = None, variant: str = "default") -> tuple[str, ...]:
    """Return the benchmark names of the whole model and of the model without each part, by default all it has."""
    parts = parts_of(variant) if parts is None else parts
    return (variant, *(f"{variant}-{part}" for part in parts))


@dataclass(frozen=True, eq=False)
class Ablation:
    """Benchmark of the model with and without parts; ``overrides`` are keys that were changed for all."""

    results: Results
    variant: str = "default"
    overrides: tuple[str, ...] = ()

    @property
    def horizon(self) -> HorizonResults:
        """The cells."""
        return self.results.horizons[0]

    @property
    def parts(self) -> list[str]:
        """The parts whose cells are finished."""
        return [name.partition("-")[2] for name in self.horizon.cells if name.startswith(f"{self.variant}-")]

    def effect(self, part: str) -> dict[str, Comparison]:
        """Compare the MSE of the whole model with that of the model without a part, by variable."""
        return self.horizon.comparisons(self.variant)[f"{self.variant}-{part}"]

    def increase(self, part: str) -> dict[str, float]:
        """Return the relative increase of the MSE without a part, by variable."""
        whole, without = self.horizon.pooled(self.variant), self.horizon.pooled(f"{self.variant}-{part}")
        return {name: without[name]["mse"] / whole[name]["mse"] - 1.0 for name in self.horizon.variables}

    def figure_data(self) -> dict[str, dict[str, float]]:
        """Return the relative increases by part and variable, for the figure of components."""
        return {part: self.increase(part) for part in self.parts}

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON-ready values."""
        return {
            **self.results.to_dict(),
            "ablation": {
                "variant": self.variant,
                "increase": self.figure_data(),
                "effect": {
                    part: {name: comparison.to_dict() for name, comparison in self.effect(part).items()}
                    for part in self.parts
                },
            },
        }

    def markdown(self) -> str:
        """Write the paper's Table 3, then the increases with their significance."""
        results = self.horizon
        if self.variant not in results.cells:
            return "The whole model is not finished yet.\n"
        units = self.results.units()
        head = ["model", *(f"{name} ({units[name]})" for name in results.variables), "nMSE"]
        names = {self.variant: "the whole model", **{f"{self.variant}-{p}": _NAMES.get(p, p) for p in self.parts}}
        rows = [[title, *self._row(model)] for model, title in names.items() if model in results.cells]
        increases = [
            [_NAMES.get(part, part), *(_shown(self.increase(part)[v], c) for v, c in self.effect(part).items())]
            for part in self.parts
        ]
        note = (
            "Relative increase of the MSE without each part; *n.s.*: not significant at 5 % by a block bootstrap over "
            "weeks of issue days and by Diebold and Mariano."
        )
        if any(part.startswith("with_") for part in self.parts):
            note += " A row that begins with *with* adds a part instead: there a decrease speaks for it."
        changed = f", with {', '.join(f'`{pair}`' for pair in self.overrides)}" if self.overrides else ""
        title = f"## Without parts: {self.results.protocol}, {results.hours} h{changed}"
        parts = [title, provenance(self.results)]
        parts += [grid(head, rows), note, grid(["part", *results.variables], increases), *self._learned()]
        return "\n\n".join(parts) + "\n"

    def _learned(self) -> list[str]:
        """Return a table of what the terms of a residual have learned, with units, for the cells that have one."""
        tables = []
        for model, by_seed in self.horizon.cells.items():
            learned = next((c.about["training"]["physics"] for c in by_seed if "physics" in c.about["training"]), None)
            if learned:
                rows = [[f"`{name}`", shown_number(entry["value"]), entry["unit"]] for name, entry in learned.items()]
                title = f"Terms in the residual of `{model}` (the first seed), as learned on observations:"
                tables += [title, grid(["term", "value", "unit"], rows)]
        return tables

    def _row(self, model: str) -> list[str]:
        pooled = self.horizon.pooled(model)
        best = {v: self.horizon.ranking(v)[0] for v in self.horizon.variables}
        cells = []
        for name, entry in pooled.items():
            text = shown_number(entry["mse"])
            text = f"**{text}**" if best[name] == model else text
            cells.append(f"{text} ± {entry['mse_std']:.2g}" if entry["seeds"] > 1 else text)
        return [*cells, shown_number(self.horizon.nmse(model))]


def _shown(increase: float, comparison: Comparison) -> str:
    return f"{100 * increase:+.1f} %{'' if comparison.is_significant else ' n.s.'}"


def write_ablation(
    ablation: Ablation, folder: Path, *, page: Path | None = None, data_name: str = ""
) -> dict[str, str]:  # fmt: skip
    """Write the table, the numbers and the figure of components to a folder, and the table into a page.

    Parameters
    ----------
    page : Markdown page whose section about this ablation is rewritten
    data_name : name of the record in the title of that section

    Returns
    -------
    Paths of the files in the folder: ``table``, ``numbers`` and, if a part is finished, ``figure``.
    """
    from stationpde.plots import draw_parts

    table, numbers = folder / "ablation.md", folder / "ablation.json"
    atomic.write_file(table, ablation.markdown().encode())
    atomic.write_file(numbers, json.dumps(ablation.to_dict()["ablation"], indent=1).encode())
    files = {"table": str(table), "numbers": str(numbers)}
    if ablation.parts:
        horizon = ablation.horizon
        scores = {model: {v: s["mse"] for v, s in horizon.pooled(model).items()} for model in horizon.cells}
        files["figure"] = str(draw_parts(scores, folder / "components.png", full=ablation.variant))
    if page is not None:
        changed = ", ".join(ablation.overrides)
        label = f"{ablation.variant} with {changed}" if changed else ablation.variant
        update_page(page, f"parts of {label}, {ablation.results.protocol} {data_name}", ablation.markdown())
    return files
