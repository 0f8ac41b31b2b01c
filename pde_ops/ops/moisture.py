"""Moisture: how much vapour air can hold, how moist it is, and what condenses when it holds too much."""

from __future__ import annotations

from typing import Any

from .. import thermo
from ..constants import L_v0, c_p
from ..elementwise import exp, positive_part
from ..flows import Flow
from ..operator import operator
from .air import HUMIDITY, PRESSURE, TEMPERATURE

__all__ = [
    "condensation",
    "latent_heating",
    "relative_humidity",
    "saturation_humidity",
    "saturation_vapour_pressure",
]

_AMBAUM = "Ambaum (2020), Q. J. R. Meteorol. Soc. 146, 4252-4258, Eq. 13"
_RAINY_BENARD = "Vallis, Parker & Tobias (2019), J. Fluid Mech. 862, 162-199, Sect. 2"


@operator(
    "saturation_vapour_pressure",
    inputs={"T": "K"},
    output="Pa",
    latex=r"e_s({T})",
    text="e_s({T})",
    references=[_AMBAUM],
    properties={
        "pointwise": True,
        "sign": "nonnegative",
        "increasing_in": ("T",),
        "constants": ("e_s0", "T_triple"),
    },
    domain={"T": TEMPERATURE},
)
def saturation_vapour_pressure(T: Any, *, grid: Any) -> Any:
    r"""Vapour pressure in equilibrium with a plane surface of liquid water.

    .. math:: e_s = e_{s0} \left(\frac{T_0}{T}\right)^{(c_l - c_{pv}) / R_v}
              \exp\left(\frac{L_0}{R_v T_0} - \frac{L(T)}{R_v T}\right)

    Parameters
    ----------
    T : temperature, K

    Returns
    -------
    Pa
    """
    return thermo.saturation_vapour_pressure(T)


@operator(
    "saturation_humidity",
    inputs={"T": "K", "p": "Pa"},
    output="kg/kg",
    latex=r"q_s({T}, {p})",
    text="q_s({T}, {p})",
    references=[_AMBAUM],
    properties={
        "pointwise": True,
        "sign": "nonnegative",
        "increasing_in": ("T",),
        "decreasing_in": ("p",),
        "constants": ("e_s0", "T_triple"),
    },
    domain={"T": (180.0, 335.0), "p": PRESSURE},
)
def saturation_humidity(T: Any, p: Any, *, grid: Any) -> Any:
    r"""Specific humidity of air saturated over liquid water.

    .. math:: q_s = \frac{\epsilon\, e_s(T)}{p - (1 - \epsilon)\, e_s(T)}

    Parameters
    ----------
    T : temperature, K
    p : pressure, Pa, larger than ``e_s(T)``

    Returns
    -------
    kg/kg
    """
    return thermo.saturation_humidity(T, p)


@operator(
    "relative_humidity",
    inputs={"T": "K", "p": "Pa", "q": "kg/kg"},
    output="dimensionless",
    latex=r"r({T}, {p}, {q})",
    text="r({T}, {p}, {q})",
    references=[_AMBAUM],
    properties={
        "pointwise": True,
        "sign": "nonnegative",
        "increasing_in": ("p", "q"),
        "decreasing_in": ("T",),
        "constants": ("e_s0", "T_triple"),
    },
    domain={"T": (230.0, 340.0), "p": PRESSURE, "q": HUMIDITY},
)
def relative_humidity(T: Any, p: Any, q: Any, *, grid: Any) -> Any:
    r"""Vapour pressure as a fraction of that at saturation.

    .. math:: r = e(q, p) / e_s(T)

    Parameters
    ----------
    T : temperature, K
    p : pressure, Pa
    q : specific humidity, kg/kg

    Returns
    -------
    dimensionless, 1 at saturation (not %)
    """
    return thermo.relative_humidity(T, p, q)


def _dry_out(q: Any, q_s: Any, lam: Any, *, dt: float) -> Any:
    return q - (1.0 - exp(-lam * dt)) * positive_part(q - q_s)


@operator(
    "condensation",
    inputs={"q": "kg/kg", "q_s": "kg/kg", "lam": "1/s"},
    output="1/s",
    latex=r"{lam}\max({q} - {q_s}, 0)",
    text="{lam} max({q} - {q_s}, 0)",
    references=[_RAINY_BENARD],
    properties={"pointwise": True, "sign": "nonnegative", "linear_in": ("lam",)},
    domain={"q": HUMIDITY, "q_s": HUMIDITY, "lam": (0.0, 1e-2)},
    flow=Flow(evolves="q", update=_dry_out, sign=-1.0),
)
def condensation(q: Any, q_s: Any, lam: Any, *, grid: Any) -> Any:
    r"""Removal of the vapour that exceeds saturation.

    .. math:: C = \lambda\max(q - q_s, 0), \qquad
       q(t + \Delta t) = q - (1 - e^{-\lambda\Delta t})\max(q - q_s, 0)

    Parameters
    ----------
    q : specific humidity, kg/kg
    q_s : specific humidity at saturation, kg/kg
    lam : rate λ, 1/s

    Returns
    -------
    1/s; **subtract** it in the equation of ``q``

    Notes
    -----
    The closed form, applied by the splitting integrators, never overshoots ``q_s``; forward Euler does not either
    while ``λ Δt ≤ 1``, which stability limits see to. The derivative at ``q = q_s`` is that of the dry side, 0.
    """
    return lam * positive_part(q - q_s)


@operator(
    "latent_heating",
    inputs={"rate": "1/s", "p": "Pa"},
    output="K/s",
    latex=r"\frac{L_v}{c_p\,\Pi({p})}\,{rate}",
    text="L/(c_p Π({p})) {rate}",
    references=[_RAINY_BENARD],
    properties={
        "pointwise": True,
        "linear_in": ("rate",),
        "increasing_in": ("rate",),
        "decreasing_in": ("p",),
        "constants": ("L_v0", "c_p", "p0"),
    },
    domain={"rate": (0.0, 1e-5), "p": PRESSURE},
)
def latent_heating(rate: Any, p: Any, *, grid: Any) -> Any:
    r"""Warming of the potential temperature by the heat that condensation sets free.

    .. math:: \partial_t\theta = \ldots + \frac{L_v}{c_p \Pi}\,C, \qquad \Pi = (p/p_0)^{R_d/c_p}

    Parameters
    ----------
    rate : condensation C, 1/s
    p : pressure, Pa

    Returns
    -------
    K/s; **add** it in the equation of θ

    Notes
    -----
    The latent heat is taken at the triple point; it varies by 0.1 % a kelvin.
    """
    return L_v0 / c_p * rate / thermo.exner(p)
