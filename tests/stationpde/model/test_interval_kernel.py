"""An interval of the equations, and a gate, as one function each: against their parts, values and derivatives."""

from __future__ import annotations

import pytest
import torch

from pde_ops import Closure, Field, Grid2D, PDESystem, Positive
from pde_ops.ops import advection, laplacian
from stationpde.model import gate_kernel, interval_kernel
from stationpde.model.gate_kernel import apply_gate
from stationpde.model.interval_kernel import Course, apply_interval, call_of
from stationpde.model.network_kernel import is_compiled_here
from stationpde.model.slopes import Slopes
from stationpde.model.terms_kernel import Surroundings

pytestmark = pytest.mark.skipif(not is_compiled_here(torch.zeros(1)), reason="there is no C compiler")

# Float32 against its own parts: the same sums, those of weights and samples in another order.
CLOSE = {torch.float64: {"rtol": 1e-10, "atol": 1e-11}, torch.float32: {"rtol": 2e-4, "atol": 2e-4}}
# One sample; two that lie side by side in padded rows; four whose rows are whole vectors.
DOUBLE, SINGLE = torch.float64, torch.float32
SHAPES = [((1, 4, 7), DOUBLE), ((2, 4, 7), DOUBLE), ((2, 4, 7), SINGLE), ((4, 4, 8), DOUBLE)]
CLOSURE, TERMS, DECAY = slice(2, 9), slice(9, 16), slice(14, 16)
HIDDEN = 4


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def tendency_of(grid: Grid2D, backend: str = "fused"):
    fields = [Field(name, "1") for name in ("a", "b", "c", "d", "e")]
    u, v = Closure("u_b", "m/s"), Closure("v_b", "m/s")
    kappa = Positive("kappa", "m**2/s", init=1e5)
    equations = {field: -advection(field, u, v) + kappa * laplacian(field) for field in fields}
    return PDESystem("carried", equations).compile(grid, backend=backend)


def case_of(shape, dtype=torch.float64, without=(), leads=2):
    """Return a course and the inputs of an interval, most of which want derivatives."""
    batch, ny, nx = shape
    grid = Grid2D.from_latlon(
        torch.linspace(-34.0, -22.0, ny), torch.linspace(-57.0, -43.0, nx), boundary="zero_gradient"
    )
    tendency, dt = tendency_of(grid).to(dtype), 600.0
    bases = 5.0 * noise(leads, batch, 3, ny, nx, seed=1, dtype=dtype)
    scale = (1.0 + torch.rand(5, generator=torch.Generator().manual_seed(2)).to(dtype), noise(5, seed=3, dtype=dtype))
    surroundings = Surroundings(Slopes(grid, (1, 2)).to(dtype), 1, 1.0)
    field, cells = noise(batch, 5, ny, nx, seed=4, dtype=dtype), ny * nx
    coefficients = tendency.coefficients().detach()
    call = call_of(tendency, field, {"u_b": bases[0, :, 2], "v_b": bases[0, :, 0]}, coefficients, dt)
    course = Course.of(call, (4, 2), scale, surroundings, bases, (2, 0))
    sizes = [
        (batch, 1, ny, nx), (HIDDEN, 6 * 9), (batch, HIDDEN), (HIDDEN, cells), (HIDDEN, cells), (HIDDEN, cells),
        (5, HIDDEN, 3, 3), (5,), (5,), (batch, 5, cells), (batch, 2, ny, nx), (5, 5), (5, 30), (5, 5), (batch, 5),
    ]  # fmt: skip
    drawn = [0.3 * noise(*size, seed=10 + number, dtype=dtype) for number, size in enumerate(sizes)]
    inputs = [field, *drawn, coefficients, torch.full((5,), 0.7, dtype=dtype)]
    data = (1, 11)  # the sun and its light
    for place, tensor in enumerate(inputs):
        inputs[place] = tensor if place in data else tensor.requires_grad_()
    for part in without:
        inputs[part] = [None] * len(inputs[part])
    if CLOSURE in without:
        inputs[1] = inputs[9] = None
    return course, inputs


def interval(course, inputs, number=1):
    return apply_interval(course, number, inputs[0], inputs[1:9], inputs[9:16], inputs[16:])


def derivatives(output, inputs, **options):
    leaves = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
    return torch.autograd.grad((output * noise(*output.shape, seed=9).to(output.dtype)).sum(), leaves, **options)


@pytest.mark.parametrize(("shape", "dtype"), SHAPES)
def test_an_interval_is_that_of_its_parts(shape, dtype):
    course, inputs = case_of(shape, dtype)
    ours, plain = interval(course, inputs), interval_kernel.by_parts(course, 1, *inputs)
    torch.testing.assert_close(ours, plain, **CLOSE[dtype])
    for one, other in zip(derivatives(ours, inputs), derivatives(plain, inputs), strict=True):
        torch.testing.assert_close(one, other, **CLOSE[dtype])


@pytest.mark.parametrize("without", [(CLOSURE,), (TERMS, CLOSURE), (DECAY,), (slice(10, 16),)])
def test_an_interval_may_lack_any_part(without):
    course, inputs = case_of((2, 4, 7), without=without)
    ours, plain = interval(course, inputs), interval_kernel.by_parts(course, 1, *inputs)
    torch.testing.assert_close(ours, plain, **CLOSE[torch.float64])
    for one, other in zip(derivatives(ours, inputs), derivatives(plain, inputs), strict=True):
        torch.testing.assert_close(one, other, **CLOSE[torch.float64])


def test_an_interval_takes_strided_fields_and_keeps_nothing_unasked():
    course, inputs = case_of((2, 4, 7))
    expected = interval(course, inputs)
    strided = inputs[0].detach().permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)
    assert not strided.is_contiguous()
    with torch.no_grad():
        assert torch.equal(interval(course, [strided, *inputs[1:]]), expected)


def test_a_missing_number_stays_in_its_sample_of_an_interval():
    course, inputs = case_of((2, 4, 7))
    with torch.no_grad():
        inputs[0][1, 3, 2, 2] = torch.nan
        later = interval(course, inputs)
    assert later[1].isnan().any() and not later[0].isnan().any()


def test_derivatives_of_an_interval_have_derivatives():
    course, inputs = case_of((2, 4, 7))
    seconds = []
    for output in (interval(course, inputs), interval_kernel.by_parts(course, 1, *inputs)):
        by_field = derivatives(output, inputs, create_graph=True)[0]
        seconds.append(torch.autograd.grad(by_field.square().sum(), [inputs[2], inputs[16]]))
    for one, other in zip(*seconds, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_an_interval_refuses_other_numbers():
    course, inputs = case_of((2, 4, 7))
    with pytest.raises(ValueError, match="an interval takes"):
        interval(course, [inputs[0].float(), *inputs[1:]])


def test_no_interval_is_compiled_for_other_backends():
    grid = Grid2D.from_latlon(torch.linspace(0.0, 3.0, 4), torch.linspace(0.0, 3.0, 5))
    tendency, state = tendency_of(grid, "torch"), torch.zeros(1, 5, 4, 5)
    winds = {"u_b": state[:, 0], "v_b": state[:, 0]}
    assert call_of(tendency, state, winds, tendency.coefficients().detach(), 60.0) is None


def gate_inputs(shape, dtype=torch.float64):
    batch, ny, nx = shape
    sizes = [(batch, 5, ny, nx), (batch, 5, ny, nx), (batch, 1, ny, nx), (HIDDEN, 11 * 9), (batch, HIDDEN),
             (HIDDEN, ny * nx), None, None, (5, HIDDEN, 3, 3), (5,)]  # fmt: skip
    drawn = [None if size is None else noise(*size, seed=n, dtype=dtype) for n, size in enumerate(sizes)]
    return [t if t is None or place == 2 else t.requires_grad_() for place, t in enumerate(drawn)]


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 5), (2, 6, 16)])
def test_a_gate_is_a_network_a_sigmoid_and_a_mixture(shape, dtype):
    inputs = gate_inputs(shape, dtype)
    both = apply_gate(*inputs), gate_kernel.by_parts(*inputs)
    for seeds in ((1.0, 0.5), (1.0, 0.0), (0.0, 1.0)):
        gradients = []
        for mixed, weight in both:
            torch.testing.assert_close(mixed, both[1][0], **CLOSE[dtype])
            torch.testing.assert_close(weight, both[1][1], **CLOSE[dtype])
            output = seeds[0] * mixed if not seeds[1] else seeds[1] * weight if not seeds[0] else mixed + weight.sin()
            gradients.append(derivatives(output, inputs, retain_graph=True))
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, **CLOSE[dtype])


def test_a_gate_of_no_sample_or_a_missing_number():
    inputs = gate_inputs((2, 3, 4))
    empty = [t[:0] if place in (0, 1, 2, 4) else t for place, t in enumerate(inputs)]
    assert apply_gate(*empty)[0].shape == (0, 5, 3, 4)
    with torch.no_grad():
        inputs[0][1, 0, 1, 1] = torch.nan
        mixed, _ = apply_gate(*inputs)
    assert mixed[1].isnan().any() and not mixed[0].isnan().any()


def test_derivatives_of_a_gate_have_derivatives():
    inputs, seconds = gate_inputs((1, 3, 4)), []
    for mixed, _ in (apply_gate(*inputs), gate_kernel.by_parts(*inputs)):
        by_fields = derivatives(mixed, inputs, create_graph=True)[0]
        seconds.append(torch.autograd.grad(by_fields.square().sum(), [inputs[1], inputs[3]]))
    for one, other in zip(*seconds, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
