"""The unit-aware doorway: measured quantities in any unit, through MetPy, to the SI state and back.

Use it where data come in or go out. Arguments are pint quantities, or xarray data arrays with a ``units`` attribute
(or with pint data); bare numbers are refused. Dimension and range are checked (see `pde_ops.plausibility`), then
``metpy.calc`` does the physics. Nothing here is differentiable: inside a model use `pde_ops.thermo`, which gives the
same numbers.

MetPy takes seconds to import, so it is imported by the first call.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from .errors import PlausibilityError, ShapeError, UnitError
from .plausibility import KINDS, Floats, checked
from .units import registry

__all__ = [
    "Observation",
    "State",
    "air_density",
    "dew_point",
    "dew_point_from_relative_humidity",
    "from_state",
    "potential_temperature",
    "relative_humidity",
    "saturation_humidity",
    "saturation_vapour_pressure",
    "specific_humidity",
    "temperature",
    "to_state",
    "virtual_temperature",
]

Measured: TypeAlias = Any  # a pint quantity or an xarray data array; neither package types its arithmetic


class State(NamedTuple):
    """The state of the surface equations: SI numbers of one shape, double precision."""

    u: Floats  # m/s, eastward
    v: Floats  # m/s, northward
    p: Floats  # Pa
    theta: Floats  # K
    q: Floats  # kg/kg


class Observation(NamedTuple):
    """What a station measures, as pint quantities."""

    u: Measured  # m/s, eastward
    v: Measured  # m/s, northward
    p: Measured  # Pa
    T: Measured  # K
    RH: Measured  # percent


def to_state(u: Measured, v: Measured, p: Measured, T: Measured, RH: Measured) -> State:
    r"""Turn wind, pressure, temperature and relative humidity into the state of the surface equations.

    .. math:: \theta = T (p_0 / p)^\kappa, \qquad q = \frac{\epsilon e}{p - (1 - \epsilon) e}, \quad e = RH\, e_s(T)

    Parameters
    ----------
    u, v : eastward and northward wind, any unit of speed
    p : pressure at the instrument, any unit of pressure
    T : temperature, any unit of temperature
    RH : relative humidity, as fraction or percent

    Returns
    -------
    State
        In SI; missing values (NaN) stay missing.

    Raises
    ------
    UnitError
        If a unit is absent or measures something else.
    PlausibilityError
        If values cannot be what their unit says.
    ShapeError
        If the arguments do not lie on the same points.
    """
    owner = "to_state"
    arguments = _gate(owner, u=u, v=v, p=p, T=T, RH=RH)
    _same_points(owner, arguments)
    arrays = np.broadcast_arrays(*(_magnitude(x) for x in arguments.values()))
    U, V, P, t, r = (np.array(x) for x in arrays)  # broadcast views are read-only
    pressure, temperature_ = registry.Quantity(P, "Pa"), registry.Quantity(t, "K")
    theta = _metpy().potential_temperature(pressure, temperature_).m_as("K")
    q = _humidity(pressure, temperature_, registry.Quantity(r, "dimensionless")).m_as("dimensionless")
    return State(U, V, P, np.asarray(theta), _possible_humidity(owner, np.asarray(q)))


def from_state(u: Any, v: Any, p: Any, theta: Any, q: Any) -> Observation:
    r"""Turn the state of the surface equations back into what a station measures.

    .. math:: T = \theta (p / p_0)^\kappa, \qquad RH = e(q, p) / e_s(T)

    Parameters
    ----------
    u, v : m/s; numbers, arrays or tensors
    p : Pa
    theta : K
    q : kg/kg

    Returns
    -------
    Observation
        Quantities in m/s, Pa, K and percent.
    """
    owner = "from_state"
    bare = {"u": u, "v": v, "p": p, "theta": theta, "q": q}
    numbers = {
        name: checked(owner, name, x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else x, KINDS[name].unit)
        for name, x in bare.items()
    }
    _same_points(owner, numbers)
    U, V, P, warm, moist = (np.array(x) for x in np.broadcast_arrays(*numbers.values()))
    pressure = registry.Quantity(P, "Pa")
    T = _metpy().temperature_from_potential_temperature(pressure, registry.Quantity(warm, "K"))
    RH = _metpy().relative_humidity_from_specific_humidity(pressure, T, registry.Quantity(moist, "dimensionless"))
    wind = registry.Quantity(U, "m/s"), registry.Quantity(V, "m/s")
    return Observation(*wind, pressure, T.to("K"), RH.to("percent"))


def potential_temperature(T: Measured, p: Measured) -> Measured:
    """Return the potential temperature [K] of air at temperature ``T`` and pressure ``p``."""
    x = _gate("potential_temperature", T=T, p=p)
    return _in("K", _metpy().potential_temperature(x["p"], x["T"]))


def temperature(theta: Measured, p: Measured) -> Measured:
    """Return the temperature [K] of air at potential temperature ``theta`` and pressure ``p``."""
    x = _gate("temperature", theta=theta, p=p)
    return _in("K", _metpy().temperature_from_potential_temperature(x["p"], x["theta"]))


def saturation_vapour_pressure(T: Measured) -> Measured:
    """Vapour pressure [Pa] in equilibrium with liquid water at temperature ``T``."""
    x = _gate("saturation_vapour_pressure", T=T)
    return _in("Pa", _metpy().saturation_vapor_pressure(x["T"]))


def saturation_humidity(T: Measured, p: Measured) -> Measured:
    """Return the specific humidity [kg/kg] of air saturated over liquid water."""
    x = _gate("saturation_humidity", T=T, p=p)
    return _in("dimensionless", _metpy().specific_humidity_from_dewpoint(x["p"], x["T"]))


def specific_humidity(T: Measured, p: Measured, RH: Measured) -> Measured:
    """Return the specific humidity [kg/kg] of air of known relative humidity."""
    x = _gate("specific_humidity", T=T, p=p, RH=RH)
    return _in("dimensionless", _humidity(x["p"], x["T"], x["RH"]))


def relative_humidity(T: Measured, p: Measured, q: Measured) -> Measured:
    """Return the relative humidity [1, not %] of air of known specific humidity."""
    x = _gate("relative_humidity", T=T, p=p, q=q)
    humidity = _metpy().relative_humidity_from_specific_humidity(x["p"], x["T"], x["q"])
    return _in("dimensionless", humidity)


def dew_point(e: Measured) -> Measured:
    """Dew point [K] at vapour pressure ``e``, after Bolton (1980) as MetPy has it."""
    x = _gate("dew_point", e=e)
    return _in("K", _metpy().dewpoint(x["e"]))


def dew_point_from_relative_humidity(T: Measured, RH: Measured) -> Measured:
    """Dew point [K] of air of known temperature and relative humidity."""
    x = _gate("dew_point_from_relative_humidity", T=T, RH=RH)
    return _in("K", _metpy().dewpoint_from_relative_humidity(x["T"], x["RH"]))


def virtual_temperature(T: Measured, q: Measured) -> Measured:
    """Return the temperature [K] at which dry air would be as dense as this moist air."""
    x = _gate("virtual_temperature", T=T, q=q)
    w = _metpy().mixing_ratio_from_specific_humidity(x["q"])
    return _in("K", _metpy().virtual_temperature(x["T"], w))


def air_density(T: Measured, p: Measured, q: Measured) -> Measured:
    """Density [kg/m³] of moist air."""
    x = _gate("air_density", T=T, p=p, q=q)
    w = _metpy().mixing_ratio_from_specific_humidity(x["q"])
    return _in("kg/m**3", _metpy().density(x["p"], x["T"], w))


def _metpy() -> Any:
    try:
        import metpy.calc
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            f"the unit-aware thermodynamics needs MetPy, but `{problem.name}` is not installed; "
            "run: pip install 'metpy>=1.7'",
            name=problem.name,
        ) from problem
    return metpy.calc


def _humidity(p: Measured, T: Measured, RH: Measured) -> Measured:
    w = _metpy().mixing_ratio_from_relative_humidity(p, T, RH)
    return _metpy().specific_humidity_from_mixing_ratio(w)


def _gate(owner: str, **arguments: Measured) -> dict[str, Measured]:
    """Check every argument and return it in SI: a quantity stays a quantity, a data array a data array."""
    magnitudes = {}
    for name, value in arguments.items():
        values = registry.Quantity(checked(owner, name, *_split(owner, name, value)), KINDS[name].unit)
        magnitudes[name] = value.copy(data=values) if _is_data_array(value) else values
    return magnitudes


def _split(owner: str, name: str, value: Measured) -> tuple[Any, Any]:
    """Take a measured quantity apart into numbers and the text of their unit."""
    core = value.data if _is_data_array(value) else value
    if _is_data_array(value):
        standard_name = value.attrs.get("standard_name")
        if standard_name is not None and standard_name not in KINDS[name].standard_names:
            raise UnitError(
                f"{owner}: `{name}` needs {KINDS[name].words} but the data array is `{standard_name}`",
                do=f"pass a variable whose standard_name is `{KINDS[name].standard_names[0]}`",
            )
    if hasattr(core, "magnitude") and hasattr(core, "units"):
        return core.magnitude, str(core.units)  # as text, so that a quantity of another pint registry fits
    if _is_data_array(value) and "units" in value.attrs:
        return core, value.attrs["units"]
    raise UnitError(
        f"{owner}: `{name}` needs {KINDS[name].words} with a unit but got a bare `{type(value).__name__}`",
        do=f"attach one, as in pde_ops.unit_registry.Quantity({name}, '{KINDS[name].spellings[0]}')",
    )


def _is_data_array(value: Any) -> bool:
    return hasattr(value, "attrs") and hasattr(value, "dims") and hasattr(value, "coords")


def _magnitude(value: Measured) -> Floats:
    core = value.data if _is_data_array(value) else value
    return np.asarray(getattr(core, "magnitude", core), dtype=np.float64)


def _same_points(owner: str, values: dict[str, Measured]) -> None:
    """Refuse arguments that do not line up: shapes that do not broadcast, or other dimensions or coordinates."""
    try:
        np.broadcast_shapes(*(_magnitude(x).shape for x in values.values()))
    except ValueError:
        shapes = ", ".join(f"`{name}` {_magnitude(x).shape}" for name, x in values.items())
        raise ShapeError(f"{owner}: the arguments have shapes that do not fit: {shapes}") from None
    labelled = {name: x for name, x in values.items() if _is_data_array(x)}
    if not labelled:
        return
    first, pattern = next(iter(labelled.items()))
    for name, x in labelled.items():
        same = x.dims == pattern.dims and all(x[d].equals(pattern[d]) for d in x.dims)
        if not same:
            raise ShapeError(
                f"{owner}: `{name}` with dimensions {x.dims} does not lie on the points of `{first}` "
                f"with dimensions {pattern.dims}",
                do="bring them together with xarray.align(..., join='exact') and xarray.broadcast",
            )


def _possible_humidity(owner: str, q: Floats) -> Floats:
    high = KINDS["q"].high
    if np.any(q > high) or np.any(q < 0.0):
        raise PlausibilityError(
            f"{owner}: `T`, `p` and `RH` together give a specific humidity of {np.nanmax(np.abs(q)):g} kg/kg, "
            f"allowed 0 to {high:g}",
            do="check the hottest and dampest values, and mark what is broken as NaN",
        )
    return q


def _in(unit: str, value: Measured) -> Measured:
    return value.metpy.convert_units(unit) if _is_data_array(value) else value.to(unit)
