"""The compiled baseline: same numbers as eager, forward and backward, in one graph."""

import pytest
import torch

import pde_ops as po
from pde_ops.backends.inductor import InductorRunner
from pde_ops.ops import advection, condensation, laplacian, saturation_humidity, temperature

u, v = po.Field("u", "m/s"), po.Field("v", "m/s")
theta, q, p = po.Field("theta", "K"), po.Field("q", "kg/kg"), po.Static("p", "Pa")
S = po.Closure("S", "K/s")
kappa, lam = po.Positive("kappa", "km**2/hour", init=36.0), po.Positive("lambda_c", "1/hour", init=1.0)
SYSTEM = po.PDESystem(
    "moist",
    {
        u: -advection(u, u, v) + kappa * laplacian(u),
        v: -advection(v, u, v) + kappa * laplacian(v),
        theta: -advection(theta, u, v) + S,
        q: -advection(q, u, v) - condensation(q, saturation_humidity(temperature(theta, p), p), lam),
    },
)
GRID = po.Grid2D.from_latlon([40.0 + 0.5 * i for i in range(12)], [10.0 + 0.5 * i for i in range(16)])


def run(backend):
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(2, 4, 12, 16, generator=generator)
    means, spreads = torch.tensor([0.0, 0.0, 290.0, 0.012]), torch.tensor([5.0, 5.0, 5.0, 0.004])
    state = (means[:, None, None] + spreads[:, None, None] * draw).requires_grad_()
    source = (1e-4 * torch.randn(2, 12, 16, generator=generator)).requires_grad_()
    tendency = SYSTEM.compile(GRID, backend=backend, statics={"p": torch.full((12, 16), 9e4)})
    after = tendency.advance(state, {"S": source}, 600.0, torch.tensor([1.0, 0.9, 0.8, 0.7]))
    (after / spreads[:, None, None]).square().sum().backward()
    return [
        after.detach(),
        tendency(state, {"S": source}).detach(),
        state.grad,
        source.grad,
        tendency.coefficients.raw.grad,
    ]


def check_parity(backend):
    for compiled, eager in zip(run(backend), run("torch"), strict=True):
        # float32 in another order: a hundred of its 6e-8, against the largest value of each array
        torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=6e-6 * float(eager.abs().max()))


def test_one_graph_is_traced_and_gives_the_numbers_of_eager(monkeypatch):
    monkeypatch.setattr(InductorRunner, "compiler", "aot_eager")
    check_parity("inductor")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_inductor_gives_the_numbers_of_eager():
    check_parity("inductor")
