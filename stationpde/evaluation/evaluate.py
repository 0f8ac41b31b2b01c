"""Test scores of one run beside references, by lead, station, altitude and hour, with significance."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stationpde.baselines import require_blind, without_test
from stationpde.config import Config
from stationpde.data import Quality, WindowSource
from stationpde.errors import UsageError
from stationpde.evaluation.cap import CAP_SECONDS
from stationpde.evaluation.cells import commit, data_facts, versions
from stationpde.evaluation.contestants import Contestant, Task, contestant
from stationpde.evaluation.extra_scores import extra_scores
from stationpde.evaluation.fitting import ModelFitter
from stationpde.evaluation.metrics import (
    GROUPS,
    elevation_bands,
    mean_over,
    normalised_mse,
    scores_by,
    skill,
    station_scales,
)
from stationpde.evaluation.scoring import score, thinned, windows_to_score
from stationpde.evaluation.significance import compare_days
from stationpde.evaluation.uncertain import distribution_scores
from stationpde.extras import extras_of
from stationpde.forecasting import Gates, check_sample, check_uncalibrated, check_unseen, model_for_record
from stationpde.model import ModelLearner
from stationpde.uncertainty import calibration_of

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.baselines import Predictor
    from stationpde.evaluation.error_sums import ErrorAccumulator
    from stationpde.runs import LoadedRun
    from stationpde.uncertainty import Calibration

__all__ = ["EvaluationRequest", "evaluate_run"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """References, groups and windows of an evaluation.

    Attributes
    ----------
    stride, windows : one window in ``stride`` is scored, and of those at most ``windows``, evenly spaced.
    cap : CPU seconds of each reference that learns; None without a limit.
    quality : quality flags that count in the record; None for the run's own setting ``data.quality``.
    accept : names of what is not refused, see `stationpde.forecasting.acceptance`.
    uncertainty : also score the distributions about the forecasts; the run must be calibrated.
    """

    against: tuple[str, ...] = ("persistence",)
    by: tuple[str, ...] = ()
    significance: bool = False
    stride: int = 1
    windows: int | None = None
    cap: float | None = CAP_SECONDS
    quality: Quality | None = None
    accept: tuple[str, ...] = ()
    uncertainty: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.by if name not in GROUPS]
        if unknown:
            raise UsageError(
                f"scores are not grouped by '{unknown[0]}'", code="SPDE-B003", do=f"--by {','.join(GROUPS)}"
            )


def evaluate_run(
    run: LoadedRun, series: StationSeries, request: EvaluationRequest, watcher: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Compute scores of a run and its references on the test windows of its record.

    Returns
    -------
    ``scores`` by model and variable, ``by`` group, and ``compared`` with each reference

    Raises
    ------
    DataError
        If the record is of a foreign network, and that was not accepted.
    """
    config = run.model.config
    calibration = _calibration(run) if request.uncertainty else None
    extras = extras_of(run)
    gates = Gates(request.accept)
    model = model_for_record(run, series, gates)
    if request.quality is not None:
        config = config.with_overrides([f"data.quality={request.quality}"])
    source = WindowSource.of(series, config)
    starts = thinned(windows_to_score(source, request.stride), request.windows)
    check_unseen(gates, run, source, starts)
    if calibration is not None:
        check_uncalibrated(gates, calibration, source, starts)
    blind = without_test(source)
    forecasters: dict[str, Predictor] = {"run": ModelLearner(model)}
    for name in request.against:
        forecasters[name] = _reference(name, config, blind, run.path, request, watcher)
    sample = starts[np.linspace(0, len(starts) - 1, min(4, len(starts))).astype(int)]
    check_sample(gates, model, source.batch(sample))
    sums: dict[str, ErrorAccumulator] = {}
    for name, forecaster in forecasters.items():
        require_blind(forecaster, source.batch(sample), name)
        sums[name] = score(forecaster, source, config, starts, name=name)
    return {
        "run": str(run.path),
        **{key: value for key, value in run.about().items() if key != "run"},
        "quality": config.data.quality,
        "accepted": gates.accepted,
        "warnings": gates.warnings,
        "data": {k: v for k, v in data_facts(source, series_name(run), starts).items() if k != "altitude_m"},
        "scores": _scores(sums, station_scales(series, source.windows.split)),
        "by": {group: _grouped(sums, group, series, request) for group in request.by},
        "compared": _compared(sums) if request.significance else {},
        **({} if calibration is None else {
            "uncertainty": distribution_scores(calibration, forecasters, blind, source, config, starts, request.by)
        }),
        **({} if extras is None else {"extras": extra_scores(model, extras, source, config, starts)}),
        "versions": versions(),
        "commit": commit(),
    }  # fmt: skip


def _calibration(run: LoadedRun) -> Calibration:
    """Return the calibration of a run.

    Raises
    ------
    UsageError
        If it has none at this checkpoint.
    """
    calibration = calibration_of(run)
    if calibration is None:
        raise UsageError(
            f"{run.path.name} is not calibrated at {run.checkpoint}", code="SPDE-Q012", where=str(run.path),
            do=f"stationpde calibrate {shlex.quote(str(run.path))} --obs STORE",
        )  # fmt: skip
    return calibration


def series_name(run: LoadedRun) -> str:
    """Return the name of the record of a run in tables."""
    return run.path.name


def _reference(
    name: str, config: Config, source: WindowSource, run: Path, request: EvaluationRequest, watcher: Any
) -> Predictor:
    """Fit a baseline on the windows of the run; a learned one is trained beside the run."""
    chosen = contestant(name)
    missing = chosen.missing()
    if missing:
        raise UsageError(missing, code="SPDE-B005")
    if chosen.peer is None:
        raise UsageError(
            f"'{name}' is a variant of the model, not a reference", code="SPDE-B005",
            do="`stationpde benchmark` compares variants on one record",
        )  # fmt: skip
    task = Task("w2k-like", 24, name, config.train.seed, cap=request.cap if chosen.learns else None)

    def configured(model: Contestant, task: Task) -> Config:
        """Return the training settings of the reference with the windows, grid and equations of the run."""
        reference_tree, run_tree = model.config(task).tree(), config.tree()
        return Config.parse({**reference_tree, **{part: run_tree[part] for part in ("data", "grid", "lift", "pde")}})

    return ModelFitter(run / ".references", watcher, configure=configured).fit(task, source).predictor


def _scores(accumulators: Mapping[str, ErrorAccumulator], scales: Array) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, sums in accumulators.items():
        statistics = sums.statistics()
        nmse = normalised_mse(statistics, scales)
        scores = scores_by(statistics.total, statistics.variables)
        entries[name] = {v: {**s.to_dict(), "nmse": nmse[v]} for v, s in scores.items()}
        entries[name]["nmse"] = mean_over(nmse)
    for name in accumulators:
        for variable in sums.variables:
            entry = entries["run"][variable]
            if name != "run":
                entry.setdefault("skill", {})[name] = skill(entry["mse"], entries[name][variable]["mse"])
    return entries


def _days(sums: ErrorAccumulator, by: str, series: StationSeries) -> tuple[list[str], Array]:
    """Return labels of the groups, and sums ``[row, day, group, variable]``."""
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
    sums: Mapping[str, ErrorAccumulator], by: str, series: StationSeries, request: EvaluationRequest
) -> dict[str, Any]:
    """Compute scores of the run in each group, with skill and significance against each reference."""
    labels, mine = _days(sums["run"], by, series)
    variables = sums["run"].variables
    entries: dict[str, Any] = {}
    for g, label in enumerate(labels):
        scores = scores_by(mine[:, :, g].sum(axis=1), variables)
        entries[label] = {v: s.to_dict() for v, s in scores.items() if s.count}
    for name in (n for n in sums if n != "run"):
        _, theirs = _days(sums[name], by, series)
        for g, label in enumerate(labels):
            for c, v in enumerate(variables):
                if v not in entries[label]:
                    continue
                pair = compare_days(mine[:, :, g, c], theirs[:, :, g, c]) if request.significance else None
                other = scores_by(theirs[:, :, g].sum(axis=1), variables)[v]
                entry: dict[str, Any] = {
                    "mse": other.mse,
                    "mae": other.mae,
                    "skill": skill(entries[label][v]["mse"], other.mse),
                }
                if pair is not None:
                    entry["significance"] = pair.to_dict()
                entries[label][v].setdefault("against", {})[name] = entry
    return entries


def _compared(accumulators: Mapping[str, ErrorAccumulator]) -> dict[str, Any]:
    mine = accumulators["run"].statistics()
    return {
        name: {
            v: compare_days(mine.day[..., c], sums.statistics().day[..., c]).to_dict()
            for c, v in enumerate(mine.variables)
        }
        for name, sums in accumulators.items()
        if name != "run"
    }
