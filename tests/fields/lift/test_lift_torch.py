"""The torch faces: equal to numpy's, differentiable, without a tensor left behind on another device."""

import numpy as np
import pytest
import torch

from fields.errors import UsageError
from fields.grid.gridspec import GridSpec
from fields.lift import station_altitude
from fields.lift.bilinear import GridReadout
from fields.lift.methods import LIFT_METHODS, LiftSettings, StationLift
from fields.lift.torch_lift import StationToGrid, WeightedMeans
from fields.lift.torch_readout import GridToStation

NAMES = ("u", "v", "p", "t", "rh")


def setting(method="detrended", count=25, height=9):
    draw = np.random.default_rng(0)
    places = draw.uniform(40, 46, count), draw.uniform(0, 8, count), draw.uniform(0, 2000, count)
    grid = GridSpec.around(places[0], places[1], height=height)
    altitude = station_altitude(*places, grid)
    lift = StationLift.between(places, (*grid.cells(), altitude.ravel()), LiftSettings(method, k=5), metric=grid.metric)
    return lift, grid, altitude, places


def observations(altitude, rows=4, share=0.2):
    draw = np.random.default_rng(1)
    shape = (rows, len(altitude))
    values = {
        "u": draw.normal(0, 4, shape),
        "v": draw.normal(0, 4, shape),
        "p": 101325.0 * np.exp(-altitude / 8300.0) + draw.normal(0, 100, shape),
        "t": 288.0 - 0.006 * altitude + draw.normal(0, 2, shape),
        "rh": draw.uniform(0.2, 0.95, shape),
    }
    for array in values.values():
        array[draw.random(shape) < share] = np.nan
    return values


def stacked(values, dtype):
    return torch.tensor(np.stack([values[name] for name in NAMES], axis=-1), dtype=dtype)


@pytest.mark.parametrize("method", LIFT_METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lift_and_coverage_are_those_of_numpy(method, dtype):
    lift, grid, _, places = setting(method)
    values = observations(places[2])
    kind = np.float32 if dtype == torch.float32 else np.float64
    here = lift({name: array.astype(kind) for name, array in values.items()})
    fields, share = StationToGrid(lift, grid.shape, NAMES, dtype=dtype)(stacked(values, dtype))
    assert fields.shape == (4, 5, *grid.shape) and fields.dtype == dtype
    for c, name in enumerate(NAMES):
        np.testing.assert_allclose(fields[:, c].flatten(1).numpy(), here.values[name], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(share[:, c].flatten(1).numpy(), here.coverage[name], atol=1e-6)


def test_a_mask_and_nan_mean_the_same():
    lift, grid, _, places = setting()
    values = stacked(observations(places[2]), torch.float64)
    module = StationToGrid(lift, grid.shape, NAMES, dtype=torch.float64)
    filled = torch.where(torch.isnan(values), 7.0, values)
    masked = module(filled, ~torch.isnan(values))
    for left, right in zip(module(values), masked, strict=True):
        torch.testing.assert_close(left, right)


def test_leading_axes_are_kept():
    lift, grid, _, _ = setting("idw")
    module = StationToGrid(lift, grid.shape)
    assert module(torch.rand(2, 3, 25, 5))[0].shape == (2, 3, 5, *grid.shape)


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_gradients_are_finite_and_missing_stations_get_none(method):
    lift, grid, _, places = setting(method)
    values = stacked(observations(places[2]), torch.float64)
    values.requires_grad_()
    StationToGrid(lift, grid.shape, NAMES, dtype=torch.float64)(values)[0].square().sum().backward()
    gone = torch.isnan(values.detach())
    assert torch.isfinite(values.grad).all()
    assert (values.grad[gone] == 0).all() and (values.grad[~gone] != 0).any()


def test_the_gradient_is_the_derivative():
    lift, _, _, places = setting(count=14, height=4)
    draw = np.random.default_rng(2)
    t = torch.tensor(288.0 - 0.006 * places[2] + draw.normal(0, 0.4, 14), dtype=torch.float64, requires_grad=True)
    p = torch.tensor(1013.0 * np.exp(-places[2] / 8300.0), dtype=torch.float64, requires_grad=True)
    module = StationToGrid(lift, None, ("t", "p"), dtype=torch.float64)

    def lifted(t, p):
        return module(torch.stack([t, 100.0 * p], -1)[None])[0][..., ::7]

    assert torch.autograd.gradcheck(lifted, (t, p), eps=1e-5, atol=1e-4, rtol=1e-4)


def test_a_moment_without_stations_gives_nan_but_no_nan_gradient():
    lift, _, _, _ = setting("idw")
    values = torch.full((2, 25), torch.nan, dtype=torch.float64)
    values[1] = 1.0
    values.requires_grad_()
    means, share = WeightedMeans(lift.weights, torch.float64)(values)
    assert torch.isnan(means[0]).all() and (share[0] == 0).all()
    means[1].sum().backward()
    assert torch.isfinite(values.grad).all()


@pytest.mark.parametrize("method", LIFT_METHODS)
def test_nothing_stays_behind_on_the_processor(method):
    # The meta device refuses to be mixed with another; it stands for any accelerator.
    lift, grid, altitude, places = setting(method)
    up = StationToGrid(lift, grid.shape, NAMES).to("meta")
    down = GridToStation(GridReadout.of(grid, altitude, places), NAMES).to("meta")
    fields, share = up(torch.empty(2, 25, 5, device="meta"))
    assert fields.device.type == share.device.type == "meta"
    assert down(fields).device.type == "meta"
    with pytest.raises(RuntimeError, match="device"):
        up(torch.empty(2, 25, 5))


@pytest.mark.slow
@pytest.mark.parametrize("method", LIFT_METHODS)
def test_the_lift_is_one_graph(method):
    lift, grid, _, places = setting(method)
    module = StationToGrid(lift, grid.shape, NAMES)
    values = stacked(observations(places[2]), torch.float32)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(values)[0], module(values)[0], equal_nan=True)


def test_the_detrended_lift_must_know_its_channels():
    lift, grid, _, _ = setting()
    with pytest.raises(UsageError, match="names"):
        StationToGrid(lift, grid.shape)


def test_weights_are_no_part_of_a_checkpoint():
    lift, grid, _, _ = setting()
    assert StationToGrid(lift, grid.shape, NAMES).state_dict() == {}
