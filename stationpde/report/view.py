"""A run looked at with data: scores beside those of rules of thumb, router weights, one forecast with its truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields import store
from fields.card import DataCard, data_card
from fields.errors import DataError, printable
from fields.ingest import IngestOptions, ingest
from stationpde.baselines import baseline
from stationpde.baselines.leakage import without_test
from stationpde.data import load_series
from stationpde.errors import UsageError
from stationpde.evaluation.evaluate import data_of_run
from stationpde.evaluation.scoring import score, windows_to_score
from stationpde.evaluation.statistics import ErrorStatistics
from stationpde.loading import LoadedRun, load_run
from stationpde.report.moment import Moment, issue_step, moment_of
from stationpde.report.relief import Relief
from stationpde.state import clipped
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from fields.series import StationSeries
    from fields.torch_data import Batch
    from stationpde.model import StationPDEModel

__all__ = ["MOST_WINDOWS", "OURS", "RULES", "RunData", "RunView", "Scored", "look", "open_data", "score_run", "thinned"]

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]

# How scores name the run itself.
OURS = "stationpde"
# Rules that cost nothing to fit and give every error a measure.
RULES = ("persistence", "climatology")
# Enough for curves by lead; all windows of a long record take minutes.
MOST_WINDOWS = 160


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """The observations that a run is looked at with."""

    series: StationSeries
    card: DataCard | None
    is_synthetic: bool
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Errors over test windows, by forecaster, `OURS` first; ``router`` is ``[lead, channel]``, None without one.

    The router's numbers are the mean weights of the data-driven branch.
    """

    statistics: Mapping[str, ErrorStatistics]
    router: Array | None
    windows: int

    def to_dict(self) -> dict[str, Any]:
        """For a file."""
        router = None if self.router is None else self.router.round(6).tolist()
        scores = {name: found.to_dict() for name, found in self.statistics.items()}
        return {"scores": scores, "router": router, "windows": self.windows}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Scored:
        """The inverse of `to_dict`."""
        router = None if content["router"] is None else np.asarray(content["router"], np.float64)
        scores = {name: ErrorStatistics.from_dict(own) for name, own in content["scores"].items()}
        return cls(scores, router, int(content["windows"]))


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """A run and what was found; without data only the run itself. ``notes`` say what a reader must know."""

    run: LoadedRun
    data: RunData | None = None
    scored: Scored | None = None
    moment: Moment | None = None
    relief: Relief | None = None
    notes: tuple[str, ...] = ()


class Watched:
    """The model as a forecaster whose router is watched while it is scored."""

    def __init__(self, model: StationPDEModel) -> None:
        self.model = model
        self._sum: Array | None = None
        self._count = 0

    @torch.inference_mode()
    def predict(self, batch: Batch) -> torch.Tensor:
        """Forecast, and take in the router's weights."""
        made = self.model(batch.history, batch.issue_time, batch.future.shape[1] or None, keep_fields=True)
        if made.router is not None:
            mean = made.router.double().mean(dim=(3, 4)).sum(dim=0).numpy()
            self._sum = mean if self._sum is None else self._sum + mean
            self._count += len(batch)
        return clipped(made.observed)

    @property
    def router(self) -> Array | None:
        """Mean weight of the data-driven branch ``[lead, channel]``; None without a router."""
        return None if self._sum is None else self._sum / self._count


def open_data(run: LoadedRun, observations: str | Path | None, stack: ExitStack) -> RunData | None:
    """The observations given, else the store that training kept beside the run, else the synthetic network's."""
    settings = run.model.config.data
    path = None if observations is None else Path(observations)
    if path is None:
        try:
            path = Path(data_of_run(run.path))
        except UsageError:
            return _synthetic(run)
    if not path.exists():
        raise DataError(f"there is no file {printable(path)}", code="SPDE-D100", do="check the path after --obs")
    shown = str(path)
    if not store.is_store(path):
        made = Path(stack.enter_context(TemporaryDirectory(prefix="stationpde-"))) / "observations.zarr"
        stand_ins = {str(name): what for name, what in settings.missing.items()}
        ingest(path, made, IngestOptions(missing=stand_ins))
        path = made
    raw = store.open(path, masked=False)
    card = data_card(raw, path=path)
    series = load_series(str(path), settings)
    return RunData(series, card, raw.attrs.get("reader") == "synthetic", shown)


def _synthetic(run: LoadedRun) -> RunData | None:
    """The made-up network, if it is what the run was trained on."""
    if not run.model.statistics.stations.id[0].startswith("SY"):
        return None
    from stationpde.data import demo_series

    series = demo_series(run.model.config.data.step_seconds)
    if series.fingerprint != run.record.get("data_fingerprint"):
        return None
    return RunData(series, None, True, "demo")


def thinned(starts: Array, most: int | None) -> Array:
    """At most so many windows, evenly spaced; None or 0 takes all."""
    if not most or len(starts) <= most:
        return starts
    return starts[np.linspace(0, len(starts) - 1, most).round().astype(np.int64)]


def look(
    run: str | Path | LoadedRun,
    observations: str | Path | None = None,
    *,
    at: Any = None,
    windows: int | None = MOST_WINDOWS,
    against: Sequence[str] = RULES,
    dem: str | Path | None = None,
    scored: Scored | None = None,
    progress: Progress | None = None,
) -> RunView:
    """Look at a run.

    Parameters
    ----------
    observations : a store, or anything that `data ingest` reads; what the run was trained on where it can be found
    at : issue time of the forecast that is shown; the last of the test by default
    windows : at most so many test windows are scored; None scores all
    against : rules to score beside it
    dem : elevation model for maps
    scored : what is known already
    """
    loaded = run if isinstance(run, LoadedRun) else load_run(run)
    with ExitStack() as stack:
        data = open_data(loaded, observations, stack)
    if data is None:
        return RunView(loaded, notes=("Without observations: --obs STORE adds scores, maps and series.",))
    source = WindowSource.of(data.series, loaded.model.config)
    model = loaded.model.at(data.series.stations)
    if scored is None:
        scored = score_run(model, source, windows, against, progress)
    default = int(source.windows.test[-1]) + model.config.data.history - 1
    moment = moment_of(model, data.series, issue_step(data.series, model.config.data.history, at, default))
    terrain = dem if dem is not None else model.config.grid.dem
    relief = Relief.of(model.region, terrain, synthetic=data.is_synthetic)
    return RunView(loaded, data, scored, moment, relief, tuple(_notes(loaded, data)))


def score_run(
    model: StationPDEModel, source: WindowSource, windows: int | None = MOST_WINDOWS, against: Sequence[str] = RULES,
    progress: Progress | None = None, trained: Mapping[str, Any] | None = None,
) -> Scored:  # fmt: skip
    """Score a model that stands at the record's stations, and others beside it.

    Parameters
    ----------
    against : baselines that need no training, by name
    trained : further forecasters, ready to forecast
    """
    starts = thinned(windows_to_score(source), windows)
    watched = Watched(model)
    rules = {name: _rule(name, model, source) for name in against}
    found = {
        name: _score(predictor, source, model, starts, name, progress)
        for name, predictor in {OURS: watched, **rules, **(trained or {})}.items()
    }
    return Scored(found, watched.router, len(starts))


def _rule(name: str, model: StationPDEModel, source: WindowSource) -> Any:
    """A baseline that is ready at once, made from a record whose test split it cannot see."""
    found = baseline(name)
    if found.kind == "trained" or found.members:
        raise UsageError(
            f"{name} must be trained first", code="SPDE-R005", do="stationpde evaluate RUN --against trains references"
        )
    return found.make(model.config, without_test(source))


def _score(
    predictor: Any, source: WindowSource, model: StationPDEModel, starts: Array, name: str, progress: Progress | None
) -> ErrorStatistics:
    tell = None if progress is None else lambda done, total: progress(name, done, total)
    return score(predictor, source, model.config, starts, progress=tell, name=name).statistics()


def _notes(run: LoadedRun, data: RunData) -> list[str]:
    notes = []
    if data.is_synthetic:
        notes.append("The data are synthetic: the figures show the tool, not skill.")
    if data.series.fingerprint != run.record.get("data_fingerprint"):
        notes.append("The observations are not those of training: some may have been seen, others never.")
    return notes
