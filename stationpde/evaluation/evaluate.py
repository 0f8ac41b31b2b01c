"""The test scores of one run: beside named references, by lead, station, altitude and hour, with significance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stationpde.baselines.leakage import require_blind, without_test
from stationpde.config import Config
from stationpde.errors import UsageError
from stationpde.evaluation.cells import commit, data_facts, versions
from stationpde.evaluation.contestants import Contestant, Task, contestant
from stationpde.evaluation.fitting import Workshop
from stationpde.evaluation.metrics import (
    GROUPS,
    elevation_bands,
    mean_over,
    normalised_mse,
    scores_by,
    skill,
    station_scales,
)
from stationpde.evaluation.scoring import score, windows_to_score
from stationpde.evaluation.significance import compare_days
from stationpde.learner import ModelLearner
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from fields.series import StationSeries
    from stationpde.baselines.registry import Predictor
    from stationpde.evaluation.statistics import ErrorAccumulator
    from stationpde.loading import LoadedRun

__all__ = ["EvaluationRequest", "data_of_run", "evaluate_run"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to compare with and how to group; ``cap`` is CPU seconds of each reference that learns."""

    against: tuple[str, ...] = ("persistence",)
    by: tuple[str, ...] = ()
    significance: bool = False
    stride: int = 1
    cap: float | None = 900.0

    def __post_init__(self) -> None:
        unknown = [name for name in self.by if name not in GROUPS]
        if unknown:
            raise UsageError(
                f"scores are not grouped by '{unknown[0]}'", code="SPDE-B003", do=f"--by {','.join(GROUPS)}"
            )


def data_of_run(run: Path) -> str:
    """Where the record of a run lies: the store that training kept beside it.

    Raises
    ------
    UsageError
        If it kept none, as with a store that was given.
    """
    for folder in (run, run.parent):
        if (folder / "data.zarr").is_dir():
            return str(folder / "data.zarr")
    raise UsageError(
        "the run does not hold its observations", code="SPDE-B004", where=str(run),
        do=f"stationpde evaluate {run} --data STORE   with the store that it was trained on",
    )  # fmt: skip


def evaluate_run(
    run: LoadedRun, series: StationSeries, asked: EvaluationRequest, watcher: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Scores of a run and its references on the test windows of its record.

    Returns
    -------
    ``scores`` by model and variable, ``by`` group, and ``compared`` with each reference
    """
    config = run.model.config
    source = WindowSource.of(series, config)
    starts = windows_to_score(source, asked.stride)
    blind = without_test(source)
    forecasters: dict[str, Predictor] = {"run": ModelLearner(run.model)}
    for name in asked.against:
        forecasters[name] = _reference(name, config, blind, run.path, asked, watcher)
    some = starts[np.linspace(0, len(starts) - 1, min(4, len(starts))).astype(int)]
    found: dict[str, ErrorAccumulator] = {}
    for name, forecaster in forecasters.items():
        require_blind(forecaster, source.batch(some), name)
        found[name] = score(forecaster, source, config, starts, name=name)
    return {
        "run": str(run.path),
        **{key: value for key, value in run.about().items() if key != "run"},
        "data": {k: v for k, v in data_facts(source, series_name(run), starts).items() if k != "altitude_m"},
        "scores": _scores(found, station_scales(series, source.windows.split)),
        "by": {group: _grouped(found, group, series, asked) for group in asked.by},
        "compared": _compared(found) if asked.significance else {},
        "versions": versions(),
        "commit": commit(),
    }


def series_name(run: LoadedRun) -> str:
    """What a table calls the record of a run."""
    return run.path.name


def _reference(
    name: str, config: Config, source: WindowSource, run: Path, asked: EvaluationRequest, watcher: Any
) -> Predictor:
    """A baseline under the run's own windows; a learned one is trained beside the run."""
    chosen = contestant(name)
    missing = chosen.missing()
    if missing:
        raise UsageError(missing, code="SPDE-B005")
    if chosen.peer is None:
        raise UsageError(
            f"'{name}' is a variant of the model, not a reference", code="SPDE-B005",
            do="stationpde benchmark compares variants on one record",
        )  # fmt: skip
    task = Task("w2k-like", 24, name, config.train.seed, cap=asked.cap if chosen.learns else None)

    def configured(model: Contestant, task: Task) -> Config:
        """A reference's own training under the run's windows, grid and equations."""
        made, own = model.config(task).tree(), config.tree()
        return Config.parse({**made, **{part: own[part] for part in ("data", "grid", "lift", "pde")}})

    return Workshop(run / ".references", watcher, configure=configured).fitted(task, source).predictor


def _scores(found: Mapping[str, ErrorAccumulator], scales: Array) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, sums in found.items():
        statistics = sums.statistics()
        nmse = normalised_mse(statistics, scales)
        scores = scores_by(statistics.total, statistics.variables)
        made[name] = {v: {**s.to_dict(), "nmse": nmse[v]} for v, s in scores.items()}
        made[name]["nmse"] = mean_over(nmse)
    for name in found:
        for variable in sums.variables:
            entry = made["run"][variable]
            if name != "run":
                entry.setdefault("skill", {})[name] = skill(entry["mse"], made[name][variable]["mse"])
    return made


def _days(sums: ErrorAccumulator, by: str, series: StationSeries) -> tuple[list[str], Array]:
    """Labels of the groups, and sums ``[row, day, group, variable]``."""
    if by == "lead":
        return [f"{hours:g} h" for hours in sums.lead_hours], sums.by_lead
    if by == "hour":
        step = sums.step_seconds / 3600
        return [f"{step * slot:02g} UTC" for slot in range(sums.by_hour.shape[2])], sums.by_hour
    if by == "station":
        return list(sums.stations), sums.by_station
    bands = elevation_bands(series.stations.alt)
    return list(bands), np.stack([sums.by_station[:, :, inside].sum(axis=2) for inside in bands.values()], axis=2)


def _grouped(
    found: Mapping[str, ErrorAccumulator], by: str, series: StationSeries, asked: EvaluationRequest
) -> dict[str, Any]:
    """Scores of the run in each group, its skill against each reference, and whether the difference is real."""
    labels, mine = _days(found["run"], by, series)
    variables = found["run"].variables
    made: dict[str, Any] = {}
    for g, label in enumerate(labels):
        scores = scores_by(mine[:, :, g].sum(axis=1), variables)
        made[label] = {v: s.to_dict() for v, s in scores.items() if s.count}
    for name in (n for n in found if n != "run"):
        _, theirs = _days(found[name], by, series)
        for g, label in enumerate(labels):
            for c, v in enumerate(variables):
                if v not in made[label]:
                    continue
                pair = compare_days(mine[:, :, g, c], theirs[:, :, g, c]) if asked.significance else None
                other = scores_by(theirs[:, :, g].sum(axis=1), variables)[v]
                entry: dict[str, Any] = {
                    "mse": other.mse,
                    "mae": other.mae,
                    "skill": skill(made[label][v]["mse"], other.mse),
                }
                if pair is not None:
                    entry["significance"] = pair.to_dict()
                made[label][v].setdefault("against", {})[name] = entry
    return made


def _compared(found: Mapping[str, ErrorAccumulator]) -> dict[str, Any]:
    mine = found["run"].statistics()
    return {
        name: {
            v: compare_days(mine.day[..., c], sums.statistics().day[..., c]).to_dict()
            for c, v in enumerate(mine.variables)
        }
        for name, sums in found.items()
        if name != "run"
    }
