from __future__ import annotations

import numpy as np
import pytest

from fields.errors import DataError, UsageError
from fields.stand_ins import STAND_INS, checked_stand_ins, lacking, reference_variables, with_stand_ins
from fields.synthetic import make_network
from fields.windows import StationSeries

ALL = ("u", "v", "p", "t", "rh")


@pytest.fixture(scope="module")
def network():
    return make_network(stations=5, days=3, seed=0)


@pytest.mark.parametrize(
    ("observed", "absent"),
    [
        (ALL, ()),
        (("p", "t", "rh"), ("u", "v")),
        (("u", "v", "t", "rh"), ("p",)),
        (("t",), ("u", "v", "p", "rh")),
        (("u", "p", "t", "rh"), ("u", "v")),
        (("p",), ("u", "v", "t", "rh")),
    ],
)
def test_what_is_not_observed_needs_a_stand_in_and_half_a_wind_is_none(observed, absent):
    assert lacking(observed) == absent


def test_humidity_without_temperature_is_refused_with_the_reason():
    with pytest.raises(DataError, match="humidity without temperature") as caught:
        lacking(("u", "v", "p", "rh"), "obs.csv")
    assert caught.value.code == "SPDE-D159" and "obs.csv" in caught.value.where


@pytest.mark.parametrize("observed", [(), ("u",), ("v",)])
def test_nothing_at_all_is_refused(observed):
    with pytest.raises(DataError) as caught:
        lacking(observed)
    assert caught.value.code == "SPDE-D031"


def test_stand_ins_are_calm_dry_air_of_the_standard_atmosphere(network):
    ds = with_stand_ins(network, ALL)
    assert reference_variables(ds) == ALL
    assert not ds["u"].values.any() and not ds["rh"].values.any()
    expected = 288.15 - 0.0065 * ds["alt"].values
    np.testing.assert_allclose(ds["t"].values, np.broadcast_to(expected, ds["t"].shape), rtol=1e-6)
    assert "t_flag" not in ds and ds["t"].dims == ("time", "station")


def test_the_wind_goes_as_a_whole_and_another_stand_in_is_refused():
    assert checked_stand_ins({"u": "calm"}) == {"u", "v"}
    with pytest.raises(UsageError, match="no substitute 'dry' for t"):
        checked_stand_ins({"t": "dry"})
    assert checked_stand_ins(STAND_INS) == set(ALL)


@pytest.mark.parametrize("there", [("t",), ("u", "v"), ("p", "t", "rh")])
def test_a_record_of_some_variables_is_completed_and_says_which_are_no_observations(network, there):
    bare = network[[name for name in network.data_vars if str(name).split("_")[0] in there]]
    series = StationSeries.from_dataset(bare, complete=True)
    assert set(series.reference) == set(ALL) - set(there)
    assert np.isfinite(series.values[..., [ALL.index(name) for name in series.reference]]).all()
    whole = StationSeries.from_dataset(network)
    kept = [ALL.index(name) for name in there]
    np.testing.assert_array_equal(series.values[..., kept], whole.values[..., kept])


def test_a_variable_that_is_there_and_never_observed_counts_as_absent(network):
    silent = network.assign(rh=network["rh"] * np.nan)
    assert StationSeries.from_dataset(silent, complete=True).reference == ("rh",)
    with pytest.raises(DataError, match="rh is missing everywhere"):
        StationSeries.from_dataset(silent)


def test_completing_a_whole_record_changes_nothing(network):
    whole, completed = (StationSeries.from_dataset(network, complete=complete) for complete in (False, True))
    assert completed.fingerprint == whole.fingerprint
