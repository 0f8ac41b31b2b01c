"""What the file of a finished cell holds: keys, types and ranges, and sums that agree with each other.

Keys that the schema does not name are accepted: other versions write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fields.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stationpde.evaluation.error_sums import ErrorStatistics

__all__ = ["CellFile", "require_agreement"]

# Sums and scores are written with nine digits.
_TOLERANCE = 1e-6

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Positive = Annotated[int, Field(ge=1, lt=1 << 53)]
Text = Annotated[str, Field(max_length=10_000)]


class Part(BaseModel):
    """Base of the schemas: types are exact, numbers finite, other keys are accepted."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, frozen=True)


class CellScore(Part):
    """Scores of one variable."""

    mse: float | None
    mae: float | None
    bias: float | None = None
    count: Count
    unit: Text
    nmse: float | None = None


class CellData(Part):
    """Facts of the record and its split."""

    name: Text
    fingerprint: Text
    stations: Count
    steps: Count
    step_seconds: Positive
    split: dict[str, list[Text]]
    shares: list[float]
    windows: dict[str, Count]
    altitude_m: list[float | None]
    training_stations: Count | None = Field(default=None, alias="kept")


class CellTraining(Part):
    """Cost and course of the fit."""

    cpu_seconds: Annotated[float, Field(ge=0)]
    flattened: bool | None = None
    search_cpu_seconds: float | None = None
    steps: Count | None = None
    epochs: Count | None = None
    best_epoch: Count | None = None
    validation_score: float | None = None
    validation_scores: list[float | None] | None = None
    stopped_early: bool | None = None
    capped: bool | None = None
    run: Text | None = None
    chosen: dict[str, Any] | None = None
    parameters: Count | None = None
    members: dict[str, CellTraining] | None = None


def _require_variable(name: str) -> str:
    if name not in VARIABLES:
        raise ValueError(f"there is no variable {name[:40]!r}")
    return name


class CellSums(Part):
    """Sums of errors; their shapes are checked by `ErrorStatistics`."""

    variables: list[Annotated[str, AfterValidator(_require_variable)]]
    stations: list[Text]
    lead_hours: list[float]
    hours: list[float]
    first_day: Annotated[int, Field(ge=-(10**6), le=10**6)]
    rows: list[Text]
    day: list[list[list[float]]]
    lead: list[list[list[float]]]
    station: list[list[list[float]]]
    hour: list[list[list[float]]]


class CellFile(Part):
    """A finished cell of a benchmark."""

    kind: Literal["benchmark cell"]
    schema_version: Literal[1]
    protocol: Text
    hours: Positive
    model: Text
    seed: Count | None = None
    recipe: Literal["default", "paper", "former"] = "default"
    overrides: list[Text]
    cap: Annotated[float, Field(gt=0)] | None = None
    leave_out: Count = 0
    settings: Text
    title: Text
    model_kind: Text
    data: CellData
    scores: dict[str, CellScore]
    nmse: float | None
    training: CellTraining
    versions: dict[str, Text]
    commit: Text | None = None
    machine: Text | None = None
    statistics: CellSums


def require_agreement(statistics: ErrorStatistics, scores: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that sums by lead, station and hour have the same totals, and that scores follow from them.

    Raises
    ------
    ValueError
    """
    from stationpde.evaluation.metrics import scores_by

    total = statistics.total
    # Signed sums cancel: they are held against the absolute ones.
    size = np.maximum(np.abs(total), np.abs(total[2])[None]) + 1e-30
    for name in ("lead", "station", "hour"):
        if not (np.abs(getattr(statistics, name).sum(axis=1) - total) <= _TOLERANCE * size).all():
            raise ValueError(f"the sums by {name} are not those by day")
    expected = scores_by(total, statistics.variables)
    if expected.keys() != scores.keys():
        raise ValueError("scores and sums have different variables")
    for name, score in expected.items():
        for key, value in score.to_dict().items():
            saved = scores[name].get(key)
            if isinstance(value, float) and np.isfinite(value) and isinstance(saved, int | float):
                if abs(saved - value) > _TOLERANCE * max(abs(value), abs(score.mae), 1e-30):
                    raise ValueError(f"the score `{name}.{key}` does not follow from the sums")
            elif saved != value and not (isinstance(value, float) and saved is None):
                raise ValueError(f"the score `{name}.{key}` does not follow from the sums")
