"""How large a compressed chunk would become, known before it is inflated.

Most codecs write the size into the first bytes. Deflate does not: its stream is inflated up to the limit, piece by
piece, and thrown away.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

__all__ = ["exceeds"]

_PIECE = 1 << 20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_FIELD = {0: 0, 1: 2, 2: 4, 3: 8}  # bytes of a zstd frame's content size, by its flag


def exceeds(path: Path, codec: str, limit: int) -> bool:
    """Whether a chunk packed with ``codec`` would inflate beyond ``limit`` bytes, or does not say."""
    with path.open("rb") as file:
        if codec in ("zlib", "gzip"):
            return _deflated(file.read, limit)
        head = file.read(32)
    if codec == "blosc":
        return len(head) >= 8 and int.from_bytes(head[4:8], "little") > limit
    if codec == "lz4":
        return len(head) >= 4 and int.from_bytes(head[:4], "little") > limit
    if codec == "zstd":
        size = _zstd_size(head)
        return size is None or size > limit
    return path.stat().st_size > limit


def _deflated(read: Callable[[int], bytes], limit: int) -> bool:
    made = 0
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # either header, zlib's or gzip's
    while piece := read(_PIECE):
        while piece:
            try:
                made += len(inflate.decompress(piece, _PIECE))
            except zlib.error:
                return False  # damaged: the codec will say so
            if made > limit:
                return True
            piece = inflate.unconsumed_tail
        if inflate.eof:
            return False
    return False


def _zstd_size(head: bytes) -> int | None:
    """The content size in a frame's header (RFC 8878, section 3.1.1.1), None where it is not given."""
    if not head.startswith(_ZSTD_MAGIC) or len(head) < 6:
        return 0  # no frame: the codec will say so
    about = head[4]
    single = bool(about & 0x20)
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[about & 3]
    width = _FIELD[about >> 6] or (1 if single else 0)
    if width == 0:
        return None
    size = int.from_bytes(head[start : start + width], "little")
    return size + 256 if width == 2 else size
