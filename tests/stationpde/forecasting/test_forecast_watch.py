"""Forecasts that are repeated when the observations change."""

from itertools import repeat
from pathlib import Path

import pytest
import xarray as xr

from cli._console import Globals, console
from cli.main import app
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


@pytest.fixture
def command(capfd, monkeypatch):
    """Return a function that runs a command in this process and returns exit code, stdout and stderr."""
    monkeypatch.setattr(console, "settings", Globals())

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            app([str(word) for word in words])
        return int(ended.value.code or 0), *capfd.readouterr()

    return run


def test_a_watch_keeps_a_forecast_that_was_there_unless_forced(small_runs, tmp_path, command):
    line = ["forecast", small_runs.first, "--obs", small_runs.store, "--watch", "--count", "1", "--poll", "0.01"]
    line += ["-o", tmp_path / "fc-{time}.csv"]
    assert command(*line)[0] == 0
    (written,) = tmp_path.glob("fc-*.csv")
    written.write_text("corrected by hand")
    code, _, err = command(*line)
    assert code == 0 and f"{written} exists and stays; --force replaces it" in err
    assert written.read_text() == "corrected by hand"
    assert command(*line, "--force")[0] == 0
    assert written.read_text().startswith("issue_time")


@pytest.mark.parametrize("option", [["--dem", "x.nc"], ["--against", "persistence"], ["--windows", "3"]])
def test_a_report_without_observations_refuses_what_would_not_count(small_runs, tmp_path, command, option):
    page = tmp_path / "page.html"
    code, _, err = command("report", small_runs.first, "-o", page, *option)
    assert code == 2 and "SPDE-B004" in err and f"{option[0]} would not count" in err and not page.exists()
    assert command("report", small_runs.first, "-o", page)[0] == 0
