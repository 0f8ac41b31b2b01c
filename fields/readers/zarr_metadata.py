"""Read the metadata of a zarr store strictly: every key is known, or the store is refused.

zarr honours more than it writes: a ``.zgroup`` of version 2 may hold ``consolidated_metadata``, a codec both a ``name``
and an ``id``. Whatever is not understood here is therefore refused rather than skipped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fields.readers.zarr_codecs import Refusal, Stage, item_size, parse_stages_2, parse_stages_3

__all__ = ["METADATA_FILES", "ArrayPlan", "arrays_of", "parse_json"]

METADATA_FILES = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")
_ARRAY_2 = {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters",
            "dimension_separator"}  # fmt: skip
_ARRAY_3 = {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
            "codecs", "attributes", "dimension_names", "storage_transformers"}  # fmt: skip
_GROUP_3 = {"zarr_format", "node_type", "attributes", "consolidated_metadata"}
_CONSOLIDATED_KEYS = {"kind", "must_understand", "metadata"}
_MOST_DIMS = 32
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class ArrayPlan:
    """Sizes of an array: its shape, its chunks' shape, the bytes of an item, and the stages of packing in order."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    item: int
    is_text: bool
    stages: tuple[Stage, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array, in unbounded integers."""
        return math.prod(self.shape) * self.item


def parse_json(raw: bytes) -> Any:
    """Parse JSON in which no key occurs twice: parsers differ in which one they take.

    Raises
    ------
    Refusal
        If it is none.
    """
    try:
        return json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise Refusal("it is not readable as JSON") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise Refusal("it names a key twice")
    return table


def arrays_of(about: Any, file_name: str) -> Iterator[tuple[str, ArrayPlan]]:
    """Yield the arrays that a metadata file describes, by their path inside it; consolidated metadata hold several.

    Raises
    ------
    Refusal
        If a key, a codec or a size is not understood.
    """
    if not isinstance(about, dict):
        raise Refusal("it is not a description")
    if file_name == ".zattrs":
        return
    if file_name == ".zgroup":
        _require_keys(about, {"zarr_format"}, 2)
    elif file_name == ".zarray":
        yield "", _array_2(about)
    elif file_name == ".zmetadata":
        strange = sorted(set(about) - {"zarr_consolidated_format", "metadata"})
        if strange:
            raise Refusal(f"it has the unknown key '{strange[0][:40]}'")
        for key, value in _table(about.get("metadata")).items():
            folder, _, name = key.rpartition("/")
            if name not in (".zarray", ".zgroup", ".zattrs"):
                raise Refusal(f"it describes '{key[:40]}'")
            # zarr itself notes there that a group inside has nothing consolidated of its own.
            for _, plan in arrays_of(_without_empty_note(value) if name == ".zgroup" else value, name):
                yield folder, plan
    else:
        yield from _node_3(about)


def _node_3(about: dict[str, Any]) -> Iterator[tuple[str, ArrayPlan]]:
    kind = about.get("node_type")
    if kind == "array":
        yield "", _array_3(about)
    elif kind == "group":
        _require_keys(about, _GROUP_3, 3)
        _table(about.get("attributes"))
        inner = _table(about.get("consolidated_metadata"))
        if set(inner) - _CONSOLIDATED_KEYS:
            raise Refusal("its consolidated metadata have an unknown key")
        for key, value in _table(inner.get("metadata")).items():
            for path, plan in _node_3(_table(value)):
                yield f"{key}/{path}".rstrip("/"), plan
    else:
        raise Refusal(f"it is a node of the kind {kind!r:.40}")


def _without_empty_note(group: Any) -> Any:
    note = group.get("consolidated_metadata") if isinstance(group, dict) else None
    if not isinstance(note, dict) or note.get("metadata") != {} or set(note) - _CONSOLIDATED_KEYS:
        return group
    return {key: value for key, value in group.items() if key != "consolidated_metadata"}


def _table(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refusal("it is not a description")
    return value


def _require_keys(about: dict[str, Any], keys: set[str], version: int) -> None:
    strange = sorted(set(about) - keys)
    if strange:
        raise Refusal(f"it has the unknown key '{strange[0][:40]}'")
    if about.get("zarr_format") != version:
        raise Refusal(f"it is of the format {about.get('zarr_format')!r:.20}")


def _array_2(about: dict[str, Any]) -> ArrayPlan:
    _require_keys(about, _ARRAY_2, 2)
    item, is_text = item_size(about.get("dtype"))
    shape, chunk = _lengths(about.get("shape")), _lengths(about.get("chunks"))
    stages = parse_stages_2(about.get("compressor"), about.get("filters"), is_text)
    return _plan(shape, chunk, item, is_text, stages)


def _array_3(about: dict[str, Any]) -> ArrayPlan:
    _require_keys(about, _ARRAY_3, 3)
    _table(about.get("attributes"))
    if about.get("storage_transformers"):
        raise Refusal("it has storage transformers, which are not read")
    grid = _table(about.get("chunk_grid"))
    encoding = about.get("chunk_key_encoding") or "default"
    name = encoding.get("name") if isinstance(encoding, dict) else encoding
    if name not in ("default", "v2") or grid.get("name") != "regular":
        raise Refusal("its chunks lie in a way that is not known")
    item, is_text = item_size(about.get("data_type"))
    shape = _lengths(about.get("shape"))
    chunk = _lengths(_table(grid.get("configuration")).get("chunk_shape"))
    return _plan(shape, chunk, item, is_text, parse_stages_3(about.get("codecs"), is_text, chunk))


def _lengths(value: Any) -> tuple[int, ...]:
    good = isinstance(value, list) and len(value) <= _MOST_DIMS
    if not good or not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < _LARGEST for n in value):
        raise Refusal("it claims a shape or chunks that no array has")
    return tuple(value)


def _plan(
    shape: tuple[int, ...], chunk: tuple[int, ...], item: int, is_text: bool, stages: tuple[Stage, ...]
) -> ArrayPlan:
    if len(shape) != len(chunk):
        raise Refusal("it claims a shape or chunks that no array has")
    if any(length > 0 and piece == 0 for length, piece in zip(shape, chunk)):
        raise Refusal("its chunks have no length")
    return ArrayPlan(shape, chunk, item, is_text, stages)
