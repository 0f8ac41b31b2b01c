"""WeatherGFT on a surface: windows of attention, the mixture, and equations that the other windows do not reach."""

from functools import lru_cache

import pytest
import torch

from neural_baseline_cases import made, random, source
from stationpde.baselines.leakage import leaks
from stationpde.baselines.weathergft import HybridBlock, WeatherGFT, WindowAttention, mixed
from stationpde.physics.equations import STATE


@lru_cache(maxsize=2)
def learner(published: bool = False):
    built = made("weathergft", published_range_scaling=published)
    built.module.eval()
    return built


def network(published: bool = False) -> WeatherGFT:
    return learner(published).network.network


def state(windows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Departures that vary over the grid, SI, and a climatology."""
    net = network()
    base = net.cells.on_grid(torch.full((windows,), 1_000_000), torch.Size((windows, 5, *net.shape)))
    return random(windows, 5, *net.shape) * net.spread, base


# ---- attention and mixture ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 4])
def test_a_cell_hears_its_window_and_nothing_else(offset):
    torch.manual_seed(0)
    attention = WindowAttention(8, offset)
    cells = random(1, 10, 13, 8).requires_grad_()
    attention(cells)[0, 5, 6].sum().backward()
    heard = cells.grad[0].abs().sum(dim=-1) > 0
    row, column = ((torch.arange(n) + offset) // 8 for n in (10, 13))
    expected = (row == row[5])[:, None] & (column == column[6])
    assert torch.equal(heard, expected)


def test_attention_is_softmax_of_scaled_products():
    torch.manual_seed(0)
    attention, cells = WindowAttention(8, 0), random(1, 2, 3, 8)
    with torch.no_grad():
        query, key, value = attention.into(attention.norm(cells)).reshape(6, 24).chunk(3, dim=-1)
        heads = []
        for part in (slice(2 * head, 2 * head + 2) for head in range(4)):
            weights = (query[:, part] @ key[:, part].T / 2**0.5).softmax(dim=-1)
            heads.append(weights @ value[:, part])
        expected = attention.out(torch.cat(heads, dim=-1)).reshape(1, 2, 3, 8)
        torch.testing.assert_close(attention(cells), expected)


def test_r_moves_weight_from_the_equations_to_attention():
    ai, pde = torch.tensor([2.0, 2.0, 2.0]), torch.tensor([10.0, 10.0, 10.0])
    assert mixed(ai, pde, torch.tensor([0.0, 0.5, -0.25])).tolist() == [6.0, 2.0, 8.0]


def test_a_block_is_the_mixture_through_its_perceptron():
    net = network()
    block: HybridBlock = net.blocks[1]
    fields, base = state(2)
    latent = random(2, *net.shape, 32)
    with torch.no_grad():
        after, moved = block(latent, fields, base, net.spread)
        torch.testing.assert_close(moved, block.advanced(fields, base, net.spread))
        physical = block.embed((moved / net.spread).movedim(1, -1))
        halves = 0.5 * block.attention(latent) + 0.5 * physical
    torch.testing.assert_close(after, latent + block.mlp(halves))


# ---- the equations -----------------------------------------------------------------------------------------------


def test_three_kernels_of_the_equations_each_move_a_field_by_a_twentieth_of_its_range():
    net = network()
    fields, base = state(1)
    with torch.no_grad():
        expected, tendency = fields, net.branch.step.tendency
        closures = {name: base[:, STATE.index(name[:-2])] for name in net.branch.bases}
        for _ in range(3):
            rate = tendency(expected, closures)
            reach = expected.amax((-2, -1), keepdim=True) - expected.amin((-2, -1), keepdim=True)
            expected = expected + 0.05 * reach * rate / rate.abs().amax((-2, -1), keepdim=True)
        moved = net.blocks[0].advanced(fields, base, net.spread)
    torch.testing.assert_close(moved / net.spread, expected / net.spread, rtol=1e-3, atol=1e-3)


def test_a_sample_does_not_know_its_batch_and_as_published_it_does():
    fields, base = state(2)
    with torch.no_grad():
        for published, differs in ((False, False), (True, True)):
            block, spread = network(published).blocks[0], network(published).spread
            alone, beside = (block.advanced(fields[:n], base[:n], spread)[:1] / spread for n in (1, 2))
            assert (float((alone - beside).abs().max()) > 1e-2) is differs


def test_a_uniform_state_stays_and_as_published_is_no_number():
    net = network()
    _, base = state(1)
    uniform = base.mean(dim=(-2, -1), keepdim=True).expand_as(base).clone()
    calm = torch.zeros_like(uniform)
    with torch.no_grad():
        stays = net.blocks[0].advanced(calm, uniform, net.spread)
        assert torch.isfinite(stays).all() and float(stays.abs().max()) == 0.0
        published = network(True)
        assert torch.isnan(published.blocks[0].advanced(calm, uniform, published.spread)).any()


def test_the_physics_learns_and_as_published_it_does_not():
    fields, base = state(1)
    for published in (False, True):
        net = network(published)
        coefficients = net.branch.step.tendency.coefficients.raw
        trained = coefficients.requires_grad
        coefficients.requires_grad_(True)
        coefficients.grad = None
        moved = net.blocks[0].advanced(fields.clone().requires_grad_(), base, net.spread)
        (moved / net.spread).square().sum().backward()
        reached = coefficients.grad is not None and bool(coefficients.grad.abs().sum() > 0)
        coefficients.grad = None
        coefficients.requires_grad_(trained)
        assert reached is not published


def test_departures_are_cut_at_eight_spreads():
    net = network()
    fields, base = state(1)
    with torch.no_grad():
        moved = net.blocks[0].advanced(100.0 * fields, base, net.spread)
    assert float((moved / net.spread).abs().max()) == pytest.approx(8.0)


def test_the_published_scaling_does_not_pass_the_test_of_leakage():
    given = source()
    batch = given.batch(given.windows.train[:3])
    assert "the other windows of the batch" in leaks(learner(True), batch)


def test_windows_at_once_follow_the_cells_of_the_grid():
    net = network()
    rows, columns = net.shape
    assert net.windows_at_once == max(1, 65536 // (rows * columns * 8))
    assert learner().network.rows == 7 * net.windows_at_once


@pytest.mark.parametrize("count", [2, 30])
def test_any_number_of_stations(count):
    built, given = made("weathergft", count=count), source(count=count)
    built.module.eval()
    with torch.no_grad():
        forecast = built.predict(given.batch(given.windows.val[:2]))
    assert forecast.shape == (2, 8, count, 5) and torch.isfinite(forecast).all()
