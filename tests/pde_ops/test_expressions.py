"""Expressions: units as they are written, structure, printing."""

import pytest

import pde_ops as po
from pde_ops.errors import DeclarationError, UnitError
from pde_ops.expr import Constant, Product, Sum, replace, walk
from pde_ops.ops import advection, laplacian

u, v, T = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("T", "K")
kappa = po.Positive("kappa", "km**2/hour", init=36.0)


def test_adding_different_units_names_both_sides_and_the_expression():
    with pytest.raises(UnitError, match=r"cannot add \[m/s\] to \[1/m/s\]: ∇²u \+ u"):
        laplacian(u) + u


def test_subtracting_a_whole_sum_names_the_sum():
    with pytest.raises(UnitError, match=r"cannot add \[m/s\] to \[K\]: T - \(u \+ v\)"):
        T - (u + v)


def test_the_offending_term_is_the_one_that_does_not_fit():
    with pytest.raises(UnitError, match=r"cannot add \[K\] to \[m/s\]: u \+ v \+ T"):
        u + v + T


def test_an_operator_names_itself_its_argument_and_the_mend():
    with pytest.raises(
        UnitError, match=r"advection: `u` needs \[m/s\] but `T` has \[K\]; declare it as Field\('T', 'm/s'\)"
    ):
        advection(T, T, v)


def test_a_unit_variable_is_bound_by_its_argument():
    assert laplacian(T).unit == po.unit_registry.parse_units("K/m**2")
    assert (kappa * laplacian(T)).unit.dimensionality == po.unit_registry.parse_units("K/s").dimensionality


def test_quantities_are_folded_to_si_numbers():
    product = po.unit_registry.Quantity(36.0, "km/hour") * laplacian(T)
    assert isinstance(product, Product)
    assert isinstance(product.factors[0], Constant)
    assert product.factors[0].value == pytest.approx(10.0, rel=1e-15)


def test_numbers_fold_into_one_leading_constant():
    expression = 2.0 * (-(3.0 * u))
    assert isinstance(expression, Product)
    assert expression.factors[0].value == -6.0
    assert len(expression.factors) == 2


def test_equal_structure_is_equal_and_hashes_alike():
    assert laplacian(u) == laplacian(u)
    assert hash(laplacian(u)) == hash(laplacian(u))
    assert laplacian(u) != laplacian(v)


def test_options_are_part_of_the_identity():
    from pde_ops.ops import laplacian_scale

    assert laplacian_scale(u, radius=2) != laplacian_scale(u, radius=3)
    with pytest.raises(DeclarationError, match="unknown option 'raduis'"):
        laplacian_scale(u, raduis=3)


def test_an_argument_given_by_name_is_named():
    with pytest.raises(DeclarationError, match=r"takes 3 arguments \(a, u, v\), got 2 and w by name"):
        advection(u, u, w=v)


def test_sums_flatten_so_that_terms_can_be_dropped():
    total = (laplacian(u) + laplacian(v)) + laplacian(u)
    assert isinstance(total, Sum)
    assert len(total.terms) == 3


def test_walk_visits_children_first_and_replace_rebuilds():
    tree = kappa * laplacian(u + v)
    seen = list(walk(tree))
    assert [node.text() for node in seen] == ["kappa", "u", "v", "u + v", "∇²(u + v)", "kappa ∇²(u + v)"]
    assert replace(tree, {u: v}) == kappa * laplacian(v + v)
    with pytest.raises(UnitError):
        replace(advection(T, u, v), {u: T})


def test_an_expression_has_no_truth_value():
    with pytest.raises(TypeError, match="no truth value"):
        bool(u)


@pytest.mark.parametrize(
    ("tree", "text", "latex"),
    [
        (
            -advection(u, u, v) + kappa * laplacian(v),
            "-(u,v)·∇u + kappa ∇²v",
            r"-(u,v)\cdot\nabla u + \kappa\,\nabla^2 v",
        ),
        (u - v, "u - v", "u - v"),
        (laplacian(u + v), "∇²(u + v)", r"\nabla^2 \left(u + v\right)"),
        (u / v, "u/v", r"\frac{u}{v}"),
        (1.5e-5 * u, "1.5e-05 u", r"1.5\times 10^{-5}\,u"),
        (2.0 * (u + v), "2 (u + v)", r"2\,\left(u + v\right)"),
        (u - (v + u), "u - (v + u)", r"u - \left(v + u\right)"),
    ],
)
def test_printing(tree, text, latex):
    assert tree.text() == text
    assert tree.latex() == latex


@pytest.mark.parametrize("bad", ["x", None, [1.0]])
def test_only_numbers_quantities_and_symbols_enter_an_equation(bad):
    with pytest.raises((DeclarationError, TypeError)):
        u + bad


@pytest.mark.parametrize(
    "bad",
    [
        lambda: po.Field("not a name", "m"),
        lambda: po.Positive("k", "m**2/s", init=0.0),
        lambda: po.Positive("k", "m**2/s", init=float("nan")),
        lambda: po.Positive("k", "m**2/s", init=2.0, cap=1.0),
        lambda: po.Positive("k", "degC", init=2.0),
        lambda: advection(u, v),
    ],
)
def test_declarations_that_cannot_work_are_refused(bad):
    with pytest.raises(po.PdeOpsError):
        bad()
