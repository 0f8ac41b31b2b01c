"""Small station datasets that the tests of `fields` share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import xarray as xr

from forked_writers import Zygote
from station_records import make_stations


@pytest.fixture
def stations() -> xr.Dataset:
    """Three days of twelve stations."""
    return make_stations()


@pytest.fixture(scope="session")
def month() -> xr.Dataset:
    """Forty days of thirty stations; not to be changed."""
    return make_stations(960, 30, seed=1)


@pytest.fixture(scope="session")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Start real processes that write stores."""
    zygote = Zygote(tmp_path_factory.mktemp("writers"))
    yield zygote
    zygote.close()
