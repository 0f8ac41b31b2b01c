"""Find the chunks that a zarr store does not hold: they would be read as its fill value, which may look like weather.

Whoever writes a store may leave out chunks that hold the fill value throughout, and a copy may have lost some: the two
cannot be told apart. Where the fill value is NaN, or the file calls it missing, both are missing. Any other (0.0, say)
is plausible: the chunks are then read as missing, with a warning.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from fields.readers.safety import open_binary
from fields.readers.zarr_codecs import Stage
from fields.readers.zarr_metadata import arrays_of, parse_json

__all__ = ["AbsentChunks", "absent_chunks"]

Array = np.ndarray[Any, Any]

_EMPTY = np.uint64(2**64 - 1)
_LARGEST_META = 16 << 20
_MISSING = (None, "NaN")


class AbsentChunks:
    """Chunks of one array that are not there: ``absent`` by place in the grid of chunks of the shape ``chunk``."""

    def __init__(self, absent: Array, chunk: tuple[int, ...], fill: object) -> None:
        self.absent, self.chunk, self.fill = absent, chunk, fill

    @property
    def count(self) -> int:
        """Number of absent chunks."""
        return int(self.absent.sum())

    def mask(self, *index: Array) -> Array:
        """Return where the cells at these positions along each axis lie in an absent chunk."""
        return np.asarray(self.absent[np.ix_(*(at // size for at, size in zip(index, self.chunk)))])


def absent_chunks(folder: Path) -> AbsentChunks | None:
    """Look for the chunks of a checked array of zarr version 3; None where all are there or the fill value is NaN."""
    file = folder / "zarr.json"
    if not file.is_file():
        return None
    with open_binary(file) as stream:
        about = parse_json(stream.read(_LARGEST_META))
    plan = next((plan for inside, plan in arrays_of(about, file.name) if not inside), None)
    fill = about.get("fill_value")
    if plan is None or fill in _MISSING or plan.is_text or not plan.shape or 0 in (*plan.shape, *plan.chunk):
        return None
    shard = next((stage for stage in plan.stages if stage.kind == "shard"), None)
    parts = tuple(map(int, np.floor_divide(plan.chunk, shard.chunk_shape))) if shard else (1,) * len(plan.shape)
    grid = tuple(-(-length // size) for length, size in zip(plan.shape, plan.chunk))
    absent = np.ones(tuple(n * m for n, m in zip(grid, parts)), bool)
    for place in np.ndindex(*grid):
        path = folder / _key(about, place)
        if path.is_file():
            inner = _absent_in(path, shard, parts) if shard else np.zeros(parts, bool)
            absent[tuple(slice(i * m, (i + 1) * m) for i, m in zip(place, parts))] = inner
    size = shard.chunk_shape if shard else plan.chunk
    inside = absent[tuple(slice(-(-length // part)) for length, part in zip(plan.shape, size))]
    return AbsentChunks(absent, tuple(size), fill) if inside.any() else None


def _key(about: dict[str, Any], place: tuple[int, ...]) -> str:
    """Return the name of the chunk at a place of the grid."""
    encoding = about.get("chunk_key_encoding") or "default"
    name = encoding.get("name") if isinstance(encoding, dict) else encoding
    settings = (encoding.get("configuration") or {}) if isinstance(encoding, dict) else {}
    separator = settings.get("separator", "." if name == "v2" else "/")
    numbers = separator.join(map(str, place))
    return numbers if name == "v2" else f"c{separator}{numbers}"


def _absent_in(path: Path, shard: Stage, parts: tuple[int, ...]) -> Array:
    """Read from the index of a shard which of its chunks are not there."""
    with open_binary(path) as file:
        length = file.seek(0, 2)
        file.seek(0 if shard.index_first else max(0, length - shard.index_bytes))
        index = np.frombuffer(file.read(math.prod(parts) * 16), "<u8").reshape(-1, 2)
    return np.asarray((index == _EMPTY).all(axis=1).reshape(parts))
