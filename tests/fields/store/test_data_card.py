"""The data card counts right."""

import json

import numpy as np
import pytest

from fields import store
from fields.qc.flags import Flag
from fields.store.card import data_card
from fields.variables import cf_attributes, to_display
from station_records import make_stations


@pytest.fixture
def spoiled(stations):
    stations["t"][:36, 3] = np.nan
    flags = np.zeros(stations["t"].shape, np.uint8)
    flags[50, 5], flags[51, 5], flags[52, 5] = Flag.STEP, Flag.STEP | Flag.BUDDY, Flag.DOUBTFUL
    stations["t_flag"] = (("time", "station"), flags)
    return stations


def test_the_card_counts_what_is_missing_and_what_failed(spoiled):
    card = data_card(spoiled)
    t = next(v for v in card.variables if v.name == "t")
    assert t.missing == pytest.approx(36 / 864) and t.flagged == pytest.approx(2 / 864)
    assert t.flags["step"] == 2 and t.flags["buddy"] == 1 and t.flags["doubtful"] == 1
    assert (card.stations, card.times, card.step_seconds) == (12, 72, 3600)
    assert card.worst_stations[0] == ("S003", pytest.approx(0.1))  # half of one variable in five
    assert card.complete_stations == 11


@pytest.mark.parametrize("name", ["u", "p", "t", "rh"])
def test_percentiles_are_those_of_the_values_in_the_units_that_people_read(stations, name):
    card = next(v for v in data_card(stations).variables if v.name == name)
    values = to_display(name, stations[name].values.astype(float))
    low, high = float(values.min()), float(values.max())
    assert card.low == pytest.approx(low, abs=1e-3) and card.high == pytest.approx(high, abs=1e-3)
    for shown, share in ((card.p01, 1), (card.median, 50), (card.p99, 99)):
        assert shown == pytest.approx(np.percentile(values, share, method="inverted_cdf"), abs=1e-3)


@pytest.mark.parametrize("wet", [0.005, 0.02, 0.3, 0.6])
def test_percentiles_of_rain_are_nothing_where_most_hours_have_none(stations, wet):
    rng = np.random.default_rng(0)
    shape = stations["t"].shape
    rain = np.where(rng.random(shape) < wet, rng.gamma(0.5, 0.4, shape), 0.0).astype(np.float32)
    stations["precip"] = (("time", "station"), rain, cf_attributes("precip"))
    flags = np.zeros(shape, np.uint8)
    flags[:5] = Flag.STEP  # what failed is not counted
    stations["precip_flag"] = (("time", "station"), flags)
    card = next(v for v in data_card(stations.chunk(time=7)).variables if v.name == "precip")
    expected = np.percentile(rain[5:], [1, 50, 99], method="inverted_cdf")
    assert (card.p01, card.median, card.p99) == pytest.approx(tuple(expected.astype(float)), rel=1e-6, abs=0)


@pytest.mark.parametrize(("name", "mass"), [("rh", 1.0), ("u", 0.0), ("p", 100_000.0)])
def test_percentiles_hit_a_value_that_repeats_itself(stations, name, mass):
    values = stations[name].values
    values[10:60] = mass
    card = next(v for v in data_card(stations).variables if v.name == name)
    expected = np.percentile(values, [1, 50, 99], method="inverted_cdf")
    shown = (card.p01, card.median, card.p99)
    assert shown == pytest.approx([float(to_display(name, x)) for x in expected], rel=1e-7)
    assert card.median == float(to_display(name, np.float32(mass)))


def test_the_card_of_a_store_names_its_size_and_fingerprint(tmp_path, spoiled):
    path = store.write_store(spoiled, tmp_path / "x.zarr")
    card = data_card(store.open_store(path, masked=False), path=path)
    assert card.fingerprint == store.fingerprint(path) and card.bytes_on_disk > 10_000
    assert json.loads(json.dumps(card.to_dict()))["stations"] == 12
    text = "\n".join(card.lines())
    assert "t: step 2, buddy 1, doubtful 1" in text and "every 1 h" in text


def test_the_card_reads_lazily_and_gives_the_same(spoiled):
    assert data_card(spoiled.chunk(time=7)) == data_card(spoiled)


def test_a_card_of_odd_records_is_still_a_card():
    one = make_stations(3, 1)
    one["p"][:] = np.nan
    one = one.assign_coords(station=["x\x1b[2J"])
    assert all(line.isprintable() for line in data_card(one).lines())
    assert "NaN" not in json.dumps(data_card(one).to_dict())
    across = make_stations(5, 4).assign_coords(lon=("station", [179.0, -179.5, 178.0, -178.0]))
    assert data_card(across).longitude == (178.0, 182.0)


def test_the_card_of_one_station_with_rain_has_no_empty_figures(spoiled):
    ds = spoiled.isel(station=[0]).assign(precip=spoiled["t"].isel(station=[0]) * 0)
    lines = "\n".join(data_card(ds).lines())
    assert "nan" not in lines and "apart" not in lines
    assert "precip mm" in lines


def test_stations_without_an_altitude_do_not_hide_that_of_the_others(spoiled):
    heights = spoiled["alt"].values.astype(float)
    heights[0] = np.nan
    rest = heights[1:]
    card = data_card(spoiled.assign_coords(alt=("station", heights)))
    assert card.altitude == (rest.min(), np.median(rest), rest.max())
    nowhere = data_card(spoiled.assign_coords(alt=("station", heights * np.nan)))
    assert "altitude   unknown" in "\n".join(nowhere.lines())
