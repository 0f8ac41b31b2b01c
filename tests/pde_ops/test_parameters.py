"""Positive coefficients: start, cap, units, gradients, weight decay."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pde_ops as po
from pde_ops.errors import DeclarationError, UnknownNameError


def _one(**options):
    return po.Coefficients([po.Positive("kappa", "km**2/hour", init=36.0, **options)])


@given(st.floats(1e-8, 1e8), st.sampled_from(["km**2/hour", "1/day", "m**2/s"]), st.booleans())
def test_a_coefficient_starts_at_its_declared_value(init, unit, capped):
    symbol = po.Positive("c", unit, init=init, cap=1.7 * init if capped else None)
    # float32 softplus and expm1: a few of its 6e-8 ulp
    assert po.Coefficients([symbol]).in_units()["c"].magnitude == pytest.approx(init, rel=1e-6)


@given(st.floats(-1e3, 1e3))
def test_it_stays_positive_below_its_cap_with_a_finite_gradient_at_any_raw_number(raw):
    coefficients = _one(cap=72.0).double()
    with torch.no_grad():
        coefficients.raw.fill_(raw)
    value = coefficients()
    value.sum().backward()
    assert torch.isfinite(coefficients.raw.grad).all()
    assert 0.0 <= float(value.detach()[0]) <= 72.0 * 1e6 / 3600 * (1 + 1e-12)


def test_a_coefficient_without_a_cap_has_a_gradient_beside_one_that_has_a_cap():
    coefficients = po.Coefficients([po.Positive("a", "1/s", init=1e-5), po.Positive("b", "1/s", init=1e-5, cap=1e-4)])
    coefficients().sum().backward()
    assert torch.isfinite(coefficients.raw.grad).all()
    assert coefficients().tolist() == pytest.approx([1e-5, 1e-5])


def test_the_gradient_does_not_jump_at_the_cap():
    coefficients = _one(cap=40.0).double()
    slopes = []
    for raw in torch.linspace(0.5, 4.0, 8):
        with torch.no_grad():
            coefficients.raw.fill_(raw)
        coefficients.raw.grad = None
        coefficients().sum().backward()
        slopes.append(float(coefficients.raw.grad))
    assert all(s > 0 for s in slopes)


def test_a_state_dict_loaded_into_a_system_with_another_start_or_cap_keeps_its_values():
    saved = _one(cap=72.0)
    saved.assign(kappa=50.0)
    for other in (_one(), _one(cap=80.0), po.Coefficients([po.Positive("kappa", "m**2/s", init=7.0)])):
        other.load_state_dict(saved.state_dict())
        assert other().item() == pytest.approx(saved().item(), rel=1e-6)
    same = _one(cap=72.0)
    same.load_state_dict(saved.state_dict())
    assert torch.equal(same.raw, saved.raw)
    with pytest.raises(DeclarationError, match="`kappa` must lie between"):
        _one(cap=40.0).load_state_dict(saved.state_dict())


def test_a_state_dict_of_coefficients_in_another_order_is_loaded_by_name_and_others_are_refused():
    a, b = po.Positive("a", "1/s", init=1e-5), po.Positive("b", "1/s", init=1e-3)
    saved, turned = po.Coefficients([a, b]), po.Coefficients([b, a])
    saved.assign(a=3e-5)
    turned.load_state_dict(saved.state_dict())
    assert turned().tolist() == pytest.approx(saved().tolist()[::-1], rel=1e-6)
    with pytest.raises(DeclarationError, match="holds the coefficients a, b, the system has a, c"):
        po.Coefficients([a, po.Positive("c", "1/s", init=1e-3)]).load_state_dict(saved.state_dict())
    with pytest.raises(RuntimeError, match="size mismatch"):
        po.Coefficients([a]).load_state_dict(saved.state_dict())


def test_a_state_dict_without_what_its_numbers_count_from_still_loads_and_a_damaged_one_is_refused():
    saved, other = _one(), _one()
    saved.assign(kappa=50.0)
    other.load_state_dict({"raw": saved.raw.detach()})
    assert torch.equal(other.raw, saved.raw)
    for odd in (torch.zeros(3, dtype=torch.uint8), "text", torch.tensor(list(b'{"kappa": 1}'), dtype=torch.uint8)):
        with pytest.raises(DeclarationError, match="is damaged"):
            other.load_state_dict({"raw": saved.raw.detach(), "_extra_state": odd})


def test_values_are_assigned_in_their_unit_or_as_quantities():
    coefficients = _one(cap=72.0)
    coefficients.assign(kappa=50.0)
    assert coefficients.in_units()["kappa"].magnitude == pytest.approx(50.0, rel=1e-6)
    coefficients.assign(kappa=po.unit_registry.Quantity(1e4, "m**2/s"))
    assert coefficients.in_units()["kappa"].magnitude == pytest.approx(36.0, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "error"),
    [({"kappa": 80.0}, DeclarationError), ({"kappa": -1.0}, DeclarationError), ({"cappa": 1.0}, UnknownNameError)],
)
def test_assigning_beyond_the_cap_or_by_a_wrong_name_is_an_error(values, error):
    with pytest.raises(error):
        _one(cap=72.0).assign(**values)


def test_a_cap_from_stability_below_the_start_is_refused_in_the_declared_unit():
    with pytest.raises(DeclarationError, match=r"36 km²/h is not below its cap 7\.2 km²/h"):
        po.Coefficients([po.Positive("kappa", "km**2/hour", init=36.0)], {"kappa": 2000.0})


def test_a_fixed_coefficient_gets_no_gradient():
    symbols = [po.Positive("a", "1/s", init=1.0, learnable=False), po.Positive("b", "1/s", init=1.0)]
    coefficients = po.Coefficients(symbols)
    coefficients().sum().backward()
    assert coefficients.raw.grad[0] == 0.0
    assert coefficients.raw.grad[1] > 0.0


def test_weight_decay_skips_coefficients():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), _one())
    decayed, kept = po.weight_decay_groups(model, 0.1)
    assert kept["weight_decay"] == 0.0
    assert [id(p) for p in kept["params"]] == [id(model[1].raw)]
    assert len(decayed["params"]) == 2


def test_the_state_dict_holds_raw_numbers_and_what_they_count_from():
    assert list(_one().state_dict()) == ["raw", "_extra_state"]
