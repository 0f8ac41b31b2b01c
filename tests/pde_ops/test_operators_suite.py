"""The generic suite, over every registered operator and every border."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pde_ops import operators
from pde_ops.testing import BORDERS
from pde_ops.testing.backend_checks import check_fused
from pde_ops.testing.property_checks import PROPERTY_CHECKS
from pde_ops.testing.results import CheckSkipped
from pde_ops.testing.samples import inputs, latlon, other_inputs
from pde_ops.testing.suite import BORDER_CHECKS, CHECKS

OPERATORS = operators.list()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_passes(name: str, check: str) -> None:
    CHECKS[check](operators[name])


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_keeps_its_promises_at_every_border(name: str, border: str) -> None:
    record = operators[name]
    for check in BORDER_CHECKS.values():
        check(record, border)
    for declared, value in record.properties.items():
        if declared in PROPERTY_CHECKS:
            PROPERTY_CHECKS[declared](record, border, value)


# Corners of the domain as well as the whole of it: that is where a clamp, a tie or a sign shows.
PARTS = [(0.0, 1.0), (0.0, 0.02), (0.49, 0.51), (0.98, 1.0)]


@settings(max_examples=150)
@given(
    st.sampled_from([n for n in OPERATORS if set(operators[n].properties) & set(PROPERTY_CHECKS)]),
    st.sampled_from(sorted(BORDERS)),
    st.integers(0, 2**20),
    st.sampled_from(PARTS),
)
def test_declared_properties_hold_for_any_numbers(name: str, border: str, seed: int, part: tuple[float, float]) -> None:
    record = operators[name]
    with other_inputs(seed, part):
        for declared, value in record.properties.items():
            if declared in PROPERTY_CHECKS:
                PROPERTY_CHECKS[declared](record, border, value)


def test_other_inputs_are_other_inputs() -> None:
    record, grid = operators["wind_speed"], latlon()
    usual = inputs(record, grid)
    with other_inputs(1, (0.98, 1.0)):
        (u, v) = inputs(record, grid)
        assert not torch.equal(u, usual[0]) and float(torch.stack([u, v]).min()) >= 0.98 * 80.0 - 40.0
    assert torch.equal(inputs(record, grid)[0], usual[0])


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    "border",
    [
        "reflecting-zero_gradient",  # odd components, mirrored and repeated ghosts
        *(pytest.param(b, marks=pytest.mark.slow) for b in BORDERS if b != "reflecting-zero_gradient"),
    ],
)
def test_the_fused_kernel_of_every_operator_agrees_with_torch(name: str, border: str) -> None:
    try:
        check_fused(operators[name], border)
    except CheckSkipped as reason:
        pytest.skip(str(reason))


def test_the_processes_of_a_surface_model_are_all_registered() -> None:
    expected = {
        "advection", "advection_upwind1", "advection_upwind3", "advection_central2", "advection_central4",
        "advection_flux", "gradient_x", "gradient_y", "divergence", "vorticity", "laplacian", "laplacian4",
        "gradient_scale_x", "gradient_scale_y", "laplacian_scale", "diffusion", "hyperdiffusion", "coriolis",
        "friction", "quadratic_drag", "condensation", "latent_heating", "saturation_humidity", "temperature",
        "pressure_gradient_x", "pressure_gradient_y", "relaxation", "metric_x", "metric_y", "speed_limit",
        "column_depth", "hydrostatic_geopotential", "geostrophic_x", "geostrophic_y", "daylight",
    }  # fmt: skip
    assert expected <= set(OPERATORS)
