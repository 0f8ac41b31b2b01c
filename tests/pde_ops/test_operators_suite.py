"""The generic suite, over every registered operator and every border."""

from __future__ import annotations

import pytest

from pde_ops import operators
from pde_ops.testing import BORDERS
from pde_ops.testing.backend_checks import check_fused
from pde_ops.testing.property_checks import PROPERTY_CHECKS
from pde_ops.testing.results import CheckSkipped
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
    }  # fmt: skip
    assert expected <= set(OPERATORS)
