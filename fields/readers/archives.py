"""Read files, folders and archives as one sequence of streams; nothing is ever unpacked to disk.

``x.tar.gz`` → ``x.tar`` → ``x.csv`` is read through all its layers as one stream in constant memory. Names are
checked, links and devices are refused, and a stream that swells more than 200:1 is cut off.
"""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from fields.errors import DataError, UsageError, printable
from fields.readers.safety import (
    MAX_MEMBERS,
    MAX_RATIO,
    RATIO_FLOOR,
    check_names,
    check_ratio,
    check_zip,
    file_kind,
    kind_of_bytes,
    open_binary,
    shown,
)
from fields.readers.spreadsheets import refuse_spreadsheet

__all__ = ["Member", "files_below", "members", "others_in", "size_of", "tables_in"]

_HEAD = 1 << 16
_DEEPEST = 4
# Long names and extended headers of a tar archive are read into memory by the library: they are short or a trap.
_LONGEST_TAR_EXTRA = 1 << 20
_GUARD_FROM = 16 << 20
_TABLES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".pq")
_PACKED = (".gz", ".tar", ".tgz", ".zip")


@dataclass(slots=True)
class Member:
    """One file inside a source; ``stream`` can be read until the next member is requested.

    ``head`` holds the first bytes, which the stream gives again. ``path`` is set for a plain file on disk, which
    alone can be read from the middle. ``size`` is in bytes, 0 where unknown; ``before`` is the size of the
    files before this one, and ``consumed`` says how many bytes on disk of the whole source were read.
    """

    label: str
    stream: IO[bytes]
    head: bytes
    size: int
    path: Path | None = None
    before: int = 0
    consumed: Callable[[], int] = lambda: 0

    @property
    def kind(self) -> str:
        """Kind of file by its first bytes (`kind_of_bytes`)."""
        return kind_of_bytes(self.head)


class _Peeked(io.RawIOBase):
    """Stream whose first bytes were read ahead and are given again."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            content, self._head = self._head + self._rest.read(), b""
            return content
        if self._head:
            ahead, self._head = self._head[:size], self._head[size:]
            return ahead if len(ahead) == size else ahead + self._rest.read(size - len(ahead))
        return self._rest.read(size)


class _Counted(io.RawIOBase):
    """Stream that counts the bytes read from it."""

    def __init__(self, inner: IO[bytes]) -> None:
        self._inner = inner
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        content = self._inner.read(-1 if size is None else size)
        self.count += len(content)
        return content


class _Inflating(io.RawIOBase):
    """Gzip stream that is refused when it inflates more than `MAX_RATIO`."""

    def __init__(self, packed: IO[bytes], label: str) -> None:
        self._packed = _Counted(packed)
        self._plain = gzip.GzipFile(fileobj=self._packed, mode="rb")
        self._label = label
        self._inflated = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        with _damage(self._label):
            content: bytes = self._plain.read(-1 if size is None else size)
        self._inflated += len(content)
        if self._inflated > _GUARD_FROM and self._inflated > MAX_RATIO * self._packed.count:
            check_ratio(self._inflated, self._packed.count, self._label)
        return content


class _LimitedTarInfo(tarfile.TarInfo):
    """Tar header that refuses extended headers large enough to fill memory."""

    _EXTENDED = (
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    )

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in self._EXTENDED and not 0 <= self.size <= _LONGEST_TAR_EXTRA:
            raise tarfile.HeaderError(f"an extended header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


@contextmanager
def _damage(label: str) -> Iterator[None]:
    """Turn what a library raises on a damaged archive into an error that names it."""
    try:
        yield
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        gzip.BadGzipFile,
        EOFError,
        NotImplementedError,
        OverflowError,
        ValueError,
        struct.error,
    ) as problem:
        what = printable(str(problem) or type(problem).__name__)[:200]
        raise _damaged(label, what) from None


def _damaged(label: str, what: str) -> DataError:
    return DataError(f"{label} is a damaged archive: {what}", code="SPDE-D103", do="fetch the file again")


def tables_in(folder: Path) -> list[Path]:
    """List the tables and archives in a folder, sorted by name; hidden files, as macOS adds them, are none.

    Raises
    ------
    UsageError
        If one that is called a table is a folder, a link to nothing, a pipe or a device: its stations would be missing.
    """
    tables = [p for p in sorted(folder.iterdir()) if _is_called_table(p)]
    for path in tables:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "a link to nothing" if not path.exists() else "no regular file"
            raise UsageError(
                f"{printable(path)} is {what}, not a table", code="SPDE-D100",
                do="put the file itself there, or move that entry out of the folder",
            )  # fmt: skip
    return tables


def others_in(folder: Path) -> list[str]:
    """List the names in a folder that are not read as tables; hidden ones and column maps are left out."""
    others = [p for p in sorted(folder.iterdir()) if not _is_called_table(p) and p.suffix != ".toml"]
    return [f"{p.name}/" if p.is_dir() else p.name for p in others if not p.name.startswith(".")]


def _is_called_table(path: Path) -> bool:
    return not path.name.startswith(".") and path.name.lower().endswith((*_TABLES, *_PACKED))


def files_below(path: Path) -> list[Path]:
    """List the files that a source consists of: itself, or the tables and archives in a folder."""
    if not path.is_dir():
        return [path]
    tables = tables_in(path)
    if not tables:
        endings = (*_TABLES, *_PACKED)
        raise UsageError(
            f"{printable(path)} holds no file that ends in {', '.join(endings)}", code="SPDE-D100", where=str(path)
        )
    return tables


def size_of(path: Path) -> int:
    """Add up the bytes on disk of all files of a source."""
    return sum(p.stat().st_size for p in files_below(path))


def members(path: Path, max_bytes: int) -> Iterator[Member]:
    """Open every file of a source, through all layers of archives; a folder's files in the order of their names."""
    before = 0
    for file in files_below(path):
        refuse_spreadsheet(file)
        with open_binary(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            if file_kind(file) == "gzip":
                _check_gzip_trailer(stream, size, shown(file))
            for member in _inside(stream, shown(file), size, file, max_bytes, 0):
                member.before, member.consumed = before, partial(_position, stream, before)
                yield member
        before += size


def _position(stream: IO[bytes], before: int) -> int:
    return before + (0 if stream.closed else stream.tell())


def _inside(
    stream: IO[bytes], label: str, size: int, path: Path | None, max_bytes: int, depth: int
) -> Iterator[Member]:
    if depth > _DEEPEST:
        raise DataError(f"{label}: archives inside archives, more than {_DEEPEST} deep", code="SPDE-D104")
    head = stream.read(_HEAD)
    kind = kind_of_bytes(head)
    if kind == "zip" and path is not None:
        stream.seek(0)
        yield from _in_zip(stream, label, max_bytes, depth)
    elif kind == "gzip":
        inflating: Any = _Inflating(_as_binary(_Peeked(head, stream)), label)
        yield from _inside(inflating, label, 0, None, max_bytes, depth + 1)
    elif kind == "tar":
        yield from _in_tar(_as_binary(_Peeked(head, stream)), label, max_bytes, depth)
    else:
        yield Member(label, _as_binary(_Peeked(head, stream)), head, size, path)


def _as_binary(stream: Any) -> IO[bytes]:
    """Declare a raw stream as the binary file that it behaves like."""
    binary: IO[bytes] = stream
    return binary


def _check_gzip_trailer(stream: IO[bytes], size: int, label: str) -> None:
    """Check the inflated size in the last four bytes (modulo 4 GiB), which refuses most traps almost unopened.

    A file that was cut off ends in other bytes, which claim anything: the beginning of what claims too much is
    inflated, which tells one from the other.
    """
    if size < 18:
        raise _damaged(label, "it ends inside its header")
    stream.seek(-4, os.SEEK_END)
    claimed = int.from_bytes(stream.read(4), "little")
    stream.seek(0)
    if claimed > max(RATIO_FLOOR, MAX_RATIO * size) and _is_whole(stream, label):
        check_ratio(claimed, size, label)
    stream.seek(0)


def _is_whole(stream: IO[bytes], label: str) -> bool:
    """Inflate the beginning of a gzip file; return whether its last bytes are its size, as far as that can be told.

    Raises
    ------
    DataError
        If the file ends before its content does, or inflates like a trap.
    """
    inflater = zlib.decompressobj(wbits=31)
    read = inflated = 0
    while inflated < _GUARD_FROM and not inflater.eof:
        piece = inflater.unconsumed_tail or stream.read(_HEAD)
        if not piece:
            raise _damaged(label, "it ends before its content does: it was cut off on the way")
        with _damage(label):
            inflated += len(inflater.decompress(piece, 1 << 20))
        read = stream.tell() - len(inflater.unconsumed_tail)
    if not inflater.eof:
        check_ratio(inflated, read, label)  # what goes on beyond is watched while it is read
    return inflater.eof and not inflater.unused_data and not stream.read(1)


def _in_tar(stream: IO[bytes], label: str, max_bytes: int, depth: int) -> Iterator[Member]:
    with _damage(label):
        archive = tarfile.TarFile.open(fileobj=stream, mode="r|", tarinfo=_LimitedTarInfo)
    names: set[str] = set()
    while True:
        with _damage(label):
            info = archive.next()
        if info is None:
            return
        check_names([info.name], label)
        name = f"{label} › {printable(Path(info.name).name)}"
        if info.name in names:
            raise DataError(f"{label} holds '{printable(info.name)[:80]}' twice", code="SPDE-D106")
        names.add(info.name)
        if len(names) > MAX_MEMBERS:
            raise DataError(f"{label} has more than {MAX_MEMBERS:,} members", code="SPDE-D104")
        if info.isdir():
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
            raise DataError(f"{name} is a link, a device or a sparse file", code="SPDE-D106")
        with _damage(label):
            inner = archive.extractfile(info)
        if inner is not None and not Path(info.name).name.startswith("."):
            yield from _inside(_MemberStream(inner, name), name, info.size, None, max_bytes, depth + 1)  # type: ignore[arg-type]


class _MemberStream(io.RawIOBase):
    """Stream inside an archive; whatever the library raises on damage names the member."""

    def __init__(self, inner: IO[bytes], label: str) -> None:
        self._inner = inner
        self._label = label

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        with _damage(self._label):
            return self._inner.read(-1 if size is None else size)


def _in_zip(stream: IO[bytes], label: str, max_bytes: int, depth: int) -> Iterator[Member]:
    # Members are streamed, so only the ratio limits them; the total stands against what an archive may claim.
    archive = check_zip(stream, label, max(max_bytes, 1 << 44))
    for info in archive.infolist():
        base = Path(info.filename).name
        if info.is_dir() or base.startswith("."):
            continue
        name = f"{label} › {printable(base)}"
        with _damage(label):
            inner = archive.open(info)
        yield from _inside(_MemberStream(inner, name), name, info.file_size, None, max_bytes, depth + 1)  # type: ignore[arg-type]
