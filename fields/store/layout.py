"""Choose how arrays are cut: chunks that read fast both by time and by station, gathered in shards for few files.

Measured on 13,632 steps of 1,866 stations (blosc-lz4, one core): chunks of 512 x 128 in shards of 4,096 x 256 read
one station's whole record and one time of all stations in comparable times, and blocks of 480 steps at the speed
of the decompressor; one-step chunks are ten times slower in bulk, and longer ones slow single times down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Layout", "choose_layout"]

_STATION_CHUNK = {"time": 512, "station": 128}
_STATION_SHARD = {"time": 4096, "station": 256}
# Elements of a chunk and of a shard where the trailing dimensions are not stations (grids).
_CHUNK_ELEMENTS = 1 << 18
_SHARD_ELEMENTS = 1 << 22


@dataclass(frozen=True, slots=True)
class Layout:
    """Chunk and shard lengths of one array, in the order of its dimensions."""

    dims: tuple[str, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(shard % chunk for shard, chunk in zip(self.shards, self.chunks)):
            raise ValueError(f"shards {self.shards} are not multiples of chunks {self.chunks}")

    def shard_along(self, dim: str) -> int:
        """Return the length of a shard along a dimension: blocks written at once start at its multiples."""
        return self.shards[self.dims.index(dim)]


def _shard_length(target: int, chunk: int, size: int) -> int:
    """Return a length near ``target``: a multiple of the chunk, no longer than needed to hold the array."""
    return chunk * max(1, min(target // chunk, -(-size // chunk)))


def choose_layout(dims: tuple[str, ...], sizes: Mapping[str, int], time_block: int | None = None) -> Layout:
    """Choose the chunk and shard lengths of an array.

    Parameters
    ----------
    dims : names of the array's dimensions
    sizes : length of each dimension
    time_block : number of steps that the writer handles at once; it becomes the length of a shard along time
    """
    length = {d: max(1, sizes[d]) for d in dims}
    if set(dims) <= set(_STATION_CHUNK):
        chunks = {d: min(_STATION_CHUNK[d], length[d]) for d in dims}
        shards = {d: _shard_length(_STATION_SHARD[d], chunks[d], length[d]) for d in dims}
    else:
        chunks = dict(length)
        cells = 1
        for d in dims:
            if d != "time":
                cells *= length[d]
        for d in reversed([d for d in dims if d != "time"]):
            if cells > _SHARD_ELEMENTS:  # one step alone is larger than a shard: cut the grid as well
                chunks[d] = max(1, chunks[d] // -(-cells // _SHARD_ELEMENTS))
                cells = cells // length[d] * chunks[d]
        shards = dict(chunks)
        if "time" in dims:
            chunks["time"] = min(length["time"], max(1, _CHUNK_ELEMENTS // cells))
            shards["time"] = _shard_length(max(1, _SHARD_ELEMENTS // cells), chunks["time"], length["time"])
    if time_block is not None and "time" in dims:
        shards["time"] = max(1, time_block)
        chunks["time"] = _largest_divisor(shards["time"], chunks["time"])
    return Layout(dims, tuple(chunks[d] for d in dims), tuple(shards[d] for d in dims))


def _largest_divisor(number: int, at_most: int) -> int:
    return next(d for d in range(min(number, at_most), 0, -1) if number % d == 0)
