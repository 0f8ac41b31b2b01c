"""What the thermodynamics must satisfy by itself: identities, limits, gradients, devices, tracing."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch._subclasses.fake_tensor import FakeTensorMode

from pde_ops import constants, thermo

# Arguments of every formula: T and theta in K, p and e in Pa, q and w in kg/kg, r as a fraction.
ARGUMENTS = {
    "exner": ("p",),
    "potential_temperature": ("T", "p"),
    "temperature": ("theta", "p"),
    "latent_heat_vaporisation": ("T",),
    "saturation_vapour_pressure": ("T",),
    "saturation_vapour_pressure_bolton": ("T",),
    "vapour_pressure": ("q", "p"),
    "specific_humidity_from_vapour_pressure": ("e", "p"),
    "saturation_humidity": ("T", "p"),
    "relative_humidity": ("T", "p", "q"),
    "specific_humidity": ("T", "p", "r"),
    "dew_point": ("e",),
    "dew_point_from_relative_humidity": ("T", "r"),
    "virtual_temperature": ("T", "q"),
    "air_density": ("T", "p", "q"),
    "mixing_ratio_from_specific_humidity": ("q",),
    "specific_humidity_from_mixing_ratio": ("w",),
}
ENVELOPE = {"T": (180.0, 340.0), "p": (300e2, 1100e2), "r": (0.0, 1.2)}

formulas = pytest.mark.parametrize("name", ARGUMENTS)
examples = settings(max_examples=25, deadline=None, derandomize=True)


def complete(T, p, r):
    """Add the derived arguments to T, p and r; e stays below 0.9 p, as in any air."""
    e = np.minimum(r * float64(thermo.saturation_vapour_pressure, T), 0.9 * p)
    q = constants.epsilon * e / (p - (1 - constants.epsilon) * e)
    theta = T * (1e5 / p) ** constants.kappa
    return {"T": T, "p": p, "r": r, "e": e, "q": q, "w": q / (1 - q), "theta": theta}


def float64(function, *arguments):
    return function(*(torch.as_tensor(x, dtype=torch.float64) for x in arguments)).numpy()


@st.composite
def airs(draw, driest=0.0, size=30):
    drawn = {
        key: draw(arrays(np.float64, size, elements=st.floats(max(low, driest), high)))
        for key, (low, high) in ENVELOPE.items()
    }
    return complete(**drawn)


def lattice(n=6, driest=0.0):
    """Return a regular sample of the envelope with its corners, flat."""
    axes = [np.linspace(max(low, driest), high, n) for low, high in ENVELOPE.values()]
    T, p, r = (x.ravel() for x in np.meshgrid(*axes))
    keep = float64(thermo.saturation_vapour_pressure, T) < 0.9 * p
    return complete(T[keep], p[keep], r[keep])


def test_every_formula_is_covered_here():
    assert set(ARGUMENTS) == set(thermo.__all__)


@examples
@given(air=airs())
def test_state_round_trip_in_double_precision(air):
    T, r = round_trip(air, torch.float64)
    np.testing.assert_allclose(T, air["T"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(r, air["r"], rtol=0, atol=1e-9)


@examples
@given(air=airs())
def test_state_round_trip_in_single_precision(air):
    single = {key: value.astype(np.float32).astype(np.float64) for key, value in air.items()}
    T, r = round_trip(single, torch.float32)
    np.testing.assert_allclose(T, single["T"], rtol=0, atol=2e-4)  # K
    np.testing.assert_allclose(r, single["r"], rtol=0, atol=1e-5)  # 1e-3 %


def round_trip(air, dtype):
    T, p, r = (torch.as_tensor(air[key]).to(dtype) for key in ("T", "p", "r"))
    # Beyond e = 0.9 p there is no such air; the state keeps away from it.
    r = torch.minimum(r, 0.9 * p / thermo.saturation_vapour_pressure(T))
    air["r"] = r.double().numpy()
    theta, q = thermo.potential_temperature(T, p), thermo.specific_humidity(T, p, r)
    T = thermo.temperature(theta, p)
    return T.double().numpy(), thermo.relative_humidity(T, p, q).double().numpy()


@examples
@given(air=airs())
def test_vapour_pressure_and_mixing_ratio_have_exact_inverses(air):
    q, p = torch.as_tensor(air["q"]), torch.as_tensor(air["p"])
    e, w = thermo.vapour_pressure(q, p), thermo.mixing_ratio_from_specific_humidity(q)
    torch.testing.assert_close(thermo.specific_humidity_from_vapour_pressure(e, p), q, rtol=1e-13, atol=0)
    torch.testing.assert_close(thermo.specific_humidity_from_mixing_ratio(w), q, rtol=1e-13, atol=0)


@examples
@given(air=airs())
def test_saturated_air_has_relative_humidity_one(air):
    T, p = torch.as_tensor(air["T"]), torch.as_tensor(air["p"])
    r = thermo.relative_humidity(T, p, thermo.saturation_humidity(T, p))
    torch.testing.assert_close(r, torch.ones_like(r), rtol=1e-13, atol=0)


@examples
@given(air=airs())
def test_dew_point_inverts_bolton(air):
    T = torch.as_tensor(air["T"])
    e = thermo.saturation_vapour_pressure_bolton(T)
    torch.testing.assert_close(thermo.dew_point(e), T, rtol=1e-12, atol=0)


def test_saturation_vapour_pressure_solves_clausius_clapeyron():
    T = torch.linspace(180.0, 340.0, 161, dtype=torch.float64, requires_grad=True)
    e_s = thermo.saturation_vapour_pressure(T)
    (slope,) = torch.autograd.grad(e_s.sum(), T)
    expected = e_s * thermo.latent_heat_vaporisation(T) / (constants.R_v * T**2)
    torch.testing.assert_close(slope, expected, rtol=1e-12, atol=0)


def test_reference_values():
    assert thermo.exner(1e5) == 1.0
    assert thermo.potential_temperature(288.0, 1e5) == 288.0
    assert thermo.saturation_vapour_pressure(273.16) == 611.2
    assert thermo.saturation_vapour_pressure_bolton(273.15) == 611.2
    assert thermo.dew_point(611.2) == 273.15
    assert thermo.latent_heat_vaporisation(273.16) == 2.50084e6
    assert thermo.air_density(288.15, 101325.0, 0.0) == pytest.approx(1.225, abs=1e-4)  # standard atmosphere
    assert thermo.virtual_temperature(300.0, 0.0) == 300.0
    assert thermo.saturation_humidity(300.0, 1e5) == pytest.approx(0.0222, abs=2e-4)  # tropical surface air


def test_dry_air_has_no_vapour():
    assert thermo.vapour_pressure(0.0, 1e5) == 0.0
    assert thermo.specific_humidity(300.0, 1e5, 0.0) == 0.0
    assert thermo.relative_humidity(300.0, 1e5, 0.0) == 0.0


@examples
@given(air=airs())
def test_moist_air_is_lighter_than_dry_air(air):
    T, p, q = (torch.as_tensor(air[key]) for key in "Tpq")
    assert (thermo.virtual_temperature(T, q) >= T).all()
    assert (thermo.air_density(T, p, q) <= thermo.air_density(T, p, torch.zeros_like(q))).all()


@pytest.mark.parametrize("pressure", [300e2, 700e2, 1100e2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturation_grows_with_temperature(pressure, dtype):
    T = torch.linspace(180.0, 340.0, 1601, dtype=dtype)
    p = torch.full_like(T, pressure)
    for values in (thermo.saturation_vapour_pressure(T), thermo.saturation_humidity(T, p)):
        assert (values.diff() > 0).all()


def test_dew_point_grows_with_vapour_pressure_and_meets_the_temperature_at_saturation():
    T = torch.linspace(238.15, 308.15, 71, dtype=torch.float64)
    r = torch.linspace(0.01, 1.0, 100, dtype=torch.float64)[:, None]
    T_d = thermo.dew_point_from_relative_humidity(T, r)
    assert (T_d.diff(dim=0) > 0).all()
    assert (T_d[-1] - T).abs().max() < 0.07  # K; Ambaum's e_s, Bolton's inverse


@formulas
def test_gradient_equals_finite_differences_over_the_envelope(name):
    # Arguments and values span nine decades, so compare the derivatives of logarithms: all of order 1 to 30.
    air = lattice(n=4, driest=1e-3)
    logarithms = [torch.tensor(np.log(air[key]), requires_grad=True) for key in ARGUMENTS[name]]

    def elasticity(*arguments):
        return torch.log(getattr(thermo, name)(*(torch.exp(x) for x in arguments)))

    assert torch.autograd.gradcheck(elasticity, logarithms, eps=1e-6, atol=1e-6, rtol=1e-6)


@formulas
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_finite_over_the_envelope_with_dry_air(name, dtype):
    air = lattice()
    tensors = [torch.as_tensor(air[key]).to(dtype).requires_grad_() for key in ARGUMENTS[name]]
    result = getattr(thermo, name)(*tensors)
    assert result.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(result.sum(), tensors))


def test_relative_humidity_has_a_gradient_beyond_saturation():
    q = torch.tensor([0.03], dtype=torch.float64, requires_grad=True)
    r = thermo.relative_humidity(torch.tensor([300.0]).double(), torch.tensor([1e5]).double(), q)
    assert r.item() > 1.2
    assert torch.autograd.grad(r.sum(), q)[0].item() > 0


def test_dew_point_of_dry_air_is_constant_with_derivative_zero():
    e = torch.tensor([-5.0, 0.0, 1e-12], dtype=torch.float32, requires_grad=True)
    T_d = thermo.dew_point(e)
    assert T_d.tolist() == pytest.approx([120.98] * 3, abs=0.01)
    assert torch.autograd.grad(T_d.sum(), e)[0].tolist() == [0.0, 0.0, 0.0]


@formulas
def test_nan_is_never_swallowed(name):
    air = lattice()
    for broken in range(len(ARGUMENTS[name])):
        tensors = [torch.as_tensor(air[key]) for key in ARGUMENTS[name]]
        tensors[broken] = torch.full_like(tensors[broken], math.nan)
        assert getattr(thermo, name)(*tensors).isnan().all()


@formulas
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_and_shape_follow_the_input_which_is_left_alone(name, dtype):
    air = {key: value[:24].reshape(2, 3, 4) for key, value in lattice().items()}
    tensors = [torch.as_tensor(air[key]).to(dtype) for key in ARGUMENTS[name]]
    before = [x.clone() for x in tensors]
    result = getattr(thermo, name)(*tensors)
    assert (result.dtype, result.shape) == (dtype, (2, 3, 4))
    assert all(torch.equal(x, y) for x, y in zip(tensors, before))


@formulas
def test_runs_on_cuda_tensors_without_touching_the_cpu(name):
    with FakeTensorMode():
        tensors = [torch.empty(2, 5, device="cuda", dtype=torch.float32) for _ in ARGUMENTS[name]]
        result = getattr(thermo, name)(*tensors)
    assert (result.device.type, result.dtype, result.shape) == ("cuda", torch.float32, (2, 5))


@formulas
def test_floats_give_the_float_that_tensors_give(name):
    air = {key: float(value[20]) for key, value in lattice(driest=0.05).items()}
    result = getattr(thermo, name)(*(air[key] for key in ARGUMENTS[name]))
    assert type(result) is float
    tensors = [torch.tensor(air[key], dtype=torch.float64) for key in ARGUMENTS[name]]
    # exp and log of two libraries differ in the last bit; exp magnifies that by its argument, at most 11
    assert result == pytest.approx(getattr(thermo, name)(*tensors).item(), rel=1e-13)


class Wrapped:
    """A symbol that computes: it offers what a traced symbol offers, and nothing else."""

    def __init__(self, value):
        self.value = value


def _unwrap(x):
    return x.value if isinstance(x, Wrapped) else x


def _arithmetic(name):
    return lambda self, *others: Wrapped(getattr(self.value, name)(*map(_unwrap, others)))


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "neg", "le", "ge"):
    setattr(Wrapped, f"__{_name}__", _arithmetic(f"__{_name}__"))
Wrapped.exp = lambda self: Wrapped(math.exp(self.value))
Wrapped.log = lambda self: Wrapped(math.log(self.value))
Wrapped.where = staticmethod(lambda c, a, b: Wrapped(_unwrap(a) if _unwrap(c) else _unwrap(b)))


@formulas
def test_formula_runs_on_symbols_with_the_interface_of_a_tracer(name):
    air = {key: float(value[20]) for key, value in lattice(driest=0.05).items()}
    result = getattr(thermo, name)(*(Wrapped(air[key]) for key in ARGUMENTS[name]))
    assert isinstance(result, Wrapped)
    assert result.value == getattr(thermo, name)(*(air[key] for key in ARGUMENTS[name]))


def test_all_formulas_trace_into_one_graph():
    air = {key: torch.as_tensor(value) for key, value in lattice().items()}

    def everything(air):
        return [getattr(thermo, name)(*(air[key] for key in keys)) for name, keys in ARGUMENTS.items()]

    traced = torch.compile(everything, fullgraph=True, backend="aot_eager")
    for mine, plain in zip(traced(air), everything(air)):
        torch.testing.assert_close(mine, plain)
