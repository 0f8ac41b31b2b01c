"""The surface equations on one screen: as the paper prints them, about a base state, and extended.

``surface`` evolves wind, pressure, potential temperature and specific humidity themselves. ``anomaly`` evolves their
departures from a base state, the climatology, that is supplied hour by hour as closures: the
*full* wind carries the departures, and the *full* state decides about saturation. ``extended`` adds terms that the
printed equations lack, each of them optional.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pde_ops import Closure, Field, PDESystem, Positive, Static, operators
from pde_ops.expr import Expr
from pde_ops.ops import (
    air_density,
    condensation,
    coriolis,
    friction,
    laplacian,
    pressure_gradient_x,
    pressure_gradient_y,
    saturation_humidity,
    temperature,
)

__all__ = ["STATE", "TERMS", "Coefficients", "anomaly", "extended", "surface", "term_of"]

u, v, p = Field("u", "m/s"), Field("v", "m/s"), Field("p", "Pa")
theta, q = Field("theta", "K", latex=r"\theta"), Field("q", "kg/kg")
STATE = ("u", "v", "p", "theta", "q")
f = Static("f", "1/s")  # supplied by the grid

u_b, v_b = Closure("u_b", "m/s", latex="u_b"), Closure("v_b", "m/s", latex="v_b")
p_b, q_b = Closure("p_b", "Pa", latex="p_b"), Closure("q_b", "kg/kg", latex="q_b")
theta_b = Closure("theta_b", "K", latex=r"\theta_b")


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Initial values of the learnable positive coefficients.

    Attributes
    ----------
    kappa : diffusivity, m²/s
    friction, condensation : rates, 1/s
    pressure_gradient : share of the pressure-gradient force
    fastest : largest rate of condensation, 1/s; None for no limit
    """

    kappa: float = 4e4
    friction: float = 2e-5
    condensation: float = 1.0 / 3600.0
    pressure_gradient: float = 0.05
    fastest: float | None = None


START = Coefficients()


def surface(start: Coefficients = START, advection: str = "advection") -> PDESystem:
    """Return the station-oriented surface equations as printed."""
    r_m, lam = _rates(start)
    transport_diffusion = _transport_diffusion(start, advection, u, v)
    vapour_loss = condensation(q, saturation_humidity(temperature(theta, p), p), lam)
    equations = {
        u:     transport_diffusion(u) + coriolis(v, f) - friction(u, r_m),
        v:     transport_diffusion(v) - coriolis(u, f) - friction(v, r_m),
        p:     transport_diffusion(p) + Closure("S_p", "Pa/s"),
        theta: transport_diffusion(theta) + Closure("S_theta", "K/s", latex=r"S_\theta"),
        q:     transport_diffusion(q) + Closure("S_q", "1/s") - vapour_loss,
    }  # fmt: skip
    return PDESystem("station-oriented surface PDE", equations)


def anomaly(start: Coefficients = START, advection: str = "advection", force: bool = False) -> PDESystem:
    """Return the equations of departures from a base state; ``force`` adds a share of the pressure-gradient force.

    Wind has closures of its own here.
    """
    r_m, lam = _rates(start)
    transport_diffusion = _transport_diffusion(start, advection, u_b + u, v_b + v)
    pressure, warmth = p_b + p, temperature(theta_b + theta, p_b + p)
    vapour_loss = condensation(q_b + q, saturation_humidity(warmth, pressure), lam)
    equations = {
        u:     transport_diffusion(u) + coriolis(v, f) - friction(u, r_m) + Closure("S_u", "m/s**2"),
        v:     transport_diffusion(v) - coriolis(u, f) - friction(v, r_m) + Closure("S_v", "m/s**2"),
        p:     transport_diffusion(p) + Closure("S_p", "Pa/s"),
        theta: transport_diffusion(theta) + Closure("S_theta", "K/s", latex=r"S_\theta"),
        q:     transport_diffusion(q) + Closure("S_q", "1/s") - vapour_loss,
    }  # fmt: skip
    if force:
        share = Positive("pressure_gradient", "1", init=start.pressure_gradient, latex=r"\beta")
        density = air_density(warmth, pressure, q_b + q)
        equations[u] += share * pressure_gradient_x(p, density)
        equations[v] += share * pressure_gradient_y(p, density)
    return PDESystem("surface PDE about a base state", equations)


# Names of the extending terms, and the letters that stand for them in the equations.
TERMS = {"surroundings": "G", "memory": "M", "relaxation": "lambda", "radiation": "Q"}


def term_of(term: str, field: str) -> str:
    """Return the name of a term in the equation of a field: ``G_u``."""
    return f"{TERMS[term]}_{field}"


def extended(system: PDESystem, terms: Iterable[str] = TERMS) -> PDESystem:
    r"""Add terms that the printed equations lack, each of them optional.

    .. math:: \partial_t\varphi = \ldots + G_\varphi + M_\varphi - \lambda_\varphi\,\varphi + Q_\varphi

    ``surroundings``, ``memory``, ``relaxation`` by regime and ``radiation``: `model.extended_terms` defines and
    computes each, once for a forecast interval.
    """
    equations = {}
    for a, right in system.equations.items():
        for term in terms:
            if term == "relaxation":
                right = right - Closure(term_of(term, a.name), "1/s") * a
            else:
                right = right + Closure(term_of(term, a.name), f"{a.unit} / s")
        equations[a] = right
    return PDESystem(f"extended {system.name}", equations)


def _rates(start: Coefficients) -> tuple[Positive, Positive]:
    cap = None if start.fastest is None else start.fastest * 3600.0
    return (
        Positive("r_m", "1/day", init=start.friction * 86400.0),
        Positive("lambda_c", "1/hour", init=start.condensation * 3600.0, cap=cap, latex=r"\lambda_c"),
    )


def _transport_diffusion(start: Coefficients, advection: str, wind_x: Expr, wind_y: Expr):  # type: ignore[no-untyped-def]
    """Return a function of a field: −V·∇a + κ_a ∇²a, each field with its own diffusivity."""
    transport = operators[advection]

    def terms(a: Field) -> Expr:
        name = rf"\kappa_{{{a.latex()}}}"
        kappa = Positive(f"kappa_{a.name}", "km**2/hour", init=start.kappa * 3.6e-3, latex=name)
        return -transport(a, wind_x, wind_y) + kappa * laplacian(a)

    return terms
