"""Read a store's arrays so that damage is an error that names array and chunk, never a fill value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields.errors import CorruptStoreError
from fields.qc import MASKING, Flag
from fields.store.layout import Layout
from fields.store.manifest import Manifest
from fields.store.staging import shard_keys

__all__ = ["CheckedArray", "decode", "mask_flagged"]


@dataclass(frozen=True)
class CheckedArray:
    """One array of a store, indexed like numpy's; it opens its files anew in every process that reads it."""

    store: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        import zarr

        index = key if isinstance(key, tuple) else (key,)
        self._require_shards(index)
        try:
            array = zarr.open_array(store=self.store / self.name, mode="r", zarr_format=3)
            return np.asarray(array[index])
        except (ValueError, RuntimeError, OSError, KeyError, TypeError) as problem:
            self._raise_for_damage(problem)
            raise

    def _require_shards(self, index: tuple[Any, ...]) -> None:
        """Raise if a chunk that is read is missing: zarr would return fill values."""
        spans = []
        for axis, size in enumerate(self.shape):
            part = index[axis] if axis < len(index) and index[axis] is not Ellipsis else slice(None)
            if isinstance(part, slice):
                start, stop, _ = part.indices(size)
                spans.append(slice(start, max(stop, start)))
            else:
                spans.append(slice(0, size))
        for key in shard_keys(self.layout, tuple(spans)):
            if not (self.store / self.name / key).is_file():
                self._raise_for_damage(FileNotFoundError(key))

    def _raise_for_damage(self, problem: BaseException) -> None:
        """Raise for the chunk that is damaged; return if all of the array's files are whole."""
        manifest = Manifest.load(self.store)
        names = [name for name in manifest.files if name.startswith(f"{self.name}/")]
        report = manifest.full_check(self.store, names)
        if not report.ok:
            raise CorruptStoreError.from_problems(report.errors) from problem


def _checked(store: Path, manifest: Manifest, name: str) -> CheckedArray:
    about = manifest.arrays[name]
    dims, shards = tuple(about["dims"]), tuple(about["shards"])
    dtype = np.dtype(object) if about["dtype"].startswith("StringDType") else np.dtype(about["dtype"])
    return CheckedArray(store, name, tuple(about["shape"]), dtype, Layout(dims, shards, shards))


def decode(store: Path, manifest: Manifest, chunks: Mapping[str, int] | None) -> xr.Dataset:
    """Return the dataset in memory form: coordinates loaded, variables as dask arrays."""
    import dask.array as da
    import zarr

    root = zarr.open_group(store=store, mode="r", zarr_format=3, use_consolidated=False)
    coords: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    dims = {dim for about in manifest.arrays.values() for dim in about["dims"]}
    opened = {name: zarr.open_array(store=store / name, mode="r", zarr_format=3) for name in manifest.arrays}
    for name, about in manifest.arrays.items():
        _require_described(store, name, opened[name], about)
    attrs = {name: dict(opened[name].attrs) for name in manifest.arrays}
    secondary = {c for about in attrs.values() for c in str(about.pop("coordinates", "")).split()}
    for name in sorted(manifest.arrays, key=lambda name: manifest.arrays[name]["position"]):
        array = _checked(store, manifest, name)
        is_coordinate = name in dims or name in secondary
        if is_coordinate:
            coords[name] = (array.layout.dims, _decoded(array[...], attrs[name]), attrs[name])
        elif array.ndim == 0 or "time" not in array.layout.dims:
            variables[name] = (array.layout.dims, array[...], attrs[name])
        else:
            lengths = tuple(
                (chunks or {}).get(d, n if d == "time" else size)
                for d, n, size in zip(array.layout.dims, array.layout.shards, array.shape)
            )
            # The name makes equal reads of different openings equal tasks for dask.
            token = f"{manifest.fingerprint[:16]}-{name}-{'x'.join(map(str, lengths))}"
            lazy = da.from_array(
                array, chunks=lengths, name=f"store-{token}", meta=np.empty((0,) * array.ndim, array.dtype)
            )
            variables[name] = (array.layout.dims, lazy, attrs[name])
    return xr.Dataset(variables, coords, dict(root.attrs))


def _require_described(store: Path, name: str, array: Any, about: Mapping[str, Any]) -> None:
    """Refuse an array that is not what the manifest says of it: a manifest that fits itself may come from anybody."""
    dims, dtype = array.metadata.dimension_names, str(array.dtype)
    described = (tuple(about["dims"]), tuple(about["shape"]), about["dtype"].partition("(")[0])
    if (tuple(dims or ()), tuple(array.shape), dtype.partition("(")[0]) != described:
        raise CorruptStoreError(
            f"`{name}` is not the array that the manifest describes", code="SPDE-D054", where=f"{store} › {name}",
            do="ingest the data again",
        )  # fmt: skip


def _decoded(values: np.ndarray[Any, Any], attrs: dict[str, Any]) -> np.ndarray[Any, Any]:
    if values.dtype.kind in "OT":
        return np.asarray([str(v) for v in values.ravel()], dtype=str).reshape(values.shape)
    if str(attrs.get("units", "")).startswith("seconds since 1970"):
        attrs.pop("units"), attrs.pop("calendar", None)
        return values.astype("datetime64[s]").astype("datetime64[ns]")
    return values


def mask_flagged(ds: xr.Dataset, tests: Flag = MASKING) -> xr.Dataset:
    """Replace values that failed one of ``tests`` by NaN; attributes and flags stay."""
    masked = ds.copy()
    for name in ds.data_vars:
        flag = f"{name}_flag"
        if flag in ds:
            flags = ds[flag]
            if flags.dtype.kind == "f":  # `where` or a join made numbers with NaN of them
                flags = flags.fillna(0).astype(np.uint8)
            good = (flags & np.uint8(int(tests))) == 0
            masked[name] = ds[name].where(good).assign_attrs(ds[name].attrs)
    return masked
