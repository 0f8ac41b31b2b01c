"""The compiled network of two convolutions against operations of torch: values, derivatives, threads, fallbacks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from stationpde.model import network_kernel
from stationpde.model.network_kernel import apply_network, by_torch, is_compiled_here

pytestmark = pytest.mark.skipif(not is_compiled_here(torch.zeros(1)), reason="there is no C compiler")

NAMES = ("fields", "more", "sun", "first", "each", "lasting", "factor", "shift", "last", "bias")
# Sums of some two hundred products in another order: a few hundred units in the last place.
CLOSE = {torch.float64: {"rtol": 1e-10, "atol": 1e-12}, torch.float32: {"rtol": 2e-4, "atol": 2e-5}}
# Without a second field, sun or factor; wider than the registers; a single row; columns beyond a vector.
CASES = {
    "all": (2, 5, 16, 5, (6, 7), True, True, True),
    "plain": (2, 5, 16, 5, (6, 7), False, False, False),
    "gate": (3, 5, 16, 5, (4, 9), True, True, False),
    "motion": (2, 5, 16, 2, (5, 5), False, True, False),
    "wide": (1, 5, 33, 8, (3, 40), True, False, True),
    "one sample, one row": (1, 3, 7, 1, (1, 2), False, True, True),
    "five samples": (5, 5, 16, 5, (18, 21), True, True, True),
}


def inputs_of(case: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> dict[str, torch.Tensor | None]:
    batch, channels, hidden, outputs, grid, more, sun, factor = CASES[case]
    draw = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return (0.3 * torch.randn(shape, generator=draw, dtype=torch.float64)).to(dtype)

    taps, cells = 9 * (channels * (1 + more) + sun), grid[0] * grid[1]
    return {
        "fields": noise(batch, channels, *grid),
        "more": noise(batch, channels, *grid) if more else None,
        "sun": noise(batch, 1, *grid) if sun else None,
        "first": noise(hidden, taps),
        "each": noise(batch, hidden),
        "lasting": noise(hidden, cells),
        "factor": 1.0 + noise(hidden, cells) if factor else None,
        "shift": noise(hidden, cells) if factor else None,
        "last": noise(outputs, hidden, 3, 3),
        "bias": noise(outputs),
    }


def leaves_of(inputs: dict[str, torch.Tensor | None]) -> list[torch.Tensor]:
    # The height of the sun is data, nothing is derived by it.
    return [value.requires_grad_() for name, value in inputs.items() if value is not None and name != "sun"]


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives_are_those_of_torch(case, dtype):
    inputs = inputs_of(case, dtype)
    leaves = leaves_of(inputs)
    ours, plain = apply_network(*inputs.values()), by_torch(*inputs.values())
    torch.testing.assert_close(ours, plain, **CLOSE[dtype])
    seed = torch.randn(plain.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    for one, other in zip(*(torch.autograd.grad(out, leaves, seed) for out in (ours, plain)), strict=True):
        torch.testing.assert_close(one, other, **CLOSE[dtype])


@pytest.mark.parametrize("case", ["plain", "one sample, one row"])
def test_derivatives_of_first_and_second_order_are_right(case):
    inputs = inputs_of(case)
    names = [name for name, value in inputs.items() if value is not None and name in ("fields", "each", "bias")]
    leaves = tuple(inputs[name].requires_grad_() for name in names)

    def network(*values):
        return apply_network(*(inputs | dict(zip(names, values, strict=True))).values())

    assert torch.autograd.gradcheck(network, leaves)
    assert torch.autograd.gradgradcheck(network, leaves)


def test_the_result_does_not_depend_on_the_number_of_threads():
    inputs, results = inputs_of("five samples", torch.float32), []
    leaves = leaves_of(inputs)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            out = apply_network(*inputs.values())
            results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
        finally:
            torch.set_num_threads(1)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_threads_of_python_do_not_disturb_each_other():
    cases = [inputs_of("five samples", seed=seed) for seed in range(2)]

    def derivatives(inputs):
        leaves = leaves_of(inputs)
        out = apply_network(*inputs.values())
        return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]

    expected = [derivatives(inputs) for inputs in cases]
    done = threading.Event()

    def churn():
        # Takes whatever memory of the size of a list of addresses is free.
        while not done.is_set():
            _ = [np.ones(10, np.int64) for _ in range(100)]

    with ThreadPoolExecutor(3) as pool:
        pool.submit(churn)
        try:
            for number, result in enumerate(pool.map(derivatives, cases * 100)):
                assert all(torch.equal(a, b) for a, b in zip(result, expected[number % 2], strict=True))
        finally:
            done.set()


def test_strided_inputs_are_those_that_they_show():
    inputs = inputs_of("gate")
    expected = apply_network(*inputs.values())
    turned = inputs["fields"].transpose(2, 3).contiguous().transpose(2, 3)
    assert torch.equal(apply_network(*(inputs | {"fields": turned}).values()), expected)


def test_a_number_that_is_none_stays_visible():
    inputs = inputs_of("plain")
    inputs["fields"][0, 0, 0, 0] = torch.nan
    outputs = apply_network(*inputs.values())
    assert outputs[0].isnan().any() and not outputs[1].isnan().any()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("each", lambda each: each[:1]),
        ("lasting", lambda lasting: lasting[:, 1:]),
        ("first", lambda first: first.float()),
        ("more", lambda more: more[:, :4]),
        ("sun", lambda sun: sun.expand(-1, 2, -1, -1)),
        ("bias", lambda bias: bias.to("meta")),
        ("shift", lambda shift: None),
    ],
)
def test_tensors_that_do_not_fit_are_refused(name, wrong):
    inputs = inputs_of("all")
    with pytest.raises(ValueError, match="a network"):
        apply_network(*(inputs | {name: wrong(inputs[name])}).values())


def test_tensors_without_memory_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        inputs = {name: None if value is None else mode.from_tensor(value) for name, value in inputs_of("all").items()}
        with pytest.raises(ValueError, match="a network takes"):
            apply_network(*inputs.values())


def test_other_devices_dtypes_and_machines_without_a_compiler_take_torch(monkeypatch):
    assert not is_compiled_here(torch.zeros(1, device="meta"))
    assert not is_compiled_here(torch.zeros(1, dtype=torch.bfloat16))
    monkeypatch.setenv("PDE_OPS_FUSED", "torch")
    assert not network_kernel.is_compiled_here(torch.zeros(1))


def test_no_sample_has_no_outputs_and_derivatives_of_zero():
    inputs = inputs_of("all")
    empty = inputs | {name: inputs[name][:0] for name in ("fields", "more", "sun", "each")}
    leaves = leaves_of(empty)
    outputs = apply_network(*empty.values())
    assert outputs.shape == (0, 5, 6, 7)
    assert all(not gradient.any() for gradient in torch.autograd.grad(outputs.sum(), leaves))
    for name in ("fields", "last"):
        with pytest.raises(ValueError, match="a network"):
            apply_network(*(inputs | {name: inputs[name][:, :0]}).values())


def test_a_negated_view_counts_with_its_sign():
    inputs = {name: None if value is None else value.clone() for name, value in inputs_of("all").items()}
    for name in ("fields", "each", "lasting", "last", "bias"):
        turned = inputs | {name: torch._neg_view(inputs[name])}
        torch.testing.assert_close(apply_network(*turned.values()), by_torch(*turned.values()))
    inputs["fields"].requires_grad_()
    seed = torch._neg_view(torch.ones(2, 5, 6, 7, dtype=torch.float64))
    both = (network(*inputs.values()) for network in (apply_network, by_torch))
    ours, plain = (torch.autograd.grad(outputs, inputs["fields"], seed)[0] for outputs in both)
    torch.testing.assert_close(ours, plain)


def test_the_derivative_by_the_sun_is_there_where_it_is_wanted():
    inputs = inputs_of("gate")
    sun = inputs["sun"].requires_grad_()
    both = (network(*inputs.values()) for network in (apply_network, by_torch))
    ours, plain = (torch.autograd.grad(outputs.sum(), sun)[0] for outputs in both)
    torch.testing.assert_close(ours, plain)


def test_what_torch_transforms_or_only_describes_is_not_for_the_kernel():
    seen = []

    def look(x):
        seen.append(is_compiled_here(x))
        return x.sum()

    one = torch.ones(1, 2, 3, 3)
    torch.func.grad(look)(one)
    torch.func.jvp(look, (one,), (one,))
    torch.func.vmap(look)(one)
    with FakeTensorMode() as fake:
        look(fake.from_tensor(one))
    look(one.as_subclass(type("Named", (torch.Tensor,), {})))
    assert seen == [False] * 5 and is_compiled_here(one)
