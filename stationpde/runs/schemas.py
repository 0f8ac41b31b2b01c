"""What each file of a run holds: keys, types and ranges, checked after the seal of the file.

A seal proves that a file was not changed since it was sealed, not that training sealed it. Keys that these schemas do
not name are accepted: other versions write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stationpde.errors import CorruptArtefactError

__all__ = [
    "BestRecord",
    "CheckpointManifest",
    "MetricsRecord",
    "Part",
    "ResultRecord",
    "RunRecord",
    "SavedState",
    "require_schema",
]

# Far above the steps of any training, and exact as a float.
_MOST = 1 << 53
# Bad steps in a row after which training goes back.
_MOST_IN_A_ROW = 3

Count = Annotated[int, Field(ge=0, le=_MOST)]
Positive = Annotated[int, Field(ge=1, le=_MOST)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
Text = Annotated[str, Field(max_length=10_000)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
CheckpointName = Annotated[str, Field(pattern="^step-[0-9]{1,15}$")]


class Part(BaseModel):
    """Base of the schemas: types are exact, numbers finite, other keys are accepted."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, frozen=True)


class Score(Part):
    """Validation of one variable."""

    mse: float | None
    mae: float | None
    unit: Text
    persistence_mse: float | None = None
    persistence_mae: float | None = None
    skill: float | None = None
    variance: float | None = None
    count: Annotated[float, Field(ge=0)] | None = None


Scores = dict[str, Score]


class RunRecord(Part):
    """``run.json``: the configuration of a run and the circumstances of its start."""

    config: dict[str, Any]
    config_hash: Digest | None = None
    data_fingerprint: Text
    trained_from: int | None = None
    trained_until: int | None = None
    seed: Seed | None = None
    versions: dict[str, Text] = {}
    threads: Positive | None = None
    world: Positive | None = None
    device: Text | None = None
    machine: Text | None = None
    networks: Text | None = None


class FileEntry(Part):
    """Size and SHA-256 of a file of a checkpoint."""

    bytes: Count
    sha256: Digest


class CheckpointManifest(Part):
    """``manifest.json`` of a checkpoint."""

    kind: Literal["checkpoint"]
    schema_version: Positive
    step: Count
    files: dict[str, FileEntry]
    config_hash: Digest | None = None
    data_fingerprint: Text | None = None
    trained_from: int | None = None
    trained_until: int | None = None
    seed: Seed | None = None
    versions: dict[str, Text] = {}
    threads: Positive | None = None
    world: Positive | None = None
    device: Text | None = None
    machine: Text | None = None
    networks: Text | None = None


class BestRecord(Part):
    """``best.json``: the checkpoint with the best validation."""

    checkpoint: CheckpointName
    step: Count
    score: float
    epoch: Count | None = None
    variables: Scores = {}

    @model_validator(mode="after")
    def _fits_together(self) -> BestRecord:
        if self.checkpoint != f"step-{self.step}":
            raise ValueError(f"{self.checkpoint} is not the checkpoint of step {self.step}")
        return self


class ResultRecord(Part):
    """``result.json`` of a finished run; the paths are those where it was trained."""

    run: Text
    checkpoint: Text
    best: Text | None
    steps: Count
    epochs: Count
    weights_sha256: Digest
    validation: Scores
    score: float | None
    stopped_early: bool = False
    skipped: Count = 0
    rollbacks: Count = 0

    @model_validator(mode="after")
    def _fits_together(self) -> ResultRecord:
        if Path(self.checkpoint).name != f"step-{self.steps}":
            raise ValueError(f"the last checkpoint is not that of step {self.steps}")
        if (self.best is None) != (self.score is None):
            raise ValueError("a best checkpoint and its score come together")
        return self


class SavedState(Part):
    """``state.json`` of a checkpoint: where training stood."""

    step: Count
    validated: Count
    since_best: Count
    best: BestRecord | None
    last_validation: Scores
    average_updates: Count
    rate_scale: Annotated[float, Field(gt=0.0, le=1.0)]
    in_a_row: Annotated[int, Field(ge=0, le=_MOST_IN_A_ROW)]
    skipped: Count
    rollbacks: Count

    @model_validator(mode="after")
    def _fits_together(self) -> SavedState:
        most = {"validated": self.since_best, "step": max(self.average_updates, self.best.step if self.best else 0)}
        for name, value in most.items():
            if value > getattr(self, name):
                raise ValueError(f"a count of {value:,} is above `{name}` = {getattr(self, name):,}")
        if self.rollbacks > 1000 or self.rate_scale != 0.5**self.rollbacks:
            raise ValueError(f"rate_scale = {self.rate_scale:g} does not follow from {self.rollbacks:,} roll-backs")
        return self


class MetricsRecord(Part):
    """A line of ``metrics.jsonl``."""

    kind: Literal["step", "validation"]
    step: Count
    epoch: Count = 0
    total: float | None = None
    score: float | None = None
    variables: Scores = {}


Schema = TypeVar("Schema", bound=Part)


def require_schema(schema: type[Schema], content: Any, path: Path) -> Schema:
    """Return the content of a file as its schema.

    Raises
    ------
    CorruptArtefactError
        With the first key that is missing or of another type or range.
    """
    try:
        return schema.model_validate(content)
    except (ValidationError, RecursionError) as problem:
        raise CorruptArtefactError(
            f"{path.name} is sealed, but not what training writes: {_first(problem)}", code="SPDE-T057",
            where=str(path), do="restore it from a copy, or train the run again in another directory",
        ) from None  # fmt: skip


def _first(problem: ValidationError | RecursionError) -> str:
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    error: Mapping[str, Any] = problem.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:80] for part in error["loc"])
    return f"`{place}`: {error['msg']}" if place else str(error["msg"])
