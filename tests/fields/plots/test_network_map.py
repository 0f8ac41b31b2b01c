"""The map of a network is drawn for any network."""

import numpy as np
import pytest

from fields.errors import UsageError
from fields.plots.network import _period, draw_network, missing_rates
from station_records import make_stations


@pytest.fixture
def gappy(stations):
    stations["t"][:36, 3] = np.nan
    return stations


def test_missing_rates_are_means_over_what_is_reported(gappy):
    rates = missing_rates(gappy)
    assert rates[3] == pytest.approx(0.1) and np.delete(rates, 3).max() == 0
    assert missing_rates(gappy, ("t",))[3] == pytest.approx(0.5)
    silent = gappy.assign(p=gappy["p"] * np.nan)
    assert missing_rates(silent)[3] == pytest.approx(0.125)  # pressure, which nobody reports, does not count


def picture(path):
    from matplotlib.image import imread

    return imread(path)


def test_the_map_is_drawn_with_and_without_a_model_of_the_ground(tmp_path, gappy):
    lat, lon = np.linspace(43, 50, 60), np.linspace(-1, 8, 70)
    relief = 900 * np.add.outer(np.sin(lat), np.cos(lon)) + 200
    np.savez(tmp_path / "dem.npz", lat=lat, lon=lon, elev_m=relief)
    plain = draw_network(gappy, tmp_path / "plain.png")
    model = draw_network(gappy, tmp_path / "model.png", dem=tmp_path / "dem.npz", variable="t")
    assert picture(plain).shape[2] >= 3 and picture(plain).std() > 0.02
    assert not np.array_equal(picture(plain)[:200, :200], picture(model)[:200, :200])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dem.npz", "model.png", "plain.png"]


@pytest.mark.parametrize("count", [1, 2])
def test_the_map_of_one_or_two_stations_is_drawn(tmp_path, count):
    assert draw_network(make_stations(24, count), tmp_path / "x.png").stat().st_size > 5000


@pytest.mark.parametrize("east", [2.0, -2.0])
def test_the_map_of_a_network_across_the_antimeridian_shows_what_it_shows_elsewhere(tmp_path, east):
    # Only the longitudes along its lower border differ; most of the network lies on either side.
    elsewhere = make_stations(24, 12)
    lon = elsewhere["lon"].values - elsewhere["lon"].values.mean()
    across = elsewhere.assign_coords(lon=("station", (lon + 180 + east + 180) % 360 - 180))
    assert across["lon"].values.min() < -170 and across["lon"].values.max() > 170
    pictures = [
        picture(draw_network(network, tmp_path / f"{i}.png"))
        for i, network in enumerate([across, elsewhere.assign_coords(lon=("station", lon + 100 + east))])
    ]
    inside = [image[image.shape[0] // 8 : image.shape[0] * 4 // 5, image.shape[1] // 6 : -250] for image in pictures]
    np.testing.assert_allclose(*inside, atol=0.02)  # a relief drawn from rounded positions


def test_the_map_of_a_record_within_a_day_names_its_hours():
    assert _period(make_stations(8, 2)["time"].values).endswith("00:00 to 07:00 UTC")
    assert _period(make_stations(48, 2)["time"].values).count("-") == 4


def test_an_unknown_variable_is_refused(tmp_path, stations):
    with pytest.raises(UsageError, match="no variable `snow`"):
        draw_network(stations, tmp_path / "x.png", variable="snow")


@pytest.mark.parametrize("name", [r"$\frac{", "a$b$c", "\x1b[31m", r"\undefined{$"])
def test_a_station_name_is_never_read_as_a_formula_of_the_picture(tmp_path, stations, name):
    renamed = stations.assign_coords(station=[name, *stations["station"].values[1:]])
    renamed["t"][:, 0] = np.nan  # the gappiest station is named in the picture
    assert draw_network(renamed, tmp_path / "map.png").stat().st_size > 10_000


@pytest.mark.parametrize("along", ["lat", "lon"])
def test_a_network_in_a_line_gets_room_on_both_sides(tmp_path, stations, along):
    from matplotlib.image import imread

    flat = stations.assign_coords({along: stations[along] * 0 + float(stations[along][0])})
    height, width = imread(draw_network(flat, tmp_path / "map.png")).shape[:2]
    assert 0.4 < height / width < 2.5
