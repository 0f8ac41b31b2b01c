"""Forecasts that are repeated when the observations change."""

from itertools import repeat
from pathlib import Path

import pytest
import xarray as xr

from fields.errors import DataError
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
