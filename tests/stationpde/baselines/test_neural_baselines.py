"""Neural baselines: shapes, gradients, missing values, honesty, and the numbers they start from."""

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from neural_baseline_cases import OWN, PACKAGED, SILENT, WINDOWS, config, made, packaged, source
from pde_ops.errors import BackendError
from pde_ops.testing.fake_cuda import _ensure_guard
from stationpde.baselines import baseline
from stationpde.baselines.leakage import leaks
from stationpde.baselines.per_station import PerStation, masked_mean
from stationpde.baselines.timefilter import edge_kinds
from stationpde.errors import UsageError
from stationpde.model.learner import Learner, LocalReducer

EVERY = [*OWN, *packaged(*PACKAGED, slow=True)]


def windows(given, count=3):
    return given.batch(given.windows.train[:: len(given.windows.train) // count][:count])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", EVERY)
def test_a_forecast_has_a_value_for_every_lead_and_station_whatever_is_missing(name, window):
    learner, batch = made(name, window), windows(source(window))
    assert isinstance(learner, Learner) and torch.isnan(batch.history[:, :, SILENT]).all()
    learner.module.eval()
    with torch.no_grad():
        found = learner.predict(batch)
        nothing = learner.predict(replace(batch, history=torch.full_like(batch.history, torch.nan)))
    assert found.shape == (3, WINDOWS[window][1], 7, 5)
    assert torch.isfinite(found).all() and torch.isfinite(nothing).all()
    assert (found[..., 4] >= 0).all() and (found[..., 4] <= 1).all()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", EVERY)
def test_the_gradient_reaches_every_parameter(name, window):
    learner, batch = made(name, window), windows(source(window))
    learner.module.train()
    torch.manual_seed(1)
    learner.losses(batch, LocalReducer()).total.backward()
    trained = {key: p.grad for key, p in learner.module.named_parameters() if p.requires_grad}
    assert [key for key, grad in trained.items() if grad is None or not grad.abs().sum() > 0] == []
    assert all(torch.isfinite(grad).all() for grad in trained.values())
    groups = [p for group in learner.parameter_groups(0.1) for p in group["params"]]
    assert len(groups) == len(trained) == len({id(p) for p in groups})


@pytest.mark.parametrize("name", EVERY)
def test_no_forecast_knows_the_future_or_the_other_windows_of_its_batch(name):
    learner = made(name)
    learner.module.eval()
    assert leaks(learner, windows(source())) == []


# name: trained parameters, and the mean of a forecast's normalised values at seed 0
PINNED = {
    "timefilter": (175096, 0.448745),
    "multipatchformer": (414308, 0.373337),
    "corrformer": (580997, 0.123796),
    "cdpnet": (8581, 0.472391),
    "dgformer": (29698, -0.0261955),
    "mastergnn": (26569, 0.0637049),
    "weathergft": (51121, 0.0708243),
    "itransformer": (268424, 0.169158),
    "timemixer": (4913, 0.191118),
    "timexer": (205960, -0.168648),
    "autoformer": (119173, -0.00496704),
    "stemgnn": (1879003, -0.0131363),
}


@pytest.mark.parametrize("name", EVERY)
def test_parameter_count_and_a_forecast_at_a_fixed_seed_are_as_they_were(name):
    learner = made(name)
    learner.module.eval()
    with torch.no_grad():
        value = float(learner.forecast(windows(source()))[0].mean())
    count, mean = PINNED[name]
    assert learner.describe()["parameters"] == count
    # float32 sums in another order, as another processor may take them, differ in the sixth digit.
    assert value == pytest.approx(mean, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_another_seed_gives_other_weights(name):
    one, same, other = (dict(made(name, seed=seed).module.named_parameters()) for seed in (0, 0, 1))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


# Many small steps take fake tensors a quarter of a minute and more.
MANY_STEPS = ("timefilter", "weathergft")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in MANY_STEPS else n for n in EVERY])
def test_nothing_stays_behind_on_the_processor(name):
    try:
        _ensure_guard()
    except BackendError as reason:
        pytest.skip(str(reason))
    if name == "stemgnn" and not torch.backends.cuda.is_built():
        pytest.skip("a CPU-only build of torch has no GRU for fake CUDA tensors")
    learner, batch = made(name), windows(source())
    learner.module.eval()
    with torch.no_grad():
        history = learner.history(batch)
    network, rest = learner.network, ()
    if name == "cdpnet":
        network, rest = learner.counted.cdpnet, (False,)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        there = [mode.from_tensor(tensor).to("cuda") for tensor in (history, batch.issue_time)]
        found = network.to("cuda")(*there, *rest)
    found = found[0] if isinstance(found, tuple) else found
    assert found.device.type == "cuda" and found.shape[2:] == (7, 5)


# ---- the learner around them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [False, True])
def test_rounds_of_few_rows_change_neither_loss_nor_gradient(norm):
    found = []
    for rows in (4096, 5):
        learner, batch = made("timefilter", instance_norm=norm), windows(source())
        # No dropout and no noise, which would be drawn in another order.
        learner.module.eval()
        learner.network.training = True
        learner.network.rows = rows
        terms = learner.losses(batch, LocalReducer())
        terms.total.backward()
        gradients = [p.grad.flatten() for p in learner.network.parameters() if p.grad is not None]
        found.append((terms.total.detach(), torch.cat(gradients)))
    # Sums of float32 in another order.
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_instance_normalisation_makes_a_forecast_follow_a_shift_of_its_window():
    network = PerStation(torch.nn.Identity(), instance_norm=True)
    history = torch.randn(2, 16, 3, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network(history), history, rtol=1e-5, atol=1e-5)
    learner, batch = made("timefilter", instance_norm=True), windows(source())
    learner.module.eval()
    with torch.no_grad():
        shifted = learner.network(learner.history(batch) + 3.0)[0]
        torch.testing.assert_close(shifted, learner.network(learner.history(batch))[0] + 3.0, rtol=1e-4, atol=1e-3)


def test_the_loss_is_the_mean_over_variables_of_the_mean_over_what_was_observed():
    forecast = torch.zeros(1, 2, 1, 2)
    target = torch.tensor([[[[1.0, 2.0]], [[3.0, torch.nan]]]])
    for kind, expected in (("mse", ((1 + 9) / 2 + 4) / 2), ("l1", ((1 + 3) / 2 + 2) / 2)):
        assert masked_mean(forecast, target, torch.ones(2), kind, LocalReducer()) == expected
    assert masked_mean(forecast, target, torch.tensor([0.0, 1.0]), "mse", LocalReducer()) == 4.0


def test_a_loss_summed_over_two_processes_is_that_of_one():
    learner, batch = made("timefilter"), windows(source(), 4)
    learner.module.eval()
    whole = learner.losses(batch, LocalReducer())
    names = ("history", "future", "issue_time", "index")
    parts = [replace(batch, **{name: getattr(batch, name)[i::2] for name in names}) for i in (0, 1)]

    class Recorder(LocalReducer):
        def __init__(self, others=None):
            self.seen, self.others = [], others

        def sum(self, tensor):
            self.seen.append(tensor.detach())
            return tensor if self.others is None else tensor + self.others[len(self.seen) - 1]

    first = Recorder()
    learner.losses(parts[0], first)
    both = learner.losses(parts[1], Recorder(first.seen))
    torch.testing.assert_close(both.total, whole.total, rtol=1e-5, atol=1e-6)


def test_a_network_is_not_asked_for_more_leads_than_it_was_made_for():
    learner, batch = made("timefilter"), windows(source("48 to 24"))
    shorter = replace(batch, history=batch.history[:, -16:])
    with pytest.raises(UsageError, match="built for 8 steps cannot forecast 24"):
        learner.predict(shorter)
    assert learner.predict(replace(shorter, future=shorter.future[:, :3])).shape[1] == 3
    assert learner.predict(replace(shorter, future=shorter.future[:, :0])).shape[1] == 8


def test_variables_that_are_not_scored_have_no_part_in_the_loss():
    given = source()
    torch.manual_seed(0)
    learner = baseline("timefilter").make(config("16 to 8", 'data.scored=["u","t"]'), given)
    assert learner.weights == (1.0, 0.0, 0.0, 1.0, 0.0)


# ---- TimeFilter ------------------------------------------------------------------------------------------------


def test_every_edge_is_of_one_kind_and_no_node_has_a_loop():
    kinds = edge_kinds(5, 4)
    assert torch.equal(kinds.int().sum(dim=0), 1 - torch.eye(20, dtype=torch.int))
    assert kinds.int().sum(dim=2).unique(dim=1).flatten().tolist() == [4, 3, 12]


def test_patches_of_half_a_window_halve_the_nodes_of_timefilter():
    batch = windows(source())
    for patches in baseline("timefilter").switches["patches"]:
        learner = made("timefilter", patches=patches)
        assert learner.network.network.kinds.shape == (3, 5 * patches, 5 * patches)
        assert learner.network.network.patch * patches == 16
        learner.losses(batch, LocalReducer()).total.backward()
        parameters = dict(learner.module.named_parameters())
        assert [key for key, p in parameters.items() if p.grad is None or not p.grad.abs().sum() > 0] == []
        learner.module.eval()
        assert leaks(learner, batch) == []


def test_the_gate_of_timefilter_learns_from_its_penalty_alone():
    learner, batch = made("timefilter"), windows(source())
    learner.module.train()
    gates = [p for key, p in learner.module.named_parameters() if "gate" in key]
    learner.forecast(batch)[0].square().mean().backward()
    assert len(gates) == 4 and all(gate.grad is None for gate in gates)
    learner.losses(batch, LocalReducer()).total.backward()
    assert all(gate.grad.abs().sum() > 0 for gate in gates)


def test_an_even_and_decided_gate_is_penalised_least():
    network = made("timefilter").network.network
    blocks = len(network.blocks)
    penalty = {
        name: float(network.penalty(torch.tensor([*use, entropy, 30.0]).repeat(blocks)))
        for name, use, entropy in (
            ("even", (10, 10, 10), 0.0),
            ("uneven", (30, 0, 0), 0.0),
            ("undecided", (10, 10, 10), 30.0),
        )
    }
    assert penalty["even"] == 0.0 < penalty["undecided"] < penalty["uneven"]
