"""What the manifest of a store holds: keys, types and ranges, checked after its seal.

A seal proves that a manifest was not changed since it was sealed, not that a writer of stores sealed it. Keys that the
schema does not name are accepted: other versions write them.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

__all__ = ["first_fault"]

# Elements of an array, steps of a record: far above any store.
_MOST = 1 << 48

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=10_000)]
Length = Annotated[int, Field(ge=0, le=_MOST)]
Positive = Annotated[int, Field(ge=1, le=_MOST)]
_STRICT = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class ArrayEntry(BaseModel):
    """One array: names and lengths of its dimensions, its type, and its place among the others."""

    model_config = _STRICT

    dims: list[Text]
    shape: list[Length]
    shards: list[Positive]
    dtype: Text
    position: Length
    chunks: list[Positive] | None = None
    units: Text | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> ArrayEntry:
        if not len(self.dims) == len(self.shape) == len(self.shards):
            raise ValueError("dims, shape and shards have different lengths")
        if not self.dtype.startswith("StringDType"):
            try:
                np.dtype(self.dtype)
            except (TypeError, ValueError, SyntaxError):
                raise ValueError(f"there is no type {self.dtype[:40]!r}") from None
        return self


class ManifestBody(BaseModel):
    """The manifest without its own hash."""

    model_config = _STRICT

    kind: Text
    arrays: dict[str, ArrayEntry]
    files: dict[str, Annotated[list[Any], Field(min_length=2, max_length=2)]]
    fingerprint: Digest
    versions: dict[str, Text]
    schema_version: Positive
    needs: Text

    @model_validator(mode="after")
    def _fits_together(self) -> ManifestBody:
        for name, (size, digest) in self.files.items():
            if type(size) is not int or not 0 <= size <= _MOST:
                raise ValueError(f"the size of {name[:80]!r} is no count")
            if not isinstance(digest, str):
                raise ValueError(f"the SHA-256 of {name[:80]!r} is none")
        return self

    @model_validator(mode="after")
    def _lists_the_files_of_arrays(self) -> ManifestBody:
        listed = {name.partition("/")[0] for name in self.files if name.count("/")}
        odd = listed ^ set(self.arrays)
        if odd and not any(".." in name or name.startswith("/") for name in self.files):
            raise ValueError(f"files and arrays differ in {min(odd)[:80]!r}")
        return self


def first_fault(body: Any) -> str | None:
    """Return what the first key is that no manifest has so; None for the body of a manifest."""
    try:
        ManifestBody.model_validate(body)
    except RecursionError:
        return "it is nested too deeply"
    except ValidationError as problem:
        error = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:80] for part in error["loc"])
        return f"`{place}`: {error['msg']}" if place else str(error["msg"])
    return None
