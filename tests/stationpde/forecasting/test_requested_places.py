"""Places given to a forecast: each has a name of its own; one that is called like a station stands where it does."""

import numpy as np
import pandas as pd
import pytest

from fields.errors import DataError
from fields.windows import Stations
from stationpde.forecasting.places import merge_stations, read_stations

NETWORK = Stations(("A", "B"), [45.0, 45.5], [5.0, 5.5], [200.0, 900.0])
TWICE = {"name": ["farm", "mill", "farm"], "lat": [45.1, 45.2, 45.1], "lon": [5.1, 5.2, 5.1], "alt": [1.0, 2.0, 3.0]}


def as_file(table, folder):
    table.to_csv(folder / "places.csv", index=False)
    return folder / "places.csv"


def as_dataset(table, folder):
    return table.rename(columns={"name": "station"}).set_index("station").to_xarray().set_coords(["lat", "lon", "alt"])


@pytest.mark.parametrize("form", [as_file, as_dataset, lambda table, folder: table], ids=["file", "dataset", "frame"])
def test_a_name_that_is_there_twice_is_refused_in_every_form(tmp_path, form):
    with pytest.raises(DataError, match="name 1 station twice: farm"):
        read_stations(form(pd.DataFrame(TWICE), tmp_path))
    assert read_stations(form(pd.DataFrame(TWICE).iloc[:2], tmp_path)).id == ("farm", "mill")


def test_a_place_called_like_a_station_has_its_altitude():
    def at(altitude):
        return merge_stations(NETWORK, NETWORK, Stations(("A",), [45.0], [5.0], [altitude]))

    with pytest.raises(DataError, match="station 'A' stands at another altitude") as caught:
        at(2500.0)
    assert caught.value.where == "2500 m requested, 200 m observed"
    for same in (230.0, np.nan):
        assert at(same).id == ("A", "B") and at(same).alt.tolist() == [200.0, 900.0]
