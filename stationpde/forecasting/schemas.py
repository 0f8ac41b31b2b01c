"""What ``export.json`` holds: keys, types and ranges; other keys are accepted, as other versions write them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

__all__ = ["first_fault"]

Text = Annotated[str, Field(max_length=10_000)]
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_STRICT = ConfigDict(strict=True, extra="allow", allow_inf_nan=True)


class ProgramEntry(BaseModel):
    """Names of what a program takes and returns."""

    model_config = _STRICT

    inputs: list[Text]
    outputs: list[Text]


class PlaceLists(BaseModel):
    """Stations of the programs."""

    model_config = _STRICT

    id: list[Text]
    lat: list[float]
    lon: list[float]
    alt: list[float]


class ExportFile(BaseModel):
    """``export.json``."""

    model_config = _STRICT

    format: Literal["pt2", "onnx"]
    horizon: Positive
    substeps: Positive
    programs: dict[Literal["analysis", "prepare", "substep", "step"], ProgramEntry]
    sha256: dict[str, Digest]
    about_sha256: Digest | None = None
    history: Positive | None = None
    step_seconds: Positive | None = None
    variables: dict[str, Text] = {}
    stations: PlaceLists | None = None
    stationpde: Text | None = None
    torch: Text | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> ExportFile:
        names = set(self.programs)
        if not {"analysis", "step"} <= names or len(names & {"prepare", "substep"}) == 1:
            raise ValueError(f"the programs {', '.join(sorted(names))} make no forecast")
        if set(self.sha256) != {f"{name}.{self.format}" for name in names}:
            raise ValueError("the files are not those of the programs")
        return self


def first_fault(about: Any) -> str | None:
    """Return what is wrong with the first key that no export has so; None for the content of ``export.json``."""
    try:
        ExportFile.model_validate(about)
    except RecursionError:
        return "it is nested too deeply"
    except ValidationError as problem:
        error = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:80] for part in error["loc"])
        return f"`{place}`: {error['msg']}" if place else str(error["msg"])
    return None
