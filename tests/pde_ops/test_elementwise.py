"""One formula, three kinds of argument: tensors, floats, symbols; and the rules at kinks and NaN."""

import math

import numpy as np
import pytest
import torch

from pde_ops import elementwise as ew

UNARY = ["exp", "log", "sqrt", "sin", "cos", "tanh", "absolute"]
TORCH_NAME = {"absolute": "abs"}
nan = float("nan")


class Text:
    """The smallest symbol: it writes down what was asked of it."""

    def __init__(self, text):
        self.text = text

    def __getattr__(self, name):
        return lambda: Text(f"{name}({self.text})")

    def __le__(self, other):
        return Text(f"{self.text} <= {show(other)}")

    def __ge__(self, other):
        return Text(f"{self.text} >= {show(other)}")

    @staticmethod
    def where(condition, a, b):
        return Text(f"where({show(condition)}, {show(a)}, {show(b)})")


def show(x):
    return x.text if isinstance(x, Text) else repr(x)


@pytest.mark.parametrize("name", UNARY)
def test_tensor_gets_torch_function_with_dtype_kept(name):
    x = torch.linspace(0.25, 2.0, 7, dtype=torch.float32)
    result = getattr(ew, name)(x)
    torch.testing.assert_close(result, getattr(torch, TORCH_NAME.get(name, name))(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", UNARY)
def test_float_gets_a_float_equal_to_the_tensor_value(name):
    result = getattr(ew, name)(0.75)
    assert type(result) is float
    expected = getattr(ew, name)(torch.tensor(0.75, dtype=torch.float64)).item()
    assert result == pytest.approx(expected, rel=1e-15)  # two libraries' last bit


@pytest.mark.parametrize("name", UNARY)
def test_symbol_gets_the_method_of_the_torch_name(name):
    assert getattr(ew, name)(Text("x")).text == f"{TORCH_NAME.get(name, name)}(x)"


def test_where_goes_to_the_symbol_wherever_the_symbol_stands():
    tensor = torch.ones(2)
    assert ew.where(Text("c"), 1.0, 2.0).text == "where(c, 1.0, 2.0)"
    assert ew.where(True, Text("a"), 2.0).text == "where(True, a, 2.0)"
    assert ew.where(tensor > 0, tensor, Text("b")).text.endswith(", b)")


def test_extrema_of_symbols_are_written_with_where():
    a, b = Text("a"), Text("b")
    assert ew.maximum(a, b).text == "where(a <= b, b, a)"
    assert ew.minimum(a, b).text == "where(a >= b, b, a)"
    assert ew.positive_part(a).text == "where(a <= 0.0, 0.0, a)"
    assert ew.maximum(0.5, a).text == "where(a >= 0.5, a, 0.5)"  # Python reflects the comparison


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extrema_of_numbers_are_those_of_torch(name):
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 5, 6, generator=generator)
    torch.testing.assert_close(getattr(ew, name)(a, b), getattr(torch, name)(a, b), rtol=0, atol=0)
    assert getattr(ew, name)(1.0, 2.0) == getattr(np, name)(1.0, 2.0)
    bound = torch.tensor(0.25)
    torch.testing.assert_close(getattr(ew, name)(a, 0.25), getattr(torch, name)(a, bound), rtol=0, atol=0)
    torch.testing.assert_close(getattr(ew, name)(0.25, a), getattr(torch, name)(a, bound), rtol=0, atol=0)


def test_positive_part_is_relu_in_value_and_derivative_also_at_zero():
    x = torch.tensor([-1.0, -0.0, 0.0, 2.0], requires_grad=True)
    (ours,) = torch.autograd.grad(ew.positive_part(x).sum(), x)
    (relu,) = torch.autograd.grad(torch.relu(x).sum(), x)
    assert ours.tolist() == relu.tolist() == [0.0, 0.0, 0.0, 1.0]
    assert ew.positive_part(x).tolist() == [0.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize("extremum", [ew.maximum, ew.minimum])
def test_derivative_at_a_tie_goes_to_the_second_argument(extremum):
    a = torch.tensor([3.0], requires_grad=True)
    b = torch.tensor([3.0], requires_grad=True)
    assert [g.item() for g in torch.autograd.grad(extremum(a, b).sum(), (a, b))] == [0.0, 1.0]


@pytest.mark.parametrize("extremum", [ew.maximum, ew.minimum])
@pytest.mark.parametrize("wrap", [float, torch.tensor])
def test_nan_propagates_from_the_first_argument_alone(extremum, wrap):
    assert math.isnan(extremum(wrap(nan), wrap(1.0)))
    assert extremum(wrap(1.0), wrap(nan)) == 1.0


def test_positive_part_of_nan_is_nan():
    assert torch.isnan(ew.positive_part(torch.tensor([nan]))).all()
    assert math.isnan(ew.positive_part(nan))


def test_where_with_a_plain_truth_value_still_broadcasts():
    field = torch.arange(6.0).reshape(2, 3)
    assert ew.where(True, 1.0, field).tolist() == [[1.0] * 3] * 2
    torch.testing.assert_close(ew.where(False, 1.0, field), field)
    assert ew.where(True, 1.0, 2.0) == 1.0


def test_where_keeps_single_precision_beside_a_float():
    field = torch.ones(3, dtype=torch.float32)
    assert ew.where(field > 0, 0.0, field).dtype == torch.float32
    assert ew.maximum(field, 2.0).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_where_of_two_numbers_takes_the_dtype_it_is_told(dtype):
    x = torch.tensor([-1.0, 2.0], dtype=dtype)
    result = ew.where(x > 0.0, 0.1, 0.2, like=x)
    assert result.dtype == dtype
    assert torch.equal(result, torch.tensor([0.2, 0.1], dtype=dtype))  # 0.1 of float32 is another number in float64


def test_where_of_two_numbers_without_a_dtype_is_refused_with_the_way_out():
    condition = torch.zeros(2, dtype=torch.float64) > 0.0
    with pytest.raises(TypeError, match=r"0\.1 and 0\.2.*like="):
        ew.where(condition, 0.1, 0.2)
    assert ew.where(condition, 0.1, 0.1) == 0.1  # no choice, hence no question
    assert ew.where(Text("c"), 0.1, 0.2, like=Text("x")).text == "where(c, 0.1, 0.2)"


def test_absolute_value_has_derivative_zero_at_zero():
    x = torch.tensor([-2.0, 0.0, 2.0], requires_grad=True)
    assert torch.autograd.grad(ew.absolute(x).sum(), x)[0].tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("call", [lambda a: ew.exp(a), lambda a: ew.where(a > 0, a, 1.0)])
def test_numpy_array_is_refused_with_the_way_out(call):
    with pytest.raises(TypeError, match=r"ndarray.*torch\.as_tensor"):
        call(np.ones(3))


def test_whole_module_traces_into_one_graph():
    def formula(x):
        smooth = ew.exp(-ew.sqrt(ew.absolute(x)) - 1.0) + ew.sin(x) * ew.cos(x) - ew.tanh(x)
        return ew.maximum(smooth, 0.0) + ew.minimum(x, 0.3) + ew.positive_part(x) + ew.where(x > 1, 0.0, x)

    x = torch.linspace(-2.0, 2.0, 9, dtype=torch.float64)
    traced = torch.compile(formula, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(x), formula(x))


def test_add_scaled_is_the_sum_on_tensors_and_floats_gradients_included():
    a, b = (torch.linspace(1.0, 2.0, 5, dtype=torch.float64) * k for k in (1.0, -3.0))
    a.requires_grad_()
    b.requires_grad_()
    torch.testing.assert_close(ew.add_scaled(a, b, 0.25), a + 0.25 * b, rtol=1e-15, atol=0.0)
    by_a, by_b = torch.autograd.grad(ew.add_scaled(a, b, 0.25).sum(), [a, b])
    assert torch.equal(by_a, torch.ones_like(a)) and torch.equal(by_b, torch.full_like(b, 0.25))
    assert ew.add_scaled(2.0, 8.0, 0.25) == 4.0
    assert torch.equal(ew.add_scaled(2.0, b, 0.25), 2.0 + 0.25 * b)
