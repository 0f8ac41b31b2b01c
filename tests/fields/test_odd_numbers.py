"""Numbers of no use to lifts, records, windows, places and networks: a typed error that names them, and no result."""

import math

import numpy as np
import pytest

from fields.errors import FieldsError
from fields.grid import GridSpec
from fields.ingest import IngestOptions
from fields.lift import LiftSettings, StationLift, altitude_weight, cross_validate, lift_to_store
from fields.places import Places
from fields.synthetic import make_network
from fields.windows import StationSeries, WindowSpec

NETWORK = make_network(stations=6, days=2, seed=0)
PLACES = Places(("a", "b", "c"), [44.0, 44.5, 45.0], [5.0, 6.0, 7.0], [100.0, 400.0, 900.0])


def place(lon: float, alt: float) -> Places:
    return Places(("x",), [44.2], [lon], [alt])


def of_type(dtype: str):
    """Return the network with temperatures of another type."""
    return NETWORK.assign(t=NETWORK["t"].astype(dtype))


SITES = {"lat": PLACES.lat, "lon": PLACES.lon}
CALLS = [
    *((LiftSettings, {"power": value}) for value in (math.nan, math.inf, "1", None, 0)),
    *((LiftSettings, {"k": value}) for value in (1.5, True, "3", math.nan, 0)),
    *((LiftSettings, {"w_alt": value}) for value in ("5 km/m", math.nan, -1.0)),
    (LiftSettings, {"method": 5}),
    *((altitude_weight, {"text": value}) for value in (math.nan, -1.0, None, True, "5")),
    *((cross_validate, {"ds": NETWORK, "moments": value}) for value in (0, -1, 1.5, "7")),
    *((cross_validate, {"ds": NETWORK, "block_km": value}) for value in (-1.0, math.nan, "9")),
    *((make_network, {"stations": value}) for value in (0, -1, 1.5, "x", 10**9)),
    *((make_network, {"stations": 3, "days": value}) for value in (0, -1, 1.5, 10**9)),
    *((make_network, {"stations": 3, "days": 1, "seed": value}) for value in (-1, 1.5, None, True, "0")),
    *((make_network, {"stations": 3, "days": 1, "start": value}) for value in ("soon", None, "2023-13-01")),
    *((GridSpec.around, {**SITES, "height": value}) for value in (math.nan, 2.5, "8", None, True)),
    *((GridSpec.around, {**SITES, "width": value}) for value in ("metre", 7.5, None)),
    *((StationSeries.from_dataset, {"ds": of_type(kind)}) for kind in ("complex64", "timedelta64[s]", "U8", "O")),
    *((cross_validate, {"ds": of_type(kind), "moments": 1}) for kind in ("complex64", "timedelta64[s]", "bool")),
    *((StationSeries.from_dataset, {"ds": NETWORK, "step": value}) for value in (-3600, "3h", 0, 1.5, True)),
    *((WindowSpec, {"history": a, "horizon": b}) for a, b in ((1.5, 2), ("1", 2), (1, True), (2, math.nan))),
    (Places, {"id": ("a",), "lat": ["north"], "lon": [1.0], "alt": [0.0]}),
    *((StationLift.between, {"stations": PLACES, "targets": target}) for target in (place(540, 0), place(6, 99999))),
    (StationLift.between, {"stations": place(540.0, 0.0), "targets": PLACES}),
    (StationLift.between, {"stations": place(6.0, 99999.0), "targets": PLACES}),
    *((lift_to_store, {"source": "x", "target": "y", "workers": value}) for value in (-1, 1.5, 100_000, "4", True)),
    *((IngestOptions, {"trust": value}) for value in (("zz",), "zz", (3,))),
    *((IngestOptions, {"max_missing": value}) for value in (2, math.nan, -0.1, "1")),
    *((IngestOptions, {"training": value}) for value in (2, math.nan)),
]


@pytest.mark.parametrize(("call", "odd"), CALLS, ids=lambda value: getattr(value, "__qualname__", None))
def test_it_is_refused_by_name(call, odd):
    with pytest.raises(FieldsError) as refused:
        call(**odd)
    assert refused.value.code.startswith("SPDE-D") and refused.value.do


def test_one_name_is_no_list_of_letters():
    assert IngestOptions(trust="ff").trust == ("ff",)


@pytest.mark.parametrize("method", ["idw", "terrain_idw", "detrended"])
def test_an_infinite_value_is_missing_and_leaves_the_other_cells_alone(method):
    lift = StationLift.between(PLACES, PLACES, LiftSettings(method))
    values = {"t": np.array([[285.0, 282.0, 279.0], [286.0, 283.0, 280.0]])}
    lost = {"t": np.where([[False, True, False]] * 2, np.nan, values["t"])}
    infinite = {"t": np.where([[False, True, False]] * 2, np.inf, values["t"])}
    before, expected, after = values["t"].copy(), lift(lost), lift(infinite)
    np.testing.assert_array_equal(after.values["t"], expected.values["t"])
    np.testing.assert_array_equal(after.coverage["t"], expected.coverage["t"])
    assert np.isfinite(after.values["t"]).all() and np.isinf(infinite["t"]).any()
    np.testing.assert_array_equal(values["t"], before)
