"""Build a store beside its target: blocks in any order, each durable and journalled, then one rename.

``x.zarr.tmp-<uuid>/`` holds ``data/`` (what becomes ``x.zarr``), ``journal/`` (one small file for each finished
block) and ``owner.json``. The root metadata and the manifest are written last, so that nothing under construction
opens as a store; after a kill the next writer of the same content resumes from the journal.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import xarray as xr

from fields import atomic
from fields.errors import FieldsError, LockedError, UsageError
from fields.store.layout import Layout
from fields.store.manifest import MANIFEST, Manifest, file_entry

__all__ = [
    "BlockWriter",
    "Region",
    "StagedStore",
    "create_scratch",
    "mark_prepared",
    "reopen",
    "shard_keys",
    "take_lock",
]

log = logging.getLogger(__name__)
_PREPARED = "prepared"

Region = Mapping[str, slice]


def _key(region: Region, names: tuple[str, ...]) -> str:
    spans = ",".join(f"{dim}={span.start}-{span.stop}" for dim, span in sorted(region.items()))
    return hashlib.sha256(f"{spans};{','.join(sorted(names))}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Writer of aligned blocks into a staged store. It holds no lock and may be sent to other processes."""

    folder: Path
    layouts: Mapping[str, Layout]

    @property
    def data(self) -> Path:
        """The store under construction."""
        return self.folder / "data"

    def write(self, block: xr.Dataset | Mapping[str, Any], region: Region) -> None:
        """Write a block and journal it.

        Parameters
        ----------
        block : values of all streamed variables, or of a part of them
        region : for each dimension that the block does not span whole, a slice that starts and ends on a multiple
            of the shard (or at the end of the array); see `StagedStore.blocks`
        """
        names = tuple(str(name) for name in (block.data_vars if isinstance(block, xr.Dataset) else block))
        files: dict[str, tuple[int, str]] = {}
        for name in names:
            files.update(self._write_array(name, block[name], region))
        entry = {
            "region": {d: [int(s.start), int(s.stop)] for d, s in region.items()},
            "names": list(names),
            "files": files,
        }
        atomic.write_file(self.folder / "journal" / f"{_key(region, names)}.json", json.dumps(entry).encode())

    def _write_array(self, name: str, values: Any, region: Region) -> dict[str, tuple[int, str]]:
        import zarr

        if name not in self.layouts:
            raise UsageError(f"`{name}` is not a streamed variable of this store: {', '.join(self.layouts)}")
        layout = self.layouts[name]
        with zarr.config.set({"array.write_empty_chunks": True}):
            array = zarr.open_array(store=self.data / name, mode="r+", zarr_format=3)
            spans = _spans(layout, array.shape, region, name)
            content = _in_order(values, layout.dims)
            shape = tuple(span.stop - span.start for span in spans)
            if content.shape != shape:
                raise UsageError(f"block of `{name}` has shape {content.shape}, its region {shape}")
            array[spans] = content.astype(array.dtype, copy=False)
        files = {}
        for key in shard_keys(layout, spans):
            path = self.data / name / key
            atomic.fsync_file(path)
            files[f"{name}/{key}"] = file_entry(path)
        return files


def _in_order(values: Any, dims: tuple[str, ...]) -> np.ndarray[Any, Any]:
    if isinstance(values, xr.DataArray):
        values = values.transpose(*dims)
    return np.asarray(values)


def _spans(layout: Layout, shape: tuple[int, ...], region: Region, name: str) -> tuple[slice, ...]:
    spans = []
    for dim, size, shard in zip(layout.dims, shape, layout.shards):
        span = region.get(dim, slice(0, size))
        start, stop = int(span.start or 0), int(size if span.stop is None else span.stop)
        if start % shard or (stop % shard and stop != size) or not 0 <= start < stop <= size:
            raise UsageError(
                f"region {start}:{stop} of `{name}` along {dim} does not start and end on multiples of {shard} "
                f"(or at the end, {size}); take regions from StagedStore.blocks()"
            )
        spans.append(slice(start, stop))
    return tuple(spans)


def shard_keys(layout: Layout, spans: tuple[slice, ...]) -> Iterator[str]:
    """Yield the file names of the shards that a region touches."""
    ranges = [range(s.start // n, -(-s.stop // n)) for s, n in zip(spans, layout.shards)]
    for index in product(*ranges):
        yield "/".join(["c", *map(str, index)])


class StagedStore:
    """A store under construction, from `fields.store.create`: a context that commits when it ends without an error.

    After an error the finished blocks and their journal are kept if ``keep`` is set and anything was written; otherwise
    everything is removed.
    """

    def __init__(
        self, target: Path, folder: Path, layouts: Mapping[str, Layout], attrs: Mapping[str, Any], *,
        kind: str, names: tuple[str, ...], replace: bool, keep: bool, lock: Any, resumed: bool,
    ) -> None:  # fmt: skip
        self.path = target
        self.folder = folder
        self.writer = BlockWriter(folder, layouts)
        self.attrs = dict(attrs)
        self.kind = kind
        self.names = names
        self.resumed = resumed
        self._replace = replace
        self._keep = keep
        self._lock = lock

    # ---- writing --------------------------------------------------------------------------------------------

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """Chunks and shards of the streamed variables."""
        return self.writer.layouts

    def sizes(self) -> dict[str, int]:
        """Return the length of every dimension of the streamed variables."""
        import zarr

        lengths: dict[str, int] = {}
        for name, layout in self.layouts.items():
            array = zarr.open_array(store=self.writer.data / name, mode="r", zarr_format=3)
            lengths.update(zip(layout.dims, array.shape))
        return lengths

    def blocks(self, *dims: str) -> list[dict[str, slice]]:
        """List the regions to write, aligned to shards, in order; along time unless other dimensions are named."""
        sizes = self.sizes()
        along = dims or ("time",)
        steps = {d: max(x.shard_along(d) for x in self.layouts.values() if d in x.dims) for d in along}
        cuts = [[slice(i, min(i + steps[d], sizes[d])) for i in range(0, sizes[d], steps[d])] for d in along]
        return [dict(zip(along, spans)) for spans in product(*cuts)]

    def is_done(self, region: Region, names: tuple[str, ...] | None = None) -> bool:
        """Return whether a block was finished, by this run or by one that was killed."""
        written = tuple(self.layouts) if names is None else names
        return (self.folder / "journal" / f"{_key(region, written)}.json").exists()

    def pending(self, *dims: str) -> list[dict[str, slice]]:
        """List the blocks that are still to be written."""
        return [region for region in self.blocks(*dims) if not self.is_done(region)]

    def write(self, block: xr.Dataset | Mapping[str, Any], region: Region) -> None:
        """Write one aligned block (see `BlockWriter.write`)."""
        with atomic.machine_faults(self.path, self.bytes_needed()):
            self.writer.write(block, region)

    def bytes_needed(self) -> int:
        """Return an upper bound of what the streamed variables take on disk."""
        import zarr

        total = 0
        for name in self.layouts:
            array = zarr.open_array(store=self.writer.data / name, mode="r", zarr_format=3)
            total += int(np.prod(array.shape)) * array.dtype.itemsize
        return total

    # ---- finishing ------------------------------------------------------------------------------------------

    def commit(self) -> Path:
        """Check that no block is missing, write the manifest, make all durable and rename into place."""
        with atomic.machine_faults(self.path, self.bytes_needed()):
            arrays, files = self._inventory()
            _write_root(self.writer.data, self.attrs)
            for meta in [self.writer.data / "zarr.json", *self.writer.data.glob("*/zarr.json")]:
                files[meta.relative_to(self.writer.data).as_posix()] = file_entry(meta)
            atomic.write_file(self.writer.data / MANIFEST, Manifest.build(self.kind, arrays, files).to_bytes())
            atomic.fsync_tree(self.writer.data)
            atomic.publish(self.writer.data, self.path, replace=self._replace)
        self._remove()
        return self.path

    def _order(self) -> list[str]:
        arrays = [p for p in self.writer.data.iterdir() if p.is_dir()]
        ranked = {name: rank for rank, name in enumerate(self.names)}
        return sorted((p.name for p in arrays), key=lambda name: (ranked.get(name, len(ranked)), name))

    def _inventory(self) -> tuple[dict[str, dict[str, Any]], dict[str, tuple[int, str]]]:
        import zarr

        journalled: dict[str, tuple[int, str]] = {}
        for path in (self.folder / "journal").glob("*.json"):
            entry = json.loads(atomic.read_regular(path))
            journalled.update({name: (int(e[0]), str(e[1])) for name, e in entry["files"].items()})
        arrays: dict[str, dict[str, Any]] = {}
        files: dict[str, tuple[int, str]] = {}
        for position, name in enumerate(self._order()):
            folder = self.writer.data / name
            array = zarr.open_array(store=folder, mode="r", zarr_format=3)
            shards = array.shards or array.chunks
            layout = Layout(tuple(str(d) for d in array.metadata.dimension_names or ()), shards, shards)  # type: ignore[union-attr]
            keys = list(shard_keys(layout, tuple(slice(0, n) for n in array.shape)))
            for key in keys:
                inside = f"{name}/{key}"
                if name in self.layouts and inside not in journalled:
                    missing = sum(f"{name}/{k}" not in journalled for k in keys)
                    raise UsageError(f"`{name}` is unfinished: {missing} of {len(keys)} blocks were never written")
                files[inside] = journalled.get(inside) or file_entry(folder / key)
            arrays[name] = {
                "position": position,
                "dims": list(layout.dims),
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "chunks": list(array.chunks),
                "shards": list(shards),
                "units": str(array.attrs.get("units", "")),
            }
        return arrays, files

    def _remove(self) -> None:
        # Killed half-way through its removal, a folder must not look like one to resume.
        (self.folder / _PREPARED).unlink(missing_ok=True)
        self._release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> StagedStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            try:
                self.commit()
            except (OSError, FieldsError):
                self._leave()
                raise
        else:
            self._leave()

    def _leave(self) -> None:
        """Keep the finished blocks for the next attempt if ``keep`` is set and there are any; else remove all."""
        if self._keep and any((self.folder / "journal").glob("*.json")):
            self._release()
            log.info("kept the finished blocks of %s for the next attempt", self.path)
        else:
            self._remove()


def _write_root(data: Path, attrs: Mapping[str, Any]) -> None:
    import zarr

    (data / "zarr.json").unlink(missing_ok=True)
    with warnings.catch_warnings():
        # Consolidated metadata is an extension of zarr 3; readers without it lose nothing.
        warnings.filterwarnings("ignore", category=UserWarning, module="zarr")
        zarr.create_group(store=data, zarr_format=3, attributes=dict(attrs), overwrite=False)
        zarr.consolidate_metadata(data, zarr_format=3)


def take_lock(folder: Path) -> Any:
    """Take the lock of a scratch folder; the system releases it when the process that holds it ends.

    Raises
    ------
    LockedError
        If another process holds it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        owner = atomic.read_table(folder / "owner.json") or {}
        raise LockedError(
            f"another process is writing it: pid {owner.get('pid', '?')} on {owner.get('host', '?')}",
            where=str(folder),
            do="wait for it to end, or choose another output",
        ) from None
    return lock


def mark_prepared(folder: Path) -> None:
    """Mark a scratch folder as prepared: all arrays are created and only blocks are to come."""
    atomic.fsync_tree(folder / "data")
    atomic.write_file(folder / _PREPARED, b"")


def reopen(folder: Path, description: str) -> bool:
    """Return whether a scratch folder left by a killed writer can be resumed; remove from it what the kill tore.

    It can if all its arrays were created and ``description`` (a hash of the content to be written) is the same.
    """
    owner = atomic.read_json(folder / "owner.json")
    if not isinstance(owner, dict) or owner.get("description") != description:
        return False
    data = folder / "data"
    # Killed while the arrays were being created, or after they were published under the store's name.
    if not (folder / _PREPARED).exists() or not data.is_dir():
        return False
    for name in (MANIFEST, "zarr.json"):
        (data / name).unlink(missing_ok=True)
    for torn in folder.rglob("*.partial"):
        torn.unlink(missing_ok=True)
    for path in (folder / "journal").glob("*.json"):
        files = (atomic.read_table(path) or {}).get("files")
        intact = isinstance(files, dict) and all(
            (data / name).is_file() and list(file_entry(data / name)) == recorded for name, recorded in files.items()
        )
        if not intact:
            path.unlink()
    return True


def create_scratch(folder: Path, description: str) -> Any:
    """Create a scratch folder, lock it and write down its owner; return the lock."""
    (folder / "journal").mkdir(parents=True)
    (folder / "data").mkdir()
    lock = take_lock(folder)
    content = json.dumps({**atomic.owner(), "description": description}).encode()
    atomic.write_file(folder / "owner.json", content)
    os.utime(folder)
    return lock
