"""State of the air, moisture and condensation at values known from tables or by definition."""

from __future__ import annotations

import math

import pytest
import torch

from pde_ops import Grid2D, operators
from pde_ops.constants import L_v0, R_d, c_p, e_s0, epsilon, p0
from pde_ops.flows import Flow
from pde_ops.ops import condensation, latent_heating

GRID = Grid2D.plane(3, 4, dx=1e4)


def full(value: float) -> torch.Tensor:
    return torch.full((3, 4), value, dtype=torch.float64)


# Each expected value is the definition worked out by hand, not another call of the same function.
@pytest.mark.parametrize(
    ("name", "arguments", "expected", "tolerance"),
    [
        ("exner", (1e5,), 1.0, 1e-14),
        ("exner", (5e4,), 0.5 ** (2.0 / 7.0), 1e-12),
        ("temperature", (300.0, 1e5), 300.0, 1e-14),
        ("temperature", (300.0, 5e4), 300.0 * 0.5 ** (2.0 / 7.0), 1e-12),
        ("potential_temperature", (280.0, 8e4), 280.0 * 1.25 ** (2.0 / 7.0), 1e-12),
        ("virtual_temperature", (300.0, 0.0), 300.0, 1e-14),
        ("virtual_temperature", (300.0, 0.02), 300.0 * (1.0 + 0.02 * (1.0 / epsilon - 1.0)), 1e-14),
        ("air_density", (300.0, 1e5, 0.0), 1e5 / (R_d * 300.0), 1e-14),
        # At the triple point the formula gives Bolton's 611.2 Pa; 2338 Pa at 20 °C is the value of steam tables.
        ("saturation_vapour_pressure", (273.16,), float(e_s0), 1e-12),
        ("saturation_vapour_pressure", (293.15,), 2338.0, 2e-3),
        ("saturation_humidity", (293.15, 101325.0), epsilon * 2338.0 / (101325.0 - (1.0 - epsilon) * 2338.0), 2e-3),
        ("relative_humidity", (293.15, 101325.0, 0.0144), 1.0, 1e-2),
    ],
)
def test_moist_air_takes_known_values(
    name: str, arguments: tuple[float, ...], expected: float, tolerance: float
) -> None:
    result = operators[name](*(full(value) for value in arguments), grid=GRID)
    torch.testing.assert_close(result, full(expected), rtol=tolerance, atol=0.0)


def test_air_saturated_by_the_operator_has_a_relative_humidity_of_one() -> None:
    T, p = full(285.0), full(9.2e4)
    q_s = operators["saturation_humidity"](T, p, grid=GRID)
    torch.testing.assert_close(operators["relative_humidity"](T, p, q_s, grid=GRID), full(1.0), rtol=1e-12, atol=0.0)


def test_condensation_takes_only_what_exceeds_saturation() -> None:
    lam = torch.tensor(1e-3, dtype=torch.float64)
    wet, dry = (condensation(full(q), full(0.010), lam, grid=GRID) for q in (0.012, 0.009))
    torch.testing.assert_close(wet, full(2e-6), rtol=1e-12, atol=0.0)
    assert torch.equal(dry, full(0.0))


@pytest.mark.parametrize("dt", [1.0, 1800.0, 1e9])
def test_condensation_in_closed_form_never_overshoots_saturation(dt: float) -> None:
    assert isinstance(condensation.flow, Flow)
    after = condensation.flow.update(full(0.012), full(0.010), torch.tensor(1e-2, dtype=torch.float64), dt=dt)
    torch.testing.assert_close(after, full(0.010 + 0.002 * math.exp(-1e-2 * dt)), rtol=1e-12, atol=0.0)
    assert (after >= 0.010).all()


def test_latent_heat_warms_the_air_by_what_condenses() -> None:
    # 1 g/kg condensed at 1000 hPa warms by L/c_p · 1e-3 = 2.49 K; higher up θ gains more, by 1/Π.
    at_ground = latent_heating(full(1e-3), full(float(p0)), grid=GRID)
    aloft = latent_heating(full(1e-3), full(0.5 * p0), grid=GRID)
    torch.testing.assert_close(at_ground, full(1e-3 * L_v0 / c_p), rtol=1e-13, atol=0.0)
    torch.testing.assert_close(aloft / at_ground, full(2.0 ** (2.0 / 7.0)), rtol=1e-12, atol=0.0)
