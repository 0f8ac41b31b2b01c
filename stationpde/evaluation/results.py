"""Results of finished cells: means and spreads over seeds, margins, and significance of differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stationpde.config import VARIANTS
from stationpde.data import Quality
from stationpde.evaluation.cells import Cell, commit, versions
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.error_sums import ErrorStatistics
from stationpde.evaluation.metrics import mean_over, scores_by, skill, squared_unit
from stationpde.evaluation.significance import Comparison, compare

__all__ = ["HorizonResults", "Results"]


@dataclass(frozen=True, eq=False)
class HorizonResults:
    """The cells of one horizon, by model; those of a model are in the order of their seeds."""

    hours: int
    cells: Mapping[str, tuple[Cell, ...]]

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables that all models were scored on."""
        first = next(iter(self.cells.values()))[0]
        return first.statistics.variables

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of models that draw random numbers."""
        seeds = {cell.task.seed for cells in self.cells.values() for cell in cells}
        return tuple(sorted(seed for seed in seeds if seed is not None))

    def seed_scores(self, model: str) -> list[dict[str, dict[str, Any]]]:
        """Return the scores of every seed by variable."""
        return [dict(cell.about["scores"]) for cell in self.cells[model]]

    def pooled(self, model: str) -> dict[str, dict[str, Any]]:
        """Return means and standard deviations over seeds by variable; skill is against persistence."""
        seeds = self.seed_scores(model)
        entries = {}
        for name in self.variables:
            values = {key: [seed[name][key] for seed in seeds] for key in ("mse", "mae", "bias", "nmse")}
            entry: dict[str, Any] = {key: float(np.mean(numbers)) for key, numbers in values.items()}
            entry |= {f"{key}_std": _spread(values[key]) for key in ("mse", "mae")}
            if "persistence" in self.cells:
                entry["skill"] = skill(entry["mse"], self.cells["persistence"][0].about["scores"][name]["mse"])
            entries[name] = {**entry, "unit": seeds[0][name]["unit"], "seeds": len(seeds)}
        return entries

    def nmse(self, model: str) -> float:
        """Return the mean over variables of the normalised MSE."""
        return mean_over({name: entry["nmse"] for name, entry in self.pooled(model).items()})

    def statistics(self, model: str) -> ErrorStatistics:
        """Return the mean of the error sums over seeds."""
        return ErrorStatistics.mean([cell.statistics for cell in self.cells[model]])

    def by_lead(self, model: str) -> dict[str, dict[str, float]]:
        """Return the MSE of each variable by lead in hours."""
        statistics = self.statistics(model)
        return {
            name: {
                f"{hours:g}": round(scores_by(statistics.lead[:, i], statistics.variables)[name].mse, 6)
                for i, hours in enumerate(statistics.lead_hours)
            }
            for name in statistics.variables
        }

    @property
    def subject(self) -> str:
        """Model that the others are compared with: StationPDE if it takes part, else the best."""
        ours = [name for name in VARIANTS if name in self.cells]
        return ours[0] if ours else min(self.cells, key=self.nmse)

    def comparisons(self, subject: str | None = None) -> dict[str, dict[str, Comparison]]:
        """Compare the subject with each other model, by variable: gain and its significance."""
        chosen = subject or self.subject
        mine = self.statistics(chosen)
        return {name: compare(mine, self.statistics(name)) for name in self.cells if name != chosen}

    def ranking(self, variable: str, key: str = "mse") -> list[str]:
        """Rank models from best to worst."""
        return sorted(self.cells, key=lambda model: self.pooled(model)[variable][key])

    def margins(self, model: str) -> dict[str, Any]:
        """Return how much lower the MSE of a model is than the best single peer's and the blend's, by variable."""
        peers = [name for name in self.cells if contestant(name).peer is not None]
        single = [name for name in peers if not contestant(name).members]
        pooled = self.pooled(model)
        margins: dict[str, Any] = {}
        for label, rivals in (("best_single_peer", single), *((f"{n}", [n]) for n in peers if n not in single)):
            if not rivals:
                continue
            best = {v: min(rivals, key=lambda name, v=v: self.pooled(name)[v]["mse"]) for v in self.variables}  # type: ignore[misc]
            gains = {v: skill(pooled[v]["mse"], self.pooled(best[v])[v]["mse"]) for v in self.variables}
            margins[label] = {"gain": gains, "peer": best, "mean": mean_over(gains)}
        return margins

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON-ready values."""
        seeds = self.seeds or (0,)
        return {
            "pooled": {model: self.pooled(model) for model in self.cells},
            "seeds": {str(seed): self._of_seed(seed) for seed in seeds},
            "nmse": {model: self.nmse(model) for model in self.cells},
            "by_lead": {model: self.by_lead(model) for model in self.cells},
            "compared": {
                "subject": self.subject,
                "against": {
                    name: {v: c.to_dict() for v, c in comparisons.items()}
                    for name, comparisons in self.comparisons().items()
                },
            },
            "margins": {model: self.margins(model) for model in self.cells if contestant(model).peer is None},
        }

    def _of_seed(self, seed: int) -> dict[str, Any]:
        scores_by_model = {}
        for model, cells in self.cells.items():
            of_seed = [cell for cell in cells if cell.task.seed in (seed, None)]
            if of_seed:
                scores = of_seed[0].about["scores"]
                scores_by_model[model] = {v: {k: scores[v][k] for k in ("mse", "mae", "bias")} for v in self.variables}
        return scores_by_model


@dataclass(frozen=True, eq=False)
class Results:
    """Results of a whole benchmark; ``skipped`` and ``failed`` give the reason for every absent model or cell.

    ``quality`` is the setting of the quality flags that counted in the record.
    """

    protocol: str
    recipe: str
    cap: float | None
    command: str
    horizons: tuple[HorizonResults, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    unfinished: int = 0
    stale: Sequence[str] = ()
    quality: Quality = "gross"

    @classmethod
    def of(cls, cells: Sequence[Cell], models: Sequence[str], **about: Any) -> Results:
        """Build results from finished cells; StationPDE comes first, the others in the order of ``models``."""
        order = [*(m for m in models if contestant(m).peer is None), *(m for m in models if contestant(m).peer)]
        horizons = []
        for hours in sorted({cell.task.hours for cell in cells}):
            by_model = {m: tuple(c for c in cells if c.task.hours == hours and c.task.model == m) for m in order}
            horizons.append(HorizonResults(hours, {m: chosen for m, chosen in by_model.items() if chosen}))
        return cls(horizons=tuple(horizons), **about)

    @property
    def data(self) -> Mapping[str, Any]:
        """Facts of the record that tables show."""
        facts: Mapping[str, Any] = next(iter(self.horizons[0].cells.values()))[0].about["data"]
        return facts

    def model_facts(self) -> dict[str, Any]:
        """Return CPU time, epochs and choices of each model, over its seeds and horizons."""
        facts: dict[str, Any] = {}
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
                about = facts.setdefault(
                    model, {"title": cells[0].about["title"], "kind": cells[0].about["model_kind"], "horizons": {}}
                )
                about["horizons"][str(horizon.hours)] = entry
        return facts

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON-ready values; the first horizon is also at the top level."""
        parts = {str(horizon.hours): horizon.to_dict() for horizon in self.horizons}
        first = parts[str(self.horizons[0].hours)] if self.horizons else {"pooled": {}, "seeds": {}}
        about = {
            "protocol": self.protocol,
            "recipe": self.recipe,
            "cap_cpu_seconds": self.cap,
            "quality": self.quality,
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
        """Return the unit of each variable's MSE, or of its MAE."""
        first = next(iter(self.horizons[0].cells.values()))[0].about["scores"]
        units = {name: first[name]["unit"] for name in self.horizons[0].variables}
        return {name: squared_unit(unit) if squared else unit for name, unit in units.items()}


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
