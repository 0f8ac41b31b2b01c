"""Write, open and verify stores: zarr v3 with checksums, written beside their target and renamed, read only when whole.

A store is a directory with CF attributes that any zarr reader opens. It differs from a bare ``to_zarr`` in three
ways: every chunk carries a crc32c, a manifest lists every file with size and SHA-256, and it appears under its name
only when it is finished. A missing chunk, which zarr reads as fill values without an error, is an error here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from fields import atomic
from fields.errors import CorruptStoreError, DataError, FieldsError, LockedError, ProblemReport, UsageError, printable
from fields.readers import check_array
from fields.store import staging
from fields.store.layout import Layout, choose_layout
from fields.store.manifest import MANIFEST, SCHEMA_VERSION, Manifest
from fields.store.staging import StagedStore
from fields.store.stations import require_plausible, require_stations, ways_out
from fields.times import to_seconds, with_utc_times

__all__ = [
    "create",
    "fingerprint",
    "is_store",
    "kind_of",
    "open",
    "open_store",
    "template",
    "verify",
    "verify_store",
    "write",
    "write_store",
]

TIME_UNITS = "seconds since 1970-01-01"
_FLAG = "_flag"


def template(
    coords: xr.Dataset, variables: Iterable[str], *, flags: bool = True, attrs: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Make a template without data that describes a store: coordinates are real, variables take no memory.

    Parameters
    ----------
    coords : a dataset with ``time``, ``station``, ``lat``, ``lon``, ``alt``; its variables are ignored
    variables : names out of `fields.variables.VARIABLES`
    flags : add a ``<name>_flag`` beside every variable
    attrs : attributes of the store, on top of those of ``coords``
    """
    from fields.qc import flag_attributes
    from fields.variables import cf_attributes

    base = coords.drop_vars(list(coords.data_vars))
    shape = (base.sizes["time"], base.sizes["station"])
    for name in variables:
        base[name] = (("time", "station"), np.broadcast_to(np.float32(np.nan), shape), cf_attributes(name))
        if flags:
            base[name + _FLAG] = (("time", "station"), np.broadcast_to(np.uint8(0), shape), flag_attributes(name))
    base.attrs = {**coords.attrs, **(attrs or {})}
    return base


def create(
    path: str | os.PathLike[str],
    template: xr.Dataset,
    *,
    force: bool = False,
    resume: bool = False,
    identity: str = "",
    time_block: int | None = None,
    kind: str = "stations",
) -> StagedStore:
    """Begin a store; use it as a context, which publishes it when it ends without an error.

    Parameters
    ----------
    path : where the store appears when it is finished
    template : dimensions, coordinates, attributes, and the variables with their dtype. Coordinates and variables
        without a time dimension are written now; variables along time are streamed with ``write`` in aligned blocks
    force : replace a store of that path
    resume : resume after the blocks that a killed writer of the same content finished, and keep finished blocks
        after an error
    identity : what besides the template must agree for ``resume`` (a fingerprint of the source, options)
    time_block : steps that the writer handles at once; a shard gets this length
    kind : what the store holds, for readers: ``stations`` or ``fields``
    """
    target = Path(os.path.realpath(atomic.as_path(path)))
    with atomic.machine_faults(target):
        refuse_occupied(target, force, kind)
    atomic.write_probe(target.parent)
    layouts = _layouts(template, time_block)
    description = _describe(template, layouts, identity, kind)
    folder, lock, resumed = _claim(target, description, resume)
    if not resumed:
        with atomic.machine_faults(target):
            _write_fixed(folder / "data", template, layouts)
            staging.mark_prepared(folder)
    attrs = {**_plain(template.attrs), "Conventions": "CF-1.11", "schema_version": SCHEMA_VERSION}
    return StagedStore(
        target, folder, layouts, attrs, kind=kind, names=tuple(map(str, template.variables)),
        replace=force, keep=resume, lock=lock, resumed=resumed,
    )  # fmt: skip


def write_store(ds: xr.Dataset, path: str | os.PathLike[str], *, force: bool = False, kind: str = "stations") -> Path:
    """Write a whole dataset, block after block along time, and publish it.

    Raises
    ------
    UsageError
        If there is nothing along time, or stations without places.
    DataError
        If units, order of times or ids are not those of a store, or most values are impossible in the unit of a store.
    """
    if not isinstance(ds, xr.Dataset) or not any("time" in var.dims for var in ds.data_vars.values()):
        raise UsageError(
            "a store is written from a dataset with variables along time", do="give an xarray.Dataset with `time`"
        )
    ds = with_utc_times(ds)
    if kind != "forecast":  # what a forecast may hold is decided where it is made
        from fields.store.arrays import mask_flagged

        label = printable(ds.attrs.get("source", ""))
        advice = "bring the dataset to SI as docs/stations.md has it, and write it again"
        require_stations(ds, label, do=advice, kind=kind)
        require_plausible(mask_flagged(ds), label, do=advice)
    with create(path, ds, force=force, kind=kind) as staged:
        for region in staged.blocks():
            block = ds[list(staged.layouts)].isel(region)
            staged.write(block.drop_vars(list(block.coords)), region)
    return staged.path


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a finished store at ``path``, intact or damaged (see `verify_store`)."""
    return (atomic.as_path(path) / MANIFEST).is_file()


def open_store(
    path: str | os.PathLike[str],
    *,
    masked: bool = True,
    verify: Literal["quick", "full", "none"] = "quick",
    chunks: Mapping[str, int] | None = None,
) -> xr.Dataset:
    """Open a store lazily, as dask arrays.

    Parameters
    ----------
    path : a finished store
    masked : replace values that failed quality control by NaN (the store keeps what was observed); the flags stay
    verify : ``quick`` checks that every file is there and of its size, ``full`` checks every byte, ``none`` skips
        both. With any of them each chunk's checksum is checked when it is read
    chunks : lengths of the dask blocks; by default a shard along time and everything along the rest

    Raises
    ------
    CorruptStoreError
        If the store is unfinished, damaged, foreign or of a later version; array and chunk are named.
    """
    from fields.store.arrays import decode, mask_flagged

    _require_options(verify, chunks)
    store = atomic.as_path(path)
    manifest = _manifest_of(store)
    if verify != "none":
        check = manifest.full_check if verify == "full" else manifest.quick_check
        check(store).raise_if_errors(CorruptStoreError)
        _check_codecs(store, manifest)
    ds = decode(store, manifest, chunks)
    return mask_flagged(ds) if masked else ds


def _require_options(verify: object, chunks: object) -> None:
    if verify not in ("quick", "full", "none"):
        raise UsageError(f"there is no way to verify called {verify!r}", do="verify='quick', 'full' or 'none'")
    lengths = chunks if isinstance(chunks, Mapping) and not isinstance(chunks, xr.Dataset) else None
    if chunks is not None and (lengths is None or any(type(n) is not int or n < 1 for n in lengths.values())):
        raise UsageError("lengths of blocks are whole numbers by dimension", do="chunks={'time': 512}")


def verify_store(path: str | os.PathLike[str]) -> ProblemReport:
    """Prove a store's integrity byte by byte; damage is reported, not raised."""
    store = atomic.as_path(path)
    try:
        manifest = _manifest_of(store)
    except CorruptStoreError as problem:
        report = ProblemReport()
        report.error(problem.code, problem.message, where=problem.where or str(store), do=problem.do or "")
        return report
    report = manifest.full_check(store)
    listed = {*manifest.files, MANIFEST}
    extra = [p for p in store.rglob("*") if p.is_file() and p.relative_to(store).as_posix() not in listed]
    if extra:
        first = extra[0].relative_to(store).as_posix()
        report.notice("SPDE-D057", f"{len(extra)} files do not belong to the store (first: {first})", where=str(store))
    return report


def fingerprint(path: str | os.PathLike[str]) -> str:
    """Return a SHA-256 of the content: equal for equal data, whenever and wherever they were written."""
    return _manifest_of(atomic.as_path(path)).fingerprint


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return what a store holds: ``stations`` or ``fields``."""
    return _manifest_of(atomic.as_path(path)).kind


def open_stations(path: str | os.PathLike[str], *, masked: bool = True) -> xr.Dataset:
    """Open a store of stations as `open_store` does; one of fields or of a forecast is refused.

    Raises
    ------
    DataError
        If the store holds fields or a forecast, whose values nobody observed, or what ingest does not write.
    """
    from fields.store.arrays import mask_flagged

    kind = kind_of(path)
    if kind == "forecast":
        raise DataError(f"{path} holds a forecast, and observations are needed", code="SPDE-D070",
                        do="name the store of stations that it was computed from")  # fmt: skip
    if kind == "fields":
        raise DataError(f"{path} holds fields, and stations are needed", code="SPDE-D070",
                        do="name the store of stations from which they were lifted")  # fmt: skip
    ds = open_store(path, masked=masked)
    require_stations(ds, str(path), do=ways_out(path))
    require_plausible(ds if masked else mask_flagged(ds), str(path), do=ways_out(path))
    return ds


def _check_codecs(store: Path, manifest: Manifest) -> None:
    """Refuse arrays whose codecs or sizes no store of ours has: a manifest that fits may come from anybody."""
    for name in manifest.arrays:
        try:
            check_array(store / name)
        except (DataError, UsageError) as problem:
            # Damage is named as such; what is whole and yet strange was made so.
            files = [file for file in manifest.files if file.startswith(f"{name}/")]
            manifest.full_check(store, files).raise_if_errors(CorruptStoreError)
            raise CorruptStoreError(
                problem.message, code="SPDE-D055", where=f"{store} › {name}", do="ingest the data again"
            ) from None


def _manifest_of(store: Path) -> Manifest:
    if not store.exists():
        do = f"stationpde data ingest SRC -o {shlex.quote(str(store))}"
        raise UsageError(f"there is no store at {store}", code="SPDE-D005", do=do)
    if not store.is_dir():
        raise CorruptStoreError(
            f"{store} is a file, a store is a directory",
            code="SPDE-D055",
            where=str(store),
            do=f"stationpde data ingest {shlex.quote(str(store))} -o OUT.zarr",
        )
    return Manifest.load(store)


def refuse_occupied(target: Path, force: bool, kind: str = "stations") -> None:
    """Refuse to overwrite without ``force``, and with it to replace anything but a store of the same kind."""
    if not target.exists():
        return
    marks = (MANIFEST, "zarr.json", ".zgroup")
    is_store_like = target.is_dir() and (any((target / name).exists() for name in marks) or not any(target.iterdir()))
    if not is_store_like:
        # A mistyped path must not cost a home directory.
        raise UsageError(
            f"{target} exists and is not a store, --force does not replace it", code="SPDE-D003",
            do="choose another output",
        )  # fmt: skip
    held = _kind_held(target)
    if held not in (None, kind):
        # Observations of years must not make room for a forecast of a day.
        raise UsageError(
            f"{target} is a store of {held}, --force does not replace it with {kind}", code="SPDE-D003",
            do="choose another output",
        )  # fmt: skip
    if not force:
        raise UsageError(f"{target} exists", code="SPDE-D003", do="add --force (in Python: force=True) to replace it")


def _kind_held(target: Path) -> str | None:
    """Return what a store holds, None where that cannot be read."""
    try:
        return Manifest.load(target).kind
    except FieldsError:
        return None


def _claim(target: Path, description: str, resume: bool) -> tuple[Path, Any, bool]:
    """Claim a scratch folder: one to resume, or a new one; folders of writers that were killed are removed.

    Returns
    -------
    The folder, its lock, and whether an earlier run is resumed.
    """
    with atomic.machine_faults(target):
        for folder in atomic.scratches_of(target):
            if (folder / MANIFEST).exists():  # an older store, set aside by an exchange in two steps
                shutil.rmtree(folder, ignore_errors=True)
                continue
            lock = staging.take_lock(folder)
            if resume and staging.reopen(folder, description):
                owner = json.dumps({**atomic.owner(), "description": description}).encode()
                atomic.write_file(folder / "owner.json", owner)
                return folder, lock, True
            lock.release()
            shutil.rmtree(folder, ignore_errors=True)
        folder = atomic.scratch_beside(target)
        lock = staging.create_scratch(folder, description)
        # Two writers may start in the same instant: the one whose folder sorts first continues.
        if any(other.name < folder.name for other in atomic.scratches_of(target)):
            lock.release()
            shutil.rmtree(folder, ignore_errors=True)
            raise LockedError("another process is writing it", where=str(target), do="wait for it to end")
        return folder, lock, False


def _layouts(ds: xr.Dataset, time_block: int | None) -> dict[str, Layout]:
    """Choose chunks and shards for the variables along time, which are streamed."""
    sizes = {str(dim): size for dim, size in ds.sizes.items()}
    return {
        str(name): choose_layout(tuple(map(str, var.dims)), sizes, time_block)
        for name, var in ds.data_vars.items()
        if "time" in var.dims
    }


def _describe(ds: xr.Dataset, layouts: Mapping[str, Layout], identity: str, kind: str) -> str:
    """Hash everything that must agree before a killed run is resumed."""
    digest = hashlib.sha256(f"{identity};{kind};{SCHEMA_VERSION};{dict(ds.sizes)}".encode())
    for name in sorted(map(str, ds.variables)):
        var = ds[name]
        digest.update(f"{name};{var.dims};{var.dtype};{sorted(var.attrs.items())};{layouts.get(name)}".encode())
        if name not in layouts:
            content = to_seconds(var.values) if var.dtype.kind == "M" else var.values
            digest.update(content.tobytes() if content.dtype.kind in "iufb" else repr(content.tolist()).encode())
    return digest.hexdigest()


def _write_fixed(data: Path, ds: xr.Dataset, layouts: Mapping[str, Layout]) -> None:
    """Create all arrays and fill those that are not streamed."""
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec

    for key, var in ds.variables.items():
        name, attrs, values = str(key), _plain(var.attrs), None
        dtype: Any = var.dtype
        if var.dtype.kind == "M":
            attrs |= {"units": TIME_UNITS, "calendar": "proleptic_gregorian", "standard_name": "time"}
            dtype = np.dtype(np.int64)
        elif var.dtype.kind in "OUST":
            dtype = np.dtypes.StringDType()
        if name not in layouts:
            values = to_seconds(var.values) if var.dtype.kind == "M" else np.asarray(var.values).astype(dtype)
        coordinates = _other_coordinates(ds, key)
        if coordinates:
            attrs["coordinates"] = coordinates
        chunks = layouts[name].chunks if name in layouts else tuple(max(1, n) for n in var.shape)
        shards = layouts[name].shards if name in layouts else None
        numeric = np.dtype(dtype).kind in "iufb"
        packing: tuple[Any, ...] = (BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),) if numeric else ()
        with zarr.config.set({"array.write_empty_chunks": True}):
            array = zarr.create_array(
                store=data / name, shape=var.shape, dtype=dtype, chunks=chunks, zarr_format=3, attributes=attrs,
                shards=shards if shards != chunks else None, compressors=(*packing, Crc32cCodec()),
                fill_value=np.nan if np.dtype(dtype).kind == "f" else None,
                dimension_names=tuple(map(str, var.dims)),
            )  # fmt: skip
            if values is not None:
                array[...] = values


def _other_coordinates(ds: xr.Dataset, name: Hashable) -> str:
    """Return CF's list of coordinates that a data variable has besides its dimensions."""
    if name not in ds.data_vars:
        return ""
    dims = set(ds[name].dims)
    return " ".join(str(c) for c in ds.coords if c not in ds.dims and ds[c].dims and set(ds[c].dims) <= dims)


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Convert attributes to types of JSON."""
    plain: dict[str, Any] = {}
    for key, value in attrs.items():
        if isinstance(value, np.ndarray):
            value = value.tolist()
        elif isinstance(value, np.generic):
            value = value.item()
        plain[str(key)] = value
    return plain


# The names of before; `fields.store.open(path)` stays as documented.
open, verify, write = open_store, verify_store, write_store
