"""Compiled systems that cross to another process."""

from __future__ import annotations

import copy
import multiprocessing
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

import pde_ops as po
from pde_ops.errors import UnknownNameError
from pde_ops.operator import registered
from pde_ops.ops import advection, friction, laplacian

u, v = po.Field("u", "m/s", component="x"), po.Field("v", "m/s", component="y")
kappa, r = po.Positive("kappa", "km**2/hour", init=36.0), po.Positive("r", "1/day", init=1.0)
k = po.Static("k", "m**2/s")
EAST = -advection(u, u, v) + kappa * laplacian(u)
WIND = po.PDESystem("wind", {u: EAST, v: -advection(v, u, v) + k * laplacian(v) - friction(v, r)})


def _tendency(backend, **options):
    tendency = WIND.compile(po.Grid2D.plane(5, 6, dx=1e4), backend=backend, statics={"k": 1e3}, **options)
    tendency.coefficients.assign(kappa=50.0)
    return tendency


def _packed(value):
    return ForkingPickler.loads(ForkingPickler.dumps(value))


@pytest.mark.parametrize("backend", ["torch", "fused", "auto", "inductor"])
@pytest.mark.parametrize("used", [False, True])
def test_a_packed_tendency_computes_the_same(backend, used):
    tendency, state = _tendency(backend), torch.randn(2, 2, 5, 6)
    if used and backend != "inductor":
        tendency(state)
    for other in (_packed(tendency), copy.deepcopy(tendency)):
        assert other.coefficients.raw is not tendency.coefficients.raw
        assert other.extra_repr() == tendency.extra_repr()
        if backend != "inductor":
            assert torch.equal(other(state), tendency(state))
    split = _packed(_tendency("torch", exact_flows=True))
    whole = _tendency("torch", exact_flows=True)
    assert torch.equal(split.apply_flow(0, state, None, 60.0), whole.apply_flow(0, state, None, 60.0))


def _compute(tendency, state):
    return tendency(state).tolist()


def test_a_tendency_is_handed_to_a_process_that_starts_anew():
    tendency, state = _tendency("torch"), torch.randn(1, 2, 5, 6)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_compute, (tendency, state)) == tendency(state).tolist()


def test_an_operator_that_the_other_process_does_not_have_is_named_with_its_module():
    assert _packed(laplacian) is laplacian
    with pytest.raises(UnknownNameError, match="import my_operators before unpacking"):
        registered("my_operator", "my_operators")
