"""Identities of the whole model: parts that are off, gradients to every parameter, order of stations and batches."""

import pytest
import torch

from small_network import STEP, VARIANTS, learner, small_config, small_model, small_series, wild, windows
from stationpde.config.tree import ABLATIONS
from stationpde.model.learner import Learner, LocalReducer
from stationpde.model.model import StationPDEModel

OPERATORS = ("advection", "laplacian", "coriolis", "friction", "condensation")
PARTS = {
    "no_pde": ("pde_branch", "router"),
    "no_data": ("data_branch", "router"),
    "no_station_head": ("head", "embedding"),
    "no_closure": ("pde_branch.closure", "pde_branch.gamma_closure"),
}


def muggy(config, starts=(2, 5, 11)):
    """Return windows with air above saturation at some stations, where condensation has a gradient."""
    batch = windows(config, list(starts))
    batch.history[:, :, ::3, 4] = 1.4
    return batch


def unreached(config, steps=2):
    """List parameters, element by element for coefficients, without a gradient after the first optimiser step."""
    trained = learner(config)
    trained.module.train()
    optimiser = torch.optim.AdamW(trained.parameter_groups(1e-4), lr=1e-2)
    batch = muggy(config)
    for _ in range(steps):
        optimiser.zero_grad()
        trained.losses(batch, LocalReducer()).total.backward()
        optimiser.step()
    names = []
    for name, parameter in trained.module.named_parameters():
        gradient = parameter.grad
        assert gradient is None or torch.isfinite(gradient).all(), name
        dead = gradient is None or not gradient.any()
        if not dead and name.endswith(("coefficients.raw", "gamma", "gamma_closure", "tau", "scale", "raw_scale")):
            dead = not bool((gradient != 0).all())
        if dead:
            names.append(name)
    return names


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gradient_reaches_every_parameter_after_one_step(variant):
    assert unreached(small_config(variant)) == []


@pytest.mark.parametrize("variant", ["default", "paper"])
@pytest.mark.parametrize("name", [*ABLATIONS, "coriolis"])
def test_the_gradient_reaches_every_parameter_of_every_ablation(variant, name):
    assert unreached(small_config(variant).ablated(name)) == []


@pytest.mark.parametrize("variant", ["default", "paper"])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_off_has_no_parameters_and_nothing_else_changes(variant, name):
    whole, less = (small_model(c).state_dict() for c in (small_config(variant), small_config(variant).ablated(name)))
    gone = {key for key in whole if key.startswith(PARTS[name])}
    assert gone
    assert {k: v.shape for k, v in less.items()} == {k: v.shape for k, v in whole.items() if k not in gone}


@pytest.mark.parametrize(("name", "needed", "unneeded"), [
    ("no_pde", {"DataBranch"}, {"PDEBranch", "Router", "Tendency", "Closure"}),
    ("no_data", {"PDEBranch"}, {"DataBranch", "Router"}),
    ("no_station_head", {"Anchor"}, {"StationHead"}),
    ("no_closure", {"PDEBranch"}, {"Closure"}),
])  # fmt: skip
def test_a_part_that_is_off_is_not_called(name, needed, unneeded):
    model = small_model(small_config().ablated(name))
    called = set()
    for module in model.modules():
        module.register_forward_hook(lambda module, *_: called.add(type(module).__name__) and None)
    batch = windows(model.config, [0])
    model(batch.history, batch.issue_time)
    assert needed <= called
    assert not unneeded & called


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_is_off_changes_the_forecast_and_has_no_coefficient(name):
    config = small_config("default", ("model.data_branch=false",))
    whole, less = small_model(config), small_model(config.ablated(name))
    batch = muggy(config)
    with torch.no_grad():
        shift = less(batch.history, batch.issue_time).state - whole(batch.history, batch.issue_time).state
    assert float((shift / whole.sites.scale).abs().max()) > 1e-5
    gone = {"laplacian": 5, "friction": 1, "condensation": 1}.get(name, 0)
    assert len(whole.physics()) - len(less.physics()) == gone


def test_without_the_observed_loss_only_the_state_counts():
    config = small_config("default").ablated("no_obs_loss")
    terms = learner(config).losses(muggy(config), LocalReducer())
    assert torch.equal(terms.total.detach(), terms.state)
    assert float(terms.observed) == 0.0


@pytest.mark.parametrize("variant", ["default", "paper", "detrended"])
def test_a_sample_does_not_depend_on_its_batch_mates(variant):
    model = small_model(small_config(variant))
    wild(model, 0.1)
    batch = windows(model.config, [1, 7, 30])
    with torch.no_grad():
        together = model(batch.history, batch.issue_time).state
        alone = torch.cat([model(batch.history[i : i + 1], batch.issue_time[i : i + 1]).state for i in range(3)])
    # Batched convolutions add up in another order.
    torch.testing.assert_close(together / model.sites.scale, alone / model.sites.scale, rtol=0, atol=2e-3)


@pytest.mark.parametrize("variant", ["default", "paper", "detrended"])
def test_the_order_of_stations_is_of_no_account(variant):
    model = small_model(small_config(variant))
    wild(model, 0.1)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(5))
    batch = windows(model.config, [1, 7])
    with torch.no_grad():
        there = model(batch.history, batch.issue_time).state[:, :, order]
        other = model.at(model.sites.stations.take(order.numpy()))
        reordered = other(batch.history[:, :, order], batch.issue_time).state
    torch.testing.assert_close(reordered / other.sites.scale, there / other.sites.scale, rtol=0, atol=2e-3)


@pytest.mark.parametrize("variant", ["default", "paper", "detrended"])
def test_missing_observations_give_finite_forecasts_losses_and_gradients(variant):
    trained = learner(small_config(variant))
    wild(trained.module, 0.05)
    batch = windows(trained.config, range(1, 10))
    history, silent = batch.history, torch.rand(12, generator=torch.Generator().manual_seed(1))
    for sample, share in enumerate((0.2, 0.5, 0.8)):
        history[sample, :, silent < share] = torch.nan
    history[3, :, 4] = torch.nan  # a station
    history[4, ..., 3] = torch.nan  # a variable
    history[5, -1, :, 2] = torch.nan  # all barometers at the issue time
    history[6, -1] = torch.nan  # the issue time
    history[7, :, 1:] = torch.nan  # all stations but one
    history[8] = torch.nan  # everything
    batch.future[0] = torch.nan
    terms = trained.losses(batch, LocalReducer())
    terms.total.backward()
    assert torch.isfinite(terms.total)
    assert torch.isfinite(trained.predict(batch)).all()
    assert all(torch.isfinite(p.grad).all() for p in trained.module.parameters() if p.grad is not None)


def test_a_station_that_is_hidden_is_forecast_as_if_it_had_not_reported():
    model = small_model()
    wild(model, 0.1)
    batch = windows(model.config, [1])
    shown = torch.ones(1, 12, dtype=torch.bool)
    shown[0, 3] = False
    hidden = model(batch.history, batch.issue_time, shown=shown).state
    silent = batch.history.clone()
    silent[:, :, 3] = torch.nan
    with torch.no_grad():
        model.embedding[3] = 0.0
    torch.testing.assert_close(hidden, model(silent, batch.issue_time).state, rtol=1e-6, atol=1e-6)


def test_training_hides_stations_and_forecasting_does_not():
    trained = learner(small_config("default", ("train.station_dropout=0.5",)))
    batch = windows(trained.config, [1, 7])
    trained.module.train()
    torch.manual_seed(0)
    first, second = (trained.losses(batch, LocalReducer()).total.item() for _ in range(2))
    assert first != second
    trained.module.eval()
    assert trained.losses(batch, LocalReducer()).total.item() == trained.losses(batch, LocalReducer()).total.item()


@pytest.mark.parametrize(("horizon", "history"), [(1, 3), (5, 9)])
def test_any_history_and_horizon_that_fit(horizon, history):
    config = small_config("default", (f"data.history={history}", "data.horizon=3"))
    model = small_model(config)
    batch = windows(config, [0, 4])
    forecast = model(batch.history, batch.issue_time, horizon, keep_fields=True)
    assert forecast.observed.shape == forecast.state.shape == (2, horizon, 12, 5)
    assert forecast.fields.shape == forecast.router.shape == (2, horizon, 5, 8, 9)
    assert torch.isfinite(forecast.observed).all()


def test_fields_are_full_states_in_si():
    model = small_model()
    batch = windows(model.config, [3])
    fields = model(batch.history, batch.issue_time, keep_fields=True).fields[0, 0]
    for channel, (low, high) in enumerate([(-40, 40), (-40, 40), (8e4, 1.05e5), (260, 330), (0, 0.03)]):
        assert low < float(fields[channel].min()) <= float(fields[channel].max()) < high


def test_the_model_is_a_learner_and_describes_itself():
    trained = learner()
    assert isinstance(trained, Learner)
    facts = trained.describe()
    assert (facts["stations"], facts["grid"], facts["substeps"]) == (12, [8, 9], 3)
    assert facts["parameters"] == sum(p.numel() for p in trained.module.parameters())
    assert 0.0 < facts["courant_at_20_m_s"] < 5.0
    physics = trained.module.physics()
    assert str(physics["kappa_u"].units) == "kilometer ** 2 / hour"
    assert physics["gamma_p"] == 1.0


@pytest.mark.parametrize("variant", ["default", "paper", "detrended"])
def test_a_model_is_rebuilt_from_its_tensors(variant):
    model = small_model(small_config(variant))
    wild(model, 0.1)
    rebuilt = StationPDEModel.from_tensors(model.config, model.statistics.stations.id, model.state_dict()).eval()
    batch = windows(model.config, [1, 7])
    with torch.no_grad():
        assert torch.equal(rebuilt(batch.history, batch.issue_time).state, model(batch.history, batch.issue_time).state)
    assert rebuilt.state_dict().keys() == model.state_dict().keys()


def test_activation_checkpointing_gives_the_same_gradients():
    gradients = []
    for recompute in ("false", "true"):
        trained = learner(small_config("default", (f"train.recompute={recompute}",)))
        wild(trained.module, 0.05)
        trained.losses(windows(trained.config, [1, 7]), LocalReducer()).total.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in trained.module.parameters()]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("variant", "steps"), [("default", 120), pytest.param("paper", 250, marks=pytest.mark.slow)])
def test_eight_windows_are_learned_by_heart(variant, steps):
    config = small_config(variant, ("data.horizon=1", "model.head_hidden=48"))
    trained = learner(config)
    trained.module.train()
    batch = windows(config, range(0, 64, 8))
    optimiser = torch.optim.AdamW(trained.parameter_groups(0.0), lr=1e-2)
    # Twice this peak rate makes the printed model's loss jump, and how far it is down by then is a matter of chance.
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = trained.losses(batch, LocalReducer()).total
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.module.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[-1] < 0.25 * losses[0], (losses[0], losses[-1])


def test_windows_come_from_the_record():
    batch = windows(small_config(), [4])
    assert int(batch.issue_time) == int(small_series().time[0]) + 8 * STEP


@pytest.mark.parametrize(
    ("variant", "overrides"),
    [("default", ()), ("default", ("model.closure=false",)), ("default", ('pde.without=["S_u"]',)), ("extended", ())],
)
@pytest.mark.parametrize("backend", ["torch", "fused"])
def test_an_interval_in_one_march_is_its_sub_steps(variant, overrides, backend):
    config = small_config(variant, (*overrides, f"pde.backend={backend}"))
    model = small_model(config).double()
    wild(model, 0.3 if variant == "default" else 0.01)
    branch, batch = model.pde_branch, windows(config, [1, 7])
    assert branch.marches
    with torch.no_grad():
        at_once = model(batch.history.double(), batch.issue_time).state
        branch.marches = False
        one_by_one = model(batch.history.double(), batch.issue_time).state
    # Factors of driven terms are multiplied in another order, and a fused multiply-add rounds once.
    torch.testing.assert_close(at_once, one_by_one, rtol=1e-12, atol=0.0)
