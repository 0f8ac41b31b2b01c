"""Finished cells as one result: means and spreads over seeds, margins, and which differences are real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stationpde.evaluation.cells import Cell, commit, versions
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.metrics import mean_over, scores_by, skill, squared_unit
from stationpde.evaluation.significance import Comparison, compare
from stationpde.evaluation.statistics import ErrorStatistics

__all__ = ["HorizonResults", "Results"]


@dataclass(frozen=True, eq=False)
class HorizonResults:
    """The cells of one horizon, by model; those of a model are in the order of their seeds."""

    hours: int
    cells: Mapping[str, tuple[Cell, ...]]

    @property
    def variables(self) -> tuple[str, ...]:
        """Those that all models were scored on."""
        first = next(iter(self.cells.values()))[0]
        return first.statistics.variables

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of models that draw random numbers."""
        found = {cell.task.seed for cells in self.cells.values() for cell in cells}
        return tuple(sorted(seed for seed in found if seed is not None))

    def seed_scores(self, model: str) -> list[dict[str, dict[str, Any]]]:
        """Scores of every seed by variable."""
        return [dict(cell.about["scores"]) for cell in self.cells[model]]

    def pooled(self, model: str) -> dict[str, dict[str, Any]]:
        """Means over seeds by variable, with the standard deviation between them; skill is against persistence."""
        seeds = self.seed_scores(model)
        made = {}
        for name in self.variables:
            values = {key: [seed[name][key] for seed in seeds] for key in ("mse", "mae", "bias", "nmse")}
            entry: dict[str, Any] = {key: float(np.mean(found)) for key, found in values.items()}
            entry |= {f"{key}_std": _spread(values[key]) for key in ("mse", "mae")}
            if "persistence" in self.cells:
                entry["skill"] = skill(entry["mse"], self.cells["persistence"][0].about["scores"][name]["mse"])
            made[name] = {**entry, "unit": seeds[0][name]["unit"], "seeds": len(seeds)}
        return made

    def nmse(self, model: str) -> float:
        """Mean over variables of the normalised MSE."""
        return mean_over({name: entry["nmse"] for name, entry in self.pooled(model).items()})

    def statistics(self, model: str) -> ErrorStatistics:
        """The mean sums over seeds."""
        return ErrorStatistics.mean([cell.statistics for cell in self.cells[model]])

    def by_lead(self, model: str) -> dict[str, dict[str, float]]:
        """MSE of each variable by lead in hours."""
        found = self.statistics(model)
        return {
            name: {
                f"{hours:g}": round(scores_by(found.lead[:, i], found.variables)[name].mse, 6)
                for i, hours in enumerate(found.lead_hours)
            }
            for name in found.variables
        }

    @property
    def subject(self) -> str:
        """Whom the others are compared with: our own model if it takes part, else the best."""
        ours = [name for name in ("default", "paper") if name in self.cells]
        return ours[0] if ours else min(self.cells, key=self.nmse)

    def comparisons(self, subject: str | None = None) -> dict[str, dict[str, Comparison]]:
        """The gain of the subject over each other model, by variable, with its significance."""
        chosen = subject or self.subject
        mine = self.statistics(chosen)
        return {name: compare(mine, self.statistics(name)) for name in self.cells if name != chosen}

    def ranking(self, variable: str, key: str = "mse") -> list[str]:
        """Models from the best on."""
        return sorted(self.cells, key=lambda model: self.pooled(model)[variable][key])

    def margins(self, model: str) -> dict[str, Any]:
        """How much lower a model's MSE is than the best single peer's, variable by variable, and than the blend's."""
        peers = [name for name in self.cells if contestant(name).peer is not None]
        single = [name for name in peers if not contestant(name).members]
        own = self.pooled(model)
        made: dict[str, Any] = {}
        for label, rivals in (("best_single_peer", single), *((f"{n}", [n]) for n in peers if n not in single)):
            if not rivals:
                continue
            best = {v: min(rivals, key=lambda name, v=v: self.pooled(name)[v]["mse"]) for v in self.variables}  # type: ignore[misc]
            gains = {v: skill(own[v]["mse"], self.pooled(best[v])[v]["mse"]) for v in self.variables}
            made[label] = {"gain": gains, "peer": best, "mean": mean_over(gains)}
        return made

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        seeds = self.seeds or (0,)
        return {
            "pooled": {model: self.pooled(model) for model in self.cells},
            "seeds": {str(seed): self._of_seed(seed) for seed in seeds},
            "nmse": {model: self.nmse(model) for model in self.cells},
            "by_lead": {model: self.by_lead(model) for model in self.cells},
            "compared": {
                "subject": self.subject,
                "against": {
                    name: {v: c.to_dict() for v, c in found.items()} for name, found in self.comparisons().items()
                },
            },
            "margins": {model: self.margins(model) for model in self.cells if contestant(model).peer is None},
        }

    def _of_seed(self, seed: int) -> dict[str, Any]:
        found = {}
        for model, cells in self.cells.items():
            own = [cell for cell in cells if cell.task.seed in (seed, None)]
            if own:
                scores = own[0].about["scores"]
                found[model] = {v: {k: scores[v][k] for k in ("mse", "mae", "bias")} for v in self.variables}
        return found


@dataclass(frozen=True, eq=False)
class Results:
    """A whole benchmark: ``skipped`` and ``failed`` give the reason for every model or cell that is not there."""

    protocol: str
    recipe: str
    cap: float | None
    command: str
    horizons: tuple[HorizonResults, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    unfinished: int = 0
    stale: Sequence[str] = ()

    @classmethod
    def of(cls, cells: Sequence[Cell], models: Sequence[str], **about: Any) -> Results:
        """From finished cells; our own models come first, the others in the order asked for."""
        order = [*(m for m in models if contestant(m).peer is None), *(m for m in models if contestant(m).peer)]
        made = []
        for hours in sorted({cell.task.hours for cell in cells}):
            own = {m: tuple(c for c in cells if c.task.hours == hours and c.task.model == m) for m in order}
            made.append(HorizonResults(hours, {m: found for m, found in own.items() if found}))
        return cls(horizons=tuple(made), **about)

    @property
    def data(self) -> Mapping[str, Any]:
        """What a table says of the record."""
        found: Mapping[str, Any] = next(iter(self.horizons[0].cells.values()))[0].about["data"]
        return found

    def model_facts(self) -> dict[str, Any]:
        """What each model took, over its seeds and horizons."""
        made: dict[str, Any] = {}
        for horizon in self.horizons:
            for model, cells in horizon.cells.items():
                training = [cell.about["training"] for cell in cells]
                entry = {
                    "seeds": [cell.task.seed for cell in cells if cell.task.seed is not None],
                    "cpu_seconds": float(np.mean([t["cpu_seconds"] for t in training])),
                    "flattened": [t["flattened"] for t in training if "flattened" in t],
                    "capped": [t["capped"] for t in training if "capped" in t],
                    "epochs": [t["epochs"] for t in training if "epochs" in t],
                    "chosen": [t["chosen"] for t in training if t.get("chosen")],
                    "parameters": training[0].get("parameters"),
                    "commits": sorted({str(cell.about.get("commit")) for cell in cells}),
                }
                about = made.setdefault(
                    model, {"title": cells[0].about["title"], "kind": cells[0].about["model_kind"], "horizons": {}}
                )
                about["horizons"][str(horizon.hours)] = entry
        return made

    def to_dict(self) -> dict[str, Any]:
        """For machines: the first horizon also stands at the top."""
        parts = {str(found.hours): found.to_dict() for found in self.horizons}
        first = parts[str(self.horizons[0].hours)] if self.horizons else {"pooled": {}, "seeds": {}}
        about = {
            "protocol": self.protocol,
            "recipe": self.recipe,
            "cap_cpu_seconds": self.cap,
            "data": {k: v for k, v in self.data.items() if k != "altitude_m"} if self.horizons else {},
            "models": self.model_facts(),
            "skipped": dict(self.skipped),
            "failed": dict(self.failed),
            "unfinished": self.unfinished,
            "stale": list(self.stale),
            "versions": versions(),
            "commit": commit(),
            "command": self.command,
        }
        return {"pooled": first["pooled"], "seeds": first["seeds"], **about, "horizons": parts}

    def units(self, *, squared: bool = True) -> dict[str, str]:
        """The unit of each variable's MSE, or of its MAE."""
        first = next(iter(self.horizons[0].cells.values()))[0].about["scores"]
        own = {name: first[name]["unit"] for name in self.horizons[0].variables}
        return {name: squared_unit(unit) if squared else unit for name, unit in own.items()}


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
