"""The small model of the gallery: a forecast with a map, and the weights behind it; both scripts share one run."""

import numpy as np
import pytest

from stationpde import StationPDE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def made(gallery, tmp_path_factory):
    where = tmp_path_factory.mktemp("relief")
    picture = gallery("relief").main(where / "relief.png", run=where / "run", steps=2)
    return where / "run", picture


def test_the_forecast_is_drawn(made):
    assert made[1].read_bytes().startswith(b"\x89PNG")


def test_the_forecast_is_better_than_no_change(gallery, made):
    moment, _ = gallery("relief").forecast(made[0], steps=2)
    temperature = moment.observed[moment.history - 1 :, :, 3]
    there = np.isfinite(temperature).all(axis=0)
    ours = moment.forecast[:, there, 3] - temperature[1:, there]
    kept = temperature[:1, there] - temperature[1:, there]
    assert (ours**2).mean() < (kept**2).mean()


def test_the_weights_are_drawn_and_between_the_two_branches(gallery, made, monkeypatch):
    seen = []
    model = StationPDE.field
    monkeypatch.setattr(StationPDE, "field", lambda *a, **k: seen.append(model(*a, **k)) or seen[-1])
    picture = gallery("router").main(made[1].with_name("router.png"), run=made[0], steps=2)
    assert picture.read_bytes().startswith(b"\x89PNG")
    weight = seen[0]["data_weight"]
    assert weight.min() > 0.0 and weight.max() < 1.0
