"""Options of a table that would not count, and a heading that comes twice: told, with what to do."""

import pytest

from fields.errors import DataError, UsageError
from fields.ingest import IngestOptions, ingest_files
from fields.readers import ReadOptions

TABLE = "id,lat,lon,alt,time,t\nA,44,5,100,2024-01-13 00:00,5\nB,44.5,5.5,200,2024-01-13 00:00,4\n"


@pytest.mark.parametrize("odd", [{"step": 0}, {"step": -3600}, {"step": 1.5}, {"every": 0}])
def test_a_step_of_nothing_is_refused(odd):
    with pytest.raises(UsageError, match="must be larger than 0"):
        ReadOptions(**odd)


def test_a_start_beside_times_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(UsageError, match="--start would not count"):
        ingest_files(tmp_path / "t.csv", tmp_path / "o.zarr", IngestOptions(read=ReadOptions(start=1_600_000_000)))
    assert not (tmp_path / "o.zarr").exists()


def test_a_heading_that_comes_twice_is_to_be_removed(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE + TABLE)
    with pytest.raises(DataError) as refused:
        ingest_files(tmp_path / "t.csv", tmp_path / "o.zarr", IngestOptions(read=ReadOptions(units={"t": "degC"})))
    assert "remove the repeated heading" in refused.value.do and "line 4" in refused.value.do
