"""The compiled head of the stations and its layer against torch: values, derivatives, threads, fallbacks."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nnf

from stationpde.model import head_kernel
from stationpde.model.head_kernel import apply_head, apply_layer, head_by_torch, runs_head_here, runs_layer_here
from stationpde.model.station_head import StationHead

pytestmark = pytest.mark.skipif(not runs_layer_here(torch.zeros(1)), reason="there is no C compiler")

# Sums of some hundred products in another order: a few hundred units in the last place.
CLOSE = {torch.float64: {"rtol": 1e-10, "atol": 1e-12}, torch.float32: {"rtol": 2e-4, "atol": 5e-5}}
# Samples, leads, stations, inputs, hidden, outputs: of the model; no whole vectors, more outputs than one; one row.
HEADS = {
    "model": (3, 8, 23, 11, 128, 5),
    "odd": (5, 3, 50, 9, 21, 19),
    "one row": (1, 1, 1, 1, 1, 1),
    "many rows": (2, 4, 149, 6, 40, 2),
}
LAYERS = {"model": (90, 77, 128), "odd": (13, 7, 5), "one row": (1, 1, 1), "two parts": (1100, 33, 37)}


def head_of(case: str, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    batch, leads, stations, inputs, hidden, outputs = HEADS[case]
    draw = torch.Generator().manual_seed(0)
    shapes = ((batch, 1, stations, hidden), (batch, leads, stations, inputs), (hidden, inputs), (hidden, hidden),
              (hidden,), (outputs, hidden), (outputs,), (outputs,))  # fmt: skip
    tensors = [(0.3 * torch.randn(shape, generator=draw, dtype=torch.float64)).to(dtype) for shape in shapes]
    return [tensor.requires_grad_(place != 1) for place, tensor in enumerate(tensors)]


def layer_of(case: str, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    rows, inputs, outputs = LAYERS[case]
    draw = torch.Generator().manual_seed(0)
    shapes = ((rows, inputs), (outputs, inputs), (outputs,))
    return [torch.randn(s, generator=draw, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


def assert_alike(ours, plain, leaves, dtype):
    torch.testing.assert_close(ours, plain, **CLOSE[dtype])
    seed = torch.randn(plain.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    for one, other in zip(*(torch.autograd.grad(out, leaves, seed) for out in (ours, plain)), strict=True):
        torch.testing.assert_close(one, other, rtol=CLOSE[dtype]["rtol"], atol=CLOSE[dtype]["atol"] * len(seed))


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("case", HEADS)
def test_values_and_derivatives_of_the_head_are_those_of_torch(case, dtype):
    inputs = head_of(case, dtype)
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    assert_alike(apply_head(*inputs), head_by_torch(*inputs), leaves, dtype)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("case", LAYERS)
def test_values_and_derivatives_of_a_layer_are_those_of_torch(case, dtype):
    inputs = layer_of(case, dtype)
    assert_alike(apply_layer(*inputs), nnf.linear(*inputs), inputs, dtype)


def test_derivatives_of_first_and_second_order_are_right():
    inputs = [tensor.detach() for tensor in head_of("one row")]

    def head(*weights):
        return apply_head(weights[0], inputs[1], *weights[1:])

    leaves = tuple(tensor.requires_grad_() for place, tensor in enumerate(inputs) if place != 1)
    assert torch.autograd.gradcheck(head, leaves)
    assert torch.autograd.gradgradcheck(head, leaves)
    assert torch.autograd.gradgradcheck(apply_layer, layer_of("odd"))


def test_the_result_does_not_depend_on_the_number_of_threads():
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            inputs, others = head_of("many rows", torch.float32), layer_of("two parts", torch.float32)
            leaves = [tensor for tensor in (*inputs, *others) if tensor.requires_grad]
            outputs = (apply_head(*inputs), apply_layer(*others))
            seeds = [out.detach() for out in outputs]
            results.append([*seeds, *torch.autograd.grad(outputs, leaves, seeds)])
        finally:
            torch.set_num_threads(1)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_strided_inputs_and_weights_are_read_as_they_are():
    inputs = head_of("odd")
    strided = [tensor.detach().transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.ndim > 1 else tensor.detach()
               for tensor in inputs]  # fmt: skip
    assert torch.equal(apply_head(*strided), apply_head(*inputs))


def test_without_a_gradient_nothing_is_kept():
    inputs = [tensor.detach() for tensor in head_of("model")]
    torch.testing.assert_close(apply_head(*inputs), head_by_torch(*inputs), **CLOSE[torch.float64])
    assert apply_head(*inputs).grad_fn is None


def test_other_shapes_types_and_derivatives_by_the_lead_go_to_torch(monkeypatch):
    inputs = head_of("model")
    memory, passing, *weights = inputs
    assert runs_head_here(*inputs)
    assert not runs_head_here(memory[:, 0], passing[:, 0], *weights)
    assert not runs_head_here(memory.half(), passing, *weights)
    assert not runs_head_here(memory, passing.clone().requires_grad_(), *weights)
    assert not runs_head_here(memory[:0], passing[:0], *weights)
    monkeypatch.setattr(head_kernel, "is_compiled_here", lambda _: False)
    assert not runs_head_here(*inputs)
    assert not runs_layer_here(memory)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_module_computes_its_formula_either_way(compiled, monkeypatch):
    torch.manual_seed(0)
    head = StationHead(7, 4, 16, torch.ones(5))
    with torch.no_grad():
        head.last.weight.normal_()
    history, passing = torch.randn(2, 3, 7), torch.randn(2, 5, 3, 4)
    if not compiled:
        monkeypatch.setattr(head_kernel, "is_compiled_here", lambda _: False)
    memory = head.remember(history)
    expected = head.last(nnf.silu(head.middle(nnf.silu(head.lasting(history)[:, None] + head.passing(passing)))))
    torch.testing.assert_close(head(memory[:, None], passing), expected, **CLOSE[torch.float32])
    one_lead = head(memory, passing[:, 0])
    torch.testing.assert_close(one_lead, expected[:, 0], **CLOSE[torch.float32])
