"""Small station datasets that the tests of `fields` share."""

from __future__ import annotations

import pytest
import xarray as xr
from conftest_stations import make_stations


@pytest.fixture
def stations() -> xr.Dataset:
    """Three days of twelve stations."""
    return make_stations()


@pytest.fixture(scope="session")
def month() -> xr.Dataset:
    """Forty days of thirty stations; not to be changed."""
    return make_stations(960, 30, seed=1)
