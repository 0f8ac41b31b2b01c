"""A condition that several equations share crosses the loops of a fused kernel."""

import torch

import pde_ops as po
from pde_ops import Field, Positive, Static
from pde_ops.ops import advection, coriolis, friction, laplacian


def wind_limited(backend):
    u, v, T = Field("u", "m/s"), Field("v", "m/s"), Field("T", "K")
    f, kappa, r = Static("f", "1/s"), Positive("kappa", "m**2/s", init=500.0), Positive("r", "1/day", init=3.0)

    def transport(a):
        return -advection(a, u, v) + kappa * laplacian(a)

    system = po.PDESystem("limited", {
        u: transport(u) + coriolis(v, f) - friction(u, r),
        v: transport(v) - coriolis(u, f) - friction(v, r),
        T: transport(T),
    })  # fmt: skip
    grid = po.Grid2D.plane(12, 19, dx=1500.0, f=1e-4)
    return system.compile(grid, backend=backend, limits=po.stability.limits(grid, 300.0, max_wind=15.0, system=system))


def test_a_limited_wind_is_the_same_on_both_backends():
    start = 12.0 * torch.randn(2, 3, 12, 19, generator=torch.Generator().manual_seed(0))
    found = []
    for backend in ("torch", "fused"):
        tendency, state = wind_limited(backend), start.clone().requires_grad_()
        after = tendency.advance(state, {}, 30.0)
        found.append([after.detach(), *torch.autograd.grad(after.square().sum(), [state, tendency.coefficients.raw])])
    for ours, reference in zip(found[1], found[0], strict=True):
        # float32 sums in another order: 1e-5 of the largest value, as for every operator.
        torch.testing.assert_close(ours, reference, rtol=0.0, atol=1e-5 * float(reference.abs().max()))
