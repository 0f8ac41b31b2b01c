"""The plume: nothing is lost, nothing is negative, and the wind goes round the mountains."""

import numpy as np
import pytest
import torch

SMALL = {"rows": 60, "columns": 80}


@pytest.fixture(scope="module")
def small(gallery):
    return gallery("plume").run(3.0, **SMALL)


def budget(found):
    area = torch.tensor(found["grid"].cell_area)[:, None]
    return [float((found[name].double() * area).sum()) for name in ("air", "ground")]


def test_what_was_emitted_is_in_the_air_or_on_the_ground(gallery, backend):
    model = gallery("plume")
    air, ground = budget(model.run(3.0, **SMALL, backend=backend))
    # The plume has not reached the border; float32 sums of a hundred steps keep 5 digits.
    assert air + ground == pytest.approx(model.EMISSION * 3 * 3600.0, rel=2e-5)
    assert 0.02 < ground / (air + ground) < 0.5


def test_concentrations_are_never_negative(small):
    # Donor-cell fluxes and diffusion below the stability limit keep the sign exactly.
    assert small["air"].min() >= 0.0
    assert small["ground"].min() >= 0.0


def test_the_wind_carries_no_air_into_a_column(gallery):
    model = gallery("plume")
    lat, lon, z = model.relief(60, 80)
    grid = model.po.Grid2D.from_latlon(lat, lon)
    depth = model.layer_depth(z)
    before = [torch.full_like(depth, component) for component in model.BREEZE]
    u, v = model.steered_wind(depth, grid)

    def convergence(east, north):
        return model.po.ops.advection_flux_central2(depth, east, north, grid=grid)[1:-1, 1:-1].abs().mean()

    # Not zero: the potential is solved on compact differences, the wind taken from wide ones, on relief of cell size.
    assert convergence(u, v) < 0.4 * convergence(*before)


def test_the_wind_is_weak_over_high_ground(small):
    speed = torch.hypot(small["u"], small["v"]).numpy()
    assert speed[small["z"] > 1200.0].mean() < 0.3 * speed[small["z"] < 0.0].mean()


def test_the_relief_is_real_where_matplotlib_ships_it(gallery):
    _, _, z = gallery("plume").relief(60, 80)
    assert z.max() > 1500.0  # the Coast Mountains
    assert z.min() < -200.0  # the strait and the shelf


def test_without_the_sample_a_made_up_valley_takes_its_place(gallery, monkeypatch):
    import matplotlib.cbook

    def missing(*_):
        raise FileNotFoundError

    monkeypatch.setattr(matplotlib.cbook, "get_sample_data", missing)
    _, _, z = gallery("plume").relief(60, 80)
    assert z.shape == (60, 80)
    assert np.isfinite(z).all() and z.min() < 0.0 < z.max()


@pytest.mark.slow
def test_the_script_draws_its_picture(gallery, tmp_path):
    picture = gallery("plume").main(tmp_path / "plume.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
