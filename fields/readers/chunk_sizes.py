"""Determine how large a chunk becomes at every stage of unpacking, before it is unpacked.

Sizes of plain stages follow from the array's shape. Of the compressed stage, of which there is at most one, most
codecs write the size into the first bytes; deflate does not: its stream is inflated up to the limit, piece by piece,
and thrown away.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from fields.readers.safety import open_binary
from fields.readers.zarr_codecs import Refusal, Stage
from fields.readers.zarr_metadata import ArrayPlan

__all__ = ["check_chunk", "largest_stage"]

_PIECE = 1 << 20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"  # last bytes of the magic of a frame without content
_ZSTD_BLOCK = 1 << 17
_FIELD = {0: 0, 1: 2, 2: 4, 3: 8}  # bytes of a zstd frame's content size, by its flag
# A zstd frame without a size is bounded by whole blocks.
_SLACK = _ZSTD_BLOCK
_EMPTY = np.uint64(2**64 - 1)
# Texts have no size of their own: so much for each, and for all of a chunk together.
_TEXT_BYTES = 1 << 10
_TEXTS_BYTES = 1 << 20


def largest_stage(plan: ArrayPlan) -> int:
    """Return the bytes of the largest stage of a chunk, as the array's description claims them."""
    size = math.prod(plan.chunk) * plan.item
    largest = size
    for stage in plan.stages:
        if stage.kind == "packer":
            break
        size = stage.encoded_size(size)
        largest = max(largest, size, stage.index_bytes)
        if stage.kind == "shard":
            inner = ArrayPlan(stage.chunk_shape, stage.chunk_shape, plan.item, plan.is_text, stage.inner)
            largest = max(largest, largest_stage(inner))
    return largest


def check_chunk(path: Path, plan: ArrayPlan) -> None:
    """Refuse a chunk that becomes larger, at any stage, than its array's chunks are.

    Raises
    ------
    Refusal
        If it does, or does not say.
    """
    with open_binary(path) as file:
        length = file.seek(0, 2)
        shard = next((stage for stage in plan.stages if stage.kind == "shard"), None)
        if shard is None:
            _check_piece(file, 0, length, plan.stages, math.prod(plan.chunk), plan)
            return
        if length < shard.index_bytes:
            raise Refusal("is shorter than the index of its shard")
        file.seek(0 if shard.index_first else length - shard.index_bytes)
        index = np.frombuffer(file.read(shard.index_bytes // 16 * 16), "<u8").reshape(-1, 2)
        if length > 2 * math.prod(plan.chunk) * plan.item + shard.index_bytes + _TEXTS_BYTES and not plan.is_text:
            raise Refusal("is larger than its array's chunks")
        for offset, size in index[(index != _EMPTY).any(1)].tolist():
            if offset + size > length:
                raise Refusal("points outside its shard")
            _check_piece(file, offset, size, shard.inner, math.prod(shard.chunk_shape), plan)


def _check_piece(
    file: IO[bytes], start: int, length: int, stages: tuple[Stage, ...], items: int, plan: ArrayPlan
) -> None:
    size, packer, lead, tail = items * plan.item, "", 0, 0
    if plan.is_text:
        size = _TEXTS_BYTES + items * _TEXT_BYTES
    for stage in stages:
        if packer:  # a checksum of the packed bytes
            lead, tail = lead + 4 * stage.leads, tail + 4 * (not stage.leads)
        elif stage.kind == "packer":
            packer = stage.name
        else:
            size = stage.encoded_size(size)
    limit = size + _SLACK
    if length > (2 * limit if packer else limit):
        raise Refusal("is larger than its array's chunks")
    start, length = start + lead, max(0, length - lead - tail)
    file.seek(start)
    if packer and _exceeds(file, length, packer, limit):
        raise Refusal("would inflate beyond its array's chunks")
    if plan.is_text:
        file.seek(start)
        _check_texts(file.read(length), packer, stages, items)


def _exceeds(file: IO[bytes], length: int, codec: str, limit: int) -> bool:
    """Tell whether what is packed with ``codec`` would inflate beyond ``limit`` bytes, or does not say."""
    if codec in ("zlib", "gzip"):
        return _deflated(_bounded(file, length), limit)
    if codec == "zstd":
        size = _zstd_size(file.read(length))
        return size is None or size > limit
    head = file.read(min(length, 16))
    claimed = head[4:8] if codec == "blosc" else head[:4]
    return int.from_bytes(claimed, "little") > limit


def _bounded(file: IO[bytes], length: int) -> Callable[[int], bytes]:
    left = length

    def read(count: int) -> bytes:
        nonlocal left
        piece = file.read(min(count, left))
        left -= len(piece)
        return piece

    return read


def _deflated(read: Callable[[int], bytes], limit: int) -> bool:
    """Tell whether deflate streams are longer than ``limit`` bytes, by inflating them up to there.

    A gzip file may have several members, which are read one after another.
    """
    inflated = 0
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # either header, zlib's or gzip's
    while piece := read(_PIECE):
        while piece:
            if inflate.eof:
                piece = piece.lstrip(b"\0")  # padding between members
                inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            try:
                inflated += len(inflate.decompress(piece, _PIECE))
            except zlib.error:
                return False  # damaged: the codec will say so
            if inflated > limit:
                return True
            piece = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
    return False


def _zstd_size(raw: bytes) -> int | None:
    """Add up the content sizes of all frames (RFC 8878, section 3.1); None where that cannot be done.

    A frame without a size is bounded by its blocks, whose headers are read.
    """
    total = at = 0
    while at < len(raw):
        if raw[at + 1 : at + 4] == _ZSTD_SKIPPED and raw[at] & 0xF0 == 0x50:
            at += 8 + int.from_bytes(raw[at + 4 : at + 8], "little")
            continue
        if not raw.startswith(_ZSTD_MAGIC, at) or len(raw) < at + 6:
            return None if at else 0  # no frame at all: the codec will say so
        about = raw[at + 4]
        single = bool(about & 0x20)
        start = at + 5 + (0 if single else 1) + (0, 1, 2, 4)[about & 3]
        width = _FIELD[about >> 6] or (1 if single else 0)
        size = int.from_bytes(raw[start : start + width], "little") + (256 if width == 2 else 0)
        blocks, at = _zstd_blocks(raw, start + width)
        total += size if width else blocks
        at += 4 if about & 0x04 else 0  # checksum
    return total


def _zstd_blocks(raw: bytes, at: int) -> tuple[int, int]:
    """Return a bound of the content of a frame's blocks, and where they end."""
    bound, is_last = 0, False
    while not is_last and at + 3 <= len(raw):
        header = int.from_bytes(raw[at : at + 3], "little")
        is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        bound += _ZSTD_BLOCK if kind == 2 else size
        at += 3 + (1 if kind == 1 else size)
    return bound, at


def _check_texts(raw: bytes, packer: str, stages: tuple[Stage, ...], items: int) -> None:
    """Refuse a chunk of texts that claims more of them than it has: the reader makes room for all at once."""
    import numcodecs  # type: ignore[import-untyped]

    try:
        plain = bytes(numcodecs.get_codec({"id": packer}).decode(raw)) if packer else raw
    except (ValueError, RuntimeError, OSError, EOFError, TypeError, zlib.error):
        return  # damaged: the codec will say so
    names = [stage.name for stage in stages]
    before = [stage for stage in stages[: names.index(packer)] if packer] if packer else list(stages)
    lead = 4 * sum(stage.leads for stage in before)
    if int.from_bytes(plain[lead : lead + 4], "little") > items:
        raise Refusal("claims more texts than its array's chunks have")
