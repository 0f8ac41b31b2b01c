"""One report on a whole dataset: structure, stations, content; each fault is found by its own code."""

import numpy as np
import pytest
import xarray as xr

from fields.checks.schema import validate
from fields.errors import MOST_SHOWN, DataError, Problem, ProblemReport
from station_records import make_stations


def codes(ds):
    return validate(ds).codes()


def only(ds, code):
    """Return the finding with a code; the test fails if there is none."""
    return next(problem for problem in validate(ds) if problem.code == code)


def test_a_sound_dataset_passes_in_silence(stations):
    assert validate(stations).lines() == []


def test_lazy_data_are_checked_block_by_block(stations):
    stations["t"][70, 3] = np.inf
    assert "SPDE-D038" in codes(stations.chunk(time=10))


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda ds: ds.rename(station="site"), "SPDE-D030"),
        (lambda ds: ds.drop_vars("lat"), "SPDE-D008"),
        (lambda ds: ds.isel(station=slice(0, 0)), "SPDE-D025"),
        (lambda ds: ds.isel(time=slice(0, 0)), "SPDE-D025"),
        (lambda ds: ds.transpose("station", "time"), "SPDE-D030"),
        (lambda ds: ds.assign(t=ds["t"].astype(int)), "SPDE-D030"),
        (lambda ds: ds.assign(t=ds["t"].assign_attrs(units="degC")), "SPDE-D032"),
        (lambda ds: ds[["lat"]], "SPDE-D031"),
        (lambda ds: ds.assign_coords(time=np.arange(72, dtype=np.float32)), "SPDE-D010"),
        (lambda ds: ds.assign_coords(lat=ds["lat"] + 0 * ds["t"]), "SPDE-D023"),
        (lambda ds: ds.assign_coords(station=["A"] * 12), "SPDE-D033"),
        (lambda ds: ds.assign(p=ds["p"] * np.nan), "SPDE-D019"),
        (lambda ds: ds.assign(p=ds["p"] / 100), "SPDE-D012"),
        (lambda ds: ds.assign_coords(lat=ds["lat"] + 40), "SPDE-D021"),
        (lambda ds: ds.assign_coords(lon=ds["lon"] + 340), "SPDE-D014"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_an_error(stations, spoil, code):
    report = validate(spoil(stations))
    assert code in {problem.code for problem in report.errors}


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda ds: ds.isel(station=slice(0, 2)), "SPDE-D025"),
        (lambda ds: ds.isel(station=[0]), "SPDE-D025"),
        (lambda ds: ds.assign_coords(station=["a\x1b[31m", *map(str, range(11))]), "SPDE-D039"),
        (lambda ds: ds.assign(rh=ds["rh"] * 0 + 0.5), "SPDE-D026"),
        (lambda ds: ds.where(ds["station"] != "S004"), "SPDE-D020"),
        (lambda ds: ds.where(ds["time"] != ds["time"][7]), "SPDE-D028"),
        (lambda ds: ds.assign_coords(lat=ds["lat"] * 0 + 45, lon=ds["lon"] * 0 + 3), "SPDE-D024"),
        (lambda ds: ds.assign(rh=(ds["rh"] + 0.25).clip(max=1.03)), "SPDE-D029"),
        (lambda ds: ds.isel(time=[*range(30), *range(40, 72)]), "SPDE-D027"),
    ],
)  # fmt: skip
def test_what_can_be_used_is_a_warning_or_a_notice(stations, spoil, code):
    report = validate(spoil(stations))
    assert report.ok, report.lines()
    assert code in report.codes()


@pytest.mark.parametrize(
    ("name", "value", "shown"), [("t", 180.0, "-93.15"), ("p", 25000.0, "250"), ("rh", 1.2, "120")]
)
def test_the_impossible_is_counted_and_shown_in_units_that_people_read(stations, name, value, shown):
    stations[name][3, 4] = value
    problem = only(stations, "SPDE-D011")
    assert "1 values" in problem.what and problem.why.startswith(shown)


def test_a_pressure_that_is_missing_everywhere_offers_the_standard_atmosphere(stations):
    problem = only(stations.assign(p=stations["p"] * np.nan), "SPDE-D019")
    assert problem.do.endswith("--missing p=standard-atmosphere")


def test_nothing_observed_at_all_is_an_error(stations):
    assert not validate(stations.where(stations["alt"] < -1)).ok


def test_independent_problems_come_together(stations):
    spoiled = stations.assign(p=stations["p"] / 100, rh=stations["rh"] * 100)
    spoiled = spoiled.assign_coords(lon=stations["lon"] + 340, station=["A", "A", *map(str, range(10))])
    report = validate(spoiled)
    assert {"SPDE-D012", "SPDE-D014", "SPDE-D033"} <= {problem.code for problem in report.errors}
    with pytest.raises(DataError) as caught:
        report.raise_if_errors()
    assert caught.value.exit_code == 3 and len(caught.value.problems) >= 4
    assert caught.value.message.splitlines()[0] == f"{len(report.errors)} problems"


def test_a_report_shows_twenty_of_each_kind_and_counts_the_rest():
    report = ProblemReport(Problem("SPDE-D011", f"problem {i}") for i in range(33))
    assert len(report.errors) == MOST_SHOWN == 20 and report.count("error") == 33
    with pytest.raises(DataError, match="33 problems") as caught:
        report.raise_if_errors()
    assert caught.value.message.splitlines()[-1] == "and 13 more"


def test_messages_cannot_carry_escape_sequences():
    problem = Problem("SPDE-D011", "what\x1b[2J", "where\nelse", "why\r", "do\x00")
    assert all(line.isprintable() for line in problem.lines())


def test_the_real_networks_are_valid(shared_data):
    z = np.load(shared_data / "inmet_south" / "observations.npz")
    obs = z["obs"][:2000].astype(np.float32)
    values = {
        "u": obs[..., 0],
        "v": obs[..., 1],
        "p": obs[..., 2] * 100,
        "t": obs[..., 3] + 273.15,
        "rh": obs[..., 4] / 100,
    }
    ds = xr.Dataset(
        {name: (("time", "station"), x) for name, x in values.items()},
        coords={
            "time": z["time"][:2000].astype("datetime64[ns]"), "station": z["station_id"].astype(str),
            "lat": ("station", z["lat"]), "lon": ("station", z["lon"]), "alt": ("station", z["alt_m"]),
        },
    )  # fmt: skip
    assert validate(ds).lines() == []


def test_a_network_of_one_station_is_valid():
    assert validate(make_stations(48, 1)).ok
