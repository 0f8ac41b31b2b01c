"""npz archives: units by the names of variables, times in any order and form, duplicate stations."""

import numpy as np
import pytest

from fields.errors import DataError
from reader_files import Weather, open_source, read_all, write_npz


@pytest.fixture
def weather() -> Weather:
    return Weather(6, 48)


def test_an_archive_is_read_with_the_units_its_names_stand_for(tmp_path, weather):
    source = open_source(write_npz(tmp_path / "o.npz", weather), tmp_path)
    assert source.reader == "arrays"
    assert np.allclose(read_all(source)["p"], weather.p, atol=1e-3)
    assert {k: source.units[k] for k in ("u", "p", "t", "rh")} == {"u": "m/s", "p": "hPa", "t": "degC", "rh": "%"}


@pytest.mark.parametrize(
    "time",
    [
        lambda t: t.astype("datetime64[ns]"),
        lambda t: t.astype("datetime64[m]"),
        lambda t: t.astype(np.int64),
        lambda t: t.astype(np.int64).astype(np.float64),
        lambda t: t.astype(str),
        lambda t: t.astype("S19"),
    ],
)
def test_times_are_read_in_every_exact_form(tmp_path, weather, time):
    source = open_source(write_npz(tmp_path / "o.npz", weather, time=time(weather.time)), tmp_path)
    assert source.axis.start == int(weather.time[0].astype(np.int64))
    assert source.axis.step == 3600


@pytest.mark.parametrize(
    "time",
    [
        lambda t: t.astype(np.int64).astype(np.float32),
        lambda t: t.astype(np.int64) * 1000,
        lambda t: t.astype(np.int64).astype(np.float64) * np.nan,
        lambda t: t.astype("datetime64[D]") + np.timedelta64(300 * 365, "D"),
        lambda t: np.where(np.arange(t.size) == 3, np.datetime64("NaT"), t),
        lambda t: t[:, None],
        lambda t: np.array(["soon"] * t.size),
    ],
    ids=["float32", "milliseconds", "nan", "year 2321", "NaT", "two axes", "text"],
)
def test_times_that_cannot_be_exact_or_real_are_refused(tmp_path, weather, time):
    with pytest.raises((DataError, Exception)) as caught:
        open_source(write_npz(tmp_path / "o.npz", weather, time=time(weather.time)), tmp_path)
    assert getattr(caught.value, "code", "").startswith("SPDE-D")


def test_unsorted_times_are_sorted_with_a_notice(tmp_path, weather):
    order = np.random.default_rng(0).permutation(48)
    obs = np.load(write_npz(tmp_path / "o.npz", weather))["obs"]
    path = write_npz(tmp_path / "o.npz", weather, time=weather.time[order], obs=obs[order])
    source = open_source(path, tmp_path)
    assert np.allclose(read_all(source)["t"], weather.t, atol=1e-3)
    assert "SPDE-D035" in source.findings().codes()


def test_times_that_are_absent_are_missing_values(tmp_path, weather):
    keep = np.delete(np.arange(48), [5, 6, 30])
    obs = np.load(write_npz(tmp_path / "o.npz", weather))["obs"]
    source = open_source(write_npz(tmp_path / "o.npz", weather, time=weather.time[keep], obs=obs[keep]), tmp_path)
    temperature = read_all(source)["t"]
    assert source.axis.count == 48
    assert np.flatnonzero(np.isnan(temperature).all(axis=1)).tolist() == [5, 6, 30]
    assert np.array_equal(source.read(4, 8)["t"], temperature[4:8], equal_nan=True)


def twice(tmp_path, weather, shift):
    obs = np.load(write_npz(tmp_path / "o.npz", weather))["obs"]
    extra = obs[:1].copy()
    extra[..., 3] += shift
    times = np.concatenate([weather.time, weather.time[:1]])
    return write_npz(tmp_path / "o.npz", weather, time=times, obs=np.concatenate([obs, extra]))


def test_a_time_that_is_there_twice_with_equal_values_is_merged(tmp_path, weather):
    assert np.allclose(read_all(open_source(twice(tmp_path, weather, 0.0), tmp_path))["t"], weather.t, atol=1e-3)


def test_a_time_that_is_there_twice_with_other_values_is_refused_or_settled(tmp_path, weather):
    path = twice(tmp_path, weather, 2.0)
    with pytest.raises(DataError, match="twice"):
        read_all(open_source(path, tmp_path))
    settled = read_all(open_source(path, tmp_path, on_duplicate="mean"))["t"]
    assert np.allclose(settled[0], weather.t[0] + 1, atol=1e-3)
    assert np.allclose(settled[1:], weather.t[1:], atol=1e-3)


def test_duplicate_station_ids_are_listed_and_merged_only_if_they_agree(tmp_path, weather):
    weather.ids[3] = weather.ids[1]
    path = write_npz(tmp_path / "o.npz", weather)
    with pytest.raises(DataError, match="occur more than once") as caught:
        open_source(path, tmp_path)
    assert "S001" in caught.value.where
    assert "--fix" in caught.value.do
    with pytest.raises(DataError, match="different places"):
        open_source(path, tmp_path, fix=True)


def test_identical_duplicates_are_merged_with_fix(tmp_path, weather):
    weather.ids[3] = weather.ids[1]
    for name in ("lat", "lon", "alt"):
        getattr(weather, name)[3] = getattr(weather, name)[1]
    for name in ("u", "v", "p", "t", "rh"):
        getattr(weather, name)[:, 3] = np.where(np.arange(48) < 9, np.nan, getattr(weather, name)[:, 1])
    source = open_source(write_npz(tmp_path / "o.npz", weather), tmp_path, fix=True)
    assert source.network.ids.tolist() == ["S000", "S001", "S002", "S004", "S005"]
    assert np.allclose(read_all(source)["t"], weather.t[:, [0, 1, 2, 4, 5]], atol=1e-3)
    weather.t[20, 3] += 1
    source = open_source(write_npz(tmp_path / "p.npz", weather), tmp_path, fix=True)
    with pytest.raises(DataError, match="different values"):
        read_all(source)


def test_a_missing_part_is_named(tmp_path, weather):
    np.savez(tmp_path / "o.npz", obs=np.zeros((2, 2, 2)), lat=weather.lat)
    with pytest.raises(DataError, match="has no variables, time, station_id, lon, alt_m"):
        open_source(tmp_path / "o.npz", tmp_path)


@pytest.mark.parametrize("change", [{"lat": np.zeros(3)}, {"obs": np.zeros((48, 6))}, {"obs": np.zeros((48, 5, 5))},
                                    {"variables": np.array(["a", "b", "c", "d", "e"])},
                                    {"station_id": np.zeros((6, 2))}])  # fmt: skip
def test_parts_that_do_not_fit_together_are_refused(tmp_path, weather, change):
    with pytest.raises(DataError) as caught:
        open_source(write_npz(tmp_path / "o.npz", weather, **change), tmp_path)
    assert caught.value.code == "SPDE-D144"


def test_what_is_larger_than_allowed_is_refused_before_it_is_inflated(tmp_path, weather):
    path = write_npz(tmp_path / "o.npz", weather)
    with pytest.raises(DataError, match="at most 1,000 are loaded") as caught:
        open_source(path, tmp_path, max_bytes=1000)
    assert "--max-bytes" in caught.value.do


@pytest.mark.parametrize(("folder", "shape"), [("inmet_south", (17544, 103)), ("metar_1993", (11, 1080))])
def test_the_real_archives_are_read_whole(shared_data, tmp_path, folder, shape):
    path = shared_data / folder / "observations.npz"
    source = open_source(path, tmp_path)
    prepared = np.load(path)["obs"]
    assert (source.axis.count, len(source.network)) == shape
    part = slice(5, min(4000, shape[0]))
    tables = source.read(part.start, part.stop)
    for place, name in enumerate(("u", "v", "p", "t", "rh")):
        assert np.array_equal(tables[name], prepared[part, :, place], equal_nan=True)


@pytest.mark.parametrize("time", [np.arange(48), np.arange(48) * 3600.0])
def test_numbers_that_are_hardly_seconds_since_1970_are_refused(tmp_path, time):
    weather = Weather(6, 48)
    with pytest.raises(DataError, match="hardly seconds since 1970"):
        open_source(write_npz(tmp_path / "obs.npz", weather, time=time), tmp_path)


def test_a_variable_that_is_there_twice_is_refused(tmp_path):
    path = write_npz(tmp_path / "obs.npz", Weather(6, 48), variables=np.array(["u", "v", "p", "t", "t"]))
    with pytest.raises(DataError, match="t is there more than once"):
        open_source(path, tmp_path)
