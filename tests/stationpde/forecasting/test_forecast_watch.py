"""Forecasts that are repeated when the observations change."""

from itertools import repeat
from pathlib import Path

import pytest
import xarray as xr

from fields.errors import DataError
from fields.times import parse_time
from small_network import STEP
from small_run import LAST, table
from stationpde import StationPDE
from stationpde.errors import StaleDataError
from stationpde.forecasting import watch


@pytest.fixture
def repeated(monkeypatch):
    """Return a function that runs through outcomes of forecasts: issue times, or errors."""
    monkeypatch.setattr(watch, "changes", lambda path, seconds: repeat(None))

    def run(*outcomes, count):
        notes, left = [], list(outcomes)

        def make_forecast():
            outcome = left.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return xr.Dataset(attrs={"issue_time": outcome})

        forecasts = watch.forecast_on_change(make_forecast, Path("obs"), 1.0, count=count, note=notes.append)
        return [forecast.attrs["issue_time"] for forecast in forecasts], notes, left

    return run


def test_only_a_later_issue_time_gives_a_forecast(repeated):
    issued, notes, _ = repeated("2024-01-01T00", "2024-01-01T00", "2023-12-31T00", "2024-01-01T03", count=2)
    assert issued == ["2024-01-01T00", "2024-01-01T03"]
    assert notes == ["nothing later than 2024-01-01T00; waiting"] * 2


def test_faulty_and_old_observations_are_reported_and_waited_out(repeated):
    problems = DataError("a broken file", code="SPDE-D100"), StaleDataError("too old")
    issued, notes, _ = repeated(*problems, "2024-01-01T00", count=1)
    assert issued == ["2024-01-01T00"]
    assert notes[0].startswith("SPDE-D100") and len(notes) == 2


def test_no_forecast_is_computed_beyond_the_count(repeated):
    assert repeated("2024-01-01T00", "2024-01-01T03", count=1)[2] == ["2024-01-01T03"]


def test_other_errors_end_it(repeated):
    with pytest.raises(ZeroDivisionError):
        repeated(ZeroDivisionError(), count=1)


def test_a_row_of_the_future_does_not_silence_it(small_runs, tmp_path, monkeypatch):
    first, second = (table(slice(-40, stop), tmp_path / f"{stop}.csv").read_text() for stop in (-1, None))
    lines = first.splitlines()
    cells = lines[-1].split(",")
    cells[1] = "2098-01-01T00:00:00"
    contents = ["\n".join([*lines, ",".join(cells)]) + "\n", second]
    observations = tmp_path / "obs.csv"

    def arriving(path, seconds):
        for content in contents:
            path.write_text(content)
            yield None

    monkeypatch.setattr(watch, "changes", arriving)
    model = StationPDE.load(small_runs.first)
    forecasts = watch.forecast_on_change(lambda: model.forecast(observations), observations, 1.0)
    assert [parse_time(one.attrs["issue_time"]) for one in forecasts] == [LAST - STEP, LAST]
