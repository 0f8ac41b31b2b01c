r"""The latent upper layer on one screen: equations of the surface and of the column above it, coupled.

What drives weather at 3 to 24 h moves with the flow aloft, which no surface station sees. One more prognostic field,
the mean temperature of the column between the ground and 500 hPa as a departure from its climatology, closes the loop:

.. math::

   \phi' = D\,\overline T + \frac{p}{\bar\rho}, \qquad
   \mathbf V_g = \frac{\alpha f}{f^2 + f_0^2}\,\mathbf k\times\nabla\phi', \qquad
   \mathbf V_s = \mathbf V_g + \mathbf V_m

with D and the density of the base state, and :math:`\mathbf V_m`, the mean wind aloft by season, which is learned:
departures from a climatology hold none. :math:`\mathbf V_s` steers θ, q, pressure and the column itself, the surface
wind follows :math:`\mathbf V_g`, column and surface mix, and pressure falls under warm advection aloft.
"""

from __future__ import annotations

from collections.abc import Mapping

from pde_ops import Closure, Field, PDESystem, Positive, operators, unit_registry
from pde_ops.expr import Expr, as_expr, replace
from pde_ops.ops import daylight, geostrophic_x, geostrophic_y, hydrostatic_geopotential, laplacian, relaxation
from stationpde.physics.equations import START, Coefficients, anomaly, f, p, p_b, q, theta, u, u_b, v, v_b

__all__ = ["COLUMN", "COUPLINGS", "LEAST_ROTATION", "SUPPLIED", "TOP_PRESSURE", "with_upper_air"]

COLUMN = "column"
column = Field(COLUMN, "K", latex=r"\overline{T}")
TOP_PRESSURE = 5e4  # Pa
LEAST_ROTATION = 2e-5  # f_0, 1/s: that of 8 degrees of latitude
MEAN_TEMPERATURE = 260.0  # of the column, K: lowest half of the US Standard Atmosphere (1976)

# What a model supplies beside the base state, once for a forecast interval.
depth, volume = Closure("depth", "J/kg/K", latex="D"), Closure("volume", "m**3/kg", latex=r"\bar\rho^{-1}")
mean_x, mean_y = Closure("mean_x", "m/s", latex="U_m"), Closure("mean_y", "m/s", latex="V_m")
other_x, other_y = Closure("other_x", "m/s", latex="U_o"), Closure("other_y", "m/s", latex="V_o")
sun = Closure("sun", "1", latex=r"\cos z")
SUPPLIED = (depth, volume, mean_x, mean_y, sun, other_x, other_y)

# Coefficients of the couplings, each of which `pde.without` takes out by name: initial value, unit, largest value.
COUPLINGS: Mapping[str, tuple[float, str, float | None]] = {
    "steering_share": (0.7, "1", 1.5),  # α, of the geostrophic wind in what steers
    "steering_p": (0.3, "1", 1.0),  # of the steering wind in what carries pressure, the surface wind not at all
    "steering_theta": (0.3, "1", 1.0),
    "steering_q": (0.3, "1", 1.0),
    "warming": (0.1, "1", 1.0),  # share of warm advection that pressure falls by
    "mixing_up": (0.5, "1/day", None),  # the column follows the surface
    "mixing_down": (0.2, "1/day", None),  # the surface follows the column
    "momentum_night": (0.05, "1/day", None),  # the surface wind follows the wind aloft
    "momentum_day": (0.2, "1/day", None),  # the same, times the height of the sun
}


def with_upper_air(
    system: PDESystem, start: Coefficients = START, advection: str = "advection", placebo: bool = False
) -> PDESystem:
    """Return equations of departures, `anomaly` or `extended`, coupled to the column above the surface.

    A ``placebo`` is steered by a wind that is supplied, in truth that of another day.
    """
    surface, transport = system.equations, operators[advection]
    share, by_p, by_theta, by_q, warming, up, down, night, day = (
        Positive(name, unit, init=init, cap=cap) for name, (init, unit, cap) in COUPLINGS.items()
    )
    kappa = Positive("kappa_column", "km**2/hour", init=start.kappa * 3.6e-3, latex=r"\kappa_{\overline{T}}")
    least, mean_temperature = _quantity(LEAST_ROTATION, "1/s"), _quantity(MEAN_TEMPERATURE, "K")

    phi = hydrostatic_geopotential(column, p, depth, volume)
    x, y = (other_x, other_y) if placebo else (geostrophic_x(phi, f, least), geostrophic_y(phi, f, least))
    balanced_x, balanced_y = share * x, share * y
    steering_x, steering_y = balanced_x + mean_x, balanced_y + mean_y

    def carried(a: Field, by_x: Expr, by_y: Expr) -> Expr:
        return replace(surface[a], {transport(a, u_b + u, v_b + v): transport(a, by_x, by_y)})

    mixed, warm_advection = night + day * daylight(sun), transport(column, steering_x, steering_y)
    equations = {
        u:      surface[u] + mixed * (balanced_x - u),
        v:      surface[v] + mixed * (balanced_y - v),
        p:      carried(p, by_p * steering_x, by_p * steering_y) + warming * p_b / mean_temperature * warm_advection,
        theta:  carried(theta, u_b + u + by_theta * steering_x, v_b + v + by_theta * steering_y)
                + relaxation(theta, column, down),
        q:      carried(q, u_b + u + by_q * steering_x, v_b + v + by_q * steering_y),
        column: -warm_advection + kappa * laplacian(column) + relaxation(column, theta, up),
    }  # fmt: skip
    return PDESystem(f"{system.name} and the column above it", equations)


def upper() -> PDESystem:
    """Return the whole system with initial coefficients, for `stationpde ops show upper`."""
    return with_upper_air(anomaly(force=True))


def _quantity(value: float, unit: str) -> Expr:
    return as_expr(unit_registry.Quantity(value, unit))
