"""Readers of elevation models: npz, NetCDF, zarr, and GeoTIFF where rioxarray is installed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.errors import DataError, FieldsError, ResourceError, UsageError, printable
from fields.readers import (
    check_foreign_store,
    check_total,
    check_zip,
    file_kind,
    is_zarr,
    open_binary,
    reason_of,
    stream_npy_member,
)

if TYPE_CHECKING:
    import xarray as xr

    from fields.readers import ZarrFormat

__all__ = ["read_elevation"]

LARGEST_BYTES = 8 << 30
_LATITUDES = ("lat", "latitude", "y")
_LONGITUDES = ("lon", "longitude", "x")
_ELEVATIONS = ("elev_m", "elevation", "elev", "alt", "altitude", "orography", "topo", "topography", "h", "z", "band1")
_STANDARD_NAMES = ("surface_altitude", "height_above_reference_ellipsoid", "height_above_mean_sea_level")
_READ_FAULTS = (ValueError, OSError, LookupError, RuntimeError, TypeError, AttributeError, ArithmeticError, MemoryError)
_METRES = ("", "m", "meter", "meters", "metre", "metres", "1")

Parts = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def read_elevation(path: Path) -> Parts:
    """Read latitudes, longitudes [degrees] and elevations [m] of a model, in the order of the file."""
    if is_zarr(path):
        return _from_dataset(path, check_foreign_store(path, LARGEST_BYTES))
    if path.is_dir():
        raise UsageError(f"{printable(path)} is a directory and no zarr store", code="SPDE-D083")
    kind = file_kind(path)
    if kind == "zip":
        return _from_npz(path)
    if kind in ("netcdf", "hdf5"):
        return _from_dataset(path, None)
    if path.suffix.lower() in (".tif", ".tiff"):
        return _from_geotiff(path)
    raise DataError(
        f"{printable(path.name)} is {kind}; an elevation model is npz, NetCDF, zarr or GeoTIFF",
        code="SPDE-D083",
        do="convert it, for instance to NetCDF with lat, lon and elevation in metres",
    )


def _from_npz(path: Path) -> Parts:
    label = printable(path.name)
    with open_binary(path) as file:
        archive = check_zip(file, label, LARGEST_BYTES)
        members = {name.removesuffix(".npy").lower(): name for name in archive.namelist()}
        arrays = [_first_of(names, members, label) for names in (_LATITUDES, _LONGITUDES, _ELEVATIONS)]
        lat, lon, height = (stream_npy_member(archive, members[name], label, None) for name in arrays)
        return lat, lon, height


def _from_dataset(path: Path, version: ZarrFormat | None) -> Parts:
    """Read a zarr store that was checked as of this version, or a NetCDF file."""
    import xarray as xr

    label = printable(path.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about foreign conventions; shapes and units are checked below
        try:
            if version is None:
                ds = xr.open_dataset(path, engine="netcdf4")
            else:
                ds = xr.open_zarr(path, chunks=None, consolidated=False, zarr_format=version)
            with ds:
                return _parts(ds, label)
        except FieldsError:
            raise
        except _READ_FAULTS as problem:
            raise DataError(f"{label} cannot be read: {reason_of(problem)}", code="SPDE-D084") from None


def _parts(ds: xr.Dataset, label: str) -> Parts:
    names = {str(name).lower(): str(name) for name in ds.variables}
    lat, lon = (ds[names[_first_of(axis, names, label)]] for axis in (_LATITUDES, _LONGITUDES))
    by_standard = [str(n) for n, v in ds.data_vars.items() if v.attrs.get("standard_name") in _STANDARD_NAMES]
    height = ds[by_standard[0] if by_standard else names[_first_of(_ELEVATIONS, names, label)]]
    unit = str(height.attrs.get("units", "m")).lower()
    if unit not in _METRES:
        raise DataError(f"{label} › {height.name} is in {unit}, not in metres", code="SPDE-D081", do="convert it to m")
    check_total(int(np.prod(height.shape, dtype=object)) * 8, LARGEST_BYTES, label, is_option=False)
    height = height.squeeze(drop=True)
    if set(height.dims) != {lat.dims[0], lon.dims[0]} or lat.ndim != 1 or lon.ndim != 1:
        raise DataError(
            f"{label} › {height.name} lies on {', '.join(map(str, height.dims))}; a regular latitude-longitude grid "
            "is needed",
            code="SPDE-D080",
        )
    return lat.values, lon.values, height.transpose(lat.dims[0], lon.dims[0]).values


def _from_geotiff(path: Path) -> Parts:
    try:
        import rioxarray
    except ImportError:
        raise ResourceError(
            f"{printable(path.name)} is GeoTIFF, which needs rioxarray",
            code="SPDE-D085",
            do="pip install 'stationpde[dem]', or convert the file to NetCDF",
        ) from None
    raster = rioxarray.open_rasterio(path, masked=True)
    if not raster.rio.crs or not raster.rio.crs.is_geographic:
        raise DataError(
            f"{printable(path.name)} is projected ({raster.rio.crs}); latitudes and longitudes are needed",
            code="SPDE-D080",
            do="gdalwarp -t_srs EPSG:4326",
        )
    raster = raster.squeeze(drop=True)
    return raster["y"].values, raster["x"].values, raster.values


def _first_of(candidates: tuple[str, ...], names: dict[str, str], label: str) -> str:
    for name in candidates:
        if name in names:
            return name
    raise DataError(
        f"{label} has none of {', '.join(candidates)}; it has {', '.join(map(printable, sorted(names)))}",
        code="SPDE-D083",
        do="rename its arrays to lat, lon and elev_m (metres)",
    )
