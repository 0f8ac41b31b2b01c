"""The synthetic network: the same every time, physically consistent, and it says what it is."""

import numpy as np
import pytest
import xarray as xr

from derivation_oracles import sea_level_pressure
from fields import qc, store
from fields.checks.schema import validate
from fields.errors import UsageError
from fields.qc.flags import MASKING
from fields.readers import ReadOptions, Workspace
from fields.synthetic import make_relief
from fields.synthetic import network as synthetic
from fields.synthetic.reader import READER


@pytest.fixture(scope="module")
def demo():
    return synthetic.make_network()


@pytest.fixture(scope="module")
def sound():
    return synthetic.make_network(24, 30, seed=4, faults=False)


def test_it_has_the_size_that_the_demonstration_announces(demo):
    assert dict(demo.sizes) == {"time": 90 * 24, "station": 64}
    assert demo.attrs["title"].startswith("Synthetic")
    assert validate(demo).lines() == []


def test_the_same_seed_gives_the_same_record_and_another_seed_another():
    one, two, other = (synthetic.make_network(8, 5, seed=s) for s in (1, 1, 2))
    xr.testing.assert_identical(one, two)
    assert not one["t"].equals(other["t"])


def test_stations_stand_on_the_real_relief_and_apart(demo):
    ground = make_relief()
    assert ground.name.startswith("topobathy")
    metres = ground.at(demo["lat"].values, demo["lon"].values)
    np.testing.assert_allclose(np.maximum(metres, 2.0), demo["alt"].values, atol=0.06)  # rounded to 0.1 m
    assert demo["alt"].max() > 1000 and demo["alt"].median() < 400
    places = np.stack([demo["lat"].values, demo["lon"].values * np.cos(np.deg2rad(49))])
    apart = np.hypot(*(places[:, :, None] - places[:, None]))
    assert apart[np.triu_indices(64, 1)].min() > 0.02  # degrees, two kilometres


def test_pressure_is_hydrostatic_so_that_reduced_to_the_sea_it_forgets_the_altitude(sound):
    reduced = sea_level_pressure(sound["p"], sound["t"], sound["alt"]).median("time").values
    # Half of the daily heating is left out of the column, and stations 200 km apart see other weather.
    assert np.ptp(reduced) < 300 and np.ptp(sound["p"].median("time").values) > 5000
    # Pressure itself falls by 11 Pa a metre.
    assert abs(np.polyfit(sound["alt"].values, reduced, 1)[0]) < 0.25


def test_air_saturates_and_never_beyond(sound):
    assert float(sound["rh"].min()) >= 0.02 and float(sound["rh"].max()) == pytest.approx(1.0)


def test_it_is_warmest_in_the_early_afternoon_and_more_so_inland(sound):
    hour = sound["time"].dt.hour
    cycle = sound["t"].groupby(hour).mean()
    solar = (int(np.argmax(cycle.mean("station").values)) + float(sound["lon"].mean()) / 15) % 24
    assert 12.5 <= solar <= 16.0
    assert float((cycle.max("hour") - cycle.min("hour")).std()) > 0.5


def test_neighbours_share_their_weather(sound):
    near = np.corrcoef(sound["p"].values, rowvar=False)
    assert np.median(near) > 0.9


def test_the_dead_and_the_drifting_station_are_named_and_found(demo):
    ids = list(demo["station"].values)
    dead, drifting = ids.index(demo.attrs["synthetic_dead"]), ids.index(demo.attrs["synthetic_drifting"])
    missing = demo["t"].isnull().mean("time").values
    assert missing[dead] > 0.8 and np.delete(missing, dead).max() < 0.15
    failed = (qc.check_quality(demo)["t_flag"].values & int(MASKING)) > 0
    assert failed[-240:, drifting].mean() > 0.9  # off by five kelvin and more
    assert np.delete(failed, drifting, axis=1).mean() < 0.005


def test_an_invented_relief_stands_in_where_the_real_one_is_absent(monkeypatch):
    def absent(name):
        raise FileNotFoundError(name)

    monkeypatch.setattr("matplotlib.cbook.get_sample_data", absent)
    network = synthetic.make_network(10, 3)
    assert make_relief().name == "invented relief"
    assert float(network["alt"].max()) > 100 and validate(network).ok


def test_it_is_written_as_a_store_with_flags(tmp_path):
    path = synthetic.write_network(tmp_path / "demo.zarr", stations=12, days=12)
    ds = store.open_store(path, masked=False)
    assert ds.sizes["station"] == 12 and "t_flag" in ds and ds.attrs["reader"] == "synthetic"


def test_a_recipe_is_read_like_any_source(tmp_path):
    path = tmp_path / "demo.toml"
    path.write_text("[synthetic]\nstations = 6\ndays = 3\nseed = 7\n")
    assert READER.recognises(path) == 3
    source = READER.open(path, ReadOptions(), Workspace(tmp_path))
    expected = synthetic.make_network(6, 3, seed=7)
    np.testing.assert_array_equal(source.read(10, 20)["t"], expected["t"].values[10:20])
    assert source.axis.count == 72 and len(source.network) == 6
    assert READER.open(path, ReadOptions(every=3), Workspace(tmp_path)).axis.count == 24


@pytest.mark.parametrize(
    "line", ["stations = 0", "stations = 1e9", "days = true", "colour = 3", "seed = -1", "days = '9'"]
)
def test_a_recipe_that_cannot_be_followed_is_refused(tmp_path, line):
    path = tmp_path / "demo.toml"
    path.write_text(f"[synthetic]\n{line}\n")
    with pytest.raises(UsageError, match="cannot be used"):
        READER.open(path, ReadOptions(), Workspace(tmp_path))


@pytest.mark.parametrize("content", ["", "[other]\n", "[synthetic\n", "x" * 5000, "synthetic = 3\n# [synthetic]"])
def test_other_files_are_not_taken_for_a_recipe(tmp_path, content):
    path = tmp_path / "other.toml"
    path.write_text(content)
    assert READER.recognises(path) == 0
