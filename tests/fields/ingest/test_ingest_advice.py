"""What an ingest advises: whole commands, about what the source holds, that write where nothing is lost."""

import pytest

from fields.errors import DataError, UsageError
from fields.ingest import IngestOptions, ingest_files
from fields.readers import Command, ReadOptions
from reader_files import Weather, write_npz, write_rows

COMMAND = Command("my obs.csv", "o.zarr", (("--unit", "t=K"), ("--reader", "table")))
TYPED = "stationpde data ingest 'my obs.csv' -o o.zarr"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("--unit p=Pa", f"{TYPED} --unit t=K --reader table --unit p=Pa"),
        ("--unit t=degF   or another", f"{TYPED} --unit t=degF --reader table   or another"),
        ("--fix   merges them", f"{TYPED} --unit t=K --reader table --fix   merges them"),
        ("declare it: --unit p=hPa", f"declare it: {TYPED} --unit t=K --reader table --unit p=hPa"),
        ("--step 1h --tolerance 10min", f"{TYPED} --unit t=K --reader table --step 1h --tolerance 10min"),
        ("stationpde data ingest x -o y --fix", "stationpde data ingest x -o y --fix"),
        ("fetch the file again", "fetch the file again"),
        ("add --force to replace it", "add --force to replace it"),
        ("", ""),
    ],
)
def test_options_that_a_reader_advises_become_the_whole_command(text, whole):
    assert COMMAND.completed(text) == whole


def test_the_options_so_far_stay_in_the_advised_command(tmp_path):
    path = write_npz(tmp_path / "o.npz", Weather(4, 30))
    options = IngestOptions(read=ReadOptions(max_bytes=10, drop=("S001",)))
    with pytest.raises(DataError) as caught:
        ingest_files(path, tmp_path / "o.zarr", options)
    assert caught.value.do.startswith(f"stationpde data ingest {path} -o {tmp_path / 'o.zarr'} --max-bytes ")
    assert "--drop S001   if you trust it" in caught.value.do


def test_a_unit_of_what_the_source_does_not_hold_is_refused(tmp_path):
    path = write_rows(tmp_path / "o.csv", Weather(4, 30).rows())
    with pytest.raises(DataError, match="the unit of ff is declared, and the data have none") as caught:
        ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=ReadOptions(units={"ff": "kt"})))
    assert caught.value.code == "SPDE-D007" and "u, v, p, t, rh" in caught.value.where
    # What is called p may be reduced to the sea: its unit can be declared all the same.
    read = ReadOptions(units={"p": "hPa", "alt": "m"}, pressure="sea-level")
    assert "psl" in ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=read, trust=("psl",))).variables


def test_force_is_not_advised_for_what_it_does_not_replace(tmp_path):
    path = write_npz(tmp_path / "o.npz", Weather(4, 30))
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(UsageError, match="is not a store") as caught:
        ingest_files(path, tmp_path / "mine.txt")
    assert caught.value.do == "choose another output"


def test_a_warning_about_a_missing_pressure_can_be_typed(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "p"} for row in Weather(4, 30).rows()]
    result = ingest_files(write_rows(tmp_path / "o.csv", rows), tmp_path / "o.zarr")
    (warning,) = [problem for problem in result.report.warnings if problem.code == "SPDE-D031"]
    typed = f"stationpde data ingest {tmp_path / 'o.csv'} -o {tmp_path / 'o.zarr'} --force"
    assert warning.do == f"{typed} --missing p=standard-atmosphere   takes a reference"
