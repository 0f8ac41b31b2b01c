"""Check stores that others wrote: their metadata are read as plain JSON before zarr opens them.

A zarr 2 array may name ``pickle`` among its filters, and decoding would then run code; a chunk may inflate beyond
memory; a pipe among the files would be waited for. `zarr_metadata` and `zarr_codecs` list what is accepted.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from fields.errors import DataError, printable
from fields.readers.chunk_sizes import check_chunk, largest_stage
from fields.readers.safety import DEFAULT_MAX_BYTES, check_ratio, check_total, open_binary
from fields.readers.zarr_codecs import Refusal
from fields.readers.zarr_metadata import METADATA_FILES, ArrayPlan, arrays_of, parse_json

__all__ = ["ZarrFormat", "check_array", "check_foreign_store", "is_zarr"]

ZarrFormat = Literal[2, 3]

_LARGEST_META = 16 << 20
_MOST_FILES = 2_000_000
# A chunk of this size is harmless whatever it claims to be.
_LARGEST_PIECE = 32 << 20
_CHUNK_NAME = re.compile(r"c?[0-9./]*", re.IGNORECASE)


def is_zarr(path: Path) -> bool:
    """Return whether a folder is a zarr store of either version."""
    return path.is_dir() and any((path / name).is_file() for name in (".zgroup", ".zmetadata", "zarr.json"))


def check_foreign_store(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> ZarrFormat:
    """Refuse a store whose metadata name codecs that might run code, or sizes beyond reason.

    Returns
    -------
    The version of the format; the store is to be opened as that, and without consolidated metadata, so that zarr reads
    the files that were checked.

    Raises
    ------
    DataError
        If a codec, a size or a file is refused; the message names it.
    """
    disk = 0
    arrays: list[tuple[Path, ArrayPlan]] = []
    repeated: list[tuple[Path, ArrayPlan]] = []
    for file, size in _files(path):
        disk += size
        if file.name not in METADATA_FILES:
            continue
        for inside, plan in _described(file, size, f"{printable(path.name)} › {printable(file.relative_to(path))}"):
            is_repeated = file.name == ".zmetadata" or bool(inside)
            (repeated if is_repeated else arrays).append((file.parent / inside, plan))
    for folder, plan in (*arrays, *repeated):
        _check_claim(plan, disk, f"a chunk of {printable(path.name)} › {printable(folder.name)}", max_bytes)
    check_ratio(sum(plan.nbytes for _, plan in arrays), disk, printable(path.name))
    for folder, plan in arrays:
        _check_chunks(folder, plan, path)
    return 3 if (path / "zarr.json").is_file() else 2


def check_array(folder: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
    """Refuse one version 3 array as `check_foreign_store` does, whatever else its store holds.

    Raises
    ------
    DataError, UsageError
    """
    file = folder / "zarr.json"
    label = f"{printable(folder.parent.name)} › {printable(folder.name)}"
    with open_binary(file) as stream:
        size = stream.seek(0, 2)
    plans = _described(file, size, label)
    if [inside for inside, _ in plans] != [""]:
        raise DataError(f"{label} is no array", code="SPDE-D103")
    plan = plans[0][1]
    check_total(largest_stage(plan), max_bytes, f"a chunk of {label}")
    _check_chunks(folder, plan, folder.parent)


def _files(path: Path) -> Iterator[tuple[Path, int]]:
    for count, file in enumerate(path.rglob("*")):
        label = f"{printable(path.name)} › {printable(file.name)}"
        if count > _MOST_FILES:
            raise DataError(f"{printable(path.name)} has more than {_MOST_FILES:,} files", code="SPDE-D104")
        about = file.lstat()
        if stat.S_ISLNK(about.st_mode):
            raise DataError(f"{label} is a link", code="SPDE-D106")
        if stat.S_ISDIR(about.st_mode):
            continue
        if not stat.S_ISREG(about.st_mode):
            raise DataError(f"{label} is a pipe or a device, no regular file", code="SPDE-D106", do="remove it")
        if file.name not in METADATA_FILES and file.name.lower() in METADATA_FILES:
            raise DataError(f"{label} differs from metadata in the case of letters alone", code="SPDE-D103")
        yield file, about.st_size


def _described(file: Path, size: int, label: str) -> list[tuple[str, ArrayPlan]]:
    if size > _LARGEST_META:
        raise DataError(f"{label} is larger than {_LARGEST_META:,} bytes", code="SPDE-D105")
    try:
        with open_binary(file) as stream:
            return list(arrays_of(parse_json(stream.read(_LARGEST_META)), file.name))
    except Refusal as problem:
        raise _refused(label, problem) from None


def _refused(label: str, problem: Refusal) -> DataError:
    why = printable(problem)
    if problem.is_codec:
        return DataError(
            f"{label}: {why}, which is never decoded: it could run code",
            code="SPDE-D101",
            do="write the store again with a plain compressor such as zstd",
        )
    if problem.is_trap:
        return DataError(f"{label}: {why}", code="SPDE-D104", do="write the store again with one compressor")
    return DataError(f"{label}: {why}", code="SPDE-D103", do="write the store again with xarray's to_zarr")


def _check_chunks(folder: Path, plan: ArrayPlan, path: Path) -> None:
    """Compare the size of every chunk, at every stage, with what its array's shape says."""
    for file in folder.rglob("*"):
        if not _CHUNK_NAME.fullmatch(file.relative_to(folder).as_posix()) or file.is_dir():
            continue
        try:
            check_chunk(file, plan)
        except Refusal as problem:
            label = f"{printable(path.name)} › {printable(file.relative_to(path))}"
            raise DataError(f"{label} {printable(problem)}", code="SPDE-D104") from None


def _check_claim(plan: ArrayPlan, disk: int, label: str, max_bytes: int) -> None:
    """Compare what a chunk claims to become with what is allowed and with the bytes that there are."""
    largest = largest_stage(plan)
    check_total(largest, max_bytes, label)
    if largest > _LARGEST_PIECE:
        check_ratio(largest, disk, label)
