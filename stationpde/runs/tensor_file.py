"""Tensors in safetensors files, whose header is checked before the tensors are read.

The format is eight bytes with the length of a JSON header, the header (name → dtype, shape, offsets) and the raw
tensors. The library that reads it trusts much of the header, which a file from elsewhere may forge.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields.atomic import NotRegularFileError, open_regular, read_regular
from stationpde.errors import CorruptArtefactError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TensorEntry", "check_header", "encode", "read_tensors"]

_MOST_HEADER = 8 << 20
_MOST_TENSORS = 100_000
_LONGEST_NAME = 1000
_MOST_DIMENSIONS = 16
_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Description of one tensor in the header; ``start`` and ``stop`` count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def encode(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the bytes of a file; tensors that share memory are written separately."""
    from safetensors.torch import save

    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file after its header is checked.

    Raises
    ------
    CorruptArtefactError
        If the header is invalid or does not match the content.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    entries = check_header(path)
    try:
        tensors: dict[str, Tensor] = load(read_regular(path))
    except SafetensorError as problem:
        raise _refused(path, str(problem)) from None
    if tensors.keys() != entries.keys():
        raise _refused(path, "header and content name different tensors")
    return tensors


def check_header(path: Path) -> dict[str, TensorEntry]:
    """Read and check the header alone: length, names, types, shapes, and offsets that tile the file exactly."""
    try:
        size = path.stat().st_size
        with open_regular(path) as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(_MOST_HEADER, size - 8):
                raise _refused(path, f"a header of {length:,} bytes in a file of {size:,}")
            header = json.loads(file.read(length), object_pairs_hook=_without_duplicates)
    except FileNotFoundError:
        raise _refused(path, "there is no such file") from None
    except NotRegularFileError:
        raise _refused(path, "it is no regular file") from None
    except (ValueError, RecursionError) as problem:
        raise _refused(path, f"the header is no JSON ({type(problem).__name__})") from None
    if not isinstance(header, dict) or len(header) > _MOST_TENSORS:
        raise _refused(path, "the header is no table of tensors")
    header.pop("__metadata__", None)
    entries = {name: _entry(path, name, about) for name, about in header.items()}
    place = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != place:
            raise _refused(path, f"`{name[:80]}` starts at {entry.start:,}, not at {place:,}: overlap or gap")
        place = entry.stop
    if place != size - 8 - length:
        raise _refused(path, f"the tensors take {place:,} bytes, the file has {size - 8 - length:,} for them")
    return entries


def _entry(path: Path, name: str, about: Any) -> TensorEntry:
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise _refused(path, "a tensor's name is too long or not printable")
    try:
        dtype, shape, (start, stop) = about["dtype"], about["shape"], about["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise _refused(path, f"`{name[:80]}` is not described by dtype, shape and data_offsets") from None
    whole = [start, stop, *shape] if isinstance(shape, list) else [None]
    if not isinstance(dtype, str) or dtype not in _BYTES or len(whole) > 2 + _MOST_DIMENSIONS:
        raise _refused(path, f"`{name[:80]}` has dtype {str(dtype)[:20]!r} or a shape that is not allowed")
    if any(type(number) is not int or not 0 <= number < 1 << 48 for number in whole):
        raise _refused(path, f"`{name[:80]}` has a shape or offsets that are no counts")
    if stop - start != math.prod(shape) * _BYTES[dtype]:
        raise _refused(path, f"`{name[:80]}`: {dtype} of shape {shape} does not take {stop - start:,} bytes")
    return TensorEntry(dtype, tuple(shape), start, stop)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands twice")
    return table


def _refused(path: Path, why: str) -> CorruptArtefactError:
    return CorruptArtefactError(
        f"{path.name} is no safetensors file that can be trusted: {why}", code="SPDE-T052", where=str(path)
    )
