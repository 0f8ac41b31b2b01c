"""Stores that others wrote: their metadata are read as plain JSON and found harmless before zarr opens them.

A zarr 2 array may name ``pickle`` among its filters, and decoding would then run code; a chunk may be declared larger
than memory. Only codecs that merely compress are let through.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError, printable
from .chunk_sizes import exceeds
from .safety import MAX_RATIO, RATIO_FLOOR, check_ratio

__all__ = ["check_foreign_store", "is_zarr"]

_CODECS = {
    "blosc", "zlib", "gzip", "zstd", "lz4", "crc32c", "crc32", "adler32", "fletcher32", "shuffle",
    "delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "vlen-utf8", "vlen-bytes", "bytes",
    "endian", "transpose", "sharding_indexed", "bitshuffle", "fixed-length-utf32", "scale_offset", "cast_value",
}  # fmt: skip
_LARGEST_META = 16 << 20
_LARGEST_CHUNK = 1 << 30
_MOST_FILES = 2_000_000
_META = (".zarray", "zarr.json")
_PACKERS = ("blosc", "zlib", "gzip", "zstd", "lz4")
# A chunk of this size is harmless whatever it claims to be.
_LARGEST_PIECE = 32 << 20


def is_zarr(path: Path) -> bool:
    """Whether a folder is a zarr store of either version."""
    return path.is_dir() and any((path / name).is_file() for name in (".zgroup", ".zmetadata", "zarr.json"))


def check_foreign_store(path: Path) -> None:
    """Refuse a store whose metadata name codecs that run code, or sizes beyond reason.

    Raises
    ------
    DataError
        Naming the array.
    """
    disk = inflated = 0
    for file in _files(path):
        disk += file.stat().st_size
        if file.name in (*_META, ".zmetadata", ".zattrs", ".zgroup"):
            about = _json(file, path)
            for name, array in _arrays(about, file, path):
                _check_codecs(array, name)
                inflated += _check_sizes(array, name)
            if file.name in _META and "shape" in about:
                _check_chunks(file.parent, about, path)
    if inflated > RATIO_FLOOR and inflated > MAX_RATIO * max(disk, 1):
        check_ratio(inflated, disk, printable(path.name))


def _files(path: Path) -> Iterator[Path]:
    for count, file in enumerate(path.rglob("*")):
        if count > _MOST_FILES:
            raise DataError(f"{printable(path.name)} has more than {_MOST_FILES:,} files", code="SPDE-D104")
        if file.is_symlink():
            raise DataError(f"{printable(path.name)} › {printable(file.name)} is a link", code="SPDE-D106")
        if file.is_file():
            yield file


def _json(file: Path, path: Path) -> Any:
    label = f"{printable(path.name)} › {printable(file.relative_to(path))}"
    if file.stat().st_size > _LARGEST_META:
        raise DataError(f"{label} is larger than {_LARGEST_META:,} bytes", code="SPDE-D105")
    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise DataError(f"{label} is not readable as JSON", code="SPDE-D103") from None


def _arrays(about: Any, file: Path, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Descriptions of arrays in a metadata file; consolidated ones hold several."""
    if not isinstance(about, dict):
        raise DataError(f"{printable(path.name)} › {printable(file.name)} is not a description", code="SPDE-D103")
    label = f"{printable(path.name)} › {printable(file.parent.name)}"
    if file.name in _META and "shape" in about:
        yield label, about
    inner = about.get("metadata") or (about.get("consolidated_metadata") or {}).get("metadata")
    for key, value in inner.items() if isinstance(inner, dict) else ():
        if isinstance(value, dict) and "shape" in value:
            yield f"{printable(path.name)} › {printable(key)}", value


def _names(codec: Any) -> Iterator[str]:
    """Names of a codec and of those inside it."""
    if isinstance(codec, list):
        for item in codec:
            yield from _names(item)
    elif isinstance(codec, dict):
        yield str(codec.get("id", codec.get("name", "")))
        inside = codec.get("configuration")
        if isinstance(inside, dict):
            yield from _names(inside.get("codecs") or [])
            yield from _names(inside.get("index_codecs") or [])


def _check_codecs(array: dict[str, Any], name: str) -> None:
    used = {text for key in ("compressor", "filters", "codecs") for text in _names(array.get(key) or [])}
    strange = sorted(text for text in used if text.removeprefix("numcodecs.") not in _CODECS)
    if strange:
        raise DataError(
            f"{name} is packed with '{printable(strange[0])[:40]}', which is never decoded: it could run code",
            code="SPDE-D101",
            do="write the store again with a plain compressor such as zstd",
        )


def _check_chunks(folder: Path, array: dict[str, Any], path: Path) -> None:
    """Hold every chunk's claim against the array's chunk length; chunks inside shards are left to zarr's own bounds."""
    codecs = [array["compressor"]] if array.get("compressor") else array.get("codecs") or []
    outer = [name.removeprefix("numcodecs.") for name in _names(codecs)]
    packing = next((name for name in reversed(outer) if name in _PACKERS), None)
    if packing is None or "sharding_indexed" in outer:
        return
    limit = max(_LARGEST_PIECE, 16 * math.prod(_chunk_shape(array) or [1]))
    for file in folder.rglob("*"):
        is_chunk = file.is_file() and not file.name.startswith(".z") and file.name != "zarr.json"
        if is_chunk and exceeds(file, packing, limit):
            label = f"{printable(path.name)} › {printable(file.relative_to(path))}"
            raise DataError(f"{label} would inflate beyond its array's chunks", code="SPDE-D104")


def _chunk_shape(array: dict[str, Any]) -> Any:
    chunks, grid = array.get("chunks"), array.get("chunk_grid")
    if isinstance(grid, dict):  # zarr 3
        inside = grid.get("configuration")
        chunks = inside.get("chunk_shape") if isinstance(inside, dict) else None
    return chunks


def _check_sizes(array: dict[str, Any], name: str) -> int:
    shape = array.get("shape")
    sizes = []
    for lengths in (shape, _chunk_shape(array)):
        good = isinstance(lengths, list) and all(isinstance(n, int) and 0 <= n < 1 << 62 for n in lengths)
        if not good:
            raise DataError(f"{name} claims a shape or chunks that no array has", code="SPDE-D103")
        sizes.append(math.prod(lengths or []) * 8)
    if sizes[1] > _LARGEST_CHUNK * 8:
        raise DataError(f"{name} has chunks of {sizes[1]:,} bytes", code="SPDE-D105")
    return sizes[0]
