"""Pictures of distributions: diagrams of calibration, maps of spread and of the chance of a threshold."""

from dataclasses import replace

import numpy as np
import pytest

from reported_uncertainty import SHAPE, uncertain_view
from stationpde.errors import UsageError
from stationpde.plots.spread import draw_spread
from stationpde.plots.uncertainty import draw_uncertainty
from stationpde.uncertainty.exceedance import Threshold


def ink(path) -> float:
    from matplotlib.image import imread

    return float((imread(path)[..., :3].min(axis=-1) < 0.97).mean())


def test_diagrams_are_drawn(tmp_path):
    assert ink(draw_uncertainty(uncertain_view().uncertainty, tmp_path / "u.png")) > 0.05


def test_width_and_chance_are_drawn_side_by_side(tmp_path):
    view = uncertain_view()
    alone = draw_spread(view.moment, view.relief, tmp_path / "a.png", variable="ff")
    both = draw_spread(
        view.moment, view.relief, tmp_path / "b.png", variable="ff", lead=1, threshold=Threshold.parse("ff>10 m/s")
    )
    assert ink(alone) > 0.2 and ink(both) > 0.2 and alone.stat().st_size != both.stat().st_size


def test_cells_come_after_the_stations_and_lie_from_south_to_north():
    cells = uncertain_view().moment.cells
    low, high = np.moveaxis(cells.quantiles("t", (0.1, 0.9))[0], -1, 0)
    assert low.shape == SHAPE
    np.testing.assert_allclose((high - low)[:, 0] / (high - low)[0, 0], 1.0 + np.arange(SHAPE[0]))
    chance = cells.probability(Threshold.parse("t>10 degC"))
    np.testing.assert_allclose(chance, 0.5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"variable": "u"}, "no distribution of 'u'"), ({"lead": 99}, "no lead 99"), ({"lead": 0}, "no lead 0")],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, change, words):
    view = uncertain_view()
    with pytest.raises(UsageError, match=words):
        draw_spread(view.moment, view.relief, tmp_path / "x.png", **change)
    with pytest.raises(UsageError, match="no distributions on cells"):
        draw_spread(replace(view.moment, cells=None), view.relief, tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()
