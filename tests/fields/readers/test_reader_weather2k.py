"""Weather2K arrays: both releases by their channels, times by their length, station numbers from the list beside."""

import numpy as np
import pytest

from fields.errors import DataError
from fields.readers.weather2k import RELEASES
from fields.times import parse_time
from reader_files import Weather, open_source, read_all


def write_array(path, weather: Weather, channels: int, dtype=np.float32, order="C"):
    release = next(r for r in RELEASES if r.channels == channels)
    array = np.full((len(weather.ids), channels, len(weather.time)), -1.0, dtype, order=order)
    array[:, :3] = np.stack([weather.lat, weather.lon, weather.alt], axis=1)[:, :, None]
    speed, direction = np.hypot(weather.u, weather.v), np.rad2deg(np.arctan2(-weather.u, -weather.v)) % 360
    values = {"p": weather.p, "t": weather.t, "rh": weather.rh, "dd": direction, "ff": speed}
    for name, channel in release.places.items():
        array[:, channel] = values[name].T
    np.save(path, array)
    return path


OPTIONS = {"start": parse_time("2021-03-01"), "step": 3600, "zone": "UTC"}


@pytest.mark.parametrize("channels", [13, 23])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f4"])
def test_both_releases_are_read_in_either_precision(tmp_path, channels, dtype):
    weather = Weather(5, 48)
    source = open_source(write_array(tmp_path / "data.npy", weather, channels, dtype), tmp_path, **OPTIONS)
    tables = read_all(source)
    assert source.reader == "weather2k"
    assert np.allclose(tables["p"], weather.p, atol=1e-3)
    assert np.allclose(tables["rh"], weather.rh, atol=1e-3)
    assert np.allclose(source.network.alt, weather.alt, atol=1e-3)


def test_an_array_in_fortran_order_reads_the_same(tmp_path):
    weather = Weather(5, 48)
    plain = open_source(write_array(tmp_path / "c.npy", weather, 13), tmp_path, **OPTIONS)
    other = open_source(write_array(tmp_path / "f.npy", weather, 13, order="F"), tmp_path, **OPTIONS)
    assert np.array_equal(plain.read(3, 20)["t"], other.read(3, 20)["t"])


def test_the_release_found_is_said(tmp_path):
    source = open_source(write_array(tmp_path / "data.npy", Weather(3, 24), 23), tmp_path, **OPTIONS)
    assert any("Weather2K-R" in notice.what for notice in source.findings().notices)


def test_an_unknown_length_asks_for_its_start_with_the_command(tmp_path):
    path = write_array(tmp_path / "data.npy", Weather(3, 24), 13)
    with pytest.raises(DataError) as caught:
        open_source(path, tmp_path)
    assert caught.value.code == "SPDE-D142"
    assert "--start 2017-01-01" in caught.value.do and "the step if it is not 3h" in caught.value.do


def test_an_unknown_length_with_a_start_has_the_step_of_its_release_and_says_so(tmp_path):
    path = write_array(tmp_path / "data.npy", Weather(3, 24), 13)
    source = open_source(path, tmp_path, start=parse_time("2023-01-01"), zone="UTC")
    assert (source.axis.step, source.axis.count) == (10800, 24)
    assert any("3h apart" in notice.what for notice in source.findings().notices)


@pytest.mark.parametrize(("channels", "length", "step"), [(13, 13_632, 10800), (23, 40_896, 3600)])
def test_the_published_lengths_need_no_options_and_end_in_august_2021(tmp_path, channels, length, step):
    array = np.zeros((1, channels, length), np.float32)
    np.save(tmp_path / "data.npy", array)
    source = open_source(tmp_path / "data.npy", tmp_path)
    last = np.datetime64(int(source.axis.seconds[-1]), "s") + np.timedelta64(8, "h")
    assert source.axis.step == step
    assert str(last)[:10] == "2021-08-31"
    assert source.zone == "UTC+8"


def test_every_third_hour_of_the_hourly_release_can_be_taken(tmp_path):
    weather = Weather(3, 50)
    path = write_array(tmp_path / "data.npy", weather, 23)
    source = open_source(path, tmp_path, every=3, **OPTIONS)
    assert (source.axis.step, source.axis.count) == (10800, 17)
    assert np.allclose(read_all(source)["t"], weather.t[::3], atol=1e-3)
    assert np.allclose(source.read(5, 9)["t"], weather.t[15:27:3], atol=1e-3)


@pytest.mark.parametrize(
    "lines", ["50136\n50246\n50349\n", "0 50136\n1 50246\n2 50349\n", "0,50136\n1,50246\n2,50349\n"]
)
def test_station_numbers_come_from_the_list_beside_the_array(tmp_path, lines):
    (tmp_path / "idx2stat.txt").write_text(lines)
    source = open_source(write_array(tmp_path / "data.npy", Weather(3, 24), 13), tmp_path, **OPTIONS)
    assert source.network.ids.tolist() == ["50136", "50246", "50349"]


def test_a_list_for_another_array_is_refused(tmp_path):
    (tmp_path / "idx2stat.txt").write_text("50136\n50246\n")
    with pytest.raises(DataError, match="lists 2 different stations, the array has 3"):
        open_source(write_array(tmp_path / "data.npy", Weather(3, 24), 13), tmp_path, **OPTIONS)


def test_channels_that_should_be_constant_and_are_not_are_refused(tmp_path):
    path = write_array(tmp_path / "data.npy", Weather(3, 24), 13)
    array = np.load(path)
    array[1, 2, -1] += 200
    np.save(path, array)
    with pytest.raises(DataError, match="move"):
        open_source(path, tmp_path, **OPTIONS)


@pytest.mark.parametrize("shape", [(3, 14, 24), (3, 13), (0, 13, 24), (3, 13, 0)])
def test_another_shape_is_refused(tmp_path, shape):
    np.save(tmp_path / "data.npy", np.zeros(shape, np.float32))
    with pytest.raises(DataError):
        open_source(tmp_path / "data.npy", tmp_path, "weather2k", **OPTIONS)


def test_the_real_values_in_this_layout_equal_the_array_they_came_from(shared_data, tmp_path):
    path = shared_data / "weather2k_layout" / "inmet_south_2023_2024_3h.npy"
    source = open_source(path, tmp_path, start=parse_time("2023-01-01"), step=10800, zone="UTC")
    prepared = np.load(shared_data / "inmet_south" / "observations.npz")
    tables = source.read(0, 2000)
    for place, name in ((2, "p"), (3, "t"), (4, "rh")):
        there, here = prepared["obs"][:6000:3, :, place], tables[name]
        both = np.isfinite(there) & np.isfinite(here)
        assert both.mean() > 0.95
        assert np.array_equal(there[both], here[both])
