"""Reading a grid at places: exact on linear fields up to the border, hydrostatic for pressure."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fields.constants import R_d, T_standard, g, lapse_standard, p_standard
from fields.grid.gridspec import GridSpec
from fields.lift.bilinear import GridReadout, bilinear_weights
from fields.lift.torch_readout import GridToStation

GRID = GridSpec(40.0, 47.0, 176.0, 186.0, 12, 15)


def ramp(lat, lon):
    return 3.0 + 2.0 * (lat - 43.0) - 1.5 * (lon - 180.0)


def standard(z):
    return p_standard * (1 - lapse_standard * z / T_standard) ** (g / (R_d * lapse_standard))


@given(up=st.floats(0, 1), right=st.floats(0, 1))
def test_a_linear_field_is_read_exactly_everywhere(up, right):
    lat, lon = 40.0 + 7.0 * up, 176.0 + 10.0 * right
    weights, inside = bilinear_weights(GRID, lat, lon if lon <= 180 else lon - 360.0)
    cells = GRID.cells()
    assert inside.all()
    assert weights.apply(ramp(*cells))[0] == pytest.approx(ramp(lat, lon), abs=1e-12)
    assert (weights.weight >= 0).all()


@pytest.mark.parametrize(("lat", "lon"), [(40.0, 176.0), (47.0, 186.0), (40.0, -174.0), (43.3, 176.0), (47.0, 179.0)])
def test_edges_and_corners_are_read_exactly(lat, lon):
    weights, inside = bilinear_weights(GRID, lat, lon)
    assert inside.all()
    assert weights.apply(ramp(*GRID.cells()))[0] == pytest.approx(ramp(lat, lon % 360.0), abs=1e-12)


@pytest.mark.parametrize(("lat", "lon", "border"), [(50.0, 180.0, (47.0, 180.0)), (30.0, 170.0, (40.0, 176.0))])
def test_outside_the_border_is_read_and_flagged(lat, lon, border):
    weights, inside = bilinear_weights(GRID, lat, lon)
    assert not inside.any()
    assert weights.apply(ramp(*GRID.cells()))[0] == pytest.approx(ramp(*border), abs=1e-12)


def places(count=20):
    draw = np.random.default_rng(0)
    return draw.uniform(40, 47, count), draw.uniform(176, 186, count), draw.uniform(0, 3000, count)


def relief():
    lat, lon = GRID.cells()
    return (800.0 + 600.0 * np.sin(lat) + 500.0 * np.cos(lon)).reshape(GRID.shape)


def test_pressure_over_relief_is_read_at_the_altitude_of_the_place():
    where, terrain = places(), relief()
    fields = {"p": standard(terrain)[None]}
    pressure = GridReadout.of(GRID, terrain, where)(fields).values["p"][0]
    np.testing.assert_allclose(pressure, standard(where[2]), rtol=1e-12)
    # Plain bilinear readout mixes altitudes: tens of hPa.
    plain, _ = bilinear_weights(GRID, *where[:2])
    assert np.abs(plain.apply(fields["p"].reshape(1, -1))[0] - standard(where[2])).max() > 2000.0


def test_temperature_of_the_column_enters_the_pressure():
    where, terrain = places(), relief()
    cold = np.full((1, *GRID.shape), 250.0)
    column = {"t": cold, "p": 9e4 * np.exp(-g * terrain / (R_d * 250.0))[None]}
    pressure = GridReadout.of(GRID, terrain, where)(column).values["p"][0]
    np.testing.assert_allclose(pressure, 9e4 * np.exp(-g * where[2] / (R_d * 250.0)), rtol=1e-12)


def test_without_slopes_everything_but_pressure_is_plainly_bilinear():
    where, terrain = places(), relief()
    lat, lon = GRID.cells()
    field = ramp(lat, lon).reshape(1, *GRID.shape)
    read = GridReadout.of(GRID, terrain, where)({"t": 280.0 + field, "u": field}).values
    np.testing.assert_allclose(read["u"][0], ramp(*where[:2]), atol=1e-12)
    np.testing.assert_allclose(read["t"][0], 280.0 + ramp(*where[:2]), atol=1e-12)


def test_slopes_move_temperature_to_the_altitude_of_the_place():
    where, terrain = places(), relief()
    fields = {"t": (290.0 - 0.007 * terrain)[None]}
    kelvin = GridReadout.of(GRID, terrain, where)(fields, {"t": np.array([-0.007])}).values["t"][0]
    np.testing.assert_allclose(kelvin, 290.0 - 0.007 * where[2], atol=1e-10)


def test_reduced_pressure_stays_reduced():
    where, terrain = places(), relief()
    read = GridReadout.of(GRID, terrain, where)({"p": np.full((1, *GRID.shape), 101300.0)}, station_pressure=False)
    np.testing.assert_allclose(read.values["p"], 101300.0)


def test_torch_reads_what_numpy_reads():
    where, terrain = places(), relief()
    draw = np.random.default_rng(4)
    fields = {
        "t": 285.0 - 0.005 * terrain + draw.normal(size=(3, *GRID.shape)),
        "p": standard(terrain) + 50.0 * draw.normal(size=(3, *GRID.shape)),
        "u": draw.normal(size=(3, *GRID.shape)),
    }
    slopes = {"t": np.array([-0.005, -0.006, 0.001]), "p": np.array([0.0, 1e-6, -1e-6])}
    readout = GridReadout.of(GRID, terrain, where, (0.0, 2000.0))
    here = readout(fields, slopes).values
    module = GridToStation(readout, tuple(fields), dtype=torch.float64)
    tensor = torch.tensor(np.stack(list(fields.values()), axis=1), requires_grad=True)
    there = module(tensor, {name: torch.from_numpy(slope) for name, slope in slopes.items()})
    for c, name in enumerate(fields):
        np.testing.assert_allclose(there[..., c].detach().numpy(), here[name], rtol=1e-12)
    there.sum().backward()
    assert torch.isfinite(tensor.grad).all()
    assert module.inside.all()


def test_without_names_every_channel_is_bilinear():
    where, terrain = places(), relief()
    module = GridToStation(GridReadout.of(GRID, terrain, where), dtype=torch.float64)
    lat, lon = GRID.cells()
    field = torch.from_numpy(ramp(lat, lon).reshape(1, 1, *GRID.shape)).expand(2, 3, -1, -1)
    np.testing.assert_allclose(
        module(field).numpy(), np.broadcast_to(ramp(*where[:2])[:, None], (2, 20, 3)), atol=1e-12
    )
