"""Three lifts of a storm: all are whole, the network knows the low, and the picture is drawn."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def guided(gallery):
    return gallery("guided")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_network_knows_where_the_low_is(guided, monkeypatch, tmp_path):
    monkeypatch.setattr(guided.storm, "REPORTS", tmp_path / "absent.npz")
    grid, maps = guided.lifted(guided.observed(), rows=16, steps=400)
    assert list(maps) == ["detrended", "pinn", "pinn, no Coriolis"]
    row, column = np.unravel_index(np.argmin(maps["pinn"]["p"]), grid.shape)
    assert abs(grid.lat[row] - 33.0) < 4.0 and abs(grid.lon[column] + 86.0) < 5.0
    assert all(np.isfinite(array).all() for field in maps.values() for array in field.values())


def test_the_three_lifts_are_drawn(guided, tmp_path, monkeypatch):
    monkeypatch.setattr(guided.storm, "REPORTS", tmp_path / "absent.npz")
    assert guided.main(tmp_path / "guided.png", steps=2, rows=10).stat().st_size > 10_000
