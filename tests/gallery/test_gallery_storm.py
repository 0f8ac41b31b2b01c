"""The lifted storm: reports are kept where they are dense, missing ones do not leak, a low is a low."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def storm(gallery):
    return gallery("storm")


def test_the_lifted_low_has_its_minimum_where_it_was_put(storm):
    grid, field, share = storm.lifted(storm.made_up())
    row, column = np.unravel_index(np.argmin(field["p"]), grid.shape)
    # Stations are 60 km apart on average: two of their distances.
    assert abs(grid.lat[row] - 33.0) < 1.2
    assert abs(grid.lon[column] + 86.0) < 1.4
    assert np.isfinite(field["p"]).all()
    assert 0.3 < share.mean() < 0.7


def test_what_a_silent_barometer_would_have_read_does_not_matter(storm):
    reports = storm.made_up()
    everywhere = {**reports, "p": np.where(np.isnan(reports["p"]), 900.0, reports["p"])}
    _, field, share = storm.lifted(reports)
    wrong = storm.lifted(everywhere)[1]["p"]
    whole = share > 0.999
    assert whole.any() and not whole.all()
    # What is left of the weight, a thousandth, times how wrong the readings are.
    np.testing.assert_allclose(field["p"][whole], wrong[whole], atol=1e-3 * 120.0)
    assert field["p"].min() > 970.0 > wrong.min()


def test_the_picture_is_drawn(storm, tmp_path):
    assert storm.main(tmp_path / "storm.png").stat().st_size > 20_000
