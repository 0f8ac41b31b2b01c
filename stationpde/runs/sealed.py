"""Small JSON files with a checksum, so that any changed byte is detected.

A sealed file holds its content and the SHA-256 of it in one canonical form: even an additional space is an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fields import atomic
from stationpde.errors import CorruptArtefactError

__all__ = ["read_plain", "read_sealed", "sealed", "write_sealed"]

# Far above the size of any file that is written here.
_MOST_BYTES = 8 << 20


def sealed(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a sealed file."""
    digest = hashlib.sha256(_canonical(content)).hexdigest()
    return _canonical({"content": content, "sha256": digest})


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a sealed file completely or not at all."""
    with atomic.machine_faults(path):
        atomic.write_file(path, sealed(content))


def read_sealed(path: Path) -> dict[str, Any]:
    """Read the content of a sealed file.

    Raises
    ------
    CorruptArtefactError
        If it is absent, too large or not byte for byte what was written.
    """
    raw = _read(path)
    try:
        tree = json.loads(raw)
        content = tree.get("content") if isinstance(tree, dict) else None
        # Numbers that are not finite have no canonical form: a ValueError.
        intact = isinstance(content, dict) and sealed(content) == raw
    except (ValueError, RecursionError):
        raise CorruptArtefactError(f"{path.name} is damaged: not the JSON that was written", where=str(path)) from None
    if not intact or not isinstance(content, dict):
        raise CorruptArtefactError(f"{path.name} is damaged: its SHA-256 does not fit", where=str(path))
    return content


def read_plain(path: Path) -> dict[str, Any]:
    """Read a JSON table whose bytes a manifest vouches for.

    Raises
    ------
    CorruptArtefactError
        If it is absent, too large or no table.
    """
    raw = _read(path)
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        raise CorruptArtefactError(f"{path.name} is no JSON", where=str(path)) from None
    if not isinstance(content, dict):
        raise CorruptArtefactError(f"{path.name} is no table", where=str(path))
    return content


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise CorruptArtefactError(f"{path.name} is too large to be ours", where=str(path))
        return atomic.read_regular(path)
    except FileNotFoundError:
        raise CorruptArtefactError(f"{path.name} is missing", where=str(path)) from None
    except atomic.NotRegularFileError:
        raise CorruptArtefactError(f"{path.name} is no regular file", where=str(path)) from None


def _canonical(content: Any) -> bytes:
    return (json.dumps(content, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=True) + "\n").encode()
