"""Find again what a run was trained on: the store beside it, or the synthetic network."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from stationpde.config import Config
from stationpde.data import load_series
from stationpde.errors import UsageError
from stationpde.runs import load_run, observations_of_run


def test_a_store_that_training_kept_is_found_beside_the_run_or_its_seeds(small_runs, tmp_path):
    (tmp_path / "data.zarr").mkdir()
    run = load_run(small_runs.first)
    for folder in (tmp_path, tmp_path / "seed-0"):
        assert observations_of_run(replace(run, path=folder)) == str(tmp_path / "data.zarr")


@pytest.mark.parametrize("quality", ["full", "gross"])
def test_a_run_of_the_synthetic_network_is_recognised_by_its_record(small_runs, tmp_path, quality):
    config = Config.preset("demo").with_overrides([f"data.quality={quality}"])
    series = load_series("demo", config.data)
    model = SimpleNamespace(config=config, statistics=SimpleNamespace(stations=series.stations))
    run = replace(load_run(small_runs.first), path=tmp_path, model=model)
    assert observations_of_run(replace(run, record={"data_fingerprint": series.fingerprint})) == "demo"
    with pytest.raises(UsageError) as refused:
        observations_of_run(replace(run, record={"data_fingerprint": "another"}), command="report")
    assert refused.value.do.startswith(f"stationpde report {tmp_path} --obs STORE")
