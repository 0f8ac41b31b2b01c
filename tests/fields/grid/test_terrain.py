"""Altitude of cells: means over area, bilinear at places, whichever way the file lies."""

import json
import os
import sys

import numpy as np
import pytest
import xarray as xr

from fields.errors import DataError, ResourceError, UsageError
from fields.grid import Elevation
from fields.grid.gridspec import GridSpec
from fields.lift import station_altitude

LAT, LON = np.linspace(40, 50, 201), np.linspace(0, 12, 241)
GRID = GridSpec(42.0, 48.0, 2.0, 10.0, 9, 11)


def plane(lat, lon):
    return 100.0 * (lat - 40.0) + 50.0 * lon


def model():
    return Elevation.of(LAT, LON, plane(LAT[:, None], LON))


def test_a_plane_is_sampled_exactly_by_area_and_by_place():
    lat, lon = GRID.cells()
    np.testing.assert_allclose(model().on(GRID).ravel(), plane(lat, lon), atol=1e-8)
    np.testing.assert_allclose(
        model().at([43.21, 47.9], [2.5, 9.99]), plane(np.array([43.21, 47.9]), np.array([2.5, 9.99]))
    )


def test_a_cell_takes_the_mean_over_its_area_not_the_value_at_its_centre():
    draw = np.random.default_rng(0)
    rough = draw.uniform(0, 1000, (LAT.size, LON.size))
    cells = Elevation.of(LAT, LON, rough).on(GRID)
    half_row, half_column = np.diff(GRID.lat)[0] / 2, np.diff(GRID.lon)[0] / 2
    i, j = 4, 5
    rows = np.abs(LAT - GRID.lat[i]) <= half_row
    columns = np.abs(LON - GRID.lon[j]) <= half_column
    # Pixels on the edge count in part: one ring of some 180 in a box.
    assert cells[i, j] == pytest.approx(rough[np.ix_(rows, columns)].mean(), abs=40.0)
    assert cells.std() < 0.2 * rough.std()


def test_a_box_of_whole_pixels_takes_their_plain_mean():
    rough = np.random.default_rng(1).uniform(0, 1000, (LAT.size, LON.size))
    step = LAT[1] - LAT[0]
    # Edges half-way between pixels: rows 10 to 19 and columns 30 to 59.
    rows, columns = LAT[[10, 20]] - step / 2, LON[[30, 60]] - step / 2
    means = Elevation.of(LAT, LON, rough)._means(rows, columns)
    assert means[0, 0] == pytest.approx(rough[10:20, 30:60].mean(), rel=1e-9)


def test_a_model_coarser_than_the_grid_is_interpolated():
    coarse = Elevation.of(
        np.arange(40.0, 51.0, 2.0),
        np.arange(0.0, 13.0, 2.0),
        plane(np.arange(40.0, 51.0, 2.0)[:, None], np.arange(0.0, 13.0, 2.0)),
    )
    lat, lon = GRID.cells()
    np.testing.assert_allclose(coarse.on(GRID).ravel(), plane(lat, lon), atol=1e-9)


def test_rows_from_north_to_south_and_longitudes_from_zero_are_put_in_order():
    lon = np.linspace(350, 361, 45)
    lat = LAT[::-1]
    turned = Elevation.of(lat, lon, plane(lat[:, None], lon - 360.0))
    assert turned.at(44.0, -5.0) == pytest.approx(plane(44.0, -5.0))


def test_a_model_round_the_globe_has_no_seam():
    lat, lon = np.arange(-80.0, 81.0, 1.0), np.arange(0.5, 360.0, 1.0)
    globe = Elevation.of(lat, lon, 1000.0 + 500.0 * np.cos(np.radians(lon)) * np.ones((lat.size, 1)))
    assert globe.at(0.0, 0.0) == pytest.approx(1500.0, abs=0.1)
    across = GridSpec(-20.0, -10.0, 170.0, 190.0, 6, 9)
    np.testing.assert_allclose(
        globe.on(across), (1000 + 500 * np.cos(np.radians(across.lon))) * np.ones((6, 1)), atol=0.2
    )


def test_missing_elevation_is_sea():
    height = plane(LAT[:, None], LON)
    height[:50] = np.nan
    assert Elevation.of(LAT, LON, height).at(40.5, 5.0) == 0.0


def test_beyond_the_border_cells_take_the_borders_value_with_a_warning(caplog):
    metres = model().on(GridSpec(45.0, 51.0, 5.0, 11.0, 7, 8))
    assert np.isfinite(metres).all()
    assert "beyond" in caplog.text


def test_a_model_of_another_region_is_refused():
    with pytest.raises(DataError, match="covers") as caught:
        model().on(GridSpec(-30.0, -20.0, -60.0, -40.0, 8, 8))
    assert "elevation model of this region" in caught.value.do


@pytest.mark.parametrize("height", [plane(LAT[:, None], LON) * 3.28 + 20000, plane(LAT[:, None], LON) - 99999.0])
def test_elevations_that_cannot_be_metres_are_refused(height):
    with pytest.raises(DataError, match="metres"):
        Elevation.of(LAT, LON, height)


def test_uneven_axes_are_refused():
    with pytest.raises(DataError, match="even"):
        Elevation.of(LAT**2 / 50, LON, plane(LAT[:, None], LON))


def as_dataset(**attrs):
    return xr.Dataset(
        {"topo": (("latitude", "longitude"), plane(LAT[:, None], LON), {"units": "m", **attrs})},
        coords={"latitude": LAT, "longitude": LON},
    )


@pytest.mark.parametrize("kind", ["npz", "nc", "zarr"])
def test_a_model_is_read_from_every_kind_of_file(kind, tmp_path):
    path = tmp_path / f"dem.{kind}"
    if kind == "npz":
        np.savez_compressed(path, lat=LAT[::-1], lon=LON, h=plane(LAT[::-1][:, None], LON)[None])
    elif kind == "nc":
        as_dataset().to_netcdf(path)
    else:
        as_dataset().to_zarr(path)
    assert Elevation.open(path).at(44.0, 5.0) == pytest.approx(plane(44.0, 5.0))


def test_a_model_in_a_store_passes_the_gate_of_foreign_stores(tmp_path):
    as_dataset().to_zarr(tmp_path / "dem.zarr", zarr_format=2)
    pipe = tmp_path / "dem.zarr" / "topo" / "9.9"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="no regular file"):
        Elevation.open(tmp_path / "dem.zarr")
    pipe.unlink()
    about = json.loads((tmp_path / "dem.zarr" / ".zgroup").read_text())
    decoy = {"metadata": {}, "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": {}}}
    (tmp_path / "dem.zarr" / ".zgroup").write_text(json.dumps({**about, **decoy}))
    with pytest.raises(DataError, match="unknown key 'consolidated_metadata'"):
        Elevation.open(tmp_path / "dem.zarr")


def test_a_damaged_chunk_of_a_model_is_a_typed_error(tmp_path):
    as_dataset().to_zarr(tmp_path / "dem.zarr", zarr_format=2)
    (tmp_path / "dem.zarr" / "topo" / "0.0").write_bytes(bytes(40))
    with pytest.raises(DataError, match="cannot be read"):
        Elevation.open(tmp_path / "dem.zarr")


def test_a_model_in_feet_is_refused(tmp_path):
    as_dataset(units="feet").to_netcdf(tmp_path / "dem.nc")
    with pytest.raises(DataError, match="feet"):
        Elevation.open(tmp_path / "dem.nc")


def test_geotiff_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rioxarray", None)
    (tmp_path / "dem.tif").write_bytes(b"II*\x00" + bytes(100))
    with pytest.raises(ResourceError) as caught:
        Elevation.open(tmp_path / "dem.tif")
    assert "stationpde[dem]" in caught.value.do


def test_files_that_are_no_models_are_refused(tmp_path):
    (tmp_path / "dem.nc").write_text("lat,lon,elev\n1,2,3\n")
    with pytest.raises(DataError):
        Elevation.open(tmp_path / "dem.nc")
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    with pytest.raises(DataError, match="lat"):
        Elevation.open(tmp_path / "other.npz")
    with pytest.raises(UsageError):
        Elevation.open(tmp_path / "absent.npz")
    with pytest.raises(UsageError):
        Elevation.open(tmp_path)


def test_without_a_model_cells_take_the_mean_of_the_stations_altitudes():
    lat, lon, alt = [45.0, 45.0], [4.0, 8.0], [0.0, 1000.0]
    metres = station_altitude(lat, lon, alt, GridSpec(44.0, 46.0, 4.0, 8.0, 5, 9))
    np.testing.assert_allclose(metres[2], np.linspace(0, 1000, 9), atol=0.1)  # on the line between the two
    assert metres[2, 0] == pytest.approx(0.0, abs=1e-6)


def test_real_relief_lies_under_real_stations(shared_data):
    stations = np.load(shared_data / "inmet_south" / "observations.npz")
    dem = Elevation.open(shared_data / "terrain" / "dem_brazil.npz")
    gap = dem.at(stations["lat"], stations["lon"]) - stations["alt_m"]
    # Pixels of nine kilometres in hilly land.
    assert np.sqrt(np.mean(gap**2)) < 100.0
    assert abs(gap.mean()) < 20.0


def test_real_relief_from_north_to_south_is_read(shared_data):
    dem = Elevation.open(shared_data / "arpege_nw" / "NW_masks.npz")
    assert dem.at(48.38, -3.92) > 200.0  # the Monts d'Arrée
    assert abs(dem.at(48.6, -5.7)) < 5.0  # the sea beside them
