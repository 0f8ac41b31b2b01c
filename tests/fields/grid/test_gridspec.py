"""The grid round a network: spacing, margin, borders, the antimeridian, networks without extent."""

import numpy as np
import pytest

from fields.constants import earth_radius
from fields.errors import DataError, UsageError
from fields.grid.geometry import LocalMetric, middle_longitude, unwrap_longitude
from fields.grid.gridspec import GridSpec


def test_cells_are_as_wide_as_high_at_the_mean_latitude_when_counted_in_metres():
    grid = GridSpec.around([46.0, 51.5], [-5.0, 2.0])
    middle = grid.dx[grid.height // 2]
    # The number of columns is whole: half a column in about thirty is left over.
    assert middle == pytest.approx(grid.dy, rel=0.5 / grid.width + np.ptp(grid.dx) / middle / grid.height)


def test_cells_counted_in_degrees_are_as_wide_in_degrees_as_high():
    grid = GridSpec.around([46.0, 51.5], [-5.0, 2.0], width="degrees")
    assert np.diff(grid.lon)[0] == pytest.approx(np.diff(grid.lat)[0], rel=0.5 / grid.width)
    assert grid.width > GridSpec.around([46.0, 51.5], [-5.0, 2.0]).width


def test_spacing_of_a_row_is_that_of_its_own_latitude():
    grid = GridSpec(10.0, 50.0, 0.0, 40.0, 41, 41)
    assert grid.dx == pytest.approx(earth_radius * np.radians(1.0) * np.cos(np.radians(grid.lat)))
    assert grid.dy == pytest.approx(earth_radius * np.radians(1.0))


def test_rows_run_from_south_to_north_and_end_on_the_border():
    grid = GridSpec.around([10.0, 20.0], [30.0, 40.0])
    assert np.all(np.diff(grid.lat) > 0) and np.all(np.diff(grid.lon) > 0)
    assert (grid.lat[0], grid.lat[-1], grid.lon[0], grid.lon[-1]) == (grid.south, grid.north, grid.west, grid.east)


def test_the_margin_lies_round_the_hull_on_every_side():
    grid = GridSpec.around([10.0, 20.0], [30.0, 50.0], margin=0.1)
    assert (grid.south, grid.north) == pytest.approx((9.0, 21.0))
    assert (grid.west, grid.east) == pytest.approx((28.0, 52.0))


def test_stations_across_the_antimeridian_are_neighbours():
    grid = GridSpec.around([-20.0, -15.0], [178.0, -179.0])
    assert grid.east - grid.west == pytest.approx(3.0 * 1.1)
    assert grid.east > 180.0
    assert grid.contains([-17.0, -17.0], [179.5, -179.5]).all()
    assert not grid.contains(-17.0, 170.0)


@pytest.mark.parametrize(
    ("lat", "lon"),
    [([45.0], [7.0]), ([45.0, 45.0], [7.0, 7.0]), ([40.0, 45.0], [7.0, 7.0]), ([45.0, 45.0], [0.0, 9.0])],
)
def test_a_network_without_extent_still_spans_a_region(lat, lon):
    grid = GridSpec.around(lat, lon, min_half_width_m=15e3)
    assert grid.width >= 8
    assert grid.dy * (grid.height - 1) >= 30e3 * (1 - 1e-9)
    assert grid.dx.max() * (grid.width - 1) >= 30e3 * (1 - 1e-3)  # dx belongs to the middle row only
    assert grid.contains(lat, lon).all()


def test_stations_near_a_pole_ask_for_a_projection():
    with pytest.raises(DataError, match="latitude") as caught:
        GridSpec.around([80.0, 86.0], [0.0, 10.0])
    assert caught.value.exit_code == 3
    assert "projection" in caught.value.do


def test_a_network_round_the_globe_is_no_region():
    with pytest.raises(DataError, match="longitude"):
        GridSpec.around([0.0, 1.0, 2.0, 3.0], [0.0, 100.0, 200.0, 300.0])


@pytest.mark.parametrize("places", [([], []), ([np.nan], [1.0])])
def test_no_stations_or_stations_without_place_are_data_errors(places):
    with pytest.raises(DataError):
        GridSpec.around(*places)


@pytest.mark.parametrize(
    "wrong", [(10.0, 5.0, 0.0, 1.0, 32, 32), (0.0, 1.0, 0.0, 1.0, 2, 32), (0.0, 1.0, 0.0, 1.0, 32, 3)]
)
def test_an_impossible_grid_is_refused(wrong):
    with pytest.raises(UsageError):
        GridSpec(*wrong)


def test_longitudes_are_unwrapped_about_the_shortest_arc():
    assert middle_longitude([170.0, -170.0]) == pytest.approx(-180.0)
    assert middle_longitude([-10.0, 20.0]) == pytest.approx(5.0)
    assert unwrap_longitude([350.0, -170.0], 0.0) == pytest.approx([-10.0, -170.0])


def test_the_local_metric_is_the_papers():
    metric = LocalMetric(30.0, 100.0)
    x, y = metric.xy(31.0, 101.0)
    assert x == pytest.approx(earth_radius * np.cos(np.radians(30.0)) * np.radians(1.0))
    assert y == pytest.approx(earth_radius * np.radians(1.0))


def test_a_grid_survives_its_dictionary():
    grid = GridSpec.around([46.0, 51.5], [-5.0, 2.0])
    assert GridSpec(**grid.to_dict()) == grid


def test_a_small_network_gets_fewer_rows_rather_than_smaller_cells():
    lat, lon = np.array([-29.7, -30.0, -30.6]), np.array([-57.1, -53.5, -51.2])
    fine, coarse = GridSpec.around(lat, lon), GridSpec.around(lat, lon, least_cell_m=8e3)
    assert fine.height == 32 and fine.dy < 8e3
    assert coarse.dy >= 8e3 and coarse.height < 32
    assert (coarse.south, coarse.north) == (fine.south, fine.north)
    wide = GridSpec.around(np.array([-20.0, -25.0, -30.0]), lon, least_cell_m=8e3)
    assert wide.height == 32
