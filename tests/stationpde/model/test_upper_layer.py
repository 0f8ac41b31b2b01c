"""The latent upper layer in the model: where its column starts, what it is supplied with, its placebo, what is told."""

from __future__ import annotations

import math

import pytest
import torch

from small_network import small_config, small_model, wild, windows
from stationpde.model import coefficients_of
from stationpde.model.upper_air import WIND_SCALE
from stationpde.physics import STATE, THETA
from stationpde.physics.upper_air import COUPLINGS

UNGUIDED = ("model.guide=none",)


def upper(*overrides: str, eager: bool = True):
    return small_model(small_config("upper air", (*UNGUIDED, *overrides)), eager=eager)


def test_by_default_there_is_no_upper_layer() -> None:
    model = small_model(small_config("default", UNGUIDED))
    assert model.column is None and model.pde_branch.aloft is None
    assert model.pde_branch.tendency.field_names == STATE


def test_with_one_seed_the_other_weights_begin_as_without_the_layer() -> None:
    plain, layered = small_model(small_config("default", UNGUIDED)).state_dict(), upper().state_dict()
    new = {name for name in layered if name.startswith("column.") or ".aloft." in name or "pde_branch" in name}
    assert all(torch.equal(layered[name], value) for name, value in plain.items() if name not in new)


def test_the_column_starts_as_the_mean_of_theta_over_the_last_day() -> None:
    model = upper()
    batch = windows(model.config, [5, 30])
    analysis = model.analyse(batch.history, batch.issue_time)
    plain = small_model(small_config("default", (*UNGUIDED, "loss.residual=0.01")))  # keeps the lifted history
    lifted = plain.analyse(batch.history, batch.issue_time).lifted
    torch.testing.assert_close(analysis.field[:, 5], lifted.fields[:, -4:, THETA].mean(dim=1))  # four steps a day


def test_a_gradient_reaches_all_that_the_layer_learns() -> None:
    model = upper(eager=False)
    wild(model, size=0.1)
    batch = windows(model.config, [5, 30, 61])
    forecast = model(batch.history, batch.issue_time)
    ((forecast.state - forecast.state.detach().mean()) / model.sites.scale).square().mean().backward()
    learned = {n: p.grad for n, p in model.named_parameters() if n.startswith("column.") or ".aloft." in n}
    assert len(learned) == 3 and all(bool(gradient.abs().gt(0).any()) for gradient in learned.values())
    coefficients = model.pde_branch.tendency.coefficients
    by_name = dict(zip((s.name for s in coefficients.symbols), coefficients.raw.grad.tolist(), strict=True))
    assert all(by_name[name] != 0.0 for name in COUPLINGS)


def test_a_compiled_interval_gives_what_torch_gives() -> None:
    forecasts = []
    for backend in ("torch", "auto"):
        model = upper(f"pde.backend={backend}")
        wild(model, size=0.1)
        batch = windows(model.config, [5, 30])
        forecasts.append(model(batch.history, batch.issue_time).state.detach())
    torch.testing.assert_close(*forecasts, rtol=2e-5, atol=1e-6)


def test_the_mean_wind_aloft_follows_the_season() -> None:
    model = upper()
    aloft, waves = model.pde_branch.aloft, torch.tensor([[0.5, 0.0, 0.25], [-0.1, 0.2, 0.0]])
    with torch.no_grad():
        aloft.mean.copy_(waves)
    for day, east in ((0.0, 0.75), (182.62125, 0.25)):  # of the year since 1970: its beginning, and its middle
        time = torch.tensor([int(day * 86400)])
        _, base = model.interval_start(torch.zeros(1, 6, *model.region.grid.shape), time)
        supplied = aloft(base, model.conditions.step(time, 1))
        assert float(supplied[0, 2].mean()) == pytest.approx(WIND_SCALE * east, rel=1e-3)
    told = coefficients_of(model)
    assert str(told["mean_wind_u"]) == "10 m/s" and told["mean_wind_v"].value == pytest.approx(-0.1 * WIND_SCALE)
    january = 2.0 * math.pi * 15.0 / 365.2425
    assert told["mean_wind_v_january"].value == pytest.approx(WIND_SCALE * (-0.1 + 0.2 * math.sin(january)))
    assert {name: told[name].unit for name in COUPLINGS} == {
        name: "1/d" if unit == "1/day" else "1" for name, (_, unit, _) in COUPLINGS.items()
    }


def test_a_placebo_is_steered_by_the_wind_of_another_sample_and_the_layer_by_its_own() -> None:
    for term, depends in (("upper_air", False), ("upper_air_placebo", True)):
        model = upper(f'pde.terms=["{term}"]')
        states = []
        for other in (30, 70):
            batch = windows(model.config, [5, other])
            states.append(model(batch.history, batch.issue_time).state[0].detach())
        assert bool((states[0] != states[1]).any()) is depends


def test_a_placebo_takes_the_weights_of_the_layer() -> None:
    own, placebo = upper(), upper('pde.terms=["upper_air_placebo"]')
    placebo.load_state_dict(own.state_dict())


def test_the_equations_alone_move_the_column() -> None:
    """Data branch and router neither see nor change it: it is the same whatever they weigh."""
    columns = []
    for bias in (-8.0, 8.0):
        model = upper()
        wild(model, size=0.1)
        torch.nn.init.constant_(model.router.gate.network.last.convolution.bias, bias)
        batch = windows(model.config, [5])
        analysis = model.analyse(batch.history, batch.issue_time)
        (conditions, base), *_ = model.conditions_ahead(
            model.valid_time(batch.issue_time[:, None], torch.tensor([1])), analysis.tendencies
        )
        later, _ = model.advance(analysis.field, conditions, base, analysis.tendencies, 1)
        columns.append(later.detach())
    assert torch.equal(columns[0][:, 5], columns[1][:, 5]) and not torch.equal(columns[0][:, :5], columns[1][:, :5])
