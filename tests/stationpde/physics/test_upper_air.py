"""The latent upper layer as equations: rest over terrain, thermal wind, mirrored hemispheres, couplings, stability."""

from __future__ import annotations

import pytest
import torch

from pde_ops import Grid2D, Tendency, stability
from pde_ops.constants import R_d, g
from pde_ops.integrators import RangeScaledEuler
from stationpde.physics import STATE, upper_air
from stationpde.physics.upper_air import COUPLINGS, upper

NY, NX = 9, 10
FIELDS = (*STATE, "column")
# Closures that a mirror along y turns round, beside f.
TURNED = ("v", "v_b", "mean_y", "S_v")


def grid(f: float = 1e-4) -> Grid2D:
    return Grid2D.plane(NY, NX, dx=80e3, dy=90e3, f=f)


def compiled(on: Grid2D | None = None, backend: str = "torch", **options: object) -> Tendency:
    return upper().compile(on or grid(), backend=backend, **options).double()


def over_terrain(tendency: Tendency, batch: int = 1, seed: int = 0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return a resting state, and closures of a calm, dry, hydrostatic base state over random terrain."""
    generator = torch.Generator().manual_seed(seed)
    height = 2500.0 * torch.rand(batch, NY, NX, generator=generator, dtype=torch.float64)
    pressure = 1e5 * torch.exp(-g * height / (R_d * 280.0))
    closures = {name: torch.zeros_like(height) for name in tendency.closure_names}
    closures |= {
        "p_b": pressure,
        "theta_b": 280.0 * (1e5 / pressure) ** (2.0 / 7.0),
        "q_b": torch.full_like(height, 2e-3),
        "depth": R_d * torch.log(pressure / 5e4),
        "volume": R_d * 280.0 / pressure,
    }
    return torch.zeros(batch, len(FIELDS), NY, NX, dtype=torch.float64), closures


def weather(tendency: Tendency, batch: int = 2, seed: int = 1) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return departures and closures of moving air over terrain."""
    state, closures = over_terrain(tendency, batch)
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    size = torch.tensor([3.0, 3.0, 200.0, 3.0, 5e-4, 2.0], dtype=torch.float64)[:, None, None]
    for name, largest in {"u_b": 4.0, "v_b": 4.0, "mean_x": 8.0, "mean_y": 4.0, "S_v": 1e-4}.items():
        closures[name] = largest * noise(batch, NY, NX)
    closures["sun"] = torch.tanh(noise(batch, NY, NX))
    return state + size * noise(batch, len(FIELDS), NY, NX), closures


def test_one_field_more_evolves_and_the_system_has_units_throughout() -> None:
    system = upper()
    assert tuple(field.name for field in system.fields) == FIELDS
    assert {c.name for c in system.coefficients} >= {*COUPLINGS, "kappa_column"}


def test_a_resting_atmosphere_over_terrain_stays_at_rest_whatever_wind_blows_aloft() -> None:
    tendency = compiled()
    state, closures = over_terrain(tendency)
    closures["mean_x"] = torch.full_like(closures["mean_x"], 15.0)
    closures["sun"] = torch.ones_like(closures["sun"])
    assert not tendency(state, closures).any()


@pytest.mark.parametrize(("f", "towards_warmth"), [(1e-4, -1.0), (-1e-4, 1.0)])
def test_the_wind_aloft_has_warm_air_to_its_right_in_the_north_and_to_its_left_in_the_south(
    f: float, towards_warmth: float
) -> None:
    """A column that warms northwards: the surface wind is drawn into the thermal wind, west of south, east of north."""
    tendency = compiled(grid(f))
    state, closures = over_terrain(tendency)
    closures["depth"] = torch.full_like(closures["depth"], 190.0)
    state[:, 5] = torch.arange(NY, dtype=torch.float64)[:, None] * 0.9
    pull = tendency(state, closures)[0, 0, 1:-1]
    night, share = (tendency.parameters_in_units()[name].to_base_units().magnitude for name in
                    ("momentum_night", "steering_share"))  # fmt: skip
    thermal = towards_warmth * 190.0 * 0.9 / 90e3 * abs(f) / (f**2 + upper_air.LEAST_ROTATION**2)
    torch.testing.assert_close(pull, torch.full_like(pull, night * share * thermal), rtol=1e-6, atol=0.0)


def test_hemispheres_mirror_each_other() -> None:
    north, south = compiled(grid(1e-4)), compiled(grid(-1e-4))
    state, closures = weather(north)

    def mirrored(a: torch.Tensor, name: str) -> torch.Tensor:
        return (-1.0 if name in TURNED else 1.0) * a.flip(-2)

    turned = torch.stack([mirrored(a, name) for a, name in zip(state.unbind(1), FIELDS, strict=True)], dim=1)
    there = south(turned, {name: mirrored(a, name) for name, a in closures.items()})
    here = north(state, closures)
    for channel, name in enumerate(FIELDS):
        torch.testing.assert_close(there[:, channel], mirrored(here[:, channel], name), rtol=1e-9, atol=1e-18)


def test_what_the_column_does_to_the_surface_it_does_through_named_couplings_alone() -> None:
    rest = upper().without(*COUPLINGS)
    tendency = rest.compile(grid(), backend="torch").double()
    state, closures = weather(compiled())
    closures = {name: closures[name] for name in tendency.closure_names}
    other = state.clone()
    other[:, 5] += 3.0 * torch.rand_like(other[:, 5])
    torch.testing.assert_close(tendency(other, closures)[:, :5], tendency(state, closures)[:, :5], rtol=0, atol=0)


@pytest.mark.parametrize("name", COUPLINGS)
def test_each_coupling_can_be_taken_out_by_name(name: str) -> None:
    whole = compiled()
    state, closures = weather(whole)
    without = upper().without(name).compile(grid(), backend="torch").double()
    with torch.no_grad():
        rate = whole(state, closures)
        changed = without(state, {n: closures[n] for n in without.closure_names}) - rate
    share = (changed.abs().amax((0, 2, 3)) / rate.abs().amax((0, 2, 3))).tolist()
    affected = {name for name, part in zip(FIELDS, share, strict=True) if part > 1e-9}  # sums differ in their last bits
    every = {"u", "v", "p", "theta", "q", "column"}
    expected = {
        "steering_share": every, "steering_p": {"p"}, "steering_theta": {"theta"}, "steering_q": {"q"},
        "warming": {"p"}, "mixing_up": {"column"}, "mixing_down": {"theta"},
        "momentum_night": {"u", "v"}, "momentum_day": {"u", "v"},
    }  # fmt: skip
    assert affected == expected[name]


def test_without_its_share_of_steering_theta_is_carried_by_the_surface_wind_and_keeps_it() -> None:
    equation = next(right for f, right in upper().without("steering_theta").equations.items() if f.name == "theta")
    assert "((u_b + u),(v_b + v))·∇theta" in equation.text() and "steering_theta" not in equation.text()


def test_pressure_falls_where_warm_air_arrives_aloft() -> None:
    tendency = compiled()
    state, closures = over_terrain(tendency)
    closures["mean_x"] = torch.full_like(closures["mean_x"], 10.0)
    state[:, 5] = -0.02 * torch.arange(NX, dtype=torch.float64)  # warmer to the west, where the wind comes from
    rate = tendency(state, closures)
    assert float(rate[:, 5, :, 2:].min()) > 0.0
    assert float(rate[:, 2, :, 2:].max()) < 0.0


def test_the_fused_kernel_and_its_adjoint_agree_with_torch() -> None:
    results = []
    for backend in ("torch", "fused"):
        tendency = compiled(backend=backend)
        state, closures = weather(tendency)
        leaves = [state.requires_grad_(), *(a.requires_grad_() for a in closures.values()), tendency.coefficients.raw]
        rate = tendency(state, closures)
        seed = torch.sin(torch.arange(rate.numel(), dtype=rate.dtype)).reshape(rate.shape) / rate.detach().abs().amax(
            (0, 2, 3), keepdim=True
        )
        results.append([rate, *torch.autograd.grad(rate, leaves, seed, allow_unused=True)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-13)


def test_gradients_are_those_of_finite_differences() -> None:
    small = Grid2D.plane(4, 4, dx=80e3, dy=90e3, f=-8e-5)
    tendency = upper().compile(small, backend="torch").double()
    state, closures = weather(compiled(), batch=1)
    state, closures = state[..., :4, :4].clone(), {name: a[..., :4, :4].clone() for name, a in closures.items()}
    size = torch.tensor([3.0, 3.0, 200.0, 3.0, 5e-4, 2.0], dtype=torch.float64)[:, None, None]

    def rates(scaled: torch.Tensor, wind: torch.Tensor) -> torch.Tensor:
        moved = tendency(scaled * size, {**closures, "mean_x": wind})
        return moved / size * 3600.0

    torch.autograd.gradcheck(rates, (torch.tanh(state / size).requires_grad_(), closures["mean_x"].requires_grad_()))


def test_the_wind_aloft_counts_in_the_courant_number() -> None:
    tendency = compiled()
    state, closures = over_terrain(tendency)
    calm = stability.report(tendency, state, dt=600.0, closures=closures)
    closures["mean_x"] = torch.full_like(closures["mean_x"], 25.0)
    windy = stability.report(tendency, state, dt=600.0, closures=closures)
    assert calm.courant == 0.0
    assert windy.wind == pytest.approx(25.0) and windy.courant == pytest.approx(600.0 * 25.0 / 80e3)


def test_a_storm_aloft_is_limited_and_steps_stay_stable() -> None:
    """Without mixing and forcing, upwind steps within the limits make no new extremes, whatever blows aloft."""
    on = grid()
    system = upper().without("warming", "pressure_gradient", "momentum_night", "momentum_day", "coriolis", "S_theta")
    limits = stability.limits(on, 1800.0, max_wind=40.0, system=system)
    step = RangeScaledEuler(system.compile(on, backend="torch", limits=limits).double(), 1800.0, rule="none")
    state, closures = weather(compiled())
    closures = {name: closures[name] for name in step.tendency.closure_names}
    closures["mean_x"], closures["mean_y"] = (300.0 * closures[name] for name in ("mean_x", "mean_y"))
    later = step.march(state, closures, 48)
    before = state[:, [3, 5]].abs().amax((1, 2, 3))
    assert bool((later[:, [3, 5]].abs().amax((1, 2, 3)) <= before).all())
