"""Convolutions as matrix products, prepared first layers and joined leads against the plain formulas."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nnf

from plain_forward import plain_convolution, plain_forward, use_plain_parts
from small_network import VARIANTS, small_config, small_model, wild, windows
from stationpde.model.compiling import compile_networks
from stationpde.model.convolutions import Convolution
from stationpde.model.first_layers import LeadConditions, conditions_ahead
from stationpde.model.stencils import neighbours, summed

# Sums in another order: a hundred units in the last place of float64.
CLOSE = {"rtol": 1e-9, "atol": 1e-12}
SWITCHES = {
    "without equations": ("model.pde_branch=false",),
    "without data branch": ("model.data_branch=false",),
    "without closure": ("model.closure=false",),
    "without head": ("model.station_head=false",),
    "without sun": ("model.inputs=['slope', 'encoder']",),
    "without inputs": ("model.inputs=[]",),
    "recomputed": ("train.recompute=true",),
}


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shifted(fields: torch.Tensor, down: int, right: int) -> torch.Tensor:
    rows, columns = fields.shape[-2:]
    return nnf.pad(fields, (1, 1, 1, 1), mode="replicate")[..., down : down + rows, right : right + columns]


def test_neighbours_are_shifted_fields_with_a_replicated_border():
    fields = noise(2, 3, 4, 5)
    columns = neighbours(fields).view(3, 3, 3, 2, 4, 5)
    for down in range(3):
        for right in range(3):
            assert torch.equal(columns[:, down, right].transpose(0, 1), shifted(fields, down, right))


@pytest.mark.parametrize("grid", [(4, 5), (1, 2), (3, 9)])
def test_a_sum_of_products_takes_each_tap_from_its_neighbour(grid):
    products = noise(3 * 9, 2 * grid[0] * grid[1])
    taps = products.view(3, 3, 3, 2, *grid)
    expected = sum(shifted(taps[:, i, j].transpose(0, 1), i, j) for i in range(3) for j in range(3))
    torch.testing.assert_close(summed(products, 2, grid), expected, **CLOSE)


@pytest.mark.parametrize("grid", [(3, 4), (1, 2)])
def test_stencils_have_derivatives_of_first_and_second_order(grid):
    fields = noise(2, 1, *grid).requires_grad_()
    products = noise(9, 2 * grid[0] * grid[1], seed=1).requires_grad_()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda x: neighbours(x).sin(), (fields,))
        assert check(lambda y: summed(y, 2, grid).sin(), (products,))


@pytest.mark.parametrize(("inputs", "outputs", "dilation"), [(5, 16, 1), (16, 5, 1), (5, 3, 1), (16, 16, 1), (5, 5, 2)])
def test_every_route_of_a_convolution_is_the_plain_one(inputs, outputs, dilation):
    torch.manual_seed(0)
    layer = Convolution(inputs, outputs, dilation).double()
    fields, direction = noise(2, inputs, 6, 7).requires_grad_(), noise(2, outputs, 6, 7, seed=1)
    ours, plain = layer(fields), plain_convolution(layer, fields)
    torch.testing.assert_close(ours, plain, **CLOSE)
    leaves = [fields, *layer.parameters()]
    gradients = (torch.autograd.grad(out, leaves, direction) for out in (ours, plain))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("overrides", [(), ("model.inputs=['slope']",), ("model.inputs=[]",)])
def test_prepared_networks_are_the_networks_of_joined_inputs(overrides):
    model = small_model(small_config("default", overrides)).double()
    wild(model)
    batch = windows(model.config, [3, 40])
    times = batch.issue_time + torch.tensor([[21600], [43200]])
    closure, data, router = model.pde_branch.closure, model.data_branch, model.router
    ahead = conditions_ahead(model.conditions, times, {part: part.prepare for part in (closure, data, router)})
    x, y = (noise(2, 5, *model.region.grid.shape, seed=seed).requires_grad_() for seed in (0, 1))
    parts = {
        closure: lambda b: closure(x, b) / closure.scale[:, None, None],
        data: lambda b: data(x, b),
        router: lambda b: torch.stack(router(x, y, b)),
    }
    for lead, conditions in enumerate(ahead, 1):
        plain = model.conditions.step(times[lead - 1], lead)
        assert isinstance(conditions, LeadConditions) and torch.equal(conditions.as_subclass(torch.Tensor), plain)
        for network, apply in parts.items():
            leaves = [x, *network.parameters()]
            ours, expected = apply(conditions), apply(plain)
            torch.testing.assert_close(ours, expected, **CLOSE)
            gradients = (
                torch.autograd.grad(out.square().sum(), leaves, retain_graph=True, allow_unused=True)
                for out in (ours, expected)
            )
            for one, other in zip(*gradients, strict=True):
                torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", [*VARIANTS, *SWITCHES])
def test_losses_and_gradients_are_those_of_the_plain_model(name, monkeypatch):
    variant = name if name in VARIANTS else "default"
    config = small_config(variant, SWITCHES.get(name, ()))
    model = small_model(config, eager=False).double()
    wild(model, size=0.1)
    batch = windows(config, [3, 40])
    history, weights = batch.history.double(), noise(1, 1, 1, 5).abs()

    def gradients(forecast):
        observed, state = forecast
        size = (state - model.sites.base(batch.issue_time)[:, None]) / model.sites.scale
        loss = (size.square() * weights).mean() + observed[..., -1].square().mean()
        model.zero_grad()
        loss.backward()
        return loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}

    forecast = model(history, batch.issue_time, 3)
    loss, ours = gradients((forecast.observed, forecast.state))
    use_plain_parts(monkeypatch)
    expected_loss, expected = gradients(plain_forward(model, history, batch.issue_time, 3))
    assert float(loss) == pytest.approx(float(expected_loss), rel=1e-9)
    assert ours.keys() == expected.keys()
    for parameter, gradient in expected.items():
        torch.testing.assert_close(ours[parameter], gradient, rtol=1e-9, atol=1e-9 * float(gradient.norm()))


def test_a_single_precision_forecast_is_the_plain_one_to_a_few_units_in_the_last_place(monkeypatch):
    model = small_model()
    for part in (model.encoder, model.data_branch, model.router, model.pde_branch.closure):
        wild(part, size=0.1)
    batch = windows(model.config, [3, 40])
    with torch.no_grad():
        state = model(batch.history, batch.issue_time, 4).unguided
        use_plain_parts(monkeypatch)
        _, expected = plain_forward(model, batch.history, batch.issue_time, 4)
    # Pressure has seven digits, and its departures are a few hundred pascals.
    few = 4 * torch.finfo(torch.float32).eps * expected.abs().amax(dim=(0, 1, 2))
    assert bool(((state - expected).abs() <= few + 1e-5 * model.sites.scale).all())


def test_compiled_networks_get_plain_conditions():
    model = small_model()
    times = windows(model.config, [3]).issue_time[None]
    networks = {part: part.prepare for part in (model.data_branch, model.router)}
    assert isinstance(conditions_ahead(model.conditions, times, networks)[0], LeadConditions)
    compile_networks(model, backend="eager")
    assert not isinstance(conditions_ahead(model.conditions, times, networks)[0], LeadConditions)
