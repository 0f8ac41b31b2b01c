"""Inspect a file before reading it: what it is, how large it would become, and whether it may be loaded.

Files come from others. Nothing here unpickles, and nothing is allocated or inflated before the header says that it
fits: a NumPy header against the file's size, a zip directory against the ratio and the limit.
"""

from __future__ import annotations

import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from fields.atomic import NotRegularFileError, open_regular
from fields.errors import DataError, UsageError, printable

__all__ = [
    "DEFAULT_MAX_BYTES",
    "MAX_RATIO",
    "NpyHeader",
    "check_ratio",
    "check_zip",
    "file_kind",
    "kind_in_words",
    "kind_of_bytes",
    "map_npy",
    "open_binary",
    "read_npy_header",
    "reason_of",
    "shown",
    "stream_npy_member",
    "unreadable",
]

DEFAULT_MAX_BYTES = 8 << 30
# Weather as text shrinks by a factor of 5 to 30; zeros by 1000. Beyond 200 a file is a trap, not data.
MAX_RATIO = 200
# Below a megabyte any ratio is harmless.
RATIO_FLOOR = 1 << 20
MAX_MEMBERS = 20_000
_LONGEST_HEADER = 1 << 16
_LONGEST_NAME = 1024

_MAGIC = (
    (b"\x93NUMPY", "npy"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"CDF\x01", "netcdf"),
    (b"CDF\x02", "netcdf"),
    (b"CDF\x05", "netcdf"),
    (b"PAR1", "parquet"),
    (b"GRIB", "grib"),
    (b"\x7fELF", "program"),
    (b"MZ", "program"),
    (b"\x89PNG", "picture"),
    (b"%PDF", "pdf"),
    (b"SQLite format 3", "database"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_TAR_MARK = slice(257, 262)


def kind_of_bytes(head: bytes) -> str:
    """Return the kind of file by its first bytes: ``npy``, ``zip``, ``gzip``, ``tar``, …, ``pickle``, ``text``."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[_TAR_MARK] == b"ustar":
        return "tar"
    if len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5:  # protocol mark of a pickle stream
        return "pickle"
    return "text" if head else "empty"


def kind_in_words(kind: str) -> str:
    """Describe a kind of file, for a message."""
    words = {
        "npy": "a NumPy array", "zip": "a zip archive", "hdf5": "an HDF5 or NetCDF file", "netcdf": "a NetCDF file",
        "pickle": "a pickle, which is never loaded: it could run code", "utf-16": "text in UTF-16 (save it as UTF-8)",
        "empty": "empty", "text": "text",
    }  # fmt: skip
    return words.get(kind, f"a {kind} file")


def shown(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for a message, escaped."""
    return printable(Path(path).name or str(path))


def reason_of(problem: BaseException) -> str:
    """Return the first line of what a library says is wrong with a file, escaped.

    What a library says on pickles is not repeated: it advises how to allow them.
    """
    if "pickle" in str(problem).lower():
        return "it holds Python objects, which are never loaded: they could run code"
    return printable(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)[:160]


def unreadable(label: str, problem: BaseException) -> DataError:
    """Return the error for a file that a library could not read."""
    if "pickle" in str(problem).lower():
        return DataError(
            f"{label}: {reason_of(problem)}", code="SPDE-D101", do="write it again with numbers and plain texts alone"
        )
    return DataError(
        f"{label} cannot be read: {reason_of(problem)}", code="SPDE-D103",
        do="fetch it again from its source, or write it again as CF NetCDF",
    )  # fmt: skip


def open_binary(path: Path) -> IO[bytes]:
    """Open a regular file for reading; a directory, a device or a pipe is refused with the reason."""
    try:
        return open_regular(path)
    except FileNotFoundError:
        raise UsageError(f"there is no file {printable(path)}", code="SPDE-D100", do="check the path") from None
    except NotRegularFileError:
        raise UsageError(f"{printable(path)} is not a regular file", code="SPDE-D100") from None
    except PermissionError:
        raise UsageError(f"{printable(path)} may not be read: permission denied", code="SPDE-D100") from None
    except (OSError, ValueError) as problem:
        raise UsageError(f"{printable(path)} cannot be opened: {problem}", code="SPDE-D100") from None


def file_kind(path: Path) -> str:
    """Return the kind of a file by its content."""
    with open_binary(path) as file:
        return kind_of_bytes(file.read(512))


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """NumPy header that was read and passed its checks; ``offset`` is where the numbers begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array, in unbounded integers."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(file: IO[bytes], label: str) -> NpyHeader:
    """Read the header of a ``.npy`` stream.

    Raises
    ------
    DataError
        If it is no NumPy file, if it is damaged, or if it holds Python objects (which could run code).
    """
    head = file.read(8)
    if head[:6] != npy_format.MAGIC_PREFIX:
        raise _no_npy(head, label)
    if len(head) < 8:
        raise DataError(f"{label} is truncated: it ends inside its header", code="SPDE-D102")
    version = head[6], head[7]
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise DataError(f"{label} has NumPy format {version[0]}.{version[1]}, known are 1 to 3", code="SPDE-D102")
    width = 2 if version == (1, 0) else 4
    field = file.read(width)
    length = int.from_bytes(field, "little")
    if len(field) < width or length > _LONGEST_HEADER:
        raise DataError(
            f"{label} has a header of {length:,} bytes, at most {_LONGEST_HEADER:,} are read", code="SPDE-D102"
        )
    raw = file.read(length)
    rest = io.BytesIO(field + raw)
    reader: Any = npy_format.read_array_header_1_0 if width == 2 else npy_format.read_array_header_2_0
    try:
        if len(raw) < length:
            raise ValueError("the file ends inside its header")
        shape, fortran, dtype = reader(rest, max_header_size=_LONGEST_HEADER)
    except (
        ValueError,
        TypeError,
        KeyError,
        SyntaxError,
        UnicodeDecodeError,
        RecursionError,
        MemoryError,
        OverflowError,
        tokenize.TokenError,
    ) as problem:
        reason = printable(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)[:200]
        raise DataError(f"{label} has a damaged NumPy header: {reason}", code="SPDE-D102") from None
    if dtype.hasobject or dtype.kind == "V":
        raise DataError(
            f"{label} holds Python objects or records, which are never loaded: they could run code",
            code="SPDE-D101",
            do="save the numbers as a plain float array (numpy.save of array.astype('float32'))",
        )
    if any(n < 0 for n in shape):
        raise DataError(f"{label} claims the shape {shape}", code="SPDE-D102")
    return NpyHeader(tuple(int(n) for n in shape), dtype, bool(fortran), 8 + width + length)


def _no_npy(head: bytes, label: str) -> DataError:
    kind = kind_of_bytes(head)
    if kind == "pickle":
        return DataError(f"{label} is a pickle, which is never loaded: it could run code", code="SPDE-D101",
                         do="save the numbers with numpy.save")  # fmt: skip
    what = {"text": "text (a CSV file under another name?)", "empty": "empty", "zip": "a zip archive (npz?)"}
    do = "--reader table" if kind == "text" else ""
    return DataError(f"{label} is not a NumPy array: it is {what.get(kind, kind)}", code="SPDE-D102", do=do or None)


def map_npy(path: Path) -> tuple[np.ndarray[Any, Any], NpyHeader]:
    """Map a ``.npy`` file into memory without reading it; its header must agree with its size."""
    with open_binary(path) as file:
        header = read_npy_header(file, shown(path))
        size = os.fstat(file.fileno()).st_size
    _require_bytes(header, size - header.offset, shown(path))
    if header.nbytes == 0:
        return np.empty(header.shape, header.dtype), header
    order: Any = "F" if header.fortran_order else "C"
    array = np.memmap(path, dtype=header.dtype, mode="r", offset=header.offset, shape=header.shape, order=order)
    return array, header


def _require_bytes(header: NpyHeader, there: int, label: str) -> None:
    if header.nbytes != there:
        state = "truncated" if there < header.nbytes else "followed by something else"
        raise DataError(
            f"{label} is {state}: its header claims {header.nbytes:,} bytes for {header.shape} {header.dtype}, "
            f"the file has {there:,}",
            code="SPDE-D103",
        )


def check_ratio(inflated: int, packed: int, label: str) -> None:
    """Refuse what would inflate more than `MAX_RATIO`."""
    if inflated > RATIO_FLOOR and inflated > MAX_RATIO * max(packed, 1):
        raise DataError(
            f"{label} would inflate {inflated / max(packed, 1):,.0f}:1 to {inflated:,} bytes; "
            f"more than {MAX_RATIO}:1 is taken for a trap",
            code="SPDE-D104",
            do="unpack it yourself if you trust it, and ingest the files",
        )


def check_total(needed: int, max_bytes: int, label: str, *, is_option: bool = True) -> None:
    """Refuse what is larger than the user allowed to be loaded; ``is_option``: whether the limit can be raised."""
    if needed > max_bytes:
        raise DataError(
            f"{label} needs {needed:,} bytes, at most {max_bytes:,} are loaded",
            code="SPDE-D105",
            do=f"--max-bytes {needed}   if you trust it" if is_option else "give a smaller one, of this region alone",
        )


def _is_unsafe_name(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    drive = len(name) > 1 and name[1] == ":"
    return name.startswith(("/", "\\")) or drive or ".." in parts or "\0" in name or len(name) > _LONGEST_NAME


def check_names(names: list[str], label: str) -> None:
    """Refuse absolute names, ``..`` and names that occur twice."""
    for name in names:
        if _is_unsafe_name(name):
            raise DataError(f"{label} holds the unsafe name '{printable(name)[:80]}'", code="SPDE-D106")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{label} holds '{printable(name)[:80]}' twice", code="SPDE-D106")
        seen.add(name)


def check_zip(file: IO[bytes], label: str, max_bytes: int) -> zipfile.ZipFile:
    """Open a zip archive after checking its directory; nothing is inflated.

    Raises
    ------
    DataError
        For a damaged directory, unsafe or repeated names, links, encryption, unknown compression, overlapping
        members, more than 200:1, or more than ``max_bytes`` in all.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError, struct.error) as problem:
        raise DataError(f"{label} is a damaged zip archive: {printable(problem)}", code="SPDE-D102") from None
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise DataError(f"{label} has {len(members):,} members, at most {MAX_MEMBERS:,} are read", code="SPDE-D104")
    check_names([member.filename for member in members], label)
    for member in members:
        name = f"{label} › {printable(member.filename)[:80]}"
        if (member.external_attr >> 28) not in (0, 0o4, 0o10):  # neither unknown, a folder nor a regular file
            raise DataError(f"{name} is a link or a device", code="SPDE-D106")
        if not 0 <= member.header_offset < size:
            raise DataError(f"{name} is damaged: it lies outside the archive", code="SPDE-D103")
        if member.flag_bits & 1:
            raise DataError(f"{name} is encrypted", code="SPDE-D102")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{name} is compressed in a way that is not read", code="SPDE-D102")
        check_ratio(member.file_size, member.compress_size, name)
    if sum(member.compress_size for member in members) > size:
        raise DataError(f"{label} has members that overlap", code="SPDE-D104")
    check_total(sum(member.file_size for member in members), max_bytes, label)
    return archive


def stream_npy_member(archive: zipfile.ZipFile, name: str, label: str, scratch: Path | None) -> np.ndarray[Any, Any]:
    """Read one array of an npz archive: into memory, or through ``scratch`` mapped from disk."""
    place = f"{label} › {printable(name)}"
    info = archive.getinfo(name)
    try:
        with archive.open(info) as stream:
            header = read_npy_header(stream, place)
            _require_bytes(header, info.file_size - header.offset, place)
            order: Any = "F" if header.fortran_order else "C"
            if scratch is None:
                # Read by pieces: a stream that ends early must not have cost its claimed size.
                whole = _read_exactly(stream, header.nbytes, place)
                return np.frombuffer(whole, header.dtype).reshape(header.shape, order=order)
            with scratch.open("wb") as out:
                _copy(stream, out, header.nbytes, place)
            if header.nbytes == 0:
                return np.empty(header.shape, header.dtype)
            return np.memmap(scratch, dtype=header.dtype, mode="r", shape=header.shape, order=order)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, struct.error) as problem:
        raise DataError(f"{place} is damaged: {printable(problem)}", code="SPDE-D103") from None


def _read_exactly(stream: IO[bytes], count: int, label: str) -> bytes:
    out = io.BytesIO()
    _copy(stream, out, count, label)
    return out.getvalue()


def _copy(stream: IO[bytes], out: IO[bytes], count: int, label: str) -> None:
    left = count
    while left:
        piece = stream.read(min(left, 1 << 22))
        if not piece:
            raise DataError(f"{label} is truncated: {left:,} of {count:,} bytes are missing", code="SPDE-D103")
        out.write(piece)
        left -= len(piece)
