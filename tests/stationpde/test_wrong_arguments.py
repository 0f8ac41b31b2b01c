"""Arguments of wrong types and ranges to the interface for notebooks and to stores: each ends in a typed error."""

import math

import numpy as np
import pytest
import xarray as xr

from fields import store
from fields.errors import FieldsError
from mutations import outcome
from stationpde.api import StationPDE

ODD = (
    None, True, -1, 0, 1.5, math.nan, math.inf, 10**30, "x", "", b"x", "\ud800", "a\0b", [], {}, [1, 2], (1,), object(),
    np.datetime64("NaT"), xr.Dataset(),
)  # fmt: skip
# Arguments by name, and the odd values that they take.
CALLS = {
    "load": (lambda case, odd: StationPDE.load(odd), ()),
    "load checkpoint": (lambda case, odd: StationPDE.load(case.run, checkpoint=odd), ()),
    "load backend": (lambda case, odd: StationPDE.load(case.run, backend=odd), (None,)),
    "load device": (lambda case, odd: StationPDE.load(case.run, device=odd), ()),
    "of runs": (lambda case, odd: StationPDE(odd), ()),
    "forecast": (lambda case, odd: case.model.forecast(odd), ()),
    "forecast stations": (lambda case, odd: case.model.forecast(case.obs, stations=odd), (None,)),
    "forecast horizon": (lambda case, odd: case.model.forecast(case.obs, horizon=odd), (None,)),
    "forecast age": (lambda case, odd: case.model.forecast(case.obs, max_age=odd), (None, 1.5, math.inf, 10**30, 0)),
    "forecast options": (lambda case, odd: case.model.forecast(case.obs, options=odd), (None,)),
    "field": (lambda case, odd: case.model.field(odd), ()),
    "field horizon": (lambda case, odd: case.model.field(case.obs, horizon=odd), (None,)),
    "write": (lambda case, odd: StationPDE.write(odd, case.folder / "f.nc"), ()),
    "write path": (lambda case, odd: StationPDE.write(case.dataset, odd), ()),
    "open": (lambda case, odd: store.open_store(odd), ()),
    "open verify": (lambda case, odd: store.open_store(case.obs, verify=odd), ()),
    "open chunks": (lambda case, odd: store.open_store(case.obs, chunks=odd), (None, {})),
    "verify": (lambda case, odd: store.verify_store(odd).raise_if_errors(), ()),
    "fingerprint": (lambda case, odd: store.fingerprint(odd), ()),
    "kind": (lambda case, odd: store.kind_of(odd), ()),
    "write store": (lambda case, odd: store.write_store(odd, case.folder / "s.zarr"), ()),
}


class Case:
    """A run, its model, observations, and a folder to write to."""

    def __init__(self, runs, folder) -> None:
        self.run, self.obs, self.folder = runs.first, runs.store, folder
        self.model, self.dataset = StationPDE.load(runs.first, backend="torch"), store.open_store(runs.store)


@pytest.fixture
def case(small_runs, tmp_path, monkeypatch) -> Case:
    monkeypatch.chdir(tmp_path)
    return Case(small_runs, tmp_path)


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_ends_in_a_typed_error(case, name):
    call, taken = CALLS[name]
    for odd in ODD:
        problem, _ = outcome(lambda value=odd: call(case, value), f"{name} = {odd!r}")
        is_taken = any(odd is value or (type(odd) is type(value) and odd == value) for value in taken)
        assert isinstance(problem, FieldsError) or is_taken, f"{name} = {odd!r} was taken"


@pytest.mark.parametrize("argument", ["at", "accept"])
def test_a_wrong_time_or_name_is_typed_or_taken(case, argument):
    for odd in ODD:
        outcome(lambda value=odd: case.model.forecast(case.obs, **{argument: value}), f"{argument} = {odd!r}")
