"""What each part of the model is worth: the same training without it, on the same windows, with significance.

The table has the shape of the paper's Table 3; `Ablation.figure_data` is what the figure of components shows, the
relative increase of the MSE without each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stationpde.config import ABLATIONS
from stationpde.evaluation.results import HorizonResults, Results
from stationpde.evaluation.significance import Comparison
from stationpde.evaluation.tables import grid, provenance, shown_number

__all__ = ["PARTS", "Ablation", "ablation_models"]

# On a record of more than a year the level of the last day is not used, and there is nothing to take away.
PARTS = tuple(name for name in ABLATIONS if name != "no_last_day")
_NAMES = {
    "no_pde": "without the PDE branch",
    "no_data": "without the data branch",
    "no_station_head": "without the station head",
    "no_guide": "without the guide",
    "no_obs_loss": "without the observed loss",
    "no_diffusion": "without diffusion",
    "no_closure": "without the closure",
    "no_last_day": "without the level of the last day",
}


def ablation_models(parts: Sequence[str] = PARTS, variant: str = "default") -> tuple[str, ...]:
    """Names under which a benchmark runs the whole model and the model without each part."""
    return (variant, *(f"{variant}-{part}" for part in parts))


@dataclass(frozen=True, eq=False)
class Ablation:
    """A benchmark of the model and of itself without parts; ``overrides`` are keys that were changed for all."""

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
        """How much lower the whole model's MSE is than without a part, by variable."""
        return self.horizon.comparisons(self.variant)[f"{self.variant}-{part}"]

    def increase(self, part: str) -> dict[str, float]:
        """The relative increase of the MSE without a part, by variable."""
        whole, without = self.horizon.pooled(self.variant), self.horizon.pooled(f"{self.variant}-{part}")
        return {name: without[name]["mse"] / whole[name]["mse"] - 1.0 for name in self.horizon.variables}

    def figure_data(self) -> dict[str, dict[str, float]]:
        """Relative increases by part and variable, for the figure of components."""
        return {part: self.increase(part) for part in self.parts}

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            **self.results.to_dict(),
            "ablation": {
                "variant": self.variant,
                "increase": self.figure_data(),
                "effect": {
                    part: {name: found.to_dict() for name, found in self.effect(part).items()} for part in self.parts
                },
            },
        }

    def markdown(self) -> str:
        """The paper's Table 3, then the increases with their significance."""
        found = self.horizon
        if self.variant not in found.cells:
            return "The whole model is not finished yet.\n"
        units = self.results.units()
        head = ["model", *(f"{name} ({units[name]})" for name in found.variables), "nMSE"]
        names = {self.variant: "the whole model", **{f"{self.variant}-{p}": _NAMES.get(p, p) for p in self.parts}}
        rows = [[title, *self._row(model)] for model, title in names.items() if model in found.cells]
        worth = [
            [_NAMES.get(part, part), *(_shown(self.increase(part)[v], c) for v, c in self.effect(part).items())]
            for part in self.parts
        ]
        note = (
            "Relative increase of the MSE without each part; *n.s.*: not significant at 5 % by a block bootstrap over "
            "weeks of issue days and by Diebold and Mariano."
        )
        changed = f", with {', '.join(f'`{pair}`' for pair in self.overrides)}" if self.overrides else ""
        title = f"## Without parts: {self.results.protocol}, {found.hours} h{changed}"
        parts = [title, provenance(self.results)]
        parts += [grid(head, rows), note, grid(["part", *found.variables], worth)]
        return "\n\n".join(parts) + "\n"

    def _row(self, model: str) -> list[str]:
        pooled = self.horizon.pooled(model)
        best = {v: self.horizon.ranking(v)[0] for v in self.horizon.variables}
        cells = []
        for name, entry in pooled.items():
            text = shown_number(entry["mse"])
            text = f"**{text}**" if best[name] == model else text
            cells.append(f"{text} ± {entry['mse_std']:.2g}" if entry["seeds"] > 1 else text)
        return [*cells, shown_number(self.horizon.nmse(model))]


def _shown(increase: float, found: Comparison) -> str:
    return f"{100 * increase:+.1f} %{'' if found.is_significant else ' n.s.'}"
