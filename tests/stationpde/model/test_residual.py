"""The residual of the equations in the loss: zero where they hold, of second order, in units, and nothing when off."""

import itertools
import math

import numpy as np
import pytest
import torch

import pde_ops as po
from neural_baseline_cases import config as small
from neural_baseline_cases import made, network, source
from pde_ops import Field, Grid2D, Positive
from pde_ops.ops import advection_central2, friction, laplacian
from stationpde.baselines import baseline
from stationpde.baselines.per_station import NetworkLearner
from stationpde.config.tree import Config
from stationpde.model.coefficients import coefficients_of
from stationpde.model.learner import LocalReducer
from stationpde.model.pde_branch import unforced_system_of
from stationpde.model.residual import Course, PhysicsResidual
from stationpde.model.task import ModelLearner
from stationpde.physics.equations import STATE

LOCAL = LocalReducer()
u, v, a = Field("u", "m/s"), Field("v", "m/s"), Field("a", "K")
CARRIED = po.PDESystem("carried", {u: 0.0, v: 0.0, a: -advection_central2(a, u, v)})
HOUR = 3600.0


region_lat, region_lon = np.linspace(-30.0, -24.0, 9), np.linspace(-56.0, -49.0, 11)


def region() -> Grid2D:
    return Grid2D.from_latlon(region_lat, region_lon, boundary="zero_gradient")


def weather(*shape: int, seed: int = 0) -> torch.Tensor:
    """Plausible departures of u, v, p, θ, q, SI, smooth in time."""
    drawn = torch.randn(*shape, 5, 9, 11, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn * torch.tensor([2.0, 2.0, 200.0, 2.0, 1e-3])[:, None, None]


def residual(variant: str = "default", step: float = HOUR, **keys: str) -> PhysicsResidual:
    config = Config.preset(variant=variant).with_overrides([f"{k.replace('_', '.', 1)}={x}" for k, x in keys.items()])
    system = unforced_system_of(config, region())
    return PhysicsResidual(system, region(), torch.tensor([2.0, 2.0, 200.0, 2.0, 1e-3]), step).double()


def base_of(fields: torch.Tensor) -> torch.Tensor:
    level = torch.tensor([1.0, -1.0, 9.5e4, 290.0, 6e-3], dtype=torch.float64)[:, None, None]
    return level.expand_as(fields)


def test_fields_that_solve_the_equations_have_no_residual():
    physics, before = residual(), weather(2)
    closures = {name: base_of(before)[:, STATE.index(name[:-2])] for name in
                physics.tendency.closure_names}  # fmt: skip
    after = before
    for _ in range(200):  # the rule of the midpoint, solved by repetition
        after = before + 0.25 * HOUR * physics.tendency(0.5 * (before + after), closures)
    physics.step_seconds = 0.25 * HOUR
    fields = torch.stack([before, after], dim=1)
    course = Course(fields, base_of(fields), torch.zeros(2, 2, dtype=torch.long))
    moved = float(((after - before) / physics.scale).detach().abs().max())
    assert moved > 0.1
    assert float(physics(course, held=True).detach().abs().max()) < 1e-9 * moved


def carried_residual(cells: int) -> float:
    """Return the largest residual of a sine that a uniform wind carries along, exactly."""
    length, speed = 4e5, 8.0
    grid = Grid2D.plane(ny=6, nx=cells, dx=length / cells, dy=length / cells, boundary="periodic")
    step = 6400.0 / cells * 4
    x = torch.arange(cells, dtype=torch.float64) * length / cells
    times = torch.arange(4)[:, None] * step
    wave = torch.sin(2 * math.pi * (x - speed * times) / length)[:, None].expand(-1, 6, -1)
    fields = torch.stack([torch.full_like(wave, speed), torch.zeros_like(wave), wave], dim=1)[None]
    physics = PhysicsResidual(CARRIED, grid, torch.ones(3), step).double()
    course = Course(fields, None, torch.zeros(1, 4, dtype=torch.long))
    return float(physics(course, held=True).detach().abs().max()) / step  # a rate: per second


def test_a_wave_that_the_wind_carries_has_a_residual_of_second_order():
    rates = [carried_residual(cells) for cells in (32, 64, 128)]
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(rates)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.1)


def test_a_field_that_stands_still_in_a_wind_has_the_advection_as_residual():
    grid = Grid2D.plane(ny=5, nx=8, dx=1e4, dy=1e4, boundary="zero_gradient")
    slope, speed, step = 2e-4, 5.0, 1000.0
    ramp = (slope * 1e4 * torch.arange(8, dtype=torch.float64)).expand(5, 8)
    state = torch.stack([torch.full_like(ramp, speed), torch.zeros_like(ramp), ramp])
    physics = PhysicsResidual(CARRIED, grid, torch.tensor([1.0, 1.0, 4.0]), step).double()
    course = Course(state.expand(1, 2, 3, 5, 8), None, torch.zeros(1, 2, dtype=torch.long))
    sums = physics.sums(course, held=True)
    # Nothing changes, the equation says −U ∂a/∂x: r = Δt U ∂a/∂x / s at 3 × 6 cells within the outer ring.
    r = step * speed * slope / 4.0
    assert sums.squares[2].item() == pytest.approx(18 * r**2)
    assert sums.count.tolist() == [18.0, 18.0, 18.0]
    assert sums.mean(torch.tensor([0.0, 0.0, 2.0]).double(), LOCAL).item() == pytest.approx(r**2)


def test_every_term_of_every_equation_gets_a_coefficient_in_its_unit():
    kappa, rate = Positive("kappa", "km**2/hour", init=36.0), Positive("r", "1/day", init=2.0)
    system = po.PDESystem("two", {
        u: kappa * laplacian(u) - friction(u, rate), v: kappa * laplacian(v) - friction(v, rate),
        a: -advection_central2(a, u, v),
    })  # fmt: skip
    physics = PhysicsResidual(system, Grid2D.plane(ny=4, nx=4, dx=1e4, dy=1e4, boundary="periodic"), torch.ones(3), 1.0)
    terms = {name: f"{value:.3g~P}" for name, value in physics.physics().items() if name.startswith("lambda")}
    assert terms == {
        "lambda_laplacian_u": "36 km²/h", "lambda_friction_u": "2 1/d", "lambda_laplacian_v": "36 km²/h",
        "lambda_friction_v": "2 1/d", "lambda_advection_a": "1",
    }  # fmt: skip
    assert system.coefficients[0].name == "kappa"  # the system that came is as it was


def test_the_force_is_reported_as_its_mean_square_over_a_day_in_units_an_hour():
    grid = Grid2D.plane(ny=4, nx=4, dx=1e4, dy=1e4, boundary="periodic")
    physics = PhysicsResidual(CARRIED, grid, torch.tensor([1.0, 1.0, 3.0]), 2 * HOUR)
    with torch.no_grad():
        physics.force[2] = torch.tensor([0.3, 0.4, 0.0, 0.0, 0.0])  # in parts of 3 K in two hours
    force = physics.physics()["force_a"]
    assert force.magnitude == pytest.approx(1.5 * math.sqrt(0.3**2 + 0.5 * 0.4**2), rel=1e-5)
    assert f"{force.units:~P}" == "K/h"
    # At 6 h the cosine of the day is 0 and the mean remains; at midnight both act.
    times = torch.tensor([[5 * 3600, 7 * 3600], [-3600, 3600]])
    still = torch.zeros(2, 2, 3, 4, 4)
    r = physics(Course(still, None, times), held=True).detach()[:, 0, 2, 1, 1]
    torch.testing.assert_close(r, torch.tensor([-0.3, -0.7]))


def test_the_residual_is_differentiable_to_its_last_digit():
    fields, scale = weather(1, 2)[..., :5, :5].contiguous(), torch.tensor([2.0, 2.0, 200.0, 2.0, 1e-3])
    grid = Grid2D.from_latlon(region_lat[:5], region_lon[:5], boundary="zero_gradient")
    physics = PhysicsResidual(unforced_system_of(Config.preset(), grid), grid, scale, HOUR).double()
    times = torch.zeros(1, 2, dtype=torch.long)

    def squares(values: torch.Tensor) -> torch.Tensor:
        course = Course(values * physics.scale, base_of(values), times)
        return physics.sums(course, held=False).squares

    values = (fields / physics.scale).requires_grad_()
    assert torch.autograd.gradcheck(squares, (values,), eps=1e-6, atol=1e-6, fast_mode=True)
    squares(values).sum().backward()
    for parameter in physics.parameters():  # λ and Q, by a difference in their last number
        slopes, small = parameter.grad.flatten(), 1e-6
        with torch.no_grad():
            last = parameter.view(-1)
            last[-1] += small
            above = squares(values).sum()
            last[-1] -= 2 * small
            below = squares(values).sum()
            last[-1] += small
        assert slopes[-1].item() == pytest.approx(((above - below) / (2 * small)).item(), rel=1e-5, abs=1e-7)


def test_terms_are_learned_on_observations_alone_and_the_forecast_by_its_fields_alone():
    physics = residual()
    forecast, observed = weather(2, 3).requires_grad_(), weather(2, 4, seed=1).requires_grad_()
    times = torch.zeros(2, 4, dtype=torch.long)
    courses = (
        Course(forecast, base_of(forecast), times[:, :3]), Course(observed, base_of(observed), times)
    )  # fmt: skip
    of_forecast, of_observed = physics.loss(*courses, torch.ones(5).double(), LOCAL)
    of_forecast.backward()
    assert forecast.grad.abs().sum() > 0 and all(p.grad is None for p in physics.parameters())
    of_observed.backward()
    assert observed.grad is None and all(p.grad.abs().sum() > 0 for p in physics.parameters())


def test_the_share_of_the_wind_that_carries_a_field_is_found_from_it():
    grid = Grid2D.plane(ny=6, nx=48, dx=1e4, dy=1e4, boundary="periodic")
    x, speed, share = torch.arange(48, dtype=torch.float64) * 1e4, 6.0, 0.4
    times = torch.arange(6)[:, None] * 900.0
    wave = torch.sin(2 * math.pi * (x - share * speed * times) / 4.8e5)[:, None].expand(-1, 6, -1)
    fields = torch.stack([torch.full_like(wave, speed), torch.zeros_like(wave), wave], dim=1)[None]
    physics = PhysicsResidual(CARRIED, grid, torch.ones(3), 900.0).double()
    optimiser = torch.optim.LBFGS(physics.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        course = Course(fields, None, torch.zeros(1, 6, dtype=torch.long))
        loss = 1e4 * physics.sums(course, held=False).mean(torch.ones(3).double(), LOCAL)
        loss.backward()
        return loss

    optimiser.step(closure)
    assert physics.physics()["lambda_advection_a"].magnitude == pytest.approx(share, abs=0.01)


def test_intervals_that_next_to_no_station_reports_do_not_count():
    physics, fields = residual(), weather(1, 3)
    coverage = torch.ones_like(fields)
    coverage[:, 2, 1] = 0.2
    course = Course(fields, base_of(fields), torch.zeros(1, 3, dtype=torch.long), coverage)
    sums, whole = physics.sums(course, held=True), physics(course, held=True)[..., 1:-1, 1:-1].square()
    torch.testing.assert_close(sums.squares[1], whole[:, 0, 1].sum())
    torch.testing.assert_close(sums.squares[0], whole[:, :, 0].sum())
    assert sums.count.tolist() == [126.0, 63.0, 126.0, 126.0, 126.0]


def test_terms_taken_out_of_the_equations_are_taken_out_of_the_residual():
    less = residual(pde_without="['advection_upwind1', 'laplacian']").physics()
    assert not any("advection" in name or "laplacian" in name for name in less)
    assert "lambda_coriolis_u" in less
    force = residual(pde_pressure_gradient="true").physics()
    assert {"lambda_pressure_gradient_force_u", "lambda_pressure_gradient_force_v"} <= set(force)


# ---- in training --------------------------------------------------------------------------------------------------

VARIANTS = {
    "default": ("model.guide=none",),
    "field": ("variant=field", "model.guide=none", "pde.terms=['memory', 'relaxation']"),
    "paper": (
        "variant=paper", "model.state=raw", "model.inputs=[]", "model.guide=none", "pde.rule=range",
        "model.closure_form=printed", "lift.method=terrain_idw",
    ),
    "no equations": ("model.guide=none", "model.pde_branch=false"),
}  # fmt: skip


def learner_of(variant: str, weight: float) -> ModelLearner:
    config = small("16 to 8", *VARIANTS[variant], "pde.backend=torch", f"loss.residual={weight}")
    torch.manual_seed(0)
    return ModelLearner.of(config, network(), source().windows.split)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_residual_is_added_to_the_loss_of_a_variant(variant):
    given = source()
    batch = given.batch(given.windows.train[:2])
    off, on = learner_of(variant, 0.0), learner_of(variant, 0.5)
    torch.manual_seed(1)
    plain = off.losses(batch, LOCAL)
    torch.manual_seed(1)
    losses = on.losses(batch, LOCAL)
    assert plain.residual is None and float(losses.residual) > 0
    assert float(losses.state) == float(plain.state) and float(losses.observed) == float(plain.observed)
    more = float((losses.total - plain.total).detach())
    assert more > 0.5 * float(losses.residual)
    losses.total.backward()
    grads = [p.grad for p in on.module.residual.parameters()]
    assert all(grad is not None and torch.isfinite(grad).all() for grad in grads)
    learned = coefficients_of(on.module)
    assert learned["lambda_laplacian_u"].unit == "km²/h" and learned["lambda_advection_theta"].unit == "1"
    assert learned["force_p"].unit == "Pa/h"
    on.module.eval()
    assert on.losses(batch, LOCAL).residual is None  # a forecast is not scored by it


def test_without_the_residual_nothing_is_different():
    off, on = learner_of("default", 0.0), learner_of("default", 0.5)
    weights, with_terms = off.module.state_dict(), on.module.state_dict()
    assert not any(name.startswith("residual.") for name in weights)
    for name, value in weights.items():
        assert torch.equal(value, with_terms[name])
    assert {name.partition("_")[0] for name in set(on.module.physics()) - set(off.module.physics())} == {
        "lambda", "force"
    }  # fmt: skip
    groups = [group for group in on.parameter_groups(0.1) if group.get("lr_scale")]
    assert [group["weight_decay"] for group in groups] == [0.0] and groups[0]["lr_scale"] == 10.0
    numbers = [id(p) for group in on.parameter_groups(0.1) for p in group["params"]]
    assert len(numbers) == len(set(numbers)) == len(list(on.module.parameters()))


def test_the_hash_of_a_configuration_knows_the_key_only_where_it_acts():
    plain = Config.preset()
    assert plain.with_overrides(["loss.residual=0.0"]).hash() == plain.hash()
    assert plain.with_overrides(["loss.residual=0.01"]).hash() != plain.hash()
    assert "residual" not in plain.identity()["loss"]


def test_a_run_with_the_residual_begins_from_one_without():
    off, on = learner_of("default", 0.0), learner_of("default", 0.5)
    adapted = on.adopt(off.module.state_dict())
    assert set(adapted) == set(on.module.state_dict())


# ---- CDPNet -------------------------------------------------------------------------------------------------------


def cdpnet(weight: float, last_stage: bool = True) -> NetworkLearner:
    torch.manual_seed(0)
    config = small("16 to 8", "model.guide=none", "pde.backend=torch", f"loss.residual={weight}")
    learner = baseline("cdpnet").make(config, source())
    if last_stage:
        learner.to_last_stage()
    return learner


@pytest.mark.parametrize("last_stage", [True, False])
def test_the_residual_is_added_to_the_loss_of_cdpnet(last_stage):
    given = source()
    batch = given.batch(given.windows.train[:2])
    off, on = cdpnet(0.0, last_stage), cdpnet(0.5, last_stage)
    torch.manual_seed(1)
    plain = off.losses(batch, LOCAL)
    torch.manual_seed(1)
    losses = on.losses(batch, LOCAL)
    assert float(losses.error) == float(plain.error) and float(plain.penalty) == 0.0
    assert float(losses.penalty) > 0 and float(losses.total) == pytest.approx(float(losses.error + losses.penalty))
    losses.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in on.module.parameters() if p.grad is not None)
    assert coefficients_of(on)["lambda_friction_v"].unit == "1/d" and coefficients_of(off) == {}
    assert not any("residual" in name for name in off.module.state_dict())
    scaled = [group for group in on.parameter_groups(0.1) if group.get("lr_scale") == 10.0]
    assert len(scaled) == 1


def test_the_residual_of_cdpnet_moves_its_forecast():
    given = source()
    batch, learner = given.batch(given.windows.train[:2]), cdpnet(1.0)
    forecast = learner.forecast(batch)[0].detach().requires_grad_()
    last = learner.inputs.filled(batch.history, batch.issue_time)[:, -1]
    learner.counted.residual(learner.inputs.unscaled(forecast), last, batch, LOCAL).backward()
    assert torch.isfinite(forecast.grad).all() and (forecast.grad.abs().sum(dim=(0, 1, 2)) > 0).all()


def test_the_first_weights_of_cdpnet_are_those_without():
    plain = made("cdpnet").module.state_dict()
    for name, value in cdpnet(0.5).module.state_dict().items():
        assert "residual" in name or torch.equal(value, plain[name])
