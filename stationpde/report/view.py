"""View of a run with data: scores beside those of simple references, router weights, one forecast with its truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from stationpde.baselines import baseline, without_test
from stationpde.data import Observations, Quality, WindowRequest, WindowSource, open_observations, series_of
from stationpde.errors import UsageError
from stationpde.evaluation import (
    ErrorStatistics,
    distribution_scores,
    extra_scores,
    score,
    thinned,
    windows_to_score,
)
from stationpde.extras import extras_of
from stationpde.forecasting import (
    LEAST_HISTORY,
    Gates,
    Moment,
    check_clamped,
    check_unseen,
    issue_step,
    model_for_record,
    moment_of,
)
from stationpde.model import ModelLearner
from stationpde.physics import clipped
from stationpde.plots import Relief
from stationpde.runs import LoadedRun, load_run, observations_of_run
from stationpde.uncertainty import calibration_of

if TYPE_CHECKING:
    from fields.ingest import IngestOptions
    from fields.store import DataCard
    from fields.windows import Batch, StationSeries
    from stationpde.model import StationPDEModel
    from stationpde.uncertainty import Calibration

__all__ = [
    "MOST_WINDOWS",
    "OURS",
    "RULES",
    "RunData",
    "RunScores",
    "RunView",
    "build_run_view",
    "look",
    "open_data",
    "score_run",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]

# Name of the run itself among the scores.
OURS = "stationpde"
# References that need no fit and show how large an error is.
RULES = ("persistence", "climatology")
# Enough for curves by lead; all windows of a long record take minutes.
MOST_WINDOWS = 160


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """Observations on which a run is scored and shown."""

    series: StationSeries
    card: DataCard | None
    is_synthetic: bool
    path: str
    quality: Quality


@dataclass(frozen=True, slots=True, eq=False)
class RunScores:
    """Errors over test windows, by forecaster, `OURS` first; ``router`` is ``[lead, channel]``, None without one.

    The router's numbers are the mean weights of the data-driven branch.
    """

    statistics: Mapping[str, ErrorStatistics]
    router: Array | None
    windows: int

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain values, for a file."""
        router = None if self.router is None else self.router.round(6).tolist()
        scores = {name: sums.to_dict() for name, sums in self.statistics.items()}
        return {"scores": scores, "router": router, "windows": self.windows}

    @classmethod
    def can_read(cls, content: Mapping[str, Any]) -> bool:
        """Return whether a table is one that `to_dict` returned."""
        try:
            cls.from_dict(content)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            return False
        return True

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> RunScores:
        """Build the scores from what `to_dict` returned."""
        router = None if content["router"] is None else np.asarray(content["router"], np.float64)
        scores = {name: ErrorStatistics.from_dict(sums) for name, sums in content["scores"].items()}
        return cls(scores, router, int(content["windows"]))


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """A run with its data, scores, one forecast and the relief; without data only the run.

    ``notes`` are cautions for the reader: synthetic data, data other than those of training. ``extras`` are the scores
    of variables beside the state, see `extra_scores`; None without any.
    """

    run: LoadedRun
    data: RunData | None = None
    scored: RunScores | None = None
    moment: Moment | None = None
    relief: Relief | None = None
    notes: tuple[str, ...] = ()
    extras: Mapping[str, Any] | None = None
    uncertainty: Mapping[str, Any] | None = None


class RouterRecorder:
    """The model as a forecaster that records its router's weights while it is scored."""

    def __init__(self, model: StationPDEModel) -> None:
        self.model = model
        self._sum: Array | None = None
        self._count = 0

    @torch.inference_mode()
    def predict(self, batch: Batch) -> torch.Tensor:
        """Compute the forecast, and add the router's weights to the mean."""
        output = self.model(batch.history, batch.issue_time, batch.future.shape[1] or None, keep_fields=True)
        if output.router is not None:
            mean = output.router.double().mean(dim=(3, 4)).sum(dim=0).numpy()
            self._sum = mean if self._sum is None else self._sum + mean
            self._count += len(batch)
        return clipped(output.observed)

    @property
    def router(self) -> Array | None:
        """Mean weight of the data-driven branch ``[lead, channel]``; None without a router."""
        return None if self._sum is None else self._sum / self._count


def open_data(
    run: LoadedRun, observations: Observations | None = None, options: IngestOptions | None = None
) -> RunData | None:
    """Read the record to score a run with: the observations, else those of training, else None.

    Parameters
    ----------
    observations : anything that `open_observations` takes; None for those that the run was trained on.
    options : how raw files are read.
    """
    settings = run.model.config.data
    if observations is None:
        try:
            observations = observations_of_run(run, command="report")
        except UsageError:
            return None
    with open_observations(
        observations, options=options, stand_ins=settings.missing, quality=settings.quality, command="report",
        trained=run.model.statistics.stations,
    ) as opened:  # fmt: skip
        series = series_of(opened, settings)
        # A store made of raw files is gone with the context; the source is what was given.
        shown = str(observations) if isinstance(observations, str | Path) else opened.label or "dataset"
        return RunData(series, opened.card(), opened.is_synthetic, shown, opened.quality)


def build_run_view(
    run: str | Path | LoadedRun,
    observations: Observations | None = None,
    *,
    options: IngestOptions | None = None,
    at: Any = None,
    windows: int | None = MOST_WINDOWS,
    against: Sequence[str] = RULES,
    dem: str | Path | None = None,
    scored: RunScores | None = None,
    progress: Progress | None = None,
    accept: str | Iterable[str] = (),
    distributions: Literal["none", "cells", "scores", "all"] = "none",
) -> RunView:
    """Compute the scores of a run on its data and one forecast with its truth, for the report and for pictures.

    Parameters
    ----------
    run : run directory, or a run that is loaded already
    observations : a store, or anything that `data ingest` reads; by default the record of training, if it is found
    options : how raw files are read
    at : issue time of the forecast that is shown; the last of the test by default
    windows : greatest number of test windows to score, evenly spaced; None scores all
    against : names of the references to score beside the run; they must need no training
    dem : elevation model for maps
    scored : scores that were computed before; None computes them
    progress : is called with the name of a forecaster and the numbers of scored and of all windows
    accept : names of what is not refused, see `stationpde.forecasting.acceptance`
    distributions : of a calibrated run, also compute its distributions on cells of the grid, their scores, or both

    Raises
    ------
    DataError
        If the record is of a foreign network, and that was not accepted.
    """
    WindowRequest.parse_at(at)  # what is no time is said also where there are no observations
    loaded = run if isinstance(run, LoadedRun) else load_run(run)
    data = open_data(loaded, observations, options)
    if data is None:
        return RunView(loaded, notes=("Without observations: --obs STORE adds scores, maps and series.",))
    gates = Gates(accept, data.path)
    model = model_for_record(loaded, data.series, gates)
    source = WindowSource.of(data.series, loaded.model.config)
    check_unseen(gates, loaded, source, thinned(windows_to_score(source), windows))
    if scored is None:
        scored = score_run(model, source, windows, against, progress)
    default = int(source.windows.test[-1]) + model.config.data.history - 1
    calibration = calibration_of(loaded)
    moment = moment_of(
        model, data.series, issue_step(data.series, model.config.data.history, at, default), calibration=calibration,
        with_cells=distributions in ("cells", "all"),
    )  # fmt: skip
    uncertainty = None
    if calibration is not None and distributions in ("scores", "all"):
        uncertainty = _distribution_scores(calibration, model, source, windows)
    check_clamped(gates, moment.audit.clamped)
    gates.close()
    terrain = dem if dem is not None else model.config.grid.dem
    relief = Relief.of(model.region, terrain, synthetic=data.is_synthetic)
    fitted, extras = extras_of(loaded), None
    if fitted is not None:
        extras = extra_scores(model, fitted, source, loaded.model.config, thinned(windows_to_score(source), windows))
    notes = tuple(_notes(loaded, data, moment, gates))
    return RunView(loaded, data, scored, moment, relief, notes, uncertainty=uncertainty, extras=extras)


# The name of before, which the documentation of earlier versions shows.
look = build_run_view


def score_run(
    model: StationPDEModel, source: WindowSource, windows: int | None = MOST_WINDOWS, against: Sequence[str] = RULES,
    progress: Progress | None = None, trained: Mapping[str, Any] | None = None,
) -> RunScores:  # fmt: skip
    """Compute the scores of a model at the record's stations, and of references beside it.

    Parameters
    ----------
    model : the model at the stations of the record
    source : windows of the record
    windows : greatest number of test windows to score, evenly spaced; None scores all
    against : names of baselines that need no training
    progress : is called with the name of a forecaster and the numbers of scored and of all windows
    trained : further forecasters by name, already trained
    """
    starts = thinned(windows_to_score(source), windows)
    recorder = RouterRecorder(model)
    rules = {name: _rule(name, model, source) for name in against}
    statistics = {
        name: _score(predictor, source, model, starts, name, progress)
        for name, predictor in {OURS: recorder, **rules, **(trained or {})}.items()
    }
    return RunScores(statistics, recorder.router, len(starts))


def _distribution_scores(
    calibration: Calibration, model: StationPDEModel, source: WindowSource, windows: int | None
) -> dict[str, Any]:
    """Return the scores of a run's distributions over test windows, by lead."""
    starts = thinned(windows_to_score(source), windows)
    forecasters: dict[str, Any] = {"run": ModelLearner(model)}
    return distribution_scores(calibration, forecasters, without_test(source), source, model.config, starts, ("lead",))


def _rule(name: str, model: StationPDEModel, source: WindowSource) -> Any:
    """Build a baseline that needs no training from a record without its test split."""
    reference = baseline(name)
    if reference.kind in ("trained", "iterated") or reference.members:
        raise UsageError(
            f"{name} must be trained first", code="SPDE-R005",
            do=f"stationpde evaluate RUN --against {name}   trains it",
        )  # fmt: skip
    return reference.make(model.config, without_test(source))


def _score(
    predictor: Any, source: WindowSource, model: StationPDEModel, starts: Array, name: str, progress: Progress | None
) -> ErrorStatistics:
    forward = None if progress is None else lambda done, total: progress(name, done, total)
    return score(predictor, source, model.config, starts, progress=forward, name=name).statistics()


def _notes(run: LoadedRun, data: RunData, moment: Moment, gates: Gates) -> list[str]:
    notes = []
    if data.is_synthetic:
        notes.append("The data are synthetic: the figures show the tool, not skill.")
    if data.series.fingerprint != run.record.get("data_fingerprint"):
        notes.append("The observations are not those of training: some may have been seen, others never.")
    if moment.audit.history_present < LEAST_HISTORY:
        notes.append(f"Only {moment.audit.history_present:.0%} of the history of the forecast shown was observed.")
    return [*notes, *(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in gates.warnings)]
