"""Load a record by its name: raw files once into a store, advice for absent data, and the published benchmark."""

import json
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest
import torch

from fields import store
from fields.derive import standard_pressure
from fields.errors import DataError, ProblemReport, UsageError
from fields.ingest.pipeline import IngestOptions
from fields.readers import ReadOptions
from fields.readers.download_guide import download_guide
from fields.synthetic import network as synthetic
from fields.times import parse_time
from fields.windows import Climatology, StationSeries, WindowDataset, Windows, WindowSpec, fill_history
from stationpde.data.datasets import load_series
from weather2k_array import write_weather2k

FROM_2023 = IngestOptions(read=ReadOptions(start=parse_time("2023-01-01"), zone="UTC"), quality=False)


@dataclass(frozen=True)
class Settings:
    """The part of a configuration that is read here."""

    step_seconds: int = 3 * 3600
    split: tuple[float, float, float] = (0.6, 0.1, 0.3)
    max_missing: float = 0.9
    missing: dict[str, str] = field(default_factory=dict)
    quality: Literal["full", "gross"] = "full"
    extra: tuple[str, ...] = ()


HOURLY = Settings(3600)
METEONET = Settings(3600, missing={"p": "standard-atmosphere"})


# ---- data that are not there ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weather2k", "meteonet"])
@pytest.mark.parametrize("path", [None, "nowhere.npy"])
def test_absent_data_exit_3_with_the_text_of_where(name, path):
    with pytest.raises(DataError) as caught:
        load_series(name, Settings(), path)
    assert caught.value.exit_code == 3
    assert download_guide(name) in caught.value.message
    assert caught.value.do == f"stationpde train {name} --obs PATH"


def test_a_name_that_is_nearly_right_is_suggested():
    with pytest.raises(UsageError) as caught:
        load_series("wether2k", Settings())
    assert "weather2k" in caught.value.do


# ---- raw files --------------------------------------------------------------------------------------------------


def test_an_array_of_unknown_length_exits_3_and_prints_the_command(tmp_path):
    path = write_weather2k(tmp_path / "some data.npy")
    with pytest.raises(DataError) as caught:
        load_series("weather2k", Settings(), path)
    assert caught.value.exit_code == 3
    typed = f"stationpde train weather2k --obs '{path}' --start 2023-01-01 --time-zone UTC"
    assert caught.value.do.startswith(typed)


@pytest.mark.parametrize("channels", [13, 23])
def test_the_start_alone_is_enough_as_the_release_gives_the_step(tmp_path, channels):
    path = write_weather2k(tmp_path / "data.npy", channels)
    series = load_series("weather2k", Settings(), path, options=FROM_2023)
    assert series.step_seconds == 3 * 3600 and series.values.shape == (80, 6, 5)
    assert series.time[0] == parse_time("2023-01-01")
    assert np.isfinite(series.values).all()


def test_raw_files_are_read_once_and_again_when_they_or_the_options_change(tmp_path):
    path, cache = write_weather2k(tmp_path / "data.npy"), tmp_path / "run"
    events: list = []
    first = load_series("weather2k", Settings(), path, options=FROM_2023, cache=cache, watcher=events.append)
    assert {event.stage for event in events} == {"check", "write"} and store.is_store(cache / "data.zarr")
    events.clear()
    second = load_series("weather2k", Settings(), path, options=FROM_2023, cache=cache, watcher=events.append)
    assert events == [] and second.fingerprint == first.fingerprint
    later = IngestOptions(read=ReadOptions(start=parse_time("2024-01-01"), zone="UTC"), quality=False)
    report = ProblemReport()
    third = load_series("weather2k", Settings(), path, options=later, cache=cache, report=report)
    assert third.time[0] == parse_time("2024-01-01") and "SPDE-D157" in report.codes()
    write_weather2k(path, days=12)
    fourth = load_series("weather2k", Settings(), path, options=later, cache=cache)
    assert len(fourth) == 96
    assert json.loads((cache / "data.origin.json").read_text())["fingerprint"] == store.fingerprint(cache / "data.zarr")


def test_a_store_is_taken_as_it_is_by_path_or_by_name(tmp_path):
    synthetic.write_network(tmp_path / "x.zarr", stations=5, days=6)
    by_path = load_series(str(tmp_path / "x.zarr"), Settings())
    by_name = load_series("weather2k", Settings(), tmp_path / "x.zarr")
    assert by_path.fingerprint == by_name.fingerprint and len(by_path) == 48


def test_pressure_gets_its_stand_in_from_the_settings_even_where_a_store_has_it(tmp_path):
    synthetic.write_network(tmp_path / "x.zarr", stations=4, days=6)
    series = load_series(str(tmp_path / "x.zarr"), METEONET)
    assert series.reference == ("p",)
    np.testing.assert_allclose(series.values[0, :, 2], standard_pressure(series.stations.alt), rtol=1e-6)


def test_stations_with_too_many_gaps_in_training_are_left_out(tmp_path):
    ds = synthetic.make_network(5, 6, faults=False)
    ds["t"][:100, 2] = np.nan  # of 86 training hours: all
    ds["t"][100:, 3] = np.nan  # only later
    store.write_store(ds, tmp_path / "x.zarr")
    report = ProblemReport()
    series = load_series(str(tmp_path / "x.zarr"), HOURLY, report=report)
    assert "SY002" not in series.stations.id and len(series.stations) == 4 and "SPDE-D041" in report.codes()


def test_the_demonstration_needs_no_data():
    series = load_series("demo", HOURLY)
    assert series.values.shape == (2160, 64, 5)
    assert Windows.of(series, WindowSpec(24, 12)).counts() == {"train": 1261, "val": 181, "test": 613}


# ---- real data --------------------------------------------------------------------------------------------------


def test_the_real_array_in_the_layout_of_weather2k_makes_the_windows_of_the_benchmark(shared_data):
    path = shared_data / "weather2k_layout" / "inmet_south_2023_2024_3h.npy"
    series = load_series("weather2k", Settings(), path, options=FROM_2023)
    assert series.values.shape == (5848, 103, 5)
    assert Windows.of(series, WindowSpec(16, 8)).counts() == {"train": 3485, "val": 562, "test": 1732}
    # Stations report 2 to 3 % less than everything.
    assert 0.005 < np.isnan(series.values).mean() < 0.05


def test_real_stations_in_the_layout_of_meteonet_make_windows_without_pressure(shared_data):
    series = load_series("meteonet", METEONET, shared_data / "meteonet_layout")
    assert series.reference == ("p",) and series.scored == (True, True, False, True, True)
    assert np.isfinite(series.values[:, :, 2]).all() and len(series.stations) >= 25
    counts = Windows.of(series, WindowSpec(24, 24)).counts()
    assert min(counts.values()) >= 1


@pytest.fixture(scope="module")
def inmet(shared_data) -> StationSeries:
    # The published figures are of the record as it is, without quality control.
    options = IngestOptions(quality=False)
    return load_series(str(shared_data / "inmet_south" / "observations.npz"), Settings(), options=options)


def test_rows_of_the_published_benchmark_are_reproduced(inmet):
    spec = WindowSpec(16, 8)
    windows = Windows.of(inmet, spec)
    assert windows.counts() == {"train": 3485, "val": 562, "test": 1732}
    hourly = Climatology.of(inmet, windows.split)
    monthly = Climatology.of(inmet, windows.split, by_month=True)
    back, ahead = 10_800 * np.arange(-15, 1), 10_800 * np.arange(1, 9)
    error, count = np.zeros((3, 5)), np.zeros(5)
    data = WindowDataset(inmet, windows.test, spec)
    for first in range(0, len(data), 64):
        batch = data.__getitems__(range(first, min(first + 64, len(data))))
        future, issued = batch.future.numpy(), batch.issue_time.numpy()
        filled = fill_history(batch.history, torch.from_numpy(hourly.at(issued[:, None] + back))).numpy()
        there = np.isfinite(future)
        count += there.sum(axis=(0, 1, 2))
        for row, forecast in enumerate((filled[:, -1:], filled[:, -8:], monthly.at(issued[:, None] + ahead))):
            square = (forecast - future).astype(np.float64) ** 2
            error[row] += np.where(there, square, 0.0).sum(axis=(0, 1, 2))
    mse = error / count * np.array([1, 1, 1e-4, 1, 1e4])  # m²/s², hPa², K², %²
    published = [
        [3.368, 3.578, 5.579, 33.07, 479.3],  # persistence
        [3.376, 3.724, 7.637, 10.27, 202.1],  # the same hour yesterday
        [2.545, 2.652, 11.23, 15.15, 250.3],  # station × hour × month
    ]
    # The first two have no freedom and agree to the digits printed; a climatology may treat small months otherwise.
    np.testing.assert_allclose(mse[:2], published[:2], rtol=5e-4)
    np.testing.assert_allclose(mse[2], published[2], rtol=0.02)
