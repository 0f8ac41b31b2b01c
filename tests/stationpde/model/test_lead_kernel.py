"""Equations and router of a lead as one function: against its parts, values and derivatives, and where it is taken."""

from __future__ import annotations

import pytest
import torch

from small_network import small_config, small_model, wild, windows
from stationpde.model import lead_kernel
from stationpde.model.first_layers import LeadConditions
from stationpde.model.lead_kernel import LeadProgram
from stationpde.model.network_kernel import is_compiled_here

pytestmark = pytest.mark.skipif(not is_compiled_here(torch.zeros(1)), reason="there is no C compiler")

# Float32 against its own parts: the same sums, those of weights and samples in another order.
CLOSE = {torch.float64: {"rtol": 1e-9, "atol": 1e-11}, torch.float32: {"rtol": 5e-4, "atol": 5e-4}}
SWITCHES = {
    "default": ("default", ()),
    "without sun": ("default", ("model.inputs=['slope', 'encoder']",)),
    "extended": ("extended", ()),
    "surroundings alone": ("default", ('pde.terms=["surroundings"]',)),
    "memory without closure": ("default", ('pde.terms=["memory"]', "model.closure=false")),
}


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def case_of(name: str, dtype: torch.dtype = torch.float64):
    """Return the program of a model's forecast, the conditions of its second lead, and leaves of both."""
    variant, switches = SWITCHES[name]
    model = small_model(small_config(variant, ("pde.backend=fused", *switches)), eager=False).to(dtype)
    wild(model, size=0.1)
    batch = windows(model.config, [3, 40])
    times = model.valid_time(batch.issue_time[:, None], torch.arange(1, 4))
    tendencies = noise(2, 15, *model.region.grid.shape, seed=3).to(dtype)
    conditions = [conditions for conditions, _ in model.conditions_ahead(times, tendencies)][1]
    assert isinstance(conditions, LeadConditions)
    fields = [0.5 * noise(2, 5, *model.region.grid.shape, seed=n).to(dtype).requires_grad_() for n in (0, 1)]
    return model, conditions, fields


def parts_of(program: LeadProgram, conditions: LeadConditions, fields):
    number = conditions.number
    lasting, light, passing = (
        None if values is None else values[number] for values in (program.lasting, program.light, program.passing)
    )
    return lead_kernel.by_parts(program, number, conditions.sun, light, *fields, program.pack, lasting, passing)


def derivatives(outputs, leaves, seeds=(1.0, 0.5), **options):
    whole = sum(s * (noise(*out.shape, seed=9).to(out.dtype) * out).sum() for s, out in zip(seeds, outputs) if s)
    return torch.autograd.grad(whole, leaves, retain_graph=True, allow_unused=True, **options)


def assert_alike(ours, plain, dtype):
    for one, other in zip(ours, plain, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            size = max(1.0, float(other.abs().max()))
            torch.testing.assert_close(one / size, other / size, **CLOSE[dtype])


@pytest.mark.parametrize("name", SWITCHES)
def test_a_lead_is_that_of_its_parts(name):
    model, conditions, fields = case_of(name)
    program = conditions.prepared[model]
    ours, plain = program(*fields, conditions), parts_of(program, conditions, fields)
    assert_alike(ours, plain, torch.float64)
    leaves = [*fields, program.pack, *(parameter for parameter in model.parameters())]
    for seeds in ((1.0, 0.5), (1.0, 0.0), (0.0, 1.0)):
        assert_alike(derivatives(ours, leaves, seeds), derivatives(plain, leaves, seeds), torch.float64)


def test_single_precision_is_as_close_as_its_sums():
    model, conditions, fields = case_of("extended", torch.float32)
    program = conditions.prepared[model]
    ours, plain = program(*fields, conditions), parts_of(program, conditions, fields)
    assert_alike(ours, plain, torch.float32)
    leaves = [*fields, program.pack]
    assert_alike(derivatives(ours, leaves), derivatives(plain, leaves), torch.float32)


def test_derivatives_of_a_lead_have_derivatives():
    model, conditions, fields = case_of("extended")
    program, seconds = conditions.prepared[model], []
    for outputs in (program(*fields, conditions), parts_of(program, conditions, fields)):
        by_field = derivatives(outputs, fields, create_graph=True)[0]
        seconds.append(torch.autograd.grad(by_field.square().sum(), [*fields, program.pack], retain_graph=True))
    assert_alike(*seconds, torch.float64)


def test_without_a_gradient_a_lead_is_the_same_and_keeps_nothing():
    model, conditions, fields = case_of("extended")
    program = conditions.prepared[model]
    expected = program(*fields, conditions)
    strided = [field.detach().permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0) for field in fields]
    assert not strided[0].is_contiguous()
    with torch.no_grad():
        again = program(*strided, conditions)
    assert_alike(again, expected, torch.float64)
    assert all(out.grad_fn is None for out in again)


OTHERS = ("model.data_branch=false", "model.closure=false", "pde.advection=semi_lagrangian", "pde.backend=torch")


@pytest.mark.parametrize("switch", OTHERS)
def test_other_models_take_the_parts(switch):
    model = small_model(small_config("default", ("pde.backend=fused", switch)))
    batch = windows(model.config, [3])
    times = model.valid_time(batch.issue_time[:, None], torch.arange(1, 3))
    conditions = next(iter(model.conditions_ahead(times, None)))[0]
    program = conditions.prepared.get(model) if isinstance(conditions, LeadConditions) else None
    assert program is None
    field = torch.zeros(1, 5, *model.region.grid.shape)
    base = model.interval_start(field, times[:, 0])[1]
    assert model.advance(field, conditions, base, None, 1)[0].shape == field.shape


def test_fields_of_another_type_are_not_taken():
    model, conditions, fields = case_of("default")
    program = conditions.prepared[model]
    assert program.takes(fields[0])
    assert not program.takes(fields[0].float()) and not program.takes(fields[0][:0])
