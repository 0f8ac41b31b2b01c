"""A report opens observations as every other command does, and says which values count."""

import pytest

from fields import store
from fields.errors import UsageError
from reported_run import reported_run, reported_view
from stationpde.report.page import page
from stationpde.report.view import open_data
from stationpde.runs import load_run


def test_the_table_of_errors_says_which_values_count():
    assert "Values: all quality tests." in page(reported_view())


def test_a_dataset_in_memory_gives_the_record_of_its_store():
    run, data = reported_run()
    loaded = load_run(run)
    by_path, by_value = open_data(loaded, data), open_data(loaded, store.open_store(data, masked=False))
    assert by_path is not None and by_value is not None
    assert by_path.series.fingerprint == by_value.series.fingerprint == loaded.record["data_fingerprint"]
    assert by_path.card is not None and by_value.card is None and by_path.path == str(data)


def test_the_synthetic_network_is_taken_by_its_name():
    run, _ = reported_run()
    opened = open_data(load_run(run), "demo")
    assert opened is not None and opened.is_synthetic and len(opened.series.stations) > 50


def test_a_run_without_observations_beside_it_is_reported_without_any():
    run, _ = reported_run()
    assert open_data(load_run(run)) is None
    with pytest.raises(UsageError) as refused:
        open_data(load_run(run), "nowhere.zarr")
    assert refused.value.code == "SPDE-D156"
