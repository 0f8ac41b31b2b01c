"""Reading elevation models: npz, NetCDF, zarr, and GeoTIFF where rioxarray is installed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.errors import DataError, ResourceError, UsageError, printable
from fields.readers.foreign_zarr import check_foreign_store, is_zarr
from fields.readers.safety import check_total, check_zip, file_kind, open_binary, stream_npy_member

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["read_elevation"]

LARGEST_BYTES = 8 << 30
_LATITUDES = ("lat", "latitude", "y")
_LONGITUDES = ("lon", "longitude", "x")
_ELEVATIONS = ("elev_m", "elevation", "elev", "alt", "altitude", "orography", "topo", "topography", "h", "z", "band1")
_STANDARD_NAMES = ("surface_altitude", "height_above_reference_ellipsoid", "height_above_mean_sea_level")
_METRES = ("", "m", "meter", "meters", "metre", "metres", "1")

Parts = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def read_elevation(path: Path) -> Parts:
    """Latitudes, longitudes [degrees] and elevations [m] of a model, as they stand in the file."""
    if is_zarr(path):
        check_foreign_store(path)
        return _from_dataset(path, None)
    if path.is_dir():
        raise UsageError(f"{printable(path)} is a directory and no zarr store", code="SPDE-D083")
    kind = file_kind(path)
    if kind == "zip":
        return _from_npz(path)
    if kind in ("netcdf", "hdf5"):
        return _from_dataset(path, "netcdf4")
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
        found = [_named(members, names, label) for names in (_LATITUDES, _LONGITUDES, _ELEVATIONS)]
        lat, lon, height = (stream_npy_member(archive, members[name], label, None) for name in found)
        return lat, lon, height


def _from_dataset(path: Path, engine: str | None) -> Parts:
    import xarray as xr

    label = printable(path.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # foreign conventions; what matters is checked below
        try:
            is_store = engine is None
            ds = xr.open_zarr(path, chunks=None) if is_store else xr.open_dataset(path, engine=engine)
        except (ValueError, OSError, KeyError, RuntimeError) as problem:
            raise DataError(f"{label} cannot be read: {problem}", code="SPDE-D084") from None
    with ds:
        return _parts(ds, label)


def _parts(ds: xr.Dataset, label: str) -> Parts:
    names = {str(name).lower(): str(name) for name in ds.variables}
    lat, lon = (ds[names[_named(names, wanted, label)]] for wanted in (_LATITUDES, _LONGITUDES))
    by_standard = [str(n) for n, v in ds.data_vars.items() if v.attrs.get("standard_name") in _STANDARD_NAMES]
    height = ds[by_standard[0] if by_standard else names[_named(names, _ELEVATIONS, label)]]
    unit = str(height.attrs.get("units", "m")).lower()
    if unit not in _METRES:
        raise DataError(f"{label} › {height.name} is in {unit}, not in metres", code="SPDE-D081", do="convert it to m")
    check_total(int(np.prod(height.shape, dtype=object)) * 8, LARGEST_BYTES, label)
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


def _named(found: dict[str, str], wanted: tuple[str, ...], label: str) -> str:
    for name in wanted:
        if name in found:
            return name
    raise DataError(
        f"{label} has none of {', '.join(wanted)}; it has {', '.join(map(printable, sorted(found)))}",
        code="SPDE-D083",
        do="rename its arrays to lat, lon and elev_m (metres)",
    )
