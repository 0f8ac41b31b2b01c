"""Read and write the manifest of a store: its files with size and SHA-256, the versions that wrote it, a fingerprint.

zarr returns its fill value where a chunk is missing; only by the manifest can a store that lost chunks be recognised.
The manifest is one canonical JSON text that carries its own hash.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from fields.atomic import NotRegularFileError, open_regular, read_regular
from fields.errors import CorruptStoreError, Problem, ProblemReport

__all__ = ["MANIFEST", "SCHEMA_VERSION", "Manifest", "file_entry"]

MANIFEST = "_manifest.json"
# Increased when a store written from now on could not be read by an earlier version.
SCHEMA_VERSION = 1
_NEEDS = "0.1.0"
_LARGEST_MANIFEST = 256 << 20


def file_entry(path: Path) -> tuple[int, str]:
    """Return size and SHA-256 of a file."""
    with open_regular(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return os.fstat(file.fileno()).st_size, digest


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def _fingerprint(kind: str, arrays: Mapping[str, Mapping[str, Any]], files: Mapping[str, tuple[int, str]]) -> str:
    content = {name: files[name] for name in sorted(files) if not name.endswith("zarr.json")}
    return hashlib.sha256(_canonical({"kind": kind, "arrays": arrays, "content": content})).hexdigest()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("stationpde", "zarr", "numcodecs", "numpy", "xarray"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of a finished store. ``files`` maps a path inside the store to (size, SHA-256)."""

    kind: str
    arrays: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, tuple[int, str]]
    fingerprint: str
    versions: Mapping[str, str]
    schema_version: int = SCHEMA_VERSION
    needs: str = _NEEDS

    @classmethod
    def build(
        cls, kind: str, arrays: Mapping[str, Mapping[str, Any]], files: Mapping[str, tuple[int, str]]
    ) -> Manifest:
        """Describe a staged store; the fingerprint covers names, units and content, not the history."""
        return cls(kind, arrays, files, _fingerprint(kind, arrays, files), _versions())

    def to_bytes(self) -> bytes:
        """Return the content of the manifest file, hash included."""
        body = {
            "kind": self.kind,
            "arrays": self.arrays,
            "files": {name: list(entry) for name, entry in self.files.items()},
            "fingerprint": self.fingerprint,
            "versions": dict(self.versions),
            "schema_version": self.schema_version,
            "needs": self.needs,
        }
        return _canonical({**body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()})

    @classmethod
    def load(cls, store: Path) -> Manifest:
        """Read and check a store's manifest.

        Raises
        ------
        CorruptStoreError
            If there is none, if it is damaged, or if it is of a later version.
        """
        path = store / MANIFEST
        try:
            if path.stat().st_size > _LARGEST_MANIFEST:
                raise CorruptStoreError(f"{path} is larger than any manifest", code="SPDE-D052")
            raw = read_regular(path)
        except FileNotFoundError:
            raise _without_manifest(store) from None
        except NotRegularFileError:
            raise _damaged(path, "it is no regular file") from None
        try:
            body = json.loads(raw)
            claimed = body.pop("sha256")
        except (ValueError, AttributeError, KeyError, TypeError):
            raise _damaged(path, "it is not readable as JSON") from None
        except RecursionError:
            raise _damaged(path, "it is nested too deeply") from None
        version = body.get("schema_version")
        # Compared byte by byte, so that a flipped bit in white space or an equal spelling is seen too.
        if not _is_sealed(body, claimed, raw):
            raise _damaged(path, "its content does not fit its own checksum")
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise CorruptStoreError(
                f"{store} needs stationpde ≥ {body.get('needs', '?')}: its schema_version is {version}, "
                f"this one reads up to {SCHEMA_VERSION}",
                code="SPDE-D056",
                where=str(store),
                do=f"pip install 'stationpde>={body.get('needs', '?')}'",
            )
        from fields.store.schemas import first_fault

        fault = first_fault(body)
        if fault is not None:
            raise _damaged(path, f"it lacks what a manifest has, {fault}")
        files = {name: (entry[0], entry[1]) for name, entry in body["files"].items()}
        manifest = cls(
            body["kind"], body["arrays"], files, body["fingerprint"], body["versions"], version, body["needs"]
        )
        inside = all(_is_inside(name) for name in (*files, *manifest.arrays))
        if not inside:
            raise _damaged(path, "it names files outside the store")
        if _fingerprint(manifest.kind, manifest.arrays, files) != manifest.fingerprint:
            raise _damaged(path, "its fingerprint is not that of what it lists")
        return manifest

    def quick_check(self, store: Path, names: Iterable[str] | None = None) -> ProblemReport:
        """Check that every file exists and has its size; check the small metadata files by content."""
        report = ProblemReport()
        for name in self.files if names is None else names:
            size, digest = self.files[name]
            path = store / name
            try:
                about = path.stat()
            except FileNotFoundError:
                report.add(self.problem(store, name, "SPDE-D051", "is missing", "absent"))
                continue
            actual = about.st_size
            if not stat.S_ISREG(about.st_mode):
                report.add(self.problem(store, name, "SPDE-D052", "is no regular file", "a pipe, device or directory"))
            elif actual != size:
                kind = "is empty" if actual == 0 else "has another size"
                report.add(self.problem(store, name, "SPDE-D052", kind, f"{actual:,} bytes, written {size:,}"))
            elif name.endswith("zarr.json") and file_entry(path)[1] != digest:
                report.add(self.problem(store, name, "SPDE-D053", "was changed", "SHA-256 differs"))
        return report

    def full_check(self, store: Path, names: Iterable[str] | None = None) -> ProblemReport:
        """Check every file, or those named, by its content."""
        chosen = list(self.files if names is None else names)
        report = self.quick_check(store, chosen)
        bad = {problem.where for problem in report}
        for name in chosen:
            if name.endswith("zarr.json") or self.problem(store, name, "", "", "").where in bad:
                continue
            try:
                entry = file_entry(store / name)
            except FileNotFoundError:
                continue
            if entry != self.files[name]:
                report.add(self.problem(store, name, "SPDE-D053", "was changed", "SHA-256 differs"))
        return report

    def problem(self, store: Path, name: str, code: str, what: str, why: str) -> Problem:
        """Describe a damaged file as a finding that names array and chunk."""
        array, _, rest = name.partition("/")
        if name.endswith("zarr.json"):
            part, place = "metadata", array if rest else "store"
        else:
            part, place = f"chunk {rest.removeprefix('c').strip('/').replace('/', ',') or '0'}", array
        where = " › ".join((str(store), place, part))
        return Problem(code, f"{part} of `{place}` {what}", where, why, "ingest the data again")


def _is_sealed(body: Mapping[str, Any], claimed: Any, raw: bytes) -> bool:
    try:
        intact = hashlib.sha256(_canonical(body)).hexdigest() == claimed
        return intact and _canonical({**body, "sha256": claimed}) == raw
    except RecursionError:
        return False


def _is_inside(name: str) -> bool:
    """Return whether a path stays below the store; a manifest may come from anywhere."""
    parts = PurePosixPath(name).parts
    return bool(parts) and "\0" not in name and parts[0] != "/" and ".." not in parts


def _damaged(path: Path, why: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"the manifest is damaged: {why}", code="SPDE-D054", where=str(path), do="ingest the data again"
    )


def _without_manifest(store: Path) -> CorruptStoreError:
    foreign = any((store / name).exists() for name in (".zgroup", ".zarray", ".zmetadata", "zarr.json"))
    if foreign:
        old = not (store / "zarr.json").exists()
        return CorruptStoreError(
            f"{store} is a {'zarr 2' if old else 'foreign or unfinished'} store: it has no {MANIFEST}",
            code="SPDE-D055",
            where=str(store),
            do=f"stationpde data ingest {shlex.quote(str(store))} --reader dataset -o new.zarr",
        )
    return CorruptStoreError(
        f"{store} is no store: it has no {MANIFEST}",
        code="SPDE-D055",
        where=str(store),
        do="stationpde data ingest SRC -o OUT.zarr",
    )
