"""The learned parts one by one: initial values, inputs, and that every input has an effect."""

import pytest
import torch

from plain_forward import advance_once
from small_network import small_config, small_model, wild, windows
from stationpde.model.closure import Closure
from stationpde.model.data_branch import DataBranch
from stationpde.model.router import Router
from stationpde.model.station_head import Anchor
from stationpde.model.warp import warp_field
from stationpde.physics.conditions import cos_zenith, time_features
from stationpde.physics.state import to_state

C, B, NY, NX = 5, 3, 8, 9


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def listens(part, inputs, out=lambda x: x):
    """Check that every channel of every input changes the output."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    output = out(part(*inputs))
    weight = noise(*output.shape, seed=9)
    gradients = torch.autograd.grad((weight * output).sum(), inputs)
    for number, gradient in enumerate(gradients):
        dead = gradient.movedim(1, 0).flatten(1).abs().sum(1) == 0
        assert not bool(dead.any()), f"input {number}, channels {dead.nonzero().flatten().tolist()}"


def heard(module, run):
    """Return the arguments of each call of a module."""
    calls = []
    handle = module.register_forward_pre_hook(lambda _, args: calls.append(args))
    run()
    handle.remove()
    return calls


@pytest.fixture(scope="module")
def model():
    built = small_model()
    wild(built)
    return built


@pytest.fixture(scope="module")
def batch():
    return windows(small_config(), range(3))


def test_zero_motion_is_the_identity():
    field = noise(2, C, NY, NX)
    # Normalised coordinates cost a few units in the last place.
    torch.testing.assert_close(warp_field(field, torch.zeros(2, 2, NY, NX)), field, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("cells", "to"), [((1.0, 0.0), (3, 5)), ((0.0, 1.0), (4, 4)), ((-2.0, -1.0), (2, 2))])
def test_a_shift_moves_a_blob_east_and_north_by_so_many_cells(cells, to):
    field = torch.zeros(1, 1, NY, NX)
    field[0, 0, 3, 4] = 1.0
    motion = torch.tensor(cells)[None, :, None, None].expand(1, 2, NY, NX)
    moved = warp_field(field, motion)[0, 0]
    assert divmod(int(moved.argmax()), NX) == to
    assert float(moved[to]) == pytest.approx(1.0, abs=1e-5)


def test_rows_run_north_and_columns_east_as_the_warp_says():
    grid = small_model().region.grid
    assert bool((grid.lat[1:] > grid.lat[:-1]).all())
    assert bool((grid.lon[1:] > grid.lon[:-1]).all())


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_a_motion_that_is_no_number_gives_none_and_its_gradient_does_not_end_the_process(odd):
    field = torch.randn(2, 5, 8, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    motion = torch.zeros(2, 2, 8, 8)
    motion[0] = odd
    motion.requires_grad_()
    moved = warp_field(field, motion)
    assert moved[0].isnan().all() and torch.equal(moved[1], warp_field(field, torch.zeros(2, 2, 8, 8))[1])
    moved.sum().backward()
    assert field.grad[1].isfinite().all()


def test_the_border_of_a_warp_is_replicated_and_half_a_cell_is_the_mean():
    field = torch.arange(NX, dtype=torch.float32).expand(1, 1, NY, NX)
    motion = torch.zeros(1, 2, NY, NX)
    motion[:, 0] = 1.5
    moved = warp_field(field, motion)[0, 0, 0]
    torch.testing.assert_close(moved, (torch.arange(NX) - 1.5).clamp(min=0.0), rtol=0, atol=1e-5)


def test_the_data_branch_starts_without_motion_and_residual():
    torch.manual_seed(0)
    branch = DataBranch(C, B, 4)
    state, conditions = noise(2, C, NY, NX), noise(2, B, NY, NX, seed=1)
    candidate = state + 0.1 * branch.candidate(state, conditions)
    hidden = state + branch.state_gate(state, candidate, conditions) * (candidate - state)
    torch.testing.assert_close(branch(state, conditions), hidden, rtol=0, atol=1e-5)
    assert branch.tau.tolist() == pytest.approx([0.1] * C)


def test_the_motion_is_bounded_and_moves_the_field_through_its_gate():
    torch.manual_seed(0)
    branch = DataBranch(C, B, 4, gate_bias=50.0, candidate_scale=1e-9)
    branch.motion.last.convolution.bias.data = torch.tensor([50.0, 0.0])  # tanh of it is 1: four cells east
    state = noise(1, C, NY, NX)
    moved = branch(state, noise(1, B, NY, NX))
    torch.testing.assert_close(moved[..., 4:], state[..., :-4], rtol=0, atol=1e-4)


def test_gates_and_router_are_told_what_is_printed(model, batch):
    calls = {}
    data = model.data_branch
    watched = {
        "init": model.encoder.gate, "state": data.state_gate, "motion": data.motion, "warp": data.warp_gate,
        "residual": data.residual, "candidate": data.candidate, "router": model.router.gate,
        "data": data, "closure": model.pde_branch.closure,
    }  # fmt: skip
    handles = [
        part.register_forward_hook(lambda _, args, out, name=name: calls.update({name: (args, out)}))
        for name, part in watched.items()
    ]
    with torch.no_grad():
        analysis = model.analyse(batch.history, batch.issue_time)
        advance_once(model, analysis.field, batch.issue_time + 21600, 1)
        latest = model.sites.lifted(batch.history, to_state(batch.history, model.sites.pressure)
                                    - model.sites.base(_times(batch, model)))[0][:, -1]  # fmt: skip
        issue, target = model.conditions.history(batch.issue_time), model.conditions.step(batch.issue_time + 21600, 1)
    for handle in handles:
        handle.remove()
    (x, b), _ = calls["data"]
    (g, features, u), _ = calls["init"]
    torch.testing.assert_close(g, model.scaling(latest), rtol=0, atol=1e-5)
    assert torch.equal(u, issue)
    assert features.shape[1] == model.config.model.encoder_hidden
    # B carries the time that the forecast is for.
    assert torch.equal(b, target)
    candidate = x + data.tau[:, None, None] * calls["candidate"][1]
    hidden = x + calls["state"][1] * (candidate - x)
    expected = {
        "candidate": (x, b), "state": (x, candidate, b), "motion": (hidden, b), "warp": (hidden, candidate, b),
        "residual": (hidden, b), "closure": (x, b),
    }  # fmt: skip
    for name, inputs in expected.items():
        for actual, printed in zip(calls[name][0], inputs, strict=True):
            # SI and back costs a few units in the last place.
            torch.testing.assert_close(actual, printed, rtol=0, atol=1e-5, msg=name)
    assert torch.equal(calls["router"][0][0], calls["data"][1])
    assert torch.equal(calls["router"][0][2], b)


def _times(batch, model):
    return batch.issue_time[:, None] + torch.arange(-model.config.data.history + 1, 1) * 21600


def test_every_input_changes_every_gate_network_and_the_router(model):
    data, step = model.data_branch, model.conditions.step_count
    x, y, b = noise(2, C, NY, NX), noise(2, C, NY, NX, seed=1), noise(2, step, NY, NX, seed=2)
    for part in (data.state_gate, data.warp_gate, model.router.gate):
        listens(part, (x, y, b))
    for part in (data, data.candidate, data.motion, data.residual):
        listens(part, (x, b))
    listens(model.router, (x, y, b), out=lambda outputs: outputs[0])
    history = noise(2, model.config.data.history * (C + 1), NY, NX)
    conditions = noise(2, model.conditions.history_count, NY, NX, seed=3)
    listens(model.encoder, (history, x, conditions), out=lambda outputs: outputs[0])
    features = noise(2, model.config.model.encoder_hidden, NY, NX, seed=4)
    listens(model.encoder.gate, (x, features, conditions))


def test_every_input_changes_the_closure_and_terrain_conditions_its_features(model):
    closure = model.pde_branch.closure
    x, b = noise(2, C, NY, NX), noise(2, model.conditions.step_count, NY, NX, seed=2)
    scale = closure.scale[:, None, None]
    listens(closure, (x, b), out=lambda tendencies: tendencies / scale)
    only = Closure(("p",), 4, 4)
    wild(only)
    with torch.no_grad():
        only.first.convolution.weight.zero_()  # what is left of the terrain comes through the modulation
    listens(
        lambda b: only(torch.zeros(2, C, NY, NX), torch.cat([b, b[:, :1] * 0], dim=1)),
        (noise(2, 3, NY, NX),),
    )


def test_the_closure_is_bounded_by_its_learned_positive_scale():
    closure = Closure(("p", "theta", "q"), 4, 4)
    assert closure.scale.tolist() == pytest.approx([3e-2, 6e-4, 3e-7], rel=1e-3)
    wild(closure, size=30.0)
    tendencies = closure.by_name(closure(noise(2, C, NY, NX), noise(2, 4, NY, NX, seed=1)))
    assert bool((closure.scale > 0).all())
    for scale, name in zip(closure.scale, ("S_p", "S_theta", "S_q"), strict=True):
        assert float(tendencies[name].detach().abs().max()) <= float(scale) * (1 + 1e-6)


def test_every_input_changes_the_station_head(model, batch):
    head, sites = model.head, model.sites
    lasting = noise(2, head.lasting.in_features, 4)
    passing = noise(2, head.passing.in_features, 4, seed=1)
    listens(lambda a, b: head(head.remember(a.mT), b.mT).mT, (lasting, passing))
    [(memory, inputs)] = heard(head, lambda: model(batch.history, batch.issue_time, 1))
    valid = batch.issue_time + 21600
    places = sites.features(valid)
    assert torch.equal(inputs[:, 0, :, : places.shape[-1]], places)
    assert torch.equal(inputs[:, 0, :, -5:-1], time_features(valid)[:, None].expand(-1, places.shape[1], -1))
    assert torch.equal(inputs[..., -1], torch.full_like(inputs[..., -1], 0.5))  # lead 1 of 2
    assert memory.shape[-1] == model.config.model.head_hidden


@pytest.mark.parametrize("bias", [-2.0, 0.0, 3.0])
def test_weights_lie_between_0_and_1_and_start_near_the_sigmoid_of_the_bias(bias):
    torch.manual_seed(0)
    router = Router(C, B, 8, bias)
    data, physics, conditions = noise(1, C, NY, NX), noise(1, C, NY, NX, seed=1), noise(1, B, NY, NX, seed=2)
    fused, weight = router(data, physics, conditions)
    assert float((weight - torch.sigmoid(torch.tensor(bias))).abs().max()) < 0.1
    wild(router, size=0.1)
    fused, weight = router(data, physics, conditions)
    assert bool(((weight > 0) & (weight < 1)).all())
    torch.testing.assert_close(fused, weight * data + (1 - weight) * physics)
    between = (fused >= torch.minimum(data, physics) - 1e-6) & (fused <= torch.maximum(data, physics) + 1e-6)
    assert bool(between.all())


def test_an_anchor_takes_today_and_the_same_hour_of_the_latest_day_in_the_history():
    anchor = Anchor(horizon=6, channels=1, steps_per_day=4, history=6)
    anchor.now.data.zero_()
    anchor.yesterday.data.fill_(1.0)
    departures = torch.arange(6.0).reshape(1, 6, 1, 1)  # the last step, 5, is the issue time
    # Lead 1 is the hour of step 6, that is step 2 a day before; lead 4 that of the issue time; lead 5 as lead 1.
    assert anchor(departures, torch.arange(1, 7)).flatten().tolist() == [2.0, 3.0, 4.0, 5.0, 2.0, 3.0]
    anchor.now.data.copy_(torch.arange(1.0, 7.0)[:, None])
    anchor.yesterday.data.zero_()
    assert anchor(departures, torch.tensor([1, 6, 9])).flatten().tolist() == [5.0, 30.0, 30.0]


def test_a_history_shorter_than_a_day_has_no_anchor_of_yesterday():
    anchor = Anchor(horizon=2, channels=1, steps_per_day=8, history=7)
    assert [name for name, _ in anchor.named_parameters()] == ["now"]


def test_conditions_are_place_altitude_hour_season_and_lead_and_by_option_sun_and_slope():
    plain, full = small_model(small_config("paper")).conditions, small_model().conditions
    assert (plain.history_count, plain.step_count) == (3 + 4, 3 + 4 + 1)
    assert full.step_count == plain.step_count + 1 + 2
    time = torch.tensor([1_672_531_200])
    fields = plain.step(time, 2)
    assert torch.equal(fields[:, -1], torch.ones_like(fields[:, -1]))  # lead 2 of 2
    assert fields[0, 0, 0, 0] == -1.0
    assert fields[0, 0, -1, 0] == 1.0
    assert fields[0, 1, 0, -1] == 1.0


def test_time_features_return_after_a_day_and_a_year():
    time = torch.tensor([0, 6 * 3600, 86400, 31556952, 1_700_000_000])
    features = time_features(time)
    torch.testing.assert_close(features[0, :2], features[2, :2])
    torch.testing.assert_close(features[1, :2], torch.tensor([1.0, 0.0]), rtol=0, atol=1e-6)
    torch.testing.assert_close(features[0, 2:], features[3, 2:], rtol=0, atol=1e-5)
    torch.testing.assert_close(features[:, ::2].square() + features[:, 1::2].square(), torch.ones(5, 2))


def test_the_sun_stands_where_it_does():
    # Equinox noon at Greenwich on the equator: overhead; midnight: below; June solstice at 23.4 N: overhead.
    places = torch.deg2rad(torch.tensor([0.0, 23.44])), torch.zeros(2)
    times = torch.tensor([1_679_314_000, 1_679_314_000 + 43200, 1_687_348_900])
    cosine = cos_zenith(times, *places)
    assert float(cosine[0, 0]) == pytest.approx(1.0, abs=1e-3)
    assert float(cosine[1, 0]) == pytest.approx(-1.0, abs=1e-3)
    assert float(cosine[2, 1]) == pytest.approx(1.0, abs=1e-3)
