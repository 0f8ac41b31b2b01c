"""Define the observed quantities in one table: names, units, ranges, and the facts that quality control rests on.

Everything inside ``fields`` is coherent SI; cards, tables and scores show the display unit. Ranges are written in
the display unit, as forecasters use them, and kept in SI. This is the only file with conversion facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from fields.errors import DataError, printable

__all__ = [
    "COORDINATES",
    "EXTRA_VARIABLES",
    "NUMERIC_SENTINELS",
    "STATE_VARIABLES",
    "TEXT_SENTINELS",
    "VARIABLES",
    "PressureKind",
    "Variable",
    "cf_attributes",
    "display_unit",
    "from_display",
    "to_display",
    "variable",
]


class PressureKind(StrEnum):
    """What the pressure ``p`` of a source or a store is; the text is the store's attribute ``pressure_kind``."""

    STATION = "station"
    """Observed at the station's altitude, or brought there from the sea."""
    SEA_LEVEL = "sea_level"
    """Reduced to the sea: it has no profile with altitude."""
    STANDARD_ATMOSPHERE = "standard_atmosphere"
    """Not observed: the standard atmosphere at the station's altitude, a reference that is never scored."""

    @property
    def option(self) -> str:
        """The spelling of command lines and of the configuration: ``sea-level``, ``standard-atmosphere``."""
        return self.value.replace("_", "-")

    @classmethod
    def of(cls, attributes: Mapping[Any, Any]) -> PressureKind:
        """Read the kind from a dataset's attributes; without one, pressure is at the station.

        Raises
        ------
        DataError
            If the attribute names no kind.
        """
        text = attributes.get("pressure_kind", cls.STATION)
        try:
            return cls(text)
        except ValueError:
            raise DataError(
                f"the attribute `pressure_kind` is '{printable(text)[:60]}', which is no kind of pressure",
                code="SPDE-D016", do=f"set it to one of {', '.join(cls)}",
            ) from None  # fmt: skip


# Display unit -> (factor, offset) to SI: si = factor * shown + offset. Units that a *file* may use are converted
# by pint (`fields.units`); this table is for showing and for writing ranges down, and a test holds it to pint.
_DISPLAY: Mapping[str, tuple[str, float, float]] = MappingProxyType(
    {
        "m/s": ("m/s", 1.0, 0.0),
        "hPa": ("Pa", 100.0, 0.0),
        "degC": ("K", 1.0, 273.15),
        "%": ("1", 0.01, 0.0),
        "m": ("m", 1.0, 0.0),
        "degrees": ("degrees", 1.0, 0.0),
        "mm": ("kg/m**2", 1.0, 0.0),  # one millimetre of rain is one kilogram on a square metre
        "W/m2": ("W/m**2", 1.0, 0.0),
        "km": ("m", 1000.0, 0.0),
        "cm": ("m", 0.01, 0.0),
        "min": ("s", 60.0, 0.0),
    }
)


@dataclass(frozen=True, slots=True)
class Variable:
    """Names, units, ranges and sensor facts of one quantity.

    Ranges are SI. Outside ``hard`` a value is impossible; ``typical`` bounds what the middle of a whole record
    looks like, and ``tail`` its 99th percentile, from which a wrong unit is recognised. ``step`` is the largest
    credible change in an hour. ``stuck_hours`` is how long a sensor may show exactly the same value, except at the
    values in ``calm`` (no wind, saturated air), where nature repeats itself. ``noise`` is the error of a good
    sensor, the least spread that quality control assumes.
    """

    name: str
    standard_name: str
    long_name: str
    unit: str
    display: str
    hard: tuple[float, float]
    typical: tuple[float, float]
    tail: tuple[float, float]
    step: float
    stuck_hours: float
    noise: float
    calm: tuple[float, ...] = ()
    file_units: tuple[str, ...] = ()
    symbol: str = ""


def _row(
    name: str,
    standard_name: str,
    long_name: str,
    display: str,
    *,
    hard: tuple[float, float],
    typical: tuple[float, float] | None = None,
    tail: tuple[float, float] | None = None,
    step: float = float("inf"),
    stuck_hours: float = float("inf"),
    noise: float = 0.0,
    calm: tuple[float, ...] = (),
    file_units: tuple[str, ...] = (),
    symbol: str = "",
) -> Variable:
    """Build a row of the table from numbers in the display unit."""
    unit, factor, offset = _DISPLAY[display]

    def si(bounds: tuple[float, float]) -> tuple[float, float]:
        return factor * bounds[0] + offset, factor * bounds[1] + offset

    return Variable(
        name, standard_name, long_name, unit, display,
        hard=si(hard), typical=si(typical or hard), tail=si(tail or hard),
        step=factor * step, stuck_hours=stuck_hours, noise=factor * noise,
        calm=tuple(factor * value + offset for value in calm), file_units=file_units, symbol=symbol or name,
    )  # fmt: skip


_SPEEDS = ("m/s", "kt", "km/h", "mph", "ft/s")
_PRESSURES = ("hPa", "Pa", "kPa", "inHg", "mmHg")
_TEMPERATURES = ("degC", "K", "degF")
_LENGTHS = ("m", "ft", "km")
_WIND = {
    "hard": (-110.0, 110.0), "typical": (-15.0, 15.0), "tail": (-30.0, 30.0), "step": 25.0,
    "stuck_hours": 8.0, "noise": 0.5, "calm": (0.0,), "file_units": _SPEEDS,
}  # fmt: skip
# Records: 567 hPa at the highest Chinese stations, 1083.8 hPa in Mongolia reduced to the sea; -89.2 and 56.7 degC;
# 113 m/s in a gust (WMO archive of weather extremes).
_TABLE = (
    _row("u", "eastward_wind", "Wind towards the east", "m/s", **_WIND),  # type: ignore[arg-type]
    _row("v", "northward_wind", "Wind towards the north", "m/s", **_WIND),  # type: ignore[arg-type]
    _row("p", "surface_air_pressure", "Pressure at station level", "hPa", hard=(300.0, 1100.0), step=12.0,
         typical=(480.0, 1060.0), stuck_hours=12.0, noise=0.3, file_units=_PRESSURES),
    _row("t", "air_temperature", "Air temperature at 2 m", "degC", hard=(-90.0, 60.0), step=15.0,
         typical=(-55.0, 42.0), tail=(-50.0, 52.0), stuck_hours=12.0, noise=0.4, file_units=_TEMPERATURES),
    _row("rh", "relative_humidity", "Relative humidity at 2 m", "%", hard=(0.0, 105.0), step=60.0,
         typical=(3.0, 101.0), tail=(10.0, 105.0), stuck_hours=12.0, noise=3.0, calm=(100.0,), file_units=("%", "1")),
    _row("psl", "air_pressure_at_mean_sea_level", "Pressure reduced to the sea", "hPa", hard=(850.0, 1100.0),
         typical=(970.0, 1055.0), step=12.0, stuck_hours=12.0, noise=0.5, file_units=_PRESSURES),
    _row("td", "dew_point_temperature", "Dew point at 2 m", "degC", hard=(-95.0, 40.0), typical=(-60.0, 30.0),
         step=15.0, stuck_hours=12.0, noise=0.6, file_units=_TEMPERATURES),
    _row("ff", "wind_speed", "Wind speed", "m/s", hard=(0.0, 110.0), typical=(0.0, 8.5), tail=(0.0, 30.0),
         step=25.0, stuck_hours=8.0, noise=0.5, calm=(0.0,), file_units=_SPEEDS),
    _row("dd", "wind_from_direction", "Direction the wind comes from, clockwise from north", "degrees",
         hard=(0.0, 360.0), stuck_hours=12.0, noise=10.0, calm=(0.0,), file_units=("degrees", "radians")),
    _row("precip", "precipitation_amount", "Precipitation", "mm", hard=(0.0, 500.0), stuck_hours=24.0, noise=0.2,
         calm=(0.0,), file_units=("mm", "inch")),
    _row("gust", "wind_speed_of_gust", "Highest gust", "m/s", hard=(0.0, 115.0), typical=(0.0, 20.0),
         tail=(0.0, 60.0), step=45.0, stuck_hours=8.0, noise=0.5, calm=(0.0,), file_units=_SPEEDS),
    _row("radiation", "surface_downwelling_shortwave_flux_in_air", "Global radiation", "W/m2", hard=(-20.0, 1700.0),
         typical=(-10.0, 700.0), tail=(-10.0, 1500.0), step=1400.0, stuck_hours=8.0, noise=10.0, calm=(0.0,),
         file_units=("W/m**2", "kJ/m**2/h", "J/cm**2/h")),
    _row("cloud", "cloud_area_fraction", "Cloud cover", "%", hard=(0.0, 100.0), noise=10.0, file_units=("%", "1")),
    _row("visibility", "visibility_in_air", "Visibility", "km", hard=(0.0, 300.0), noise=0.5,
         file_units=("m", "km", "mile", "ft")),
    _row("snow", "surface_snow_thickness", "Snow depth", "cm", hard=(0.0, 1500.0), step=150.0, noise=1.0,
         file_units=("cm", "m", "mm", "inch")),
    _row("sunshine", "duration_of_sunshine", "Sunshine", "min", hard=(0.0, 1440.0), noise=3.0,
         file_units=("min", "s", "h")),
)  # fmt: skip
VARIABLES: Mapping[str, Variable] = MappingProxyType({row.name: row for row in _TABLE})

# The five that describe the state of the surface air, in the order used everywhere.
STATE_VARIABLES = ("u", "v", "p", "t", "rh")

# Scalars that a store may hold beside them. They do not enter the equations; stations forecast those of `data.extra`.
EXTRA_VARIABLES = (
    "psl", "td", "ff", "precip", "gust", "radiation", "cloud", "visibility", "snow", "sunshine",
)  # fmt: skip

_COORDINATES = (
    _row("lat", "latitude", "Latitude", "degrees", hard=(-90.0, 90.0), file_units=("degrees", "radians")),
    _row("lon", "longitude", "Longitude", "degrees", hard=(-180.0, 180.0), file_units=("degrees", "radians")),
    # From the Dead Sea's shore to the highest weather station; a network's middle lies below 4,600 m.
    _row("alt", "surface_altitude", "Altitude above the sea", "m", hard=(-450.0, 8900.0), typical=(-430.0, 4600.0),
         tail=(-430.0, 5900.0), file_units=_LENGTHS),
)  # fmt: skip
COORDINATES: Mapping[str, Variable] = MappingProxyType({row.name: row for row in _COORDINATES})

# What files write for "missing". A number counts as missing only where the variable cannot take it: 999 is an
# ordinary pressure in hPa, and no temperature.
NUMERIC_SENTINELS = (
    -9999.0, 9999.0, -999.0, 999.0, -99.0, 99.0, -9999.9, 9999.9, -999.9, 999.9, -99.9, 99.9, -99.99, 99.99,
    -99999.0, 99999.0, -999999.0, 999999.0, 9999999.0, -8888.0, -7777.0, 6999.0, 32766.0, 32767.0, -32766.0,
    -32767.0, -32768.0, 65535.0, 1e20, -1e20, 9.969209968386869e36, -1e30, 1e30,
)  # fmt: skip
TEXT_SENTINELS = frozenset(
    {"", "m", "mm", "msng", "missing", "vrb", "t", "na", "n/a", "nan", "nil", "null", "none", "-", "--", "/", "//",
     "///", "////", "/////", "x", "*", "?", "."}
)  # fmt: skip


def variable(name: str) -> Variable:
    """Look up the row of a variable or coordinate; ``KeyError`` with all names for an unknown one."""
    row = VARIABLES.get(name) or COORDINATES.get(name)
    if row is None:
        raise KeyError(f"no variable '{name}'; known: {', '.join((*VARIABLES, *COORDINATES))}")
    return row


def to_display(name: str, value: Any, *, difference: bool = False) -> Any:
    """Convert SI to the unit that people read; with ``difference`` a span or an error rather than a level.

    A difference of temperatures is in K, which has the size of a degree Celsius.
    """
    _, factor, offset = _DISPLAY[variable(name).display]
    return value / factor if difference else (value - offset) / factor


def from_display(name: str, value: Any, *, difference: bool = False) -> Any:
    """Convert from the unit that people read to SI; the inverse of `to_display`."""
    _, factor, offset = _DISPLAY[variable(name).display]
    return value * factor if difference else value * factor + offset


def display_unit(name: str, *, difference: bool = False) -> str:
    """Name the unit in which `to_display` answers."""
    shown = variable(name).display
    return "K" if difference and shown == "degC" else shown


def cf_attributes(name: str) -> dict[str, str]:
    """List the attributes of a variable in a store, after the CF conventions."""
    row = variable(name)
    if name == "lat":
        unit = "degrees_north"
    elif name == "lon":
        unit = "degrees_east"
    else:
        unit = {"m/s": "m s-1", "kg/m**2": "kg m-2", "W/m**2": "W m-2", "degrees": "degree"}.get(row.unit, row.unit)
    return {"units": unit, "standard_name": row.standard_name, "long_name": row.long_name}
