"""The map of a lifted field is drawn, also where nothing was observed."""

import numpy as np
import pytest

from fields import store
from fields.errors import UsageError
from fields.lift import FieldStore, lift_to_store
from fields.plots.field import draw_field
from station_records import make_stations


@pytest.fixture(scope="module")
def lifted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lifted")
    target = store.write_store(make_stations(3, 20), folder / "in.zarr")
    return FieldStore(lift_to_store(target, folder / "out.zarr", height=10).path)


@pytest.mark.parametrize("variable", ["t", "u", "speed"])
def test_a_map_is_drawn(lifted, variable, tmp_path):
    from matplotlib.image import imread

    path = draw_field(lifted, tmp_path / "map.png", variable=variable)
    picture = imread(path)
    assert picture.shape[0] > 500 and picture.shape[1] > 500
    middle = picture[300:-300:7, 300:-300:7, :3]
    assert middle.std() > 0.05  # colours, arrows and dots, not an empty frame


def test_a_map_without_data_is_still_drawn(tmp_path):
    ds = make_stations(4, 6)
    for name in ds.data_vars:
        ds[name][3] = np.nan
    summary = lift_to_store(store.write_store(ds, tmp_path / "in.zarr"), tmp_path / "out.zarr", height=8)
    assert draw_field(FieldStore(summary.path), tmp_path / "map.png").stat().st_size > 5000


def test_an_unknown_field_is_answered_with_those_there(lifted, tmp_path):
    with pytest.raises(UsageError, match="speed"):
        draw_field(lifted, tmp_path / "map.png", variable="snow")
