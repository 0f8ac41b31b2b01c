"""The losses: masked, finite with NaN, by hand on a small case, and the same over any number of ranks."""

import threading

import pytest
import torch

from fields.windows.torch_data import Batch
from small_network import learner, small_config, wild, windows
from stationpde.config.sections import DataSection, LossSection
from stationpde.model.learner import LocalReducer
from stationpde.model.losses import masked_losses

NAN = float("nan")
NOTHING = torch.zeros(())
PRINTED = LossSection(kind="l1", observed=0.2)


def losses(observed, target, section=None, data=None, scale=None, reducer=None, state=None, target_state=None):
    state = observed if state is None else state
    target_state = target if target_state is None else target_state
    scale = torch.ones(observed.shape[2], 5) if scale is None else scale
    return masked_losses(observed, state, target, target_state, scale, section or PRINTED, data or DataSection(),
                         reducer or LocalReducer(), NOTHING)  # fmt: skip


def case():
    """Return forecast and target of one window, one lead, two stations."""
    target = torch.tensor([[[[1.0, 2.0, 1000.0, 280.0, 0.5], [3.0, NAN, 1040.0, 284.0, NAN]]]])
    forecast = torch.tensor([[[[2.0, 4.0, 1000.0, 281.0, 0.7], [3.0, 9.0, 1060.0, 281.0, 9.0]]]])
    return forecast, target


def test_the_losses_of_a_small_case_are_those_by_hand():
    forecast, target = case()
    scale = torch.tensor([[1.0, 1.0, 10.0, 1.0, 0.1], [2.0, 1.0, 10.0, 1.0, 0.1]])
    terms = losses(forecast, target, scale=scale)
    # u: (1 + 0)/2; v: 2; p: (0 + 2)/2; theta: (1 + 3)/2; q: 2
    assert float(terms.state) == pytest.approx((0.5 + 2.0 + 1.0 + 2.0 + 2.0) / 5)
    # s_j: u 1, p 20, t 2, of what was observed; v and rh have one value each and take the floor 0.1 and 0.005
    assert float(terms.observed) == pytest.approx((0.5 + 20.0 + 0.5 + 1.0 + 40.0) / 5)
    assert float(terms.total) == pytest.approx(float(terms.state) + 0.2 * float(terms.observed))


@pytest.mark.parametrize(("kind", "u"), [("l1", 0.5), ("mse", 0.5), ("huber", 0.25)])
def test_other_norms_are_there_by_name(kind, u):
    forecast, target = case()
    section = LossSection(kind=kind, observed=0.0)
    assert float(losses(forecast, target, section, data=DataSection(scored=("u",))).state) == pytest.approx(u)


def test_pressure_has_no_weight_where_it_is_not_scored():
    forecast, target = case()
    data = DataSection(scored=("u", "v", "t", "rh"), missing={"p": "standard-atmosphere"})
    forecast.requires_grad_()
    terms = losses(forecast, target, data=data)
    terms.total.backward()
    assert not forecast.grad[..., 2].any()
    assert float(terms.state) == pytest.approx((0.5 + 2.0 + 2.0 + 0.2) / 4)


def test_what_was_not_observed_has_neither_value_nor_gradient():
    forecast, target = case()
    forecast.requires_grad_()
    terms = losses(forecast, target)
    terms.total.backward()
    assert torch.isfinite(forecast.grad).all()
    assert forecast.grad[0, 0, 1, [1, 4]].tolist() == [0.0, 0.0]
    other = forecast.detach().clone()
    other[0, 0, 1, [1, 4]] = 1e6
    assert float(losses(other, target).total) == pytest.approx(float(terms.total.detach()))


@pytest.mark.parametrize("gone", ["everything", "a variable"])
def test_a_batch_without_targets_is_finite(gone):
    forecast, target = case()
    target[..., 3 if gone == "a variable" else slice(None)] = NAN
    forecast.requires_grad_()
    terms = losses(forecast, target)
    terms.total.backward()
    assert torch.isfinite(terms.total)
    assert torch.isfinite(forecast.grad).all()
    if gone == "a variable":  # the others share its weight
        assert float(terms.state) == pytest.approx((0.5 + 2.0 + 10.0 + 0.2) / 4)


def test_the_yardstick_of_the_batch_has_no_gradient_and_a_floor():
    forecast, target = case()
    target = target.expand(2, -1, -1, -1).clone()
    target[..., 0] = 5.0  # equal targets: s_u is the floor, not 0
    terms = losses(forecast.expand(2, -1, -1, -1), target.requires_grad_())
    assert torch.isfinite(terms.total)
    terms.total.backward()
    there = torch.isfinite(target.detach())
    assert torch.isfinite(target.grad[there]).all()


class PairReducer:
    """Two ranks in two threads: sums are exchanged at a barrier, gradients stay with their own part."""

    world = 2

    def __init__(self, rank, slots, barrier):
        self.rank, self.slots, self.barrier = rank, slots, barrier

    def sum(self, tensor):
        self.slots[self.rank] = tensor.detach()
        self.barrier.wait(timeout=60)
        total = self.slots[0] + self.slots[1]
        self.barrier.wait(timeout=60)
        return tensor + (total - tensor.detach())

    def share(self, tensor):
        return tensor / 2 + (tensor / 2).detach()


def half(batch, rank):
    part = slice(rank, None, 2)
    return Batch(batch.history[part], batch.future[part], batch.issue_time[part], batch.step_seconds, batch.index[part])


def test_two_halves_on_two_ranks_have_the_loss_and_the_gradient_of_the_whole():
    config = small_config("paper")
    one, *two = (learner(config) for _ in range(3))
    for each in (one, *two):
        wild(each.module, 0.05)
    batch = windows(config, range(6))
    batch.future[0] = NAN  # so that the ranks count differently
    whole = one.losses(batch, LocalReducer())
    whole.total.backward()
    results, slots, barrier = [None, None], [None, None], threading.Barrier(2)

    def rank(number):
        results[number] = two[number].losses(half(batch, number), PairReducer(number, slots, barrier))
        results[number].total.backward()

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in results:
        assert part.total.item() == pytest.approx(whole.total.item(), rel=1e-5)
        assert part.observed.item() == pytest.approx(whole.observed.item(), rel=1e-5)
    for parameter, first, second in zip(*(m.module.parameters() for m in (one, *two)), strict=True):
        size = max(float(parameter.grad.abs().max()), 1e-6)
        torch.testing.assert_close((first.grad + second.grad) / size, parameter.grad / size, rtol=0, atol=1e-4)


def test_relative_humidity_above_one_still_has_a_gradient_in_the_loss():
    trained = learner(small_config())
    batch = windows(trained.config, [3])
    with torch.no_grad():
        trained.module.head.last.bias[4] = 200.0  # far above saturation
    assert float(trained.predict(batch)[..., 4].detach().max()) == 1.0
    terms = trained.losses(batch, LocalReducer())
    terms.total.backward()
    assert float(trained.module.head.last.bias.grad[4]) > 0.0
