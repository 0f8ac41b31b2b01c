"""The compiled terms that drive the equations against operations of torch: values, derivatives, refusals."""

from __future__ import annotations

import pytest
import torch

from pde_ops import Grid2D
from stationpde.model.network_kernel import is_compiled_here
from stationpde.model.slopes import Slopes
from stationpde.model.terms_kernel import Surroundings, apply_terms, by_torch

pytestmark = pytest.mark.skipif(not is_compiled_here(torch.zeros(1)), reason="there is no C compiler")

NAMES = ("closure", "lasting", "radiation", "around", "regime")
# Fewer samples than lie side by side, more, and rows shorter and longer than a vector.
SHAPES = [(2, 4, 5), (9, 6, 7), (8, 18, 21), (1, 3, 40)]
CLOSE = {torch.float64: {"rtol": 1e-10, "atol": 1e-11}, torch.float32: {"rtol": 3e-4, "atol": 3e-4}}


def inputs_of(shape, without=(), dtype=torch.float64, radii=(1, 2)):
    batch, ny, nx = shape
    lat, lon = torch.linspace(-34.0, -22.0, ny), torch.linspace(-57.0, -43.0, nx)
    slopes = Slopes(Grid2D.from_latlon(lat, lon, boundary="zero_gradient"), radii).to(dtype)
    draw = torch.Generator().manual_seed(0)

    def noise(name, *size):
        values = torch.randn(size, generator=draw, dtype=torch.float64).to(dtype)
        return None if name in without else values.requires_grad_()

    light = torch.rand((batch, 2, ny, nx), generator=draw, dtype=torch.float64).to(dtype)
    inputs = [
        noise("fields", batch, 5, ny, nx), noise("closure", batch, 5, ny, nx), noise("closure", 5),
        noise("lasting", batch, 5, ny * nx), None if "radiation" in without else light, noise("radiation", 5, 5),
        noise("around", 5, 15 * len(radii)), noise("regime", 5, 5), noise("regime", batch, 5),
    ]  # fmt: skip
    # 1 is within reach of the regime's inputs: derivatives end there.
    return inputs, Surroundings(slopes, len(radii) // 2, 1.0)


def outputs_and_derivatives(apply, inputs, surroundings):
    outputs = [out for out in apply(*inputs, surroundings) if out is not None]
    draw = torch.Generator().manual_seed(1)
    seeds = [torch.randn(out.shape, generator=draw, dtype=torch.float64).to(out.dtype) for out in outputs]
    leaves = [value for value in inputs if value is not None and value.requires_grad]
    total = sum((out * seed).sum() for out, seed in zip(outputs, seeds, strict=True))
    return [*outputs, *torch.autograd.grad(total, leaves, allow_unused=True)]


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_derivatives_are_those_of_torch(shape, dtype):
    inputs, surroundings = inputs_of(shape, dtype=dtype)
    both = (outputs_and_derivatives(apply, inputs, surroundings) for apply in (apply_terms, by_torch))
    for ours, plain in zip(*both, strict=True):
        torch.testing.assert_close(ours, plain, **CLOSE[dtype])


@pytest.mark.parametrize("only", NAMES)
def test_each_term_may_stand_alone(only):
    inputs, surroundings = inputs_of((3, 5, 6), without=set(NAMES) - {only})
    both = (outputs_and_derivatives(apply, inputs, surroundings) for apply in (apply_terms, by_torch))
    for ours, plain in zip(*both, strict=True):
        torch.testing.assert_close(plain if ours is None else ours, ours if plain is None else plain)


def test_derivatives_of_second_order_are_right():
    inputs, surroundings = inputs_of((1, 3, 3))
    fields, around = inputs[0], inputs[6]

    def terms(x, w):
        return apply_terms(x, *inputs[1:6], w, *inputs[7:], surroundings)

    assert torch.autograd.gradgradcheck(terms, (fields, around))


def test_a_number_that_is_none_stays_in_its_sample():
    inputs, surroundings = inputs_of((3, 4, 5))
    with torch.no_grad():
        inputs[0][1, 2, 2, 2] = torch.nan
    added, decay = apply_terms(*inputs, surroundings)
    assert added[1].isnan().any() and decay[1].isnan().any()
    assert not added[[0, 2]].isnan().any() and not decay[[0, 2]].isnan().any()


def test_no_sample_drives_nothing():
    inputs, surroundings = inputs_of((2, 4, 5))
    empty = [value[:0] if place in (0, 1, 3, 4, 8) else value for place, value in enumerate(inputs)]
    assert [tuple(out.shape) for out in apply_terms(*empty, surroundings)] == [(0, 5, 4, 5)] * 2


def test_other_numbers_are_refused():
    inputs, surroundings = inputs_of((2, 4, 5))
    inputs[6] = inputs[6].float()
    with pytest.raises(ValueError, match="terms take"):
        apply_terms(*inputs, surroundings)
